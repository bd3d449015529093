"""The adaptive vocabulary against loops over tokens, and against torch's own adaptive softmax."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.nn.adaptive import (
    CUTOFFS,
    IDS,
    VARIANTS,
    D,
    V,
    build,
    hidden_states,
    is_scored_by,
    slow_log_probs,
    slow_vector,
    tied_by_cluster,
    widths,
)
from tests.nn.mixers import difference


def assert_equal_gradients(got: list[Tensor | None], wanted: list[Tensor | None]) -> None:
    """Equal, where a loop that never came by a weight has none for it."""
    for a, b in zip(got, wanted, strict=True):
        assert a is not None
        assert difference(a, torch.zeros_like(a) if b is None else b) < 1e-12


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())
def test_embeddings_equal_a_loop_over_tokens(options: dict[str, Any]) -> None:
    v = build(**options)
    weights = hidden_states(2, 5).detach()[..., : options.get("token_width", D)]
    slow = torch.stack([torch.stack([slow_vector(v, int(i), options) for i in row]) for row in IDS])
    got = v.embed(IDS)
    assert difference(got, slow) < 1e-12
    used = [p for c in v.clusters for m in (c.table, c.up) if m is not None for p in m.parameters()]  # type: ignore[union-attr]
    both = [torch.autograd.grad((weights * x).sum(), used, allow_unused=True) for x in (got, slow)]
    assert_equal_gradients(list(both[0]), list(both[1]))
    assert any(g.abs().max() > 1e-2 for g in both[0])


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())
def test_losses_equal_a_loop_over_tokens(options: dict[str, Any]) -> None:
    v, h = build(**options), hidden_states(2, 5)
    weights = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    slow = -torch.stack([
        torch.stack([slow_log_probs(v, h[b, t], options)[IDS[b, t]] for t in range(5)]) for b in range(2)
    ])  # fmt: skip
    got = v.nll(h, IDS)
    assert difference(got, slow) < 1e-12
    used = [h, *(p for n, p in v.named_parameters() if is_scored_by(n, options))]
    both = [torch.autograd.grad((weights * x).sum(), used, allow_unused=True) for x in (got, slow)]
    assert_equal_gradients(list(both[0]), list(both[1]))


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())
def test_all_log_probs_equal_the_loop_and_the_losses(options: dict[str, Any]) -> None:
    v, h = build(**options), hidden_states(2, 5)
    got = v.log_probs(h)
    slow = torch.stack([torch.stack([slow_log_probs(v, one, options) for one in row]) for row in h])
    assert difference(got, slow) < 1e-12
    assert torch.allclose(got.exp().sum(-1), torch.ones(2, 5, dtype=torch.float64))
    assert difference(v.nll(h, IDS), -got.gather(-1, IDS[..., None]).squeeze(-1)) < 1e-12


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())
def test_tied_is_one_parameter(options: dict[str, Any]) -> None:
    """Counted by hand from widths, not from the modules."""
    cutoffs, (token, first, div) = options.get("cutoffs", CUTOFFS), widths(options)
    edges = [0, *cutoffs, V]
    sizes = [b - a for a, b in pairwise(edges)]
    each = [first // div**c for c in range(len(sizes))]
    tables = sum(size * width for size, width in zip(sizes, each, strict=True))
    expected = tables * (1 if options.get("tied", True) else 2) + first * len(cutoffs)
    if div > 1:
        expected += sum(token * width for width in each)
    elif first != token:
        expected += token * first
    for c, (width, tied) in enumerate(zip(each, tied_by_cluster(options), strict=True)):
        if (div > 1 or first != D) and not tied and (c or options.get("head_projection", True)):
            expected += D * width
    if options.get("bias", True):
        expected += V + len(cutoffs)
    assert sum(p.numel() for p in build(**options).parameters()) == expected


def torch_twin(v: Any, div_value: float) -> nn.AdaptiveLogSoftmaxWithLoss:
    """torch's adaptive softmax with the same weights; its tails have no bias, and projections always."""
    twin = nn.AdaptiveLogSoftmaxWithLoss(D, V, CUTOFFS, div_value, head_bias=True).double()
    with torch.no_grad():
        twin.head.weight.copy_(torch.cat([v.clusters[0].out.weight, v.gate.weight]))
        twin.head.bias.copy_(torch.cat([v.clusters[0].bias, v.gate.bias]))
        for tail, cluster in zip(twin.tail, v.clusters[1:], strict=True):
            cluster.bias.zero_()
            tail[0].weight.copy_(torch.eye(D) if cluster.down is None else cluster.down.weight.T)
            tail[1].weight.copy_(cluster.out.weight)
    return twin


@pytest.mark.parametrize("div_value", [1, 2])
def test_torchs_adaptive_softmax_agrees(div_value: int) -> None:
    v, h = build(div_value=div_value, head_projection=False), hidden_states(10)
    twin, targets, weights = torch_twin(v, div_value), IDS.flatten(), torch.arange(1.0, 11.0)
    got, expected = v.nll(h, targets), -twin(h, targets).output
    assert difference(got, expected) < 1e-12
    assert difference(v.log_probs(h), twin.log_prob(h)) < 1e-12
    (ours,) = torch.autograd.grad((weights * got).sum(), [h], retain_graph=True)
    (official,) = torch.autograd.grad((weights * expected).sum(), [h], retain_graph=True)
    assert difference(ours, official) < 1e-12
    (weights * got).sum().backward()
    (weights * expected).sum().backward()
    first: Any = v.clusters[0]
    head = torch.cat([first.out.weight.grad, v.gate.weight.grad])  # type: ignore[union-attr]
    assert difference(head, twin.head.weight.grad) < 1e-12  # type: ignore[arg-type]
    for tail, cluster in zip(twin.tail, list(v.clusters)[1:], strict=True):
        assert difference(cluster.out.weight.grad, tail[1].weight.grad) < 1e-12  # type: ignore[index, union-attr, arg-type]
        if div_value > 1:
            assert difference(cluster.down.weight.grad.T, tail[0].weight.grad) < 1e-12  # type: ignore[index, union-attr]
