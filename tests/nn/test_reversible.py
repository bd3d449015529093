"""Gradients of a reversible stack: what plain autograd gives, from less memory."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.nn import (
    Layout,
    MixerOutput,
    PreNorm,
    Residual,
    ReversibleStack,
    State,
)
from repro.nn.attention.hashed.hashing import Hashing
from repro.nn.attention.hashed.lsh import LSHAttention
from repro.nn.device import RandomStates
from tests.nn.mixers import difference
from tests.nn.reversible import (
    LAYOUT,
    STEPS,
    D,
    build,
    everything,
    grads,
    inputs,
    layer,
    naive,
    objective,
    same,
    scored_layer,
)


def both(stack: ReversibleStack, x: Tensor, memory: Tensor) -> tuple[tuple[Tensor, Any], tuple[Tensor, Any]]:
    """Loss and gradients of the stack, and of the naive coupling with the same random numbers."""
    result = []
    for reversible in (True, False):
        torch.manual_seed(3)
        state = stack.attend_to(memory, None)
        mixed = stack(x, state, LAYOUT) if reversible else naive(stack, x, LAYOUT, memory)
        loss = objective(mixed)
        result.append((loss, grads(loss, stack, x, memory)))
    return result[0], result[1]


@pytest.mark.parametrize("join", ["concat", "mean"])
@pytest.mark.parametrize("chunk", [None, 3])
def test_gradients_equal_plain_autograd_with_dropout(join: str, chunk: int | None) -> None:
    stack = everything(join, chunk)
    (loss, got), (wanted_loss, expected) = both(stack, inputs(2, STEPS, D), inputs(2, 5, D, seed=2))
    assert difference(loss, wanted_loss) < 1e-12
    same(got, expected)
    assert got["layers.0.feed_forward.body.inner.weight"] is None, "frozen"
    assert got["layers.1.mix.body.unused"] is None
    for name in ("layers.0.cross.body.kv.weight", "layers.1.mix.body.proj.weight", "input 0", "input 1"):
        assert got[name].abs().max() > 1e-2, name


def test_control_other_random_numbers_show(monkeypatch: pytest.MonkeyPatch) -> None:
    stack, x, memory = everything(), inputs(2, STEPS, D), inputs(2, 5, D, seed=2)
    monkeypatch.setattr(RandomStates, "restore", lambda _: None)
    (loss, got), (wanted_loss, expected) = both(stack, x, memory)
    assert difference(loss, wanted_loss) < 1e-12
    assert difference(got["input 0"], expected["input 0"]) > 1e-3


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
            messages = one[name].body.told  # type: ignore[index]
            assert messages[0] is None
            assert messages[1]["signs"].shape == (2, STEPS, D)
    assert torch.equal(stack.layers[0]["mix"].body.told[1]["signs"], x.sign().to(torch.int8))  # type: ignore[index]


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
        expected = grads(stack.eval()(x, None, LAYOUT).y[..., part].sum(), stack, x)
        torch.manual_seed(0)
        stack.train().layers[1]["mix"].dropout.p = 0.0  # type: ignore[index]
        got = grads(stack(x, None, LAYOUT).y[..., part].sum(), stack, x)
        same(
            {k: g for k, g in got.items() if expected[k] is not None},
            {k: g for k, g in expected.items() if g is not None},
        )
        assert all(g is None or g.abs().max() == 0 for k, g in got.items() if expected[k] is None)
