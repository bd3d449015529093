"""``Hashing.averaged`` is the hashing of Katharopoulos et al. 2020: the same planes give the same numbers."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.nn import Hashing, Layout, LSHAttention
from repro.nn.attention.hashed.hashing import draw_rotations
from tests.nn.hashed import make, same, tokens
from tests.nn.mixers import difference
from tests.nn.reference_averaged import averaged

HASHING = Hashing.averaged(3, 7, 12)
CONTROL = 1e-3


def planes_of(mixer: LSHAttention, steps: int, seed: int) -> Tensor:
    """The draws of a call after ``torch.manual_seed(seed)``: planes ``(R, bits, E)`` for all rows and heads."""
    torch.manual_seed(seed)
    first, _ = torch.randint(1 << 62, (2,)).tolist()
    hashing = mixer.hashing
    like = mixer.qk_v.weight
    turns = draw_rotations(like, 1, 1, mixer.d_head, hashing.rounds, hashing.sizes(steps), seed=first)
    return turns[0, 0].permute(1, 2, 0)


def output(mixer: LSHAttention, x: Tensor, causal: bool, lengths: Tensor | None = None) -> Tensor:
    torch.manual_seed(6)
    return mixer(x, None, Layout(causal, lengths=lengths)).y


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("rounds", "steps"), [(1, 21), (3, 21), (4, 63), (2, 14), (2, 7)])
def test_equals_their_algorithm(rounds: int, steps: int, causal: bool) -> None:
    mixer, x = make(replace(HASHING, rounds=rounds)), tokens(steps)
    same(mixer, output(mixer, x, causal), averaged(mixer, x, causal, planes_of(mixer, steps, 6)), x)


MISTAKES: list[dict[str, Any]] = [
    {"scaled": False}, {"wrap": True}, {"average": False}, {"see_self": True}, {"shared_rotations": False},
    {"across_buckets": False}, {"unit_keys": False, "scaled": False}, {"buckets": 6}, {"chunk": 21},
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_control_every_setting_matters(mistake: dict[str, Any]) -> None:
    mixer, x = make(HASHING), tokens(42)
    expected = averaged(mixer, x, True, planes_of(mixer, 42, 6))
    assert difference(output(mixer, x, True), expected) < 1e-12
    mixer.hashing = replace(HASHING, **mistake)
    assert difference(output(mixer, x, True), expected) > CONTROL


@pytest.mark.parametrize("causal", [True, False])
def test_a_padded_row_is_as_it_would_be_alone(causal: bool) -> None:
    """The official code would put the padding into the first bucket."""
    mixer, x = make(HASHING), tokens(21)
    y = output(mixer, x, causal, torch.tensor([21, 14]))
    planes = planes_of(mixer, 21, 6)
    assert difference(y[:1], averaged(mixer, x[:1], causal, planes)) < 1e-12
    assert difference(y[1:, :14], averaged(mixer, x[1:, :14], causal, planes)) < 1e-12


def test_any_length_will_do() -> None:
    mixer, x = make(HASHING), tokens(23)
    assert output(mixer, x, True).isfinite().all()
    assert LSHAttention(12, 2, HASHING, bias=True).out.bias is not None
