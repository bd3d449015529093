"""Operations are counted as they are made, whatever way attention takes."""

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from repro.tasks.costs.operations import OperationCounter, flops_in


def test_products_and_convolutions_count_twice_their_multiplications() -> None:
    linear, conv = nn.Linear(5, 7), nn.Conv1d(3, 4, kernel_size=2, bias=False)
    with OperationCounter() as counter:
        linear(torch.ones(2, 3, 5))
        assert flops_in(counter.operations) == 2 * 2 * 3 * 5 * 7
        conv(torch.ones(2, 3, 9))
        torch.relu(torch.ones(1000)) + torch.ones(1000)
    assert flops_in(counter.operations) == 2 * 2 * 3 * 5 * 7 + 2 * 2 * 8 * 3 * 4 * 2
    linear(torch.ones(2, 3, 5))
    assert flops_in(counter.operations) == 2 * 2 * 3 * 5 * 7 + 2 * 2 * 8 * 3 * 4 * 2, (
        "no more once it is over"
    )


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_counts_the_same_whichever_way_it_is_computed(backend: SDPBackend, causal: bool) -> None:
    q, k, v = (torch.ones(2, 3, 8, 16, requires_grad=True) for _ in range(3))
    forward = 2 * 2 * 3 * 8 * 8 * (16 + 16)
    with sdpa_kernel(backend), OperationCounter() as counter:
        y = scaled_dot_product_attention(q, k, v, is_causal=causal)
        assert flops_in(counter.operations) == forward
        y.sum().backward()
    assert flops_in(counter.operations) == 3 * forward, "two products, and four for their gradients"


def test_a_product_added_in_place_counts_as_one_that_is_not() -> None:
    into, left, right = torch.ones(3, 4, 7), torch.ones(3, 4, 5), torch.ones(3, 5, 7)
    for add in (torch.Tensor.baddbmm, torch.Tensor.baddbmm_):
        with OperationCounter() as counter:
            add(into, left, right)
        assert flops_in(counter.operations) == 2 * 3 * 4 * 5 * 7


def test_counting_changes_nothing() -> None:
    net = nn.Sequential(
        nn.Linear(6, 6), nn.Dropout(0.5), nn.TransformerEncoderLayer(6, 2, 12, batch_first=True)
    )
    result = []
    for counted in (False, True):
        torch.manual_seed(1)
        net.zero_grad()
        x = torch.randn(2, 4, 6)
        if counted:
            with OperationCounter() as counter:
                y = net(x)
            assert flops_in(counter.operations) > 0
        else:
            y = net(x)
        y.square().sum().backward()
        grads = [p.grad.clone() for p in net.parameters() if p.grad is not None]
        result.append((y, torch.get_rng_state(), *grads))
    assert len(result[0]) > 10
    assert all(torch.equal(a, b) for a, b in zip(*result, strict=True))
