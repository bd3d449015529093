"""Memory is counted without doing the work."""

import contextlib

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from repro.tasks.costs.live_bytes import LiveBytes, fused_kernels

META = torch.device("meta")


def test_a_storage_counts_once_and_until_nobody_holds_it() -> None:
    before = torch.empty(1000, device=META)
    with LiveBytes(META) as live:
        live.hold(before, before[:10])
        made = before + 1
        view = made.view(10, 100)
        del made
        assert live.current == 8000
        del view
        assert live.current == 4000
        assert live.peak == 8000
        live.restart()
        assert live.peak == 4000
        torch.empty(1000)  # on another device
        assert live.peak == 4000


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
def test_fused_attention_makes_no_table_of_weights(masked: bool) -> None:
    heads, n, width = 8, 256, 4
    mask = torch.empty(n, n, dtype=torch.bool, device=META) if masked else None
    table = 4 * heads * n * n

    def peak(fused: bool) -> int:
        q, k, v = (torch.empty(1, heads, n, width, device=META, requires_grad=True) for _ in range(3))
        with LiveBytes(META) as live, fused_kernels() if fused else contextlib.nullcontext():
            scaled_dot_product_attention(q, k, v, mask).sum().backward()
        return live.peak

    assert peak(fused=False) > table
    assert peak(fused=True) < 0.75 * table


def test_attention_that_is_computed_again_in_the_backward_pass_is_fused_too() -> None:
    heads, n, width = 8, 256, 4
    q, k, v = (torch.empty(1, heads, n, width, device=META, requires_grad=True) for _ in range(3))
    with LiveBytes(META) as live, fused_kernels():
        checkpoint(scaled_dot_product_attention, q, k, v, use_reentrant=True).sum().backward()
    assert live.peak < 0.75 * 4 * heads * n * n
