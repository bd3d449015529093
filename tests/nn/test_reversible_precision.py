"""A reversible stack under autocast, in half and in single precision."""

import pytest
import torch

from tests.nn.reversible import (
    LAYOUT,
    STEPS,
    D,
    build,
    grads,
    inputs,
    layer,
    objective,
    same,
)


@pytest.mark.parametrize("inside", [False, True])
def test_autocast_is_the_same_in_the_recomputation(inside: bool) -> None:
    stack, x = build([layer(True, 0.0), layer(True, 0.0)]).float(), inputs(2, STEPS, D).detach().float()
    memory = inputs(2, 5, D, seed=2).detach().float()
    kinds: list[torch.dtype] = []
    inner = stack.layers[1]["feed_forward"].body.inner  # type: ignore[index]
    inner.register_forward_hook(lambda *given: kinds.append(given[2].dtype))
    exact = grads(objective(stack(x, stack.attend_to(memory, None), LAYOUT)), stack)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = stack(x, stack.attend_to(memory, None), LAYOUT)
        got = grads(objective(mixed), stack) if inside else {}
    got = got or grads(objective(mixed), stack)
    assert kinds == [torch.float32] * 2 + [torch.bfloat16] * 2
    assert mixed.y.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        plain = stack.eval()(x, stack.attend_to(memory, None), LAYOUT)
    for name, grad in grads(objective(plain), stack).items():
        near, far = (float((got[name] - g).norm() / g.norm().clamp(min=0.1)) for g in (grad, exact[name]))  # type: ignore[operator,union-attr]
        assert near < 0.02, name
        assert far < 0.2, name
        assert far > 0 or name == "final_norm.bias"


def test_half_precision_weights_and_streams_in_single() -> None:
    stack = build([layer(dropout=0.0) for _ in range(4)]).bfloat16()
    x = inputs(2, STEPS, D).detach().bfloat16().requires_grad_()
    mixed = stack(x, None, LAYOUT)
    assert mixed.y.dtype == torch.bfloat16
    got = grads(mixed.y.float().square().sum(), stack, x)
    plain = grads(stack.eval()(x, None, LAYOUT).y.float().square().sum(), stack, x)
    assert all(g.dtype == torch.bfloat16 for g in got.values())  # type: ignore[union-attr]
    error = (got["input 0"] - plain["input 0"]).float().norm() / plain["input 0"].float().norm()  # type: ignore[operator,union-attr]
    assert error < 1e-3, "0.03 with streams in bfloat16"


def test_undoing_in_single_precision_is_exact_to_rounding() -> None:
    stack = build([layer(dropout=0.0) for _ in range(12)]).float()
    x = inputs(2, STEPS, D).detach().float().requires_grad_()
    got = grads(stack(x, None, LAYOUT).y.square().sum(), stack, x)
    same(got, grads(stack.eval()(x, None, LAYOUT).y.square().sum(), stack, x), 1e-4)
