"""With the same weights, ours equals the official code: relative positions with a memory, segment by segment."""

from typing import Any

import pytest
import torch
from torch import Tensor

from repro.nn.mixer import State, detach
from repro.nn.settings import CallSettings, MemorySettings
from tests.models import golden, golden_relative
from tests.nn.mixers import difference

SCORED = [
    "txl_plain_mem_longer",
    "txl_plain_mem_shorter",
    "txl_eval_clamp_same_length",
    "txl_attn1_shaw",
    "txl_adaptive_div1",
    "txl_adaptive_div4",
    "txl_prenorm",
    "txl_attn1_prenorm_clamp",
    "txl_embed_div1",
    "txl_embed_div2",
]
UNTIED = "txl_hf_untied_r"
CASES = [*SCORED, UNTIED]
CONTROL = 1e-2


class Run:
    """One golden file, run through our model; the memory is detached between segments.

    Args:
        name: of the file.
        capacity: of the state; None for a state as in training.
        reach: None for the file's own.
        forget: drop the memory after every segment.
        change: done to the model before it runs.
    """

    def __init__(
        self,
        name: str,
        capacity: int | None = None,
        memory: MemorySettings | None = None,
        forget: bool = False,
        change: Any = None,
    ) -> None:
        self.arrays, meta = golden.read(name)
        self.options, self.tolerance = meta["options"], meta["tolerance"]
        self.net = golden_relative.model(golden.under("w/", self.arrays), self.options)
        self.layers = golden.layer_outputs(self.net.stack)
        if change is not None:
            change(self.net)
        self.ids = self.arrays["in/ids"].long().T
        self.hidden: list[list[Tensor]] = []
        self.nll: list[Tensor] = []
        clamp = self.options["clamp_len"]
        own = MemorySettings(
            self.options["mem_len"], clamp if clamp > 0 else None, self.options["same_length"]
        )
        self.settings = CallSettings(memory or own)
        state = self.start(capacity)
        for at in range(0, self.segments * self.steps, self.steps):
            state = self.segment(at, self.start(capacity) if forget else state)
        self.state = state

    @property
    def untied(self) -> bool:
        return bool(self.options.get("untie_r", False))

    @property
    def segments(self) -> int:
        return int(self.options["segments"]) if self.untied else len(self.options["segment_lengths"])

    @property
    def steps(self) -> int:
        return int(self.options["segment" if self.untied else "tgt_len"])

    def start(self, capacity: int | None) -> State:
        """An empty state; the library that cannot start empty starts with zeros that are seen."""
        state = self.net.init_state(self.ids.shape[0], capacity, self.settings)
        for layer in state["stream"]["mix"] if self.untied and capacity is None else ():
            size = (self.ids.shape[0], self.options["mem_len"], self.options["d_model"])
            layer["memory"] = layer["memory"].new_zeros(size)
            layer["length"] = torch.full_like(layer["length"], self.options["mem_len"])
        return state

    def segment(self, at: int, state: State) -> State:
        inputs = self.ids[:, at : at + self.steps]
        del self.layers[:]
        mixed = self.net(inputs, state, None, self.settings)
        self.hidden.append([self.net.vocabulary.embed(inputs), *self.layers])
        if not self.untied:
            self.nll.append(self.net.vocabulary.nll(mixed.y, self.ids[:, at + 1 : at + 1 + self.steps]))
        return detach(mixed.state)

    def wanted(self, segment: int, what: str) -> Tensor:
        return self.arrays[f"out/seg{segment}/{what}"].transpose(0, 1)

    def loss(self) -> Tensor:
        if not self.untied:
            return torch.stack([nll.mean() for nll in self.nll]).sum()
        weights = self.arrays["in/loss_weight"]
        parts = [(h[-1] * weights[i].transpose(0, 1)).sum() for i, h in enumerate(self.hidden)]
        return torch.stack(parts).sum()

    def worst(self) -> float:
        """Largest difference of any hidden state, and of any loss, of any segment."""
        result = []
        for i, hidden in enumerate(self.hidden):
            kept = [n for n in range(len(hidden)) if f"out/seg{i}/hidden{n}" in self.arrays]
            result += [difference(hidden[n], self.wanted(i, f"hidden{n}")) for n in kept]
        result += [difference(nll, self.wanted(i, "nll")) for i, nll in enumerate(self.nll)]
        return max(result)


