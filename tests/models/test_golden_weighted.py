"""Weighted shortcuts equal the official code: what they begin with, outputs, loss, gradients; see tests/golden."""

from typing import Any

import pytest
import torch
from torch import Tensor

from repro.nn import Layout, MixerOutput, State, Sublayer
from repro.nn.layers import shortcut
from repro.nn.layers.shortcut import begin_by_variance
from repro.nn.layers.sublayer import WeightedShortcut
from tests.models import golden
from tests.models.golden_weighted import PAD, Model, ours, to_the_right
from tests.nn.mixers import difference

CONTROL = 1e-3


class Run:
    """The file, and our stacks with its weights."""

    def __init__(self) -> None:
        self.arrays, meta = golden.read("admin_encdec")
        self.tolerance = meta["tolerance"]
        self.source = to_the_right(self.arrays["in/src_ids"].long())
        self.target = self.arrays["in/prev_output_ids"].long()
        self.wanted = self.arrays["in/target_ids"].long()
        self.net = Model(meta["options"], golden.under("w/", self.arrays))

    def omegas(self) -> dict[str, Tensor]:
        """Begins all shortcuts anew, from ones."""
        for module in self.net.modules():
            if isinstance(module, WeightedShortcut):
                torch.nn.init.ones_(module.omega)
        result = begin_by_variance(self.net, lambda: self.net(self.source, self.target))
        return {name: torch.tensor(values, dtype=torch.float64) for name, values in result.items()}

    def logits(self) -> Tensor:
        return self.net(self.source, self.target)


def test_the_file_holds_padding_on_both_sides() -> None:
    run = Run()
    assert (run.source == PAD).sum() == 3
    assert (run.target == PAD).sum() == 1
    assert (run.arrays["in/src_ids"][1, :3] == PAD).all()


def test_omegas() -> None:
    run = Run()
    trained = {key: value.clone() for key, value in run.net.state_dict().items() if key.endswith("omega")}
    result = run.omegas()
    for stack in ("encoder", "decoder"):
        assert difference(result[stack], run.arrays[f"out/{stack}_omegas"]) < run.tolerance["out"]
    assert len(trained) == 10
    for key, value in trained.items():  # pass 2 of the official code read them from a file
        assert difference(run.net.state_dict()[key], value) < run.tolerance["out"]


def test_outputs_and_loss() -> None:
    run = Run()
    outputs = {stack: golden.layer_outputs(getattr(run.net, stack)) for stack in ("encoder", "decoder")}
    logits = run.logits()
    valid = run.target != PAD
    official = run.arrays["in/src_ids"] != PAD
    for i in range(2):
        encoded, expected = outputs["encoder"][i], run.arrays[f"out/encoder_layer{i}"]
        assert difference(encoded[run.source != PAD], expected[official]) < run.tolerance["out"]
        expected = run.arrays[f"out/decoder_layer{i}"]
        assert difference(outputs["decoder"][i][valid], expected[valid]) < run.tolerance["out"]
    assert difference(logits[valid], run.arrays["out/logits"][valid]) < run.tolerance["out"]
    assert difference(run.net.loss(logits, run.wanted), run.arrays["out/loss"]) < run.tolerance["out"]


def test_every_gradient() -> None:
    run = Run()
    run.net.loss(run.logits(), run.wanted).backward()
    official = golden.under("grad/", run.arrays)
    expected = {"table.weight": official["encoder.embed_tokens.weight"]}
    for stack in ("encoder", "decoder"):
        expected |= {f"{stack}.{key}": value for key, value in ours(stack, official).items()}
    got = {name: parameter.grad for name, parameter in run.net.named_parameters()}
    assert got.keys() == expected.keys()
    for key, grad in got.items():
        assert grad is not None
        assert difference(grad, expected[key]) < run.tolerance["grad"], key
    omegas = [grad for key, grad in expected.items() if key.endswith("omega")]
    assert len(omegas) == 10
    assert all(grad.abs().max() > 1e-3 for grad in omegas)


def on_the_branch(self: Any, x: Tensor, state: State, layout: Layout) -> MixerOutput:
    mixed = self.branch(x, state, layout)
    return mixed._replace(y=self.norm_out(x + self.shortcut(mixed.y)))


def test_control_an_omega_on_the_branch_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    monkeypatch.setattr(Sublayer, "forward", on_the_branch)
    assert difference(run.logits(), run.arrays["out/logits"]) > CONTROL


def test_control_the_other_variance_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    monkeypatch.setattr(shortcut, "variance", lambda x: float(x.var(correction=1)))
    result = run.omegas()
    for stack in ("encoder", "decoder"):
        assert difference(result[stack], run.arrays[f"out/{stack}_omegas"]) > CONTROL
