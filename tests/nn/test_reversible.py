"""A reversible stack: what plain autograd gives, from less memory."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.nn import (
    Blocks,
    FeedForward,
    FullAttention,
    Layout,
    MixerOutput,
    Plain,
    PostNorm,
    PreNorm,
    Residual,
    ResidualStack,
    ReversibleStack,
    State,
    Sublayer,
)
from repro.nn.attention.hashed.hashing import Hashing
from repro.nn.attention.hashed.lsh import LSHAttention
from repro.nn.device import RandomStates
from tests.nn.mixers import difference
from tests.nn.reversible import (
    STEPS,
    D,
    build,
    everything,
    grads,
    inputs,
    layer,
    naive,
    objective,
    scored_layer,
)

LAYOUT = Layout(True, positions=torch.arange(STEPS))


def both(stack: ReversibleStack, x: Tensor, memory: Tensor) -> tuple[tuple[Tensor, Any], tuple[Tensor, Any]]:
    """Loss and gradients of the stack, and of the naive coupling with the same random numbers."""
    found = []
    for reversible in (True, False):
        torch.manual_seed(3)
        state = stack.attend_to(memory, None)
        mixed = stack(x, state, LAYOUT) if reversible else naive(stack, x, LAYOUT, memory)
        loss = objective(mixed)
        found.append((loss, grads(loss, stack, x, memory)))
    return found[0], found[1]


def same(got: dict[str, Tensor | None], wanted: dict[str, Tensor | None], tolerance: float = 1e-12) -> None:
    assert got.keys() == wanted.keys()
    for name, grad in wanted.items():
        if grad is None:
            assert got[name] is None, name
        else:
            assert got[name] is not None, name
            assert difference(got[name], grad) < tolerance, name  # type: ignore[arg-type]


@pytest.mark.parametrize("join", ["concat", "mean"])
@pytest.mark.parametrize("chunk", [None, 3])
def test_gradients_equal_plain_autograd_with_dropout(join: str, chunk: int | None) -> None:
    stack = everything(join, chunk)
    (loss, got), (wanted_loss, wanted) = both(stack, inputs(2, STEPS, D), inputs(2, 5, D, seed=2))
    assert difference(loss, wanted_loss) < 1e-12
    same(got, wanted)
    assert got["layers.0.feed_forward.body.inner.weight"] is None, "frozen"
    assert got["layers.1.mix.body.unused"] is None
    for name in ("layers.0.cross.body.kv.weight", "layers.1.mix.body.proj.weight", "input 0", "input 1"):
        assert got[name].abs().max() > 1e-2, name


def test_control_other_random_numbers_show(monkeypatch: pytest.MonkeyPatch) -> None:
    stack, x, memory = everything(), inputs(2, STEPS, D), inputs(2, 5, D, seed=2)
    monkeypatch.setattr(RandomStates, "restore", lambda _: None)
    (loss, got), (wanted_loss, wanted) = both(stack, x, memory)
    assert difference(loss, wanted_loss) < 1e-12
    assert difference(got["input 0"], wanted["input 0"]) > 1e-3


@pytest.mark.parametrize("hashing", [Hashing(2, chunk=3), Hashing.across(2, chunk=4)])
def test_gradients_with_hashing_and_dropout(hashing: Hashing) -> None:
    layers = [
        {
            "mix": PreNorm(LSHAttention(D, 2, hashing, dropout=0.2), D, 0.2),
            "feed_forward": layer()["feed_forward"],
        }
        for _ in range(2)
    ]
    stack, x = build(layers), inputs(2, 13, D)
    losses = []
    for run in (stack, lambda x, _, layout: naive(stack, x, layout)):
        torch.manual_seed(3)
        losses.append(objective(run(x, None, Layout(True))))
    assert difference(*losses) < 1e-12
    same(grads(losses[0], stack, x), grads(losses[1], stack, x))
    torch.manual_seed(4)  # the control: other rotations and masks
    assert difference(objective(stack(x, None, Layout(True))), losses[1]) > 1e-3


def test_the_stack_really_undoes() -> None:
    stack = build([layer(dropout=0.0) for _ in range(3)])
    calls: list[bool] = []
    for one in stack.layers:
        body = one["mix"].body  # type: ignore[index]
        body.register_forward_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    y = stack(inputs(1, STEPS, D), None, LAYOUT).y
    assert calls == [False] * 3
    y.sum().backward()
    assert calls == [False] * 3 + [True] * 3


@pytest.mark.parametrize("layers", [1, 3])
def test_a_single_sublayer_and_an_odd_number(layers: int) -> None:
    stack, x = build([scored_layer() for _ in range(layers)]), inputs(2, STEPS, D)
    torch.manual_seed(3)
    got = grads(objective(stack(x, None, LAYOUT)), stack, x)
    torch.manual_seed(3)
    same(got, grads(objective(naive(stack, x, LAYOUT)), stack, x))


def test_random_numbers_go_on_as_if_nothing_was_computed_again() -> None:
    stack, x = build([layer()]), inputs(2, STEPS, D)
    drawn = []
    for run in (stack, lambda x, _, layout: naive(stack, x, layout)):
        torch.manual_seed(3)
        loss = objective(run(x, None, LAYOUT))
        between = torch.rand(2)
        loss.backward()
        drawn.append(torch.cat([between, torch.rand(2)]))
    assert torch.equal(drawn[0], drawn[1])


class Chooser(nn.Module):
    """Takes the sign of its input, or the sign that it is told; writes down which."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        self.told.append(layout.bucket_replay)
        signs = x.sign().to(torch.int8) if layout.bucket_replay is None else layout.bucket_replay["signs"]
        return MixerOutput(x * signs, state, None, {"signs": signs})


