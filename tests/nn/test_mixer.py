"""The contract around states: tree functions, and what every listed mixer's state is."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from repro.nn import Layout, Residual, SequenceMixer
from repro.nn.mixer import detach, leaves, nbytes, reorder, reset_rows, tree_map
from tests.nn.mixers import CAUSAL, D_MODEL, DIRECTIONS, build, difference, feed, gradients, valid

TREE = {"a": (torch.arange(6.0).view(3, 2), None), "b": {"length": torch.tensor([1, 2, 3])}}


def test_tree_map_keeps_the_shape_of_the_tree() -> None:
    doubled = tree_map(lambda t: t * 2, TREE)
    assert list(doubled) == ["a", "b"]
    assert isinstance(doubled["a"], tuple)
    assert doubled["a"][1] is None
    assert torch.equal(doubled["a"][0], TREE["a"][0] * 2)  # type: ignore[index]
    assert torch.equal(doubled["b"]["length"], torch.tensor([2, 4, 6]))


@pytest.mark.parametrize("leaf", [3, 1.5, "text"])
def test_a_state_of_anything_else_is_refused(leaf: object) -> None:
    with pytest.raises(TypeError, match=type(leaf).__name__):
        tree_map(lambda t: t, {"a": (leaf,)})


def test_leaves_and_bytes() -> None:
    assert [tuple(t.shape) for t in leaves(TREE)] == [(3, 2), (3,)]
    assert nbytes(TREE) == 6 * 4 + 3 * 8
    assert leaves(None) == []
    assert nbytes(None) == 0


def test_detach_cuts_the_gradient() -> None:
    x = torch.ones(2, requires_grad=True)
    cut = detach({"a": (x * 2,)})["a"][0]
    assert not cut.requires_grad
    assert torch.equal(cut, torch.full((2,), 2.0))


def test_reorder_picks_rows() -> None:
    picked = reorder(TREE, torch.tensor([2, 2, 0, 1]))
    assert picked["b"]["length"].tolist() == [3, 3, 1, 2]
    assert picked["a"][0].tolist() == [[4, 5], [4, 5], [0, 1], [2, 3]]


def test_reset_zeroes_the_rows_that_are_done_and_no_other() -> None:
    reset = reset_rows(TREE, torch.tensor([True, False, True]))
    assert reset["b"]["length"].tolist() == [0, 2, 0]
    assert reset["a"][0].tolist() == [[0, 0], [2, 3], [0, 0]]
    broken = reset_rows((torch.tensor([float("nan"), 1.0]),), torch.tensor([True, False]))
    assert broken[0].tolist() == [0.0, 1.0]


def some_rows(n: int, length: int, seed: int = 7) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return list(torch.randn(n, length, D_MODEL, dtype=torch.float64, generator=generator))


@pytest.mark.parametrize("name", CAUSAL)
def test_it_is_a_sequence_mixer(name: str) -> None:
    assert isinstance(build(name), SequenceMixer)
    assert not isinstance(nn.Linear(1, 1), SequenceMixer)


@pytest.mark.parametrize("capacity", [None, 16])
@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_a_state_is_tensors_with_the_batch_axis_first(name: str, capacity: int | None) -> None:
    mixer = build(name)
    empty = mixer.init_state(3, capacity)
    _, state = feed(mixer, some_rows(3, 5), [[5, 5, 5]], empty)
    assert type(state) is type(mixer.init_state(3, capacity))
    assert all(t.shape[0] == 3 for t in leaves(state))  # `leaves` refuses anything but tensors


@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_a_capacity_keeps_every_shape_and_writes_in_place(name: str) -> None:
    mixer = build(name)
    empty = mixer.init_state(2, 16)
    shapes = [t.shape for t in leaves(empty)]
    slots = [
        t.data_ptr() for t in leaves(empty) if t.dim() > 2
    ]  # one vector for each row has nothing to grow
    _, state = feed(mixer, some_rows(2, 9), [[5, 2], [1, 1], [3, 6]], empty)
    assert [t.shape for t in leaves(state)] == shapes
    assert [t.data_ptr() for t in leaves(state) if t.dim() > 2] == slots


@pytest.mark.parametrize("capacity", [None, 16])
@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_reordered_rows_continue_as_those_rows(name: str, capacity: int | None) -> None:
    mixer, rows = build(name), some_rows(3, 8)
    order = torch.tensor([2, 2, 0, 1])
    picked = [rows[i] for i in order.tolist()]
    _, straight = feed(mixer, picked, [[5, 5, 5, 5]], mixer.init_state(4, capacity))
    _, state = feed(mixer, rows, [[5, 5, 5]], mixer.init_state(3, capacity))
    x, layout = torch.stack([row[5:] for row in picked]), step(torch.full((4,), 5), 3)
    expected = mixer(x, straight, layout).y
    assert difference(mixer(x, reorder(state, order), layout).y, expected) < 1e-12


@pytest.mark.parametrize("capacity", [None, 16])
@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_a_reset_row_starts_anew_and_the_others_go_on(name: str, capacity: int | None) -> None:
    mixer, rows = build(name), some_rows(2, 10)
    _, state = feed(mixer, rows, [[5, 5]], mixer.init_state(2, capacity))
    state = reset_rows(state, torch.tensor([False, True]))
    x = torch.stack([row[5:] for row in rows])
    y = mixer(x, state, step(torch.tensor([5, 0]), 5)).y
    fresh = mixer(x[1:], mixer.init_state(1, capacity), step(torch.zeros(1, dtype=torch.long), 5)).y
    going_on, _ = feed(mixer, rows[:1], [[5], [5]], mixer.init_state(1, capacity))
    assert difference(y[1], fresh[0]) < 1e-12
    assert difference(y[0], going_on[0][5:]) < 1e-12


@pytest.mark.parametrize("last", [1, 4, 7, 20])
@pytest.mark.parametrize(("name", "causal"), DIRECTIONS)
def test_the_last_outputs_are_those_of_the_whole(name: str, causal: bool, last: int) -> None:
    sublayer = Residual(build(name), D_MODEL)
    x = torch.stack(some_rows(3, 7)).requires_grad_()
    weight = torch.stack(some_rows(3, 7, seed=8))[:, -last:]
    for lengths in (None, torch.tensor([7, 3, 5])):
        layout = Layout(causal, lengths=lengths, positions=torch.arange(7))
        kept = valid(torch.tensor([7, 7, 7]) if lengths is None else lengths, 7)[:, -last:, None]
        whole = sublayer(x, None, layout).y[:, -last:] * kept
        part = sublayer(x, None, replace(layout, last=last)).y * kept
        assert difference(part, whole) < 1e-12
        expected = gradients((whole * weight).sum(), [x], sublayer)
        for key, grad in gradients((part * weight).sum(), [x], sublayer).items():
            assert difference(grad, expected[key]) < 1e-12, key


@pytest.mark.parametrize(("name", "causal"), DIRECTIONS)
def test_a_call_leaves_nothing_on_the_module(name: str, causal: bool) -> None:
    mixer = build(name)
    before = everything(mixer)
    weights = {key: value.clone() for key, value in mixer.state_dict().items()}
    x = torch.stack(some_rows(2, 5))
    mixer(x, mixer.init_state(2), Layout(causal, torch.zeros(2, dtype=torch.long), None, torch.arange(5)))
    mixer(x, None, Layout(causal, lengths=torch.tensor([5, 2]), positions=torch.arange(5)))
    assert everything(mixer) == before
    assert not [one for one in mixer.buffers() if one.is_floating_point()], "a memory would be one"
    assert all(torch.equal(value, weights[key]) for key, value in mixer.state_dict().items())


def everything(module: nn.Module) -> dict[str, dict[str, str]]:
    """All that hangs on a module and its children: every attribute, containers included, by its text."""
    return {name: {key: repr(v) for key, v in vars(m).items()} for name, m in module.named_modules()}


def step(start: Tensor, steps: int) -> Layout:
    return Layout(True, start, None, start[:, None] + torch.arange(steps))


@pytest.mark.parametrize("seen", [True, False])
def test_the_contract_test_notices_a_module_that_remembers(seen: bool) -> None:
    class Remembers(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            if seen:
                self.last = x
            return super().forward(x)

    layer = Remembers(2, 2)
    before = everything(layer)
    layer(torch.ones(1, 2))
    assert (everything(layer) != before) is seen
