"""Both sides say the same of a token whatever came before; turns become slowdowns, and these their growth."""

from functools import partial
from typing import Any

import pytest
import torch

from repro.models import DecoderLM
from repro.nn import (
    Blocks,
    FeedForward,
    FullAttention,
    InfusedAttention,
    LayerPositions,
    NoPositions,
    PostNorm,
    RelativeAttention,
    Vocabulary,
)
from repro.nn.settings import CallSettings, MemorySettings
from repro.tasks import Constant, Slowdown
from tests.tasks.measured import measured

SYMBOLS = 7


def model(mixer: Any, positions: Any = None) -> DecoderLM:
    blocks = Blocks(
        [mixer], partial(FeedForward, d_ff=8), partial(PostNorm, dropout=0.0), positions=positions
    )
    return DecoderLM(8, 2, partial(Vocabulary, size=SYMBOLS), blocks, NoPositions, dropout=0.0)


def slowdown(mixer: Any = RelativeAttention, positions: int = 12, **settings: Any) -> Slowdown:
    torch.manual_seed(0)
    net = model(partial(mixer, n_heads=2, mem_len=3))
    against = model(partial(FullAttention, n_heads=2), partial(LayerPositions, max_length=positions))
    numbers = {"lengths": [4, 12], "tokens": 3, "windows": 2, "repeats": 3} | settings
    return Slowdown(net, partial(torch.optim.SGD, lr=0.1), Constant, against, **numbers)


@torch.no_grad()
def test_a_token_with_a_memory_is_what_one_long_pass_says_of_it() -> None:
    task, ids = slowdown().eval(), torch.randint(SYMBOLS, (1, 20))
    settings = CallSettings(MemorySettings(5, same_length=True))
    whole = task.net.vocabulary.log_probs(task.net(ids, settings=settings).y)
    step = task.recalling(ids, 5)
    for place in range(5, 20):
        torch.testing.assert_close(step(place), whole[:, place])


@torch.no_grad()
def test_a_token_without_one_is_the_last_of_the_tokens_up_to_it() -> None:
    task, ids = slowdown().eval(), torch.randint(SYMBOLS, (1, 20))
    step = task.anew(ids, 5)
    alone = task.against.vocabulary.log_probs(task.against(ids[:, 6:11]).y[:, 4])
    torch.testing.assert_close(step(10), alone)
    other = ids.clone()
    other[:, [5, 11]] = (other[:, [5, 11]] + 1) % SYMBOLS
    torch.testing.assert_close(task.anew(other, 5)(10), alone)


@torch.no_grad()
def test_with_a_window_a_memory_grows_and_is_cut_as_in_blocks() -> None:
    task, ids = slowdown(InfusedAttention, window=12).eval(), torch.randint(SYMBOLS, (1, 20))
    settings = CallSettings(MemorySettings(4))
    state, blocks = task.net.init_state(1, settings=settings), []
    for block in ids.split(4, dim=1):
        mixed = task.net(block, state, None, settings)
        state = mixed.state
        blocks.append(task.net.vocabulary.log_probs(mixed.y))
    whole, step = torch.cat(blocks, 1), task.recalling(ids, 4)
    for place in range(4, 20):
        torch.testing.assert_close(step(place), whole[:, place])


def test_with_a_window_every_pass_without_a_memory_has_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    task, lengths = slowdown(InfusedAttention, window=12), []
    real = task.anew

    def anew(ids: torch.Tensor, length: int) -> Any:
        lengths.append(length)
        return real(ids, length)

    monkeypatch.setattr(task, "anew", anew)
    result = measured(task, 1)
    assert lengths == [12] * 8, "three turns and one more, at each of two lengths"
    speed, seconds = (
        result[f"cost/{name}_4"] for name in ("tokens_per_s_with_memory", "seconds_with_memory")
    )
    assert speed.value == pytest.approx(1 / seconds.value)
    assert (speed.protocol["length"], speed.protocol["window"]) == (4, 12)


def test_sides_take_turns_on_a_clock_that_counts_their_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    task = slowdown()
    clock = 0.0

    def tick(side: str, seconds: float) -> Any:
        def step(place: int) -> None:
            nonlocal clock
            output.append((side, place))
            clock += seconds

        return step

    output: list[tuple[str, int]] = []
    monkeypatch.setattr(task, "now", lambda: clock)
    monkeypatch.setattr(task, "anew", lambda ids, length: tick("anew", length * length))
    monkeypatch.setattr(task, "recalling", lambda ids, length: tick("memory", 2.0))
    task.measure()
    places = [*[("anew", n) for n in (4, 5, 6)], *[("memory", n) for n in (4, 5, 6, 7)]]
    assert output[: 4 * len(places)] == places * 4, "three turns of each side and one more"
    result = {m.name: m for m in task.measurements()}
    assert {name: result[f"cost/{name}"].value for name in ("slowdown_4", "seconds_anew_4")} == {
        "slowdown_4": 8.0,
        "seconds_anew_4": 16.0,
    }
    assert result["cost/seconds_with_memory_12"].value == 2.0
    assert result["cost/slowdown_exponent"].value == pytest.approx(2.0)
    assert result["cost/slowdown_12"].protocol["length"] == 12


def test_a_slowdown_is_the_median_of_the_quotients_of_turns() -> None:
    task = slowdown()
    task.turns = {4: [(8.0, 2.0), (90.0, 30.0), (10.0, 1.0)], 12: [(1.0, 1.0)] * 3}
    result = {m.name: m.value for m in task.measurements()}
    assert (result["cost/slowdown_4"], result["cost/slowdown_12"]) == (4.0, 1.0)


def test_it_measures_and_both_models_get_gradients() -> None:
    task = slowdown()
    before = {name: p.clone() for name, p in task.named_parameters()}
    result = measured(task, 1)
    assert {f"cost/slowdown_{n}" for n in (4, 12)} | {"cost/slowdown_exponent"} <= result.keys()
    assert all(result[f"cost/slowdown_{n}"].value > 0 for n in (4, 12))
    moved = {name.split(".")[0] for name, p in task.named_parameters() if not torch.equal(p, before[name])}
    assert moved == {"net", "against"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lengths": [4, 4]}, "two different"),
        ({"tokens": 0}, "tokens 0"),
        ({"window": 0}, "window 0"),
        ({"positions": 11}, "11 tokens"),
        ({"window": 13}, "window of 13"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        slowdown(**wrong)