def test_a_repeated_call_is_told_what_the_first_one_decided() -> None:
    stack = build([{"mix": Residual(Chooser(), D), "feed_forward": Residual(Chooser(), D)} for _ in range(2)])
    x = inputs(2, STEPS, D)
    stack(x, None, LAYOUT).y.sum().backward()
    for one in stack.layers:
        for name in ("mix", "feed_forward"):
            told = one[name].body.told  # type: ignore[index]
            assert told[0] is None
            assert told[1]["signs"].shape == (2, STEPS, D)
    assert torch.equal(stack.layers[0]["mix"].body.told[1]["signs"], x.sign().to(torch.int8))  # type: ignore[index]


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
    with pytest.raises(ValueError, match=rf"cannot undo {kind} \(feed_forward\)"):
        ReversibleStack([{"mix": layer()["mix"], "feed_forward": REFUSED[kind]()}], nn.Identity())


def test_another_join_is_refused() -> None:
    with pytest.raises(ValueError, match=r"concat, mean, not 'sum'"):
        ReversibleStack([], nn.Identity(), join="sum")  # type: ignore[arg-type]


def test_gradients_accumulate_and_a_graph_can_be_used_twice() -> None:
    stack, x = build([layer(dropout=0.0)]), inputs(4, STEPS, D)
    whole = grads(stack(x, None, LAYOUT).y.square().sum(), stack, x)
    loss = sum(stack(rows, None, LAYOUT).y.square().sum() for rows in x.split(2))
    same(grads(loss, stack, x), whole)  # type: ignore[arg-type]
    loss = stack(x, None, LAYOUT).y.square().sum()
    first = torch.autograd.grad(loss, x, retain_graph=True)[0]
    assert torch.equal(torch.autograd.grad(loss, x)[0], first)


def test_the_auxiliary_loss_alone() -> None:
    stack, x = build([scored_layer(), layer(dropout=0.0)]), inputs(2, STEPS, D)
    torch.manual_seed(3)
    got = torch.autograd.grad(stack(x, None, LAYOUT).aux.sum(), x)[0]
    torch.manual_seed(3)
    assert difference(got, torch.autograd.grad(naive(stack, x, LAYOUT).aux.sum(), x)[0]) < 1e-12


def test_frozen_layers_in_front() -> None:
    stack, x = build([layer(dropout=0.0), layer(dropout=0.0)]), inputs(2, STEPS, D).detach()
    stack.layers[0].requires_grad_(False)
    got = grads(objective(stack(x, None, LAYOUT)), stack)
    same(got, grads(objective(naive(stack, x, LAYOUT)), stack))
    assert sum(grad is not None for grad in got.values()) == sum(p.requires_grad for p in stack.parameters())
    stack.requires_grad_(False)
    assert not stack(x, None, LAYOUT).y.requires_grad


@pytest.mark.parametrize("depth", [0, 1])
def test_a_weight_changed_between_the_passes_is_noticed(depth: int) -> None:
    stack, x = build([layer(), layer()]), inputs(2, STEPS, D)
    loss = stack(x, None, LAYOUT).y.sum()
    with torch.no_grad():
        stack.layers[depth]["feed_forward"].body.inner.weight.mul_(2.0)  # type: ignore[index]
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation"):
        loss.backward()


def test_parts_of_the_output_are_enough() -> None:
    stack, x = build([layer(dropout=0.0), scored_layer()], norm=False).eval(), inputs(2, STEPS, D)
    for part in (slice(0, D), slice(D, None)):
        wanted = grads(stack.eval()(x, None, LAYOUT).y[..., part].sum(), stack, x)
        torch.manual_seed(0)
        stack.train().layers[1]["mix"].dropout.p = 0.0  # type: ignore[index]
        got = grads(stack(x, None, LAYOUT).y[..., part].sum(), stack, x)
        same(
            {k: g for k, g in got.items() if wanted[k] is not None},
            {k: g for k, g in wanted.items() if g is not None},
        )
        assert all(g is None or g.abs().max() == 0 for k, g in got.items() if wanted[k] is None)


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
