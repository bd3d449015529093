"""Growth with depth: what is moved, what is compared, and which bodies grow how."""

from functools import partial
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch import nn
from torch.nn.functional import layer_norm

from repro.models import Body
from repro.nn import (
    Blocks,
    FeedForward,
    FullAttention,
    Layout,
    NoPositions,
    PostNorm,
    PreNorm,
    WeightedPostNorm,
)
from repro.nn.init import glorot
from repro.nn.layers.shortcut import begin_by_variance, beginnings, sublayers_of
from repro.tasks import Constant, OutputChange
from repro.tasks.costs.output_change import growth
from tests.tasks.measured import measured

WIDTH = 16
LAYOUT = Layout(False)
KINDS = {"post": PostNorm, "pre": PreNorm, "weighted": WeightedPostNorm}


def body(kind: str = "post", layers: int = 6) -> Body:
    torch.manual_seed(0)
    blocks = Blocks(
        [partial(FullAttention, n_heads=2)],
        partial(FeedForward, d_ff=32),
        partial(KINDS[kind], dropout=0.0),
    )
    return Body(WIDTH, layers, blocks, NoPositions, causal=False, dropout=0.0)


def made(net: nn.Module, depths: list[int] | None = None, **more: Any) -> OutputChange:
    settings: dict[str, Any] = {"fitted_from": 1, "draws": 2, "rows": 2, "length": 4}
    return OutputChange(
        net, partial(torch.optim.SGD, lr=0.0), Constant, depths or [1, 3, 6], **settings | more
    )


def changed(net: nn.Module, depths: list[int], **more: Any) -> tuple[OutputChange, dict[str, Any]]:
    pl.seed_everything(3, verbose=False)
    task = made(net, depths, **more)
    before = {name: value.clone() for name, value in net.state_dict().items() if "shortcut" not in name}
    result = measured(task, WIDTH)
    for name, value in before.items():
        assert torch.equal(net.state_dict()[name], value), f"{name} was trained or moved"
    return task, result


class Spy:
    """Draws the weights that a test wants, and remembers the networks."""

    def __init__(self) -> None:
        self.nets: list[Any] = []

    def __call__(self, net: Any) -> None:
        glorot(net)
        self.nets.append(net)


def test_a_change_is_that_of_the_normed_output_when_matrices_move() -> None:
    spy = Spy()
    task = made(body("pre"), init=spy, size=1e-2)
    torch.manual_seed(7)
    (result,) = [task._draw(task.net)]
    # the same by hand: the same random numbers in the same order
    torch.manual_seed(7)
    net = body("pre")
    torch.manual_seed(7)
    glorot(net)
    x = torch.randn(2, 4, WIDTH)
    plain = {name: value.clone() for name, value in net.state_dict().items()}
    outputs = []
    for moved in (False, True):
        if moved:
            for parameter in net.parameters():
                if parameter.dim() > 1:
                    parameter.data += 1e-2 * torch.randn_like(parameter).sign()
        y, seen = x, []
        for layer in net.stack.layers:
            for sublayer in layer.values():  # type: ignore[operator,union-attr]
                y = y + sublayer.body(sublayer.norm_in(y), None, LAYOUT).y
            seen.append(layer_norm(y.detach().double(), (WIDTH,)))
        outputs.append(seen)
    target = [float((outputs[1][d - 1] - outputs[0][d - 1]).square().mean()) for d in (1, 3, 6)]
    assert result == pytest.approx(target, rel=1e-5)
    for name, value in task.net.state_dict().items():
        step = (value - plain[name]).abs()
        expected = 1e-2 if value.dim() > 1 else 0.0
        assert step.max() == pytest.approx(expected, rel=1e-4, abs=1e-9), name


def test_omegas_begin_anew_for_every_draw_and_do_not_move() -> None:
    net = body("weighted")
    spy = Spy()
    task = made(net, init=spy, size=0.1)
    seen = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        task._draw(net)
        (values,) = beginnings(net).values()
        seen.append(values)
        for sublayer, value in zip(sublayers_of(net.stack), values, strict=True):
            assert sublayer.shortcut.omega.tolist() == pytest.approx([value] * WIDTH)  # type: ignore[union-attr]
    assert seen[0][0] == seen[1][0] == 1.0
    assert all(a != b for a, b in zip(*(values[1:] for values in seen), strict=True))


def test_a_deep_body_begins_as_a_shallow_one() -> None:
    """One pass therefore serves all depths."""
    result = []
    for layers in (2, 5):
        torch.manual_seed(1)
        net = body("weighted", layers)
        x = torch.randn(3, 4, WIDTH, generator=torch.Generator().manual_seed(2))
        for layer in net.stack.layers:
            generator = torch.Generator().manual_seed(4)
            for parameter in layer.parameters():
                if parameter.dim() > 1:
                    parameter.data.normal_(generator=generator)
        result.append(begin_by_variance(net, lambda net=net, x=x: net(x))["stack"])  # type: ignore[misc]
    assert result[0] == result[1][:4]


def test_depths_are_a_sweep_and_growth_is_their_slope() -> None:
    task, result = changed(body("weighted"), [1, 2, 3, 6], fitted_from=2)
    assert len(task.changes) == 2
    assert all(len(draw) == 4 for draw in task.changes)
    for i, n in enumerate((2, 4, 6, 12)):
        point = result[f"test/output_change_{n}"]
        assert point.protocol["branches"] == n
        assert (point.protocol["sweep"], point.protocol["of"]) == ("branches", "test/output_change")
        first, second = (draw[i] for draw in task.changes)
        assert point.value == pytest.approx((first * second) ** 0.5)
    assert result["test/output_change_exponent"].protocol["branches"] == [4, 6, 12]
    drawn = [name for name, m in result.items() if m.protocol.get("exponent_of") == "test/output_change"]
    assert drawn == ["test/output_change_exponent"]
    assert result["profile/omega_stack"].count == 12


def test_post_norm_grows_faster_than_the_others() -> None:
    depths = [4, 8, 16, 24]
    result = {kind: changed(body(kind, 24), depths, fitted_from=4, draws=4, length=8)[1] for kind in KINDS}
    grown = {kind: each["test/output_change_exponent"].value for kind, each in result.items()}
    for kind in ("pre", "weighted"):
        assert grown[kind] < grown["post"] - 0.25
        fits = [result[kind][f"test/output_change_r2_{name}"].value for name in ("linear", "logarithm")]
        assert fits[0] < fits[1] <= 1.0


def test_fits() -> None:
    n = [10, 20, 40, 80]
    linear = growth(n, [3.0 * x for x in n], [(1.0 * x, 5.0 * x) for x in n])
    values = {name: value for name, (value, _) in linear.items()}
    assert values["exponent"] == pytest.approx(1.0)
    assert values["exponent_of_plain_means"] == pytest.approx(1.0)
    assert values["r2_linear"] == pytest.approx(1.0)
    assert values["r2_logarithm"] < 0.95
    square = growth(n, [1.0 * x for x in n], [(1.0, 2.0 * x * x) for x in n])
    assert square["exponent"][0] == pytest.approx(1.0)
    assert square["exponent_of_plain_means"][0] == pytest.approx(2.0, abs=0.05)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"depths": [1, 3, 5]}, "6 layers"),
        ({"depths": [3, 1, 6]}, "ascend"),
        ({"depths": [0, 3, 6]}, "ascend"),
        ({"fitted_from": 2}, "three depths"),
        ({"draws": 0}, "draws 0"),
        ({"size": 0.0}, "size 0.0"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(body(), **wrong)
