"""With the same weights, ours equals GPT-2, and a frozen GPT-2 with new input and output layers; see tests/golden."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from repro.models import Classifier, DecoderLM, Gpt2
from repro.models.body import gpt2_blocks, learned
from repro.models.pretrained import begin_with, translate
from repro.nn import VectorEmbedding, Vocabulary
from repro.nn.positions.positions import NoPositions
from tests.models import golden
from tests.nn.mixers import difference, gradients

CONTROL = 1e-4
TRAINED = ["input", "output", "norms", "positions"]


def language_model(options: dict[str, Any], weights: dict[str, Tensor]) -> DecoderLM:
    """Our model with all official weights, in their precision."""
    blocks = gpt2_blocks(options["n_head"], 4 * options["n_embd"], dropout=0.0)
    vocabulary = partial(Vocabulary, size=options["vocab_size"], scaled=False)
    model = DecoderLM(
        options["n_embd"],
        options["n_layer"],
        vocabulary,
        blocks,
        learned(options["n_positions"]),
        dropout=0.0,
    )
    model.to(next(iter(weights.values())).dtype).load_state_dict(translate("gpt2", weights))
    return model


class Language:
    """The golden file of the language model."""

    def __init__(self) -> None:
        self.arrays, meta = golden.read("gpt2_lm")
        self.options, self.tolerance = meta["options"], meta["tolerance"]
        self.out = golden.under("out/", self.arrays)
        self.model = language_model(self.options, golden.under("w/", self.arrays))
        self.ids = self.arrays["in/ids"].long()

    def logits(self) -> Tensor:
        return self.model.vocabulary.logits(self.model(self.ids).y)

    def loss(self) -> Tensor:
        """The loss of the next token."""
        return self.model.vocabulary.nll(self.model(self.ids[:, :-1]).y, self.ids[:, 1:]).mean()

    def hidden(self) -> list[Tensor]:
        """What goes into the stack, the first layers' outputs, and what comes out behind the last norm."""
        seen: list[Tensor] = []
        handles = [self.model.dropout.register_forward_hook(lambda _, __, x: seen.append(x))]
        for layer in list(self.model.stack.layers)[:-1]:
            part = layer["feed_forward"]  # type: ignore[index]
            handles.append(part.register_forward_hook(lambda _, __, mixed: seen.append(mixed.y)))
        last = self.model(self.ids).y
        for handle in handles:
            handle.remove()
        return [*seen, last]

    def token_by_token(self, capacity: int | None, shift: int = 0) -> Tensor:
        """Logits behind the prompt and behind each further token; ``shift`` moves positions."""
        prompt = int(self.arrays["in/prompt_len"])
        state = self.model.init_state(len(self.ids), capacity)
        mixed = self.model(self.ids[:, :prompt], state)
        result = [self.model.vocabulary.logits(mixed.y[:, -1:])]
        for token in self.ids[:, prompt:].split(1, dim=1):
            state = mixed.state
            state["stream"]["start"] = state["stream"]["start"] + shift
            mixed = self.model.decode(token, state)
            result.append(self.model.vocabulary.logits(mixed.y))
        return torch.cat(result, dim=1)


@torch.no_grad()
def test_logits_loss_and_hidden_states_of_the_language_model() -> None:
    case = Language()
    assert difference(case.logits(), case.out["logits"]) < case.tolerance["out"]
    assert difference(case.loss(), case.out["loss"]) < case.tolerance["out"]
    hidden = case.hidden()
    assert len(hidden) == case.options["n_layer"] + 1
    for i, result in enumerate(hidden):
        assert difference(result, case.out[f"hidden{i}"]) < case.tolerance["out"]


def test_every_gradient_of_the_language_model() -> None:
    case = Language()
    got = gradients(case.loss(), [], case.model)
    expected = translate(
        "gpt2", golden.under("grad/", case.arrays)
    )  # names and axes of a weight are its gradient's
    assert got.keys() == expected.keys()
    for name, grad in got.items():
        assert difference(grad, expected[name]) < case.tolerance["grad"], name
    assert max(float(grad.abs().max()) for grad in expected.values()) > 0.05


@pytest.mark.parametrize("capacity", [None, 11])
@torch.no_grad()
def test_the_language_model_token_by_token(capacity: int | None) -> None:
    case = Language()
    assert difference(case.token_by_token(capacity), case.out["incremental_logits"]) < case.tolerance["out"]
    assert difference(case.token_by_token(capacity, shift=1), case.out["incremental_logits"]) > CONTROL


