"""Hidden layers before and behind a body: the layers of fpt.py with the same weights, and how they begin."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.nn import LinearHead, PerceptronEmbedding, PerceptronHead, VectorEmbedding
from tests.nn.mixers import difference, gradients, randomise

SIZES = [[5], [5, 7, 3], []]


def theirs(d_in: int, sizes: list[int], d_out: int, output_dropout: bool) -> nn.Sequential:
    """``in_net`` and ``out_net`` of kzl/universal-computation, fpt.py."""
    layers: list[nn.Module] = []
    last = d_in
    for size in sizes:
        layers += [nn.Linear(last, size), nn.ReLU(), nn.Dropout(0.1)]
        last = size
    layers.append(nn.Linear(last, d_out))
    return nn.Sequential(*layers, *([nn.Dropout(0.1)] if output_dropout else []))


def naive(linears: list[nn.Linear], x: Tensor) -> Tensor:
    """Sums over channels, one output at a time; a ReLU behind all layers but the last."""
    for i, layer in enumerate(linears):
        columns = [(x * row).sum(-1) + bias for row, bias in zip(layer.weight, layer.bias, strict=True)]
        x = torch.stack(columns, -1)
        x = x if i == len(linears) - 1 else torch.where(x > 0, x, 0.0)
    return x


def linears(module: nn.Module) -> list[nn.Linear]:
    """In the order in which they act."""
    hidden: Any = module.hidden
    last: Any = module.last.proj if isinstance(module, PerceptronEmbedding) else module.proj
    return [*(m for m in hidden if isinstance(m, nn.Linear)), last]


def both(sizes: list[int]) -> list[tuple[nn.Module, nn.Sequential, Any]]:
    """Returns our module, the official one, and the output of ours."""
    embedding, head = PerceptronEmbedding(11, 9, sizes), PerceptronHead(9, 11, sizes)
    return [
        (embedding, theirs(9, sizes, 11, True), embedding),
        (head, theirs(9, sizes, 11, False), head.logits),
    ]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_equals_the_loop_and_their_layers(sizes: list[int]) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 7, 9, dtype=torch.float64, requires_grad=True)
    for ours, other, forward in both(sizes):
        randomise(ours.double().eval())
        mine = linears(ours)
        pairs = zip(mine, (m for m in other.double().eval() if isinstance(m, nn.Linear)), strict=True)
        for own, their in pairs:
            their.load_state_dict(own.state_dict())
        weights = torch.randn(2, 7, 11, dtype=torch.float64)
        y = forward(x)
        assert difference(y, other(x)) < 1e-12
        assert difference(y, naive(mine, x)) < 1e-12
        got = gradients((y * weights).sum(), [x], ours)
        expected = gradients((naive(mine, x) * weights).sum(), [x], ours)
        for key, grad in got.items():
            assert difference(grad, expected[key]) < 1e-12, key


def test_all_input_layers_begin_orthogonal_and_no_output_layer() -> None:
    torch.manual_seed(0)
    for layer in linears(PerceptronEmbedding(16, 6, [8, 12], gain=1.3)):
        weight = layer.weight.detach().double()
        assert torch.allclose(
            weight.T @ weight, 1.3**2 * torch.eye(weight.shape[1], dtype=torch.float64), atol=1e-5
        )
        assert not layer.bias.any()
    head = PerceptronHead(8, 3, [8, 8])
    for layer in linears(head):
        assert layer.bias.abs().min() > 0.0
        product = layer.weight.detach() @ layer.weight.detach().T
        assert product.diag().std() > 1e-2
    with torch.device("meta"):
        assert PerceptronEmbedding(16, 6, [8]).hidden[0].weight.is_meta


def test_dropout_acts_behind_every_relu_and_on_the_input_of_the_body_alone() -> None:
    def places(module: nn.Module) -> list[str]:
        return [type(m).__name__ for m in module.modules() if isinstance(m, nn.Linear | nn.ReLU | nn.Dropout)]

    hidden = ["Linear", "ReLU", "Dropout"] * 2
    embedding, head = (
        PerceptronEmbedding(400, 3, [50, 50], dropout=0.5),
        PerceptronHead(3, 400, [50, 50], 0.5),
    )
    assert places(embedding.hidden) == places(head.hidden) == hidden
    x = torch.randn(4, 3)
    assert 0.4 < float((embedding(x) == 0.0).float().mean()) < 0.6
    assert bool(head.logits(x).all()), "nothing is dropped behind the last layer"
    for module, forward in (
        (embedding.hidden, embedding.hidden),
        (head.hidden, head.hidden),
        (head, head.logits),
    ):
        assert not torch.equal(forward(x), forward(x)), module
    assert torch.equal(head.eval().logits(x), head.logits(x))


def test_without_layers_it_is_one_projection_begun_alike() -> None:
    for ours, plain in (
        (lambda: PerceptronEmbedding(8, 4, []), lambda: VectorEmbedding(8, 4)),
        (lambda: PerceptronHead(8, 4, []), lambda: LinearHead(8, 4, bias=True)),
    ):
        result = []
        for make in (ours, plain):
            torch.manual_seed(3)
            result.append(list(make().parameters()))  # type: ignore[no-untyped-call]
        assert all(torch.equal(a, b) for a, b in zip(*result, strict=True))


def test_a_layer_without_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"not \[8, 0\]"):
        PerceptronEmbedding(16, 6, [8, 0])