@pytest.mark.parametrize("name", CASES)
def test_hidden_states_losses_and_memory(name: str) -> None:
    run = Run(name)
    assert run.worst() < run.tolerance["out"]
    assert difference(run.loss(), run.arrays["out/loss"]) < run.tolerance["out"]
    last = run.segments - 1
    for n, layer in enumerate(run.state["stream"]["mix"]):
        if f"out/seg{last}/mem{n}" in run.arrays:
            assert difference(layer["memory"], run.wanted(last, f"mem{n}")) < run.tolerance["out"]
            assert layer["length"].tolist() == [run.arrays[f"out/seg{last}/mem_len"]] * 2


@pytest.mark.parametrize("name", CASES)
def test_every_gradient(name: str) -> None:
    run = Run(name)
    names, parameters = zip(*run.net.named_parameters(), strict=True)
    got = dict(zip(names, torch.autograd.grad(run.loss(), parameters), strict=True))
    expected = golden_relative.ours(golden.under("grad/", run.arrays), run.options)
    assert got.keys() == expected.keys()
    for key, grad in got.items():
        assert difference(grad, expected[key]) < run.tolerance["grad"], key
    assert max(float(grad.abs().max()) for grad in expected.values()) > 0.05


@pytest.mark.parametrize("name", SCORED)
@torch.no_grad()
def test_segments_whose_keys_and_values_are_kept(name: str) -> None:
    run = Run(name, capacity=1000)
    assert run.worst() < run.tolerance["out"]
    size = run.options["mem_len"] + 1
    assert run.state["stream"]["mix"][0]["slots"]["k"].shape[1] == size


@pytest.mark.parametrize(
    "name", ["txl_plain_mem_longer", "txl_attn1_shaw", "txl_adaptive_div4", "txl_prenorm"]
)
@torch.no_grad()
def test_token_by_token_equals_one_long_forward(name: str) -> None:
    run = Run(name)
    ids, tokens = run.ids[:, :-1], run.ids.shape[1] - 1
    settings = CallSettings(MemorySettings(tokens))
    whole = run.net(ids, settings=settings).y
    for capacity in (None, tokens, 10 * tokens):
        state, outputs = run.net.init_state(2, capacity, settings), []
        for t in range(tokens):
            y, state, *_ = run.net(ids[:, t : t + 1], state, None, settings)
            outputs.append(y)
        assert difference(torch.cat(outputs, dim=1), whole) < run.tolerance["out"]


@torch.no_grad()
def test_token_by_token_equals_segments_where_every_token_sees_as_much() -> None:
    # With same_length a token sees the same number of keys wherever segments begin, in the first layer; those keys
    # saw others themselves in a deeper one, and they do so alike only where memories are as long as all that was.
    run = Run("txl_eval_clamp_same_length", memory=MemorySettings(30, clamp_len=4, same_length=True))
    state, outputs = run.net.init_state(2, 30, run.settings), []
    for t in range(run.ids.shape[1] - 1):
        y, state, *_ = run.net(run.ids[:, t : t + 1], state, None, run.settings)
        outputs.append(y)
    got, expected = torch.cat(outputs, dim=1), torch.cat([hidden[-1] for hidden in run.hidden], dim=1)
    assert difference(got, expected) < 1e-12


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_control_a_memory_that_is_dropped_shows(name: str) -> None:
    assert Run(name, forget=True).worst() > CONTROL


@pytest.mark.parametrize("memory", [(9,), (9, 4), (9, None, True), (9, 5, True), (8, 4, True)])
@torch.no_grad()
def test_control_other_memory_settings_show(memory: tuple[Any, ...]) -> None:
    assert Run("txl_eval_clamp_same_length", memory=MemorySettings(*memory)).worst() > CONTROL


@pytest.mark.parametrize("name", ["txl_plain_mem_longer", "txl_plain_mem_shorter", "txl_adaptive_div1"])
@torch.no_grad()
def test_control_biases_that_are_swapped_show(name: str) -> None:
    def swap(net: Any) -> None:
        body = net.stack.layers[0]["mix"].body
        kept = body.content_bias.clone()
        body.content_bias.copy_(body.position_bias)
        body.position_bias.copy_(kept)

    assert Run(name, change=swap).worst() > CONTROL


@torch.no_grad()
def test_control_biases_of_another_layer_show() -> None:
    def share(net: Any) -> None:
        first, second = (layer["mix"].body for layer in net.stack.layers)
        second.content_bias.copy_(first.content_bias)

    assert Run(UNTIED, change=share).worst() > CONTROL


@torch.no_grad()
def test_control_distances_off_by_one_show() -> None:
    def roll(net: Any) -> None:
        for layer in net.stack.layers:
            layer["mix"].body.place.copy_(layer["mix"].body.place.roll(1, 0))

    assert Run("txl_attn1_shaw", change=roll).worst() > CONTROL