@torch.no_grad()
def test_control_another_activation_norm_or_order_shows() -> None:
    case = Language()
    for layer in case.model.stack.layers:
        layer["feed_forward"].body.activation = nn.GELU()  # type: ignore[index]
    assert difference(case.logits(), case.out["logits"]) > CONTROL
    case = Language()
    case.model.stack.final_norm = nn.Identity()
    assert difference(case.logits(), case.out["logits"]) > CONTROL
    case = Language()
    for layer in case.model.stack.layers:
        matrix = layer["mix"].body.out.weight  # type: ignore[index]
        matrix.copy_(matrix.T.clone())  # as if the file were (out, in)
    assert difference(case.logits(), case.out["logits"]) > CONTROL


class Frozen:
    """The golden file of the frozen body with new layers around it."""

    def __init__(self) -> None:
        self.arrays, meta = golden.read("fpt_bit_memory")
        self.options, self.tolerance, self.trainable = meta["options"], meta["tolerance"], meta["trainable"]
        options, weights = self.options, golden.under("w/", self.arrays)
        body = Gpt2(
            options["n_embd"], options["n_layer"], options["n_head"], options["n_positions"], dropout=0.0
        )
        self.net = Classifier(
            partial(VectorEmbedding, size=options["patch"], dropout=0.0),
            body,
            n_classes=2,
            n_read=options["n"] // options["patch"],
            per_token=options["output_dim"] // 2,
            trained=TRAINED,  # type: ignore[arg-type]
        ).double()
        begin_with(body, "gpt2", golden.under("sequence_model.", weights), options["n_head"])
        self.net.input.proj.load_state_dict(golden.under("in_net.0.", weights))  # type: ignore[union-attr, operator]
        self.net.head.proj.load_state_dict(golden.under("out_net.0.", weights))
        self.out = golden.under("out/", self.arrays)

    def logits(self) -> Tensor:
        """``(B, bits, 2)``."""
        patches = self.arrays["in/x"].flatten(1).unflatten(1, (-1, self.options["patch"]))
        return self.net(patches)

    def loss(self) -> Tensor:
        return cross_entropy(self.logits().flatten(0, 1), self.arrays["in/bits"].long().flatten())

    def gradients(self) -> dict[str, Tensor]:
        """The official gradients under our names."""
        official = golden.under("grad/", self.arrays)
        around = {"in_net.0.": "input.proj.", "out_net.0.": "head.proj."}
        result = {ours + k: v for a, ours in around.items() for k, v in golden.under(a, official).items()}
        inside = dict(golden.under("sequence_model.", golden.under("w/", self.arrays)))
        inside = {name: torch.full_like(value, math.nan) for name, value in inside.items()}
        named = translate("gpt2", inside | golden.under("sequence_model.", official))
        return result | {f"body.{k}": v for k, v in named.items() if not v.isnan().any()}


def test_logits_and_loss_of_the_frozen_body() -> None:
    case = Frozen()
    official = case.out["logits"].view(3, case.options["n"], 2)
    assert difference(case.logits(), official) < case.tolerance["out"]
    assert difference(case.loss(), case.out["loss"]) < case.tolerance["out"]


def test_gradients_of_what_is_trained_and_of_nothing_else() -> None:
    case = Frozen()
    case.loss().backward()
    got = {name: p.grad for name, p in case.net.named_parameters() if p.grad is not None}
    expected = case.gradients()
    assert got.keys() == expected.keys()
    assert len(expected) == len(case.trainable) == 15
    for name, grad in got.items():
        assert difference(grad, expected[name]) < case.tolerance["grad"], name
    assert {n for n, p in case.net.named_parameters() if p.requires_grad} == expected.keys()
    assert sum(v.numel() for v in expected.values()) == 1016


@torch.no_grad()
def test_control_positions_patches_and_reading_show() -> None:
    case = Frozen()
    official = case.out["logits"].view(3, case.options["n"], 2)
    case.net.body.positions = NoPositions(case.options["n_embd"])
    assert difference(case.logits(), official) > 0.1
    case = Frozen()
    case.arrays["in/x"] = case.arrays["in/x"].flip(2)
    assert difference(case.logits(), official) > 0.1
    case = Frozen()
    case.net.body.causal = False
    assert difference(case.logits(), official) > 0.01
