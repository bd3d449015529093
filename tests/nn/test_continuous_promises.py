"""A continuous memory on a GPU, on several ranks, and after a long context. In float64."""

from typing import Any

import pytest
import torch
from torch import Tensor

from repro.nn import Layout
from repro.nn.attention.continuous import ContinuousSignal, long_term, memory
from repro.nn.mixer import leaves, nbytes, reset_rows, tree_map
from repro.nn.settings import CallSettings, MemorySettings
from tests.nn.mixers import difference, feed, gradients
from tests.nn.test_continuous_memory import PLAIN, RAGGED, STICKY, D, build, in_calls, tokens

SIGNALS = pytest.mark.parametrize("signal", [PLAIN, STICKY], ids=["plain", "sticky"])


@SIGNALS
def test_what_a_gpu_computes_without_a_look_is_the_same(
    signal: ContinuousSignal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There, memories are updated and attended to whether or not a row has one."""
    mixer, rows = build("relative", signal), tokens()

    def run() -> tuple[list[Tensor], dict[str, Tensor], list[Tensor]]:
        y, state = feed(mixer, rows, RAGGED, mixer.init_state(3))
        return y, gradients(torch.cat(y).square().sum(), rows, mixer), leaves(state)

    expected = run()
    asked: list[int] = []
    for module in (memory, long_term):
        monkeypatch.setattr(module, "may_hold", lambda rows: asked.append(len(rows)) or True)
    result = run()
    assert len(asked) > 2 * len(RAGGED)
    assert all(torch.equal(a, b) for a, b in zip(result[0], expected[0], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(result[2], expected[2], strict=True))
    assert result[1].keys() == expected[1].keys()
    assert all(difference(result[1][key], expected[1][key]) < 1e-12 for key in expected[1])


@pytest.mark.parametrize("ranks", [1, 2, 3])
@torch.no_grad()
def test_draws_do_not_depend_on_how_rows_are_shared(ranks: int) -> None:
    """Row i lies on rank ``i mod ranks``. Two rows begin anew, so that their counters differ from the others'."""
    mixer, x = build("full", STICKY), torch.stack(tokens([42] * 6))
    anew = torch.tensor([False, True, False, False, False, True])

    def run(rows: slice) -> tuple[Tensor, Any]:
        _, state, _ = in_calls(mixer, x[rows, :18], [3] * 6)
        y, state, _ = in_calls(mixer, x[rows, 18:], [3] * 8, reset_rows(state, anew[rows]))
        return y, state

    whole, state = run(slice(None))
    assert state["draws"].tolist() == [13, 7, 13, 13, 13, 7]
    for rank in range(ranks):
        share, own = run(slice(rank, None, ranks))
        assert difference(share, whole[rank::ranks]) < 1e-12
        assert own["draws"].tolist() == state["draws"][rank::ranks].tolist()


@SIGNALS
@pytest.mark.parametrize(("capacity", "size"), [(None, 3), (8, 1)], ids=["blocks", "decoding"])
@torch.no_grad()
def test_a_state_has_the_same_bytes_after_any_context(
    signal: ContinuousSignal, capacity: int | None, size: int
) -> None:
    mixer, result = build("relative", signal), {}
    state = mixer.init_state(1, capacity)
    for done in range(size, 301, size):
        state = mixer(torch.randn(1, size, D).double(), state, Layout(True)).state
        if done in (30, 60, 300):
            result[done] = tree_map(lambda t: (tuple(t.shape), t.dtype), state), nbytes(state)
    assert result[30] == result[60] == result[300]


@torch.no_grad()
def test_a_call_that_stands_alone_sees_its_own_pieces_whatever_is_kept_of_earlier_calls() -> None:
    mixer, x = build("relative", PLAIN), torch.stack(tokens([14, 14]))
    alone = Layout(True, settings=CallSettings(memory=MemorySettings()))
    assert torch.equal(mixer(x, None, alone).y, mixer(x, None, Layout(True)).y)
    kept = mixer.init_state(2, settings=alone.settings)
    assert not torch.equal(mixer(x, kept, alone).y, mixer(x, None, alone).y), (
        "a state keeps what it was made for"
    )
