"""The reversible language model equals that of transformers, forward and through its undone layers."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.models import golden, golden_reversible
from tests.nn.mixers import difference, gradients

CONTROL = 1e-4


class Run:
    """Our model with the golden weights and rotations."""

    def __init__(self) -> None:
        self.arrays, meta = golden.read("reformer_hf_model")
        self.options: dict[str, Any] = meta["options"]
        self.tolerance = meta["tolerance"]
        self.out = golden.under("out/", self.arrays)
        self.ids = self.arrays["in/ids"].long()
        self.model = golden_reversible.build(self.options)
        weights = golden_reversible.ours(golden.under("w/", self.arrays), self.options["attn_layers"])
        golden_reversible.load(self.model, weights)
        self.rotate(self.arrays["in/rotations"])

    def rotate(self, rotations: Tensor) -> None:
        body = self.model.stack.layers[1]["mix"].body  # type: ignore[index]
        body._forward_pre_hooks.clear()
        body.register_forward_pre_hook(
            golden_reversible.rotated_by(rotations, self.options["num_buckets"]), prepend=True
        )

    def loss(self) -> Tensor:
        hidden = self.model(self.ids).y
        return self.model.vocabulary.nll(hidden[:, :-1], self.ids[:, 1:]).mean()

    def logits(self) -> Tensor:
        return self.model.vocabulary.logits(self.model(self.ids).y)


@pytest.mark.parametrize("training", [True, False])
def test_outputs_of_every_layer(training: bool) -> None:
    run = Run()
    run.model.train(training)
    streams: list[Tensor] = []
    for layer in run.model.stack.layers:
        layer["mix"].norm_in.register_forward_pre_hook(lambda _, given: streams.append(given[0]))  # type: ignore[index]
    with golden_reversible.their_keys():
        hidden = run.model(run.ids).y
    tolerance = run.tolerance["out"]
    for i, stream in enumerate(streams):
        assert difference(stream, run.out[f"hidden_stream{i}"]) < tolerance
    assert difference(hidden, run.out["last_hidden"]) < tolerance
    assert difference(run.model.vocabulary.logits(hidden), run.out["logits"]) < tolerance


def test_loss_and_every_gradient() -> None:
    run = Run()
    with golden_reversible.their_keys():
        loss = run.loss()
        got = gradients(loss, [], run.model)
    assert difference(loss, run.out["loss"]) < run.tolerance["out"]
    expected = golden_reversible.ours(golden.under("grad/", run.arrays), run.options["attn_layers"])
    assert got.keys() == expected.keys()
    for name, grad in expected.items():
        assert difference(got[name], grad) < run.tolerance["grad"], name
    assert max(float(grad.abs().max()) for grad in expected.values()) > 0.1


@torch.no_grad()
def test_control_swapped_axes_show() -> None:
    run = Run()
    table = run.model.positions.table
    table.tables[0].copy_(table.tables[0].flip(0))
    with golden_reversible.their_keys():
        assert difference(run.logits(), run.out["logits"]) > CONTROL


@torch.no_grad()
def test_control_streams_that_do_not_change_places_show() -> None:
    run = Run()
    run.model.stack.join = lambda first, second: torch.cat([second, first], -1)
    with golden_reversible.their_keys():
        assert difference(run.logits(), run.out["logits"]) > CONTROL


@torch.no_grad()
def test_control_other_rotations_and_keys_of_length_one_show() -> None:
    run = Run()
    exact = difference(run.logits(), run.out["logits"])
    assert run.tolerance["out"] < exact < CONTROL, "a millionth under their root"
    run.rotate(-run.arrays["in/rotations"].flip(1))
    assert difference(run.logits(), run.out["logits"]) > CONTROL


def test_control_a_layer_that_is_not_undone_shows_in_gradients() -> None:
    run = Run()
    with golden_reversible.their_keys():
        loss = run.loss()
        run.model.stack.layers[0]["mix"].body.before = 0  # type: ignore[index]  # another layer in the backward pass
        got = gradients(loss, [], run.model)
    expected = golden_reversible.ours(golden.under("grad/", run.arrays), run.options["attn_layers"])
    assert max(difference(got[name], expected[name]) for name in expected) > CONTROL
