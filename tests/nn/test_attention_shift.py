"""Attention by content and distance: tiles, shifts, masks, dropout and gradients against the plain formula."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.nn.attention.relative import shift
from repro.nn.attention.relative.shift import Sight, attend_by_distance
from tests.nn.mixers import difference

# Heads, rows, queries, keys, width of a head, width of places.
SIZE = (2, 3, 7, 12, 4, 5)
TILES = [(128, 2**20), (7, 1), (3, 1), (3, 200), (1, 1), (2, 90)]
SIGHTS = {
    "all": Sight(),
    "window": Sight(window=4),
    "narrow window": Sight(window=1),
    "wide window": Sight(window=12),
    "ragged": Sight(torch.arange(5) >= 5 - torch.tensor([[0], [2], [5]])),
    "ragged window": Sight(torch.arange(5) >= 5 - torch.tensor([[1], [4], [3]]), 6),
}


def inputs(dtype: torch.dtype = torch.float64, size: tuple[int, ...] = SIZE) -> list[Tensor]:
    heads, batch, steps, keys, width, places = size
    draw = torch.Generator().manual_seed(1)
    shapes = [(batch, steps, width), (batch, keys, width), (batch, keys, width), (batch, steps, places)]
    made = [torch.randn(heads, *shape, generator=draw, dtype=dtype) for shape in [*shapes, (keys, places)]]
    return [t.requires_grad_() for t in made]


def attend(given: list[Tensor], sight: Sight, dropout: float = 0.0, scale: float = 0.7) -> Tensor:
    return attend_by_distance(given[0], given[1], given[2], given[3], given[4], sight, scale, dropout)


def plain(given: list[Tensor], sight: Sight, scale: float) -> Tensor:
    """Query by query and key by key."""
    query, key, value, place_query, place_key = given
    memory, last = key.shape[2] - query.shape[2], key.shape[2] - 1
    rows = []
    for b in range(query.shape[1]):
        for i in range(query.shape[2]):
            far = memory + i - (sight.window or last + 1)
            seen = [
                j
                for j in range(memory + i + 1)
                if j > far and (j >= memory or sight.attention_mask is None or sight.attention_mask[b, j])
            ]
            scores = [
                (query[:, b, i] * key[:, b, j]).sum(-1)
                + (place_query[:, b, i] * place_key[:, last - (memory + i - j)]).sum(-1)
                for j in seen
            ]
            weights = (torch.stack(scores, -1) * scale).exp()
            rows.append((weights[..., None] * value[:, b, seen]).sum(1) / weights.sum(-1, keepdim=True))
    return torch.stack(rows, 1).unflatten(1, query.shape[1:3])


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("name", SIGHTS)
def test_outputs_and_gradients(name: str, tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shift, "_TILE", tile)
    given, sight = inputs(), SIGHTS[name]
    expected, got = plain(given, sight, 0.7), attend(given, sight)
    assert difference(got, expected) < 1e-12
    weights = torch.randn(got.shape, generator=torch.Generator().manual_seed(2), dtype=got.dtype)
    target = torch.autograd.grad((expected * weights).sum(), given)
    for one, other in zip(torch.autograd.grad((got * weights).sum(), given), target, strict=True):
        assert difference(one, other) < 1e-12
    with torch.no_grad():
        assert difference(attend(given, sight), expected) < 1e-12


@pytest.mark.parametrize("name", SIGHTS)
def test_the_masks_of_these_tests_hide_something(name: str) -> None:
    given = inputs()
    gap = difference(plain(given, SIGHTS[name], 0.7), plain(given, Sight(), 0.7))
    assert (gap > 1e-2) is (name not in ("all", "wide window"))


@pytest.mark.parametrize("tile", [(128, 2**20), (3, 1)])
@pytest.mark.parametrize("name", ["all", "ragged window"])
def test_gradients_with_dropout(name: str, tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shift, "_TILE", tile)

    given, draw = inputs(), torch.Generator().manual_seed(4)
    along = [torch.randn(t.shape, generator=draw, dtype=t.dtype) for t in given]
    weights = torch.randn(given[0].shape, generator=draw, dtype=torch.float64)

    def loss(step: float) -> Tensor:
        torch.manual_seed(3)  # the same drops each time
        moved = [t + step * way for t, way in zip(given, along, strict=True)]
        return (attend(moved, SIGHTS[name], dropout=0.4) * weights).sum()

    result = torch.autograd.grad(loss(0.0), given)
    slope = sum(float((grad * way).sum()) for grad, way in zip(result, along, strict=True))
    with torch.no_grad():
        expected = float(loss(1e-5) - loss(-1e-5)) / 2e-5
    assert abs(slope - expected) < 1e-6 * max(1.0, abs(slope))
    assert abs(slope) > 0.1


def test_dropout_drops_as_many_weights_as_asked_and_keeps_the_mean() -> None:
    given = inputs(size=(2, 3, 40, 40, 40, 5))
    given[2] = torch.eye(40, dtype=torch.float64).expand(2, 3, 40, 40)  # outputs are the weights
    whole = attend(given, Sight())
    draws = torch.stack([attend(given, Sight(), dropout=0.25) for _ in range(60)])
    allowed = torch.ones(40, 40).tril().bool()
    dropped = (draws[..., allowed] == 0).double().mean()
    assert abs(float(dropped) - 0.25) < 0.01
    assert difference(draws.mean(0), whole) < 0.3
    kept = draws != 0
    assert difference((draws * kept)[kept], (whole / 0.75).expand_as(draws)[kept]) < 1e-12


def test_dropout_without_gradient_is_the_same_dropout() -> None:
    run = partial(attend, inputs(), Sight(), dropout=0.4)
    torch.manual_seed(0)
    expected = run()
    torch.manual_seed(0)
    with torch.no_grad():
        assert torch.equal(run(), expected)


def test_a_second_derivative_is_refused() -> None:
    given = inputs()
    (first,) = torch.autograd.grad((attend(given, Sight()) ** 2).sum(), given[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrower_numbers(dtype: torch.dtype) -> None:
    exact, narrow = inputs(), [t.detach().to(dtype).requires_grad_() for t in inputs()]
    expected, got = attend(exact, Sight(), scale=0.5), attend(narrow, Sight(), scale=0.5)
    tolerance = 1e-5 if dtype == torch.float32 else 0.05
    assert got.dtype == dtype
    assert difference(got.double(), expected) < tolerance
    for one, other in zip(
        torch.autograd.grad(got.sum(), narrow), torch.autograd.grad(expected.sum(), exact), strict=True
    ):
        assert one.dtype == dtype
        assert difference(one.double(), other) < tolerance


def test_large_scores_stay_finite() -> None:
    given = [t.detach().float() * 60 for t in inputs()]
    given = [t.requires_grad_() for t in given]
    out = attend(given, Sight(), scale=1.0)
    assert out.isfinite().all()
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(out.sum(), given))


def test_what_is_kept_for_backward_is_one_set_of_probabilities() -> None:
    heads, batch, steps, keys, *_ = size = (2, 3, 64, 128, 4, 4)
    given, kept = inputs(torch.float32, size), []

    def keep(t: Any) -> Any:
        kept.append(t.numel())
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        out = attend(given, Sight())
    small = sum(t.numel() for t in given) + out.numel()
    assert sum(kept) <= heads * batch * steps * keys + small
