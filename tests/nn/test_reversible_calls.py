"""Building and calling a reversible stack: evaluation, states, lengths, refusals."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from repro.nn import (
    Blocks,
    FeedForward,
    FullAttention,
    Layout,
    Plain,
    PostNorm,
    PreNorm,
    Residual,
    ResidualStack,
    ReversibleStack,
    Sublayer,
)
from tests.nn.mixers import difference
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
    scored_layer,
)


def test_evaluation_equals_training_without_dropout() -> None:
    layers = [layer(dropout=0.0), {"mix": Residual(scored_layer()["mix"].body, D)}]
    stack, x = build(layers), inputs(2, STEPS, D)
    trained = stack(x, None, LAYOUT)
    evaluated = stack.eval()(x, None, LAYOUT)
    assert torch.equal(trained.y, evaluated.y)
    assert torch.equal(trained.aux, evaluated.aux)
    with torch.no_grad():
        assert torch.equal(stack.train()(x, None, LAYOUT).y, trained.y)
    same(
        grads(objective(stack(x, None, LAYOUT)), stack, x),
        grads(objective(stack.eval()(x, None, LAYOUT)), stack, x),
    )


@pytest.mark.parametrize("last", [1, 3])
def test_last_outputs_only(last: int) -> None:
    stack, x = build([layer(dropout=0.0)]), inputs(2, STEPS, D)
    for mode in (True, False):
        whole = stack.train(mode)(x, None, LAYOUT).y
        assert torch.equal(stack(x, None, LAYOUT, last=last).y, whole[:, -last:])
        assert torch.equal(stack(x, None, Layout(True, last=last)).y, whole[:, -last:])


@torch.no_grad()
def test_carried_state_in_evaluation() -> None:
    stack, x = build([layer(True), layer(True)], "mean").eval(), inputs(2, STEPS, D)
    memory = stack.attend_to(inputs(2, 5, D, seed=2), torch.tensor([5, 2]))
    state: Any = {**stack.init_state(2), **memory}
    parts = []
    for piece in x.split([3, 1, 3], 1):
        mixed = stack(piece, state, Layout(True))
        state = mixed.state
        parts.append(mixed.y)
    assert list(state) == ["mix", "cross"]
    assert len(state["mix"]) == len(state["cross"]) == 2
    assert difference(torch.cat(parts, 1), stack(x, memory, LAYOUT).y) < 1e-12


def test_lengths_of_the_memory_are_read() -> None:
    stack, x, memory = build([layer(True, 0.0)]), inputs(2, STEPS, D), inputs(2, 5, D, seed=2)
    lengths = torch.tensor([5, 2])
    trained = stack(x, stack.attend_to(memory, lengths), LAYOUT).y
    evaluated = stack.eval()(x, stack.attend_to(memory, lengths), LAYOUT).y
    assert difference(trained, evaluated) < 1e-12
    assert difference(stack(x, stack.attend_to(memory, None), LAYOUT).y, evaluated) > 1e-3
    gradient = torch.autograd.grad(trained.square().sum(), memory)[0]
    assert gradient[1, 2:].abs().max() == 0
    assert gradient[1, :2].abs().max() > 1e-3


def test_a_state_of_mixers_in_training_is_refused() -> None:
    stack, x = build([layer()]), inputs(2, STEPS, D)
    with pytest.raises(ValueError, match=r"no state in training"):
        stack(x, stack.init_state(2), LAYOUT)
    with torch.no_grad():
        assert stack(x, stack.init_state(2), LAYOUT).state is not None
    assert stack.eval()(x, stack.init_state(2), LAYOUT).state is not None


REFUSED = {
    "PostNorm": lambda: PostNorm(FeedForward(D, 4), D),
    "Plain": lambda: Plain(FeedForward(D, 4), D),
    "Sublayer": lambda: Sublayer(FeedForward(D, 4), nn.Identity(), nn.Identity(), nn.Linear(D, D), 0.0),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_sublayers_that_cannot_be_undone_are_refused(kind: str) -> None:
    with pytest.raises(ValueError, match=rf"{kind} \(feed_forward\)"):
        ReversibleStack([{"mix": layer()["mix"], "feed_forward": REFUSED[kind]()}], nn.Identity())


def test_another_join_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'sum'"):
        ReversibleStack([], nn.Identity(), join="sum")  # type: ignore[arg-type]


def test_it_can_be_copied_and_pickled() -> None:
    stack, x = build([layer()], "mean").eval(), inputs(2, STEPS, D)
    for other in (copy.deepcopy(stack), pickle.loads(pickle.dumps(stack))):
        assert torch.equal(other(x, None, LAYOUT).y, stack(x, None, LAYOUT).y)


def blocks(stack: Any, **changes: Any) -> Blocks:
    made: dict[str, Any] = {
        "mixers": [lambda d: FullAttention(d, 2)],
        "feed_forward": lambda d: FeedForward(d, 8),
        "sublayer": PreNorm,
        "final_norm": nn.LayerNorm,
        "stack": stack,
    }
    return Blocks(**{**made, **changes})


def test_blocks_make_the_final_norm_as_wide_as_the_output() -> None:
    for stack, width in [
        (ResidualStack, 8),
        (ReversibleStack, 16),
        (lambda *a: ReversibleStack(*a, join="mean"), 8),
    ]:
        recipe = blocks(stack)
        net = recipe.build(8, 2)
        assert recipe.d_out(8) == net.d_out(8) == width
        assert net.final_norm.normalized_shape == (width,)
        assert net(torch.randn(2, 3, 8), None, Layout(True)).y.shape == (2, 3, width)
    with pytest.raises(ValueError, match=r"PostNorm \(mix\)"):
        blocks(ReversibleStack, sublayer=PostNorm).build(8, 2)
