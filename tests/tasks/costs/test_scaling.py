"""Growth is the slope over the longest lengths; every length has as many tokens, until memory would not do."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.models import Body
from repro.nn import (
    Blocks,
    FeedForward,
    FullAttention,
    Layout,
    LinearAttention,
    MixerOutput,
    NoPositions,
    PreNorm,
    ResidualStack,
    ReversibleStack,
)
from repro.tasks import Constant, Scaling
from repro.tasks.costs.measuring import slope
from tests.tasks.measured import measured

WIDTH = 8


def scaling(net: nn.Module, **settings: Any) -> tuple[Scaling, dict[str, Any]]:
    task = Scaling(net, partial(torch.optim.SGD, lr=0.1), Constant, **settings)
    return task, measured(task, WIDTH)


class Held(nn.Module):
    """Holds a table of every pair of tokens, or only so many numbers for each token."""

    def __init__(self, pairs: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.pairs = pairs
        self.seen: list[tuple[int, ...]] = []

    def forward(self, x: Tensor, state: Any, layout: Layout) -> MixerOutput:
        self.seen.append(tuple(x.shape))
        assert layout.causal
        x = x * self.weight
        return MixerOutput((x @ x.mT).sin() @ x if self.pairs else x.sin())


def test_tables_of_pairs_grow_with_the_square_and_numbers_of_tokens_do_not() -> None:
    sizes: dict[str, Any] = {"shortest": 64, "longest": 512, "tokens": 512, "repeats": 1}
    _, pairs = scaling(Held(True), **sizes)
    _, tokens = scaling(Held(False), **sizes)
    assert pairs["cost/memory_exponent"].value == pytest.approx(2.0, abs=0.15)
    assert tokens["cost/memory_exponent"].value == pytest.approx(1.0, abs=0.01)
    assert tokens["cost/memory_exponent"].protocol["lengths"] == [128, 256, 512]


def test_every_length_has_as_many_tokens_and_is_a_point_of_a_sweep() -> None:
    task, result = scaling(net := Held(False), shortest=16, longest=128, tokens=256, repeats=2)
    assert [(p.length, p.batch) for p in task.points] == [(16, 16), (32, 8), (64, 4), (128, 2)]
    passes = [shape for shape in net.seen if shape[0] * shape[1] == 256]
    turn = [(256 // n, n, WIDTH) for n in (16, 32, 64, 128)]
    assert passes == 3 * turn  # the first for the peak
    for length in (16, 32, 64, 128):
        point = result[f"cost/microseconds_per_token_{length}"]
        assert (point.protocol["sweep"], point.protocol["of"]) == ("length", "cost/microseconds_per_token")
        assert point.protocol["length"] == length
        assert point.value > 0
    # x times the weight, its sine, and on the way back the gradients of both and of the weight
    assert result["cost/bytes_per_token_64"].value == result["cost/bytes_per_token_128"].value > 3 * 4 * WIDTH


def test_a_body_is_measured_as_a_mixer_is() -> None:
    blocks = Blocks([partial(FullAttention, n_heads=2)], partial(FeedForward, d_ff=8))
    task, result = scaling(Body(WIDTH, 1, blocks, NoPositions), shortest=4, longest=16, tokens=16, repeats=1)
    assert [(p.length, p.batch) for p in task.points] == [(4, 4), (8, 2), (16, 1)]
    assert result["cost/microseconds_per_token_16"].value > 0


def test_reversible_layers_are_measured_as_they_train() -> None:
    def bytes_of(stack: Any) -> float:
        mixer, ff = partial(FullAttention, n_heads=2), partial(FeedForward, d_ff=32, dropout=0.0)
        blocks = Blocks([mixer], ff, partial(PreNorm, dropout=0.0), stack=stack)
        body = Body(WIDTH, 8, blocks, NoPositions, dropout=0.0)
        _, result = scaling(body, shortest=64, longest=256, tokens=256, repeats=1)
        return float(result["cost/bytes_per_token_256"].value)

    assert bytes_of(partial(ReversibleStack, join="mean")) < bytes_of(ResidualStack) / 2


def test_it_ends_before_memory_does() -> None:
    sizes: dict[str, Any] = {"shortest": 16, "longest": 256, "tokens": 256, "repeats": 1}
    task, _ = scaling(Held(True), **sizes)
    assert [p.length for p in task.points] == [16, 32, 64, 128, 256]
    task, result = scaling(
        Held(True), **sizes, memory=2.0 * task.points[1].peak
    )  # what the third may come to
    assert [p.length for p in task.points] == [16, 32, 64]
    assert result["cost/max_length"].value == 64
    assert result["cost/max_length"].protocol == {"memory": 2.0 * task.points[1].peak}


def test_mixers_are_measured_with_their_gradients() -> None:
    for mixer in (LinearAttention(WIDTH, 2), FullAttention(WIDTH, 2, fused=False)):
        _, result = scaling(mixer, shortest=16, longest=64, tokens=64, repeats=1)
        assert {"cost/time_exponent", "cost/memory_exponent", "cost/max_length"} <= result.keys()


def test_slopes_are_those_of_powers() -> None:
    assert slope([1, 10, 100], [5.0, 50.0, 500.0]) == pytest.approx(1.0)
    assert slope([2, 4, 8], [12.0, 48.0, 192.0]) == pytest.approx(2.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"shortest": 0},
        {"shortest": 24, "longest": 128, "tokens": 256},
        {"longest": 1024},
        {"tokens": 65537},
        {"repeats": 0},
    ],
)
def test_lengths_that_do_not_fit_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tokens|repeats"):
        Scaling(Held(False), partial(torch.optim.SGD, lr=0.1), Constant, **wrong)
