"""The three laws of every mixer; the mixers are listed in tests/nn/mixers.py. All in float64."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.nn import BidirectionalLSTM, FullAttention, Layout, LinearAttention
from repro.nn.laws import LENGTHS, NOT_CAUSAL, TOLERANCE, check, weighted
from repro.nn.mixer import MixerOutput
from tests.nn.mixers import (
    CAUSAL,
    D_MODEL,
    DIRECTIONS,
    MIXERS,
    build,
    difference,
    even_takes,
    feed,
    gradients,
    valid,
)

CHUNKS = {
    "ones": even_takes(LENGTHS, 1),
    "fives": even_takes(LENGTHS, 5),
    "eights": even_takes(LENGTHS, 8),
    "ragged": [[3, 0, 5], [1, 8, 1], [8, 3, 0], [2, 2, 2], [5, 6, 3]],
}


def random_rows(seed: int = 1) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, D_MODEL, generator=generator, dtype=torch.float64) for n in LENGTHS]


def whole(mixer: nn.Module, rows: list[Tensor]) -> list[Tensor]:
    """Every row alone and in one piece, without a state."""
    return [mixer(row[None], None, Layout(True, positions=torch.arange(len(row)))).y[0] for row in rows]


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("name", CAUSAL)
def test_law_1_chunks_by_concatenation_equal_the_whole(name: str, chunks: str) -> None:
    mixer = build(name)
    rows = [row.requires_grad_() for row in random_rows()]
    expected = whole(mixer, rows)
    got, _ = feed(mixer, rows, CHUNKS[chunks], mixer.init_state(len(rows)))
    for y, target in zip(got, expected, strict=True):
        assert difference(y, target) < TOLERANCE
    if MIXERS[name].carries_gradient:
        same_gradients(got, expected, rows, mixer)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_law_1_chunks_written_in_place_equal_the_whole(name: str, chunks: str) -> None:
    mixer, rows = build(name), random_rows()
    # Padding is written too, behind the valid tokens, so a row needs room for one chunk of it.
    state = mixer.init_state(len(rows), capacity=max(LENGTHS) + 8)
    got, _ = feed(mixer, rows, CHUNKS[chunks], state)
    for y, expected in zip(got, whole(mixer, rows), strict=True):
        assert difference(y, expected) < TOLERANCE


@pytest.mark.parametrize("capacity", [None, max(LENGTHS) + 8])
@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_law_1_holds_roughly_under_autocast(name: str, capacity: int | None) -> None:
    mixer, rows = build(name).float(), [row.float() for row in random_rows()]
    exact = whole(mixer, rows)
    with torch.autocast("cpu", torch.bfloat16):
        got, _ = feed(mixer, rows, CHUNKS["ragged"], mixer.init_state(len(rows), capacity))
    for y, expected in zip(got, exact, strict=True):
        assert (y.float() - expected).abs().mean() < 0.05 * expected.abs().mean()


@pytest.mark.parametrize("token", [0, 1, 6, 12])
@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_law_2_a_token_changes_no_output_before_it(name: str, token: int) -> None:
    mixer = build(name)
    x = torch.randn(2, 13, D_MODEL, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    other = x.clone()
    other[:, token] += 3.0
    layout = Layout(True, positions=torch.arange(13))
    before, after = mixer(x, None, layout).y, mixer(other, None, layout).y
    assert torch.equal(before[:, :token], after[:, :token])
    assert difference(before[:, token], after[:, token]) > 1e-3


@pytest.mark.parametrize(("rows", "steps"), [(2, 1), (2, 7), (1, 63)])  # the loop is slow
@pytest.mark.parametrize(("name", "causal"), DIRECTIONS)
def test_law_3_equals_the_naive_loop(name: str, causal: bool, rows: int, steps: int) -> None:
    mixer = build(name)
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(rows, steps, D_MODEL, dtype=torch.float64, generator=generator).requires_grad_()
    layout = Layout(causal, positions=torch.arange(steps))
    compare(mixer(x, None, layout).y, MIXERS[name].reference(mixer, x, causal, None, None), x, mixer)


@pytest.mark.parametrize(("name", "causal"), DIRECTIONS)
def test_law_3_with_padding(name: str, causal: bool) -> None:
    mixer = build(name)
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(3, 9, D_MODEL, dtype=torch.float64, generator=generator).requires_grad_()
    lengths = torch.tensor([9, 1, 6])
    y = mixer(x, None, Layout(causal, lengths=lengths, positions=torch.arange(9))).y
    y = y.masked_fill(~valid(lengths, 9)[..., None], 0.0)
    compare(y, MIXERS[name].reference(mixer, x, causal, lengths, None), x, mixer)


@pytest.mark.parametrize(("name", "causal"), DIRECTIONS)
def test_law_3_with_a_ragged_past(name: str, causal: bool) -> None:
    mixer = build(name)
    rows = random_rows()
    take = [6, 0, 3]
    _, state = feed(mixer, rows, [take], mixer.init_state(len(rows)))
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(3, 4, D_MODEL, dtype=torch.float64, generator=generator).requires_grad_()
    start, lengths = torch.tensor(take), torch.tensor([4, 3, 1])
    y = mixer(x, state, Layout(causal, start, lengths, start[:, None] + torch.arange(4))).y
    y = y.masked_fill(~valid(lengths, 4)[..., None], 0.0)
    past = [row[:n] for row, n in zip(rows, take, strict=True)]
    compare(y, MIXERS[name].reference(mixer, x, causal, lengths, past), x, mixer)


@pytest.mark.parametrize("name", CAUSAL)
def test_the_check_finds_what_the_tests_find(name: str) -> None:
    broken = [one.law for one in check(MIXERS[name].make(), D_MODEL) if not one.holds]
    assert broken == []


@pytest.mark.parametrize("make", [LinearAttention, FullAttention])
def test_the_check_finds_a_mixer_that_reads_padding(make: type[nn.Module]) -> None:
    class Reads(make):  # type: ignore[valid-type,misc]
        def forward(self, x: Tensor, state: Any, layout: Layout) -> Any:
            return super().forward(x, state, replace(layout, lengths=None))

    broken = [one.law for one in check(Reads(D_MODEL, 3), D_MODEL) if not one.holds]
    assert {NOT_CAUSAL, "I: chunks of any size by concatenation"} <= {*broken}


def test_the_check_of_a_mixer_that_cannot_be_causal_is_of_its_padding() -> None:
    assert [(one.law, one.holds) for one in check(BidirectionalLSTM(D_MODEL), D_MODEL)] == [
        (NOT_CAUSAL, True)
    ]
    with pytest.raises(ValueError, match="all"):
        list(check(Refusing(D_MODEL), D_MODEL))


class Refusing(BidirectionalLSTM):
    def forward(self, *_: object) -> MixerOutput:
        raise ValueError("refuses all")


def compare(got: Tensor, expected: Tensor, x: Tensor, mixer: nn.Module) -> None:
    assert difference(got, expected) < TOLERANCE
    same_gradients([got], [expected], [x], mixer)


def same_gradients(got: list[Tensor], expected: list[Tensor], inputs: list[Tensor], mixer: nn.Module) -> None:
    target = gradients(weighted(expected), inputs, mixer)
    for key, grad in gradients(weighted(got), inputs, mixer).items():
        assert difference(grad, target[key]) < TOLERANCE, key
