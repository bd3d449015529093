"""With the same weights, infused attention and its memory equal the official code; see tests/golden."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.models.decoder_lm import DecoderLM
from repro.nn import InfusedAttention, SplitSinusoids
from repro.nn.mixer import detach, leaves
from repro.nn.settings import AS_BUILT, CallSettings, MemorySettings
from tests.models import golden, golden_infused
from tests.nn.mixers import difference, gradients

CASES = ["short_pia_cache", "short_plain_fairseq"]
ADAPTIVE = ["short_wiki103_pia", "short_wiki103_plain"]
CONTROL = 1e-2


class Run:
    """A golden file of blocks, run through our model, with the memory carried where there is one."""

    def __init__(self, name: str, settings: CallSettings = AS_BUILT) -> None:
        self.settings = settings
        self.arrays, meta = golden.read(name)
        self.tolerance, self.options = meta["tolerance"], meta["options"]
        ids, self.steps = self.arrays["in/ids"].long(), self.options["T"]
        self.inputs, self.targets = ids[:, :-1].split(self.steps, 1), ids[:, 1:].split(self.steps, 1)
        self.out = golden.under("out/", self.arrays)
        self.names = golden_infused.names(self.options)
        self.memory = self.options["cache_len"] or None
        self.model = golden_infused.load(self.arrays, self.options, self.memory)

    def blocks(self) -> list[tuple[Tensor, Any]]:
        """Each block's hidden states, and the state after it."""
        result, state = [], None
        if self.memory:
            state = self.model.init_state(len(self.inputs[0]), None, self.settings)
        for ids in self.inputs:
            mixed = self.model(ids, state, None, self.settings)
            state = None if state is None else detach(mixed.state)
            result.append((mixed.y, mixed.state))
        return result

    def nll(self) -> list[Tensor]:
        """Negative log-likelihood of every target, block by block."""
        nll = self.model.vocabulary.nll
        return [nll(y, t) for (y, _), t in zip(self.blocks(), self.targets, strict=True)]

    def loss(self) -> Tensor:
        """Sum over blocks of their mean nll."""
        return torch.stack([nll.mean() for nll in self.nll()]).sum()

    def gradients(self) -> dict[str, Tensor]:
        """The official gradients under our names."""
        return golden_infused.ours(golden.under("grad/", self.arrays), self.names)

    def worst(self) -> float:
        """Largest difference of any block's nll."""
        return max(difference(nll, self.out[f"block{i}/nll"]) for i, nll in enumerate(self.nll()))


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_states_and_logits_of_every_block(name: str) -> None:
    run = Run(name)
    seen = golden_infused.watch(run.model)
    blocks, each = run.blocks(), run.options["layers"] + 1
    assert len(blocks) == 3
    for i, (hidden, _) in enumerate(blocks):
        assert difference(run.model.vocabulary.logits(hidden), run.out[f"block{i}/logits"]) < 1e-10
        assert difference(seen[i * each + 2], run.out[f"block{i}/inner_state2"]) < 1e-10
    for j in range(each):
        assert difference(seen[2 * each + j], run.out[f"block2/inner_state{j}"]) < 1e-10
    assert run.worst() < run.tolerance["out"]


@torch.no_grad()
def test_what_is_remembered() -> None:
    run = Run("short_pia_cache")
    memories = run.blocks()[-1][1]["stream"]["mix"]
    for layer in (0, 1):
        assert memories[layer]["length"].tolist() == [7, 7]
        official = run.out[f"block2/cache_layer{layer}"].transpose(0, 1)
        assert difference(memories[layer]["past"]["x"], official) < run.tolerance["out"]


@pytest.mark.parametrize("name", CASES)
def test_loss_and_every_gradient(name: str) -> None:
    run = Run(name)
    same_loss_and_gradients(run, run.loss())


def test_control_a_gradient_into_the_memory_shows() -> None:
    run = Run("short_pia_cache")
    state, losses = run.model.init_state(2), []
    for ids, targets in zip(run.inputs, run.targets, strict=True):
        hidden, state, *_ = run.model(ids, state)  # not detached
        losses.append(run.model.vocabulary.nll(hidden, targets).mean())
    got = gradients(torch.stack(losses).sum(), [], run.model)
    expected = run.gradients()
    assert difference(torch.stack(losses).sum(), run.out["loss"]) < run.tolerance["out"]
    assert max(difference(got[key], expected[key]) for key in expected) > CONTROL


@torch.no_grad()
def test_control_no_memory_shows() -> None:
    assert Run("short_pia_cache", CallSettings(MemorySettings(0))).worst() > CONTROL


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_control_positions_from_three_show(name: str) -> None:
    run = Run(name)
    tables = [module for module in run.model.modules() if isinstance(module, SplitSinusoids)]
    assert len(tables) == (2 if run.memory else 1)
    for table in tables:
        table.first = 3
    assert run.worst() > CONTROL


@torch.no_grad()
def test_control_positions_in_the_values_show() -> None:
    run = Run("short_pia_cache")
    for layer in run.model.stack.layers:
        body = layer["mix"].body  # type: ignore[index]
        body._project_memory = _with_positions_in_values(body)
    assert run.worst() > CONTROL


def _with_positions_in_values(body: InfusedAttention) -> Any:
    def project(past: Tensor, parts: Any) -> tuple[Tensor, Tensor]:
        table: nn.Module = body.table  # type: ignore[assignment]
        infused = past + table(torch.arange(past.shape[1]), past.dtype)
        k, v = body.qkv(infused).split(infused.shape[-1], dim=-1)[1:]
        return k.unflatten(-1, (body.n_heads, -1)), v.unflatten(-1, (body.n_heads, -1))

    return project


class Stream:
    """The golden file of single tokens: a first window at once, then token by token."""

    def __init__(self, settings: CallSettings = AS_BUILT) -> None:
        self.settings = settings
        self.arrays, meta = golden.read("short_token_by_token")
        self.options, self.tolerance = meta["options"], meta["tolerance"]["out"]
        self.ids = self.arrays["in/ids"].long()
        self.model = golden_infused.load(self.arrays, self.options, self.options["max_tokens"])

    def run(self, state: Any) -> tuple[Tensor, Tensor, list[int], Any]:
        """Logits of the window and of every step, how many inputs each step saw, and the last state."""
        window, logits = self.options["T"], self.model.vocabulary.logits
        first = self.model(self.ids[:, :window], state, None, self.settings)
        state, steps, seen = first.state, [], []
        for token in self.ids[:, window:].split(1, dim=1):
            mixed = self.model(token, state, None, self.settings)
            state = mixed.state
            steps.append(logits(mixed.y))
            seen.append(int(state["stream"]["mix"][0]["length"][0]))
        return logits(first.y), torch.cat(steps, dim=1), seen, state


@pytest.mark.parametrize("capacity", [None, 14, 23, 100])
@torch.no_grad()
def test_token_by_token(capacity: int | None) -> None:
    stream = Stream()
    first, steps, seen, state = stream.run(stream.model.init_state(2, capacity))
    assert difference(first, stream.arrays["out/first_window_logits"]) < stream.tolerance
    assert difference(steps, stream.arrays["out/step_logits"]) < stream.tolerance
    assert seen == stream.arrays["out/to_see"].tolist()
    columns = max(t.shape[1] for t in leaves(state["stream"]["mix"]) if t.dim() > 1)
    assert columns <= 14


@pytest.mark.parametrize("capacity", [None, 23])
@torch.no_grad()
def test_control_another_memory_shows(capacity: int | None) -> None:
    for mem_len in (6, 8, 30):
        stream = Stream(CallSettings(MemorySettings(mem_len)))
        _, steps, seen, _ = stream.run(stream.model.init_state(2, capacity, stream.settings))
        assert difference(steps, stream.arrays["out/step_logits"]) > CONTROL
        assert seen != stream.arrays["out/to_see"].tolist()


@torch.no_grad()
def test_control_keys_that_keep_their_old_positions_show() -> None:
    stream = Stream()
    for layer in stream.model.stack.layers:
        layer["mix"].body._moved = lambda first, count, like: 0.0  # type: ignore[index]
    _, steps, _, _ = stream.run(stream.model.init_state(2, 23))
    # The steps before the first cut are right, those behind it are not.
    assert difference(steps[:, :7], stream.arrays["out/step_logits"][:, :7]) < stream.tolerance
    assert difference(steps[:, 7:], stream.arrays["out/step_logits"][:, 7:]) > CONTROL


def test_the_table_is_the_one_of_fairseq() -> None:
    arrays, meta = golden.read("positions")
    official, width = arrays["out/fairseq_table"], meta["options"]["d"]
    where = torch.arange(meta["options"]["n"] - 2)
    table = SplitSinusoids(width, first=2)
    assert difference(table(where, torch.float64), official[2:]) < meta["tolerance"]["out"]
    assert difference(table.leading(12, torch.float64, where.device), official[2:]) < meta["tolerance"]["out"]
    single = arrays["out/fairseq_table_float32"]
    assert difference(table(where, torch.float32), single[2:]) < 2e-6
    # Row 1, which is zero there, belongs to the padding.
    assert difference(SplitSinusoids(width)(torch.arange(14), torch.float64), official) > CONTROL
    assert difference(SplitSinusoids(width)(where, torch.float64), official[2:]) > CONTROL
    assert difference(table(where, torch.float64), arrays["out/vaswani_interleaved"][2:]) > CONTROL


@torch.no_grad()
def test_the_two_files_share_weights_and_differ_in_what_is_done_with_them() -> None:
    plain, infused = Run("short_plain_fairseq"), Run("short_pia_cache")
    assert isinstance(plain.model, DecoderLM)
    assert all(
        torch.equal(a, b) for a, b in zip(plain.model.parameters(), infused.model.parameters(), strict=True)
    )
    assert difference(plain.nll()[0], infused.nll()[0]) > CONTROL


def test_the_model_of_the_paper_with_its_adaptive_vocabulary() -> None:
    run = Run("short_wiki103_pia")
    seen = golden_infused.watch(run.model)
    blocks = run.blocks()
    for i, (hidden, _) in enumerate(blocks):
        assert difference(hidden, run.out[f"block{i}/features"]) < run.tolerance["out"]
        assert difference(seen[3 * i + 2], run.out[f"block{i}/inner_state2"]) < run.tolerance["out"]
    for layer, memory in enumerate(blocks[-1][1]["stream"]["mix"]):
        official = run.out[f"block2/cache_layer{layer}"].transpose(0, 1)
        assert difference(memory["past"]["x"], official) < run.tolerance["out"]
    log_probs = run.model.vocabulary.log_probs(blocks[-1][0])
    assert difference(log_probs, run.out["block2/log_probs"]) < run.tolerance["out"]
    assert run.worst() < run.tolerance["out"]
    same_loss_and_gradients(run, run.loss())


def test_the_baseline_of_the_paper_with_its_adaptive_vocabulary() -> None:
    run = Run("short_wiki103_plain")
    for i, (hidden, _) in enumerate(run.blocks()):
        assert difference(hidden, run.out[f"block{i}/features"]) < run.tolerance["out"]
    assert run.worst() < run.tolerance["out"]
    # Here the official training loss has its accident: see AdaptiveVocabulary's deviations.
    assert difference(run.loss(), run.out["loss"]) > CONTROL
    same_loss_and_gradients(run, with_the_accident(run))


def with_the_accident(run: Run) -> Tensor:
    """The official training loss, which takes each tail's second token for padding and leaves out its tail's part."""
    losses = []
    tails = {21: slice(20, 40), 41: slice(40, 60)}
    for (hidden, _), targets in zip(run.blocks(), run.targets, strict=True):
        log_probs, nll = run.model.vocabulary.log_probs(hidden), run.model.vocabulary.nll(hidden, targets)
        for token, tail in tails.items():
            nll = torch.where(targets == token, -log_probs[..., tail].logsumexp(-1), nll)
        losses.append(nll.mean())
    return torch.stack(losses).sum()


def same_loss_and_gradients(run: Run, loss: Tensor) -> None:
    assert difference(loss, run.out["loss"]) < run.tolerance["out"]
    expected, got = run.gradients(), gradients(loss, [], run.model)
    assert got.keys() == expected.keys()
    for key, grad in got.items():
        assert difference(grad, expected[key]) < run.tolerance["grad"], key
    assert max(float(grad.abs().max()) for grad in expected.values()) > 0.1


@pytest.mark.parametrize("name", ADAPTIVE)
@torch.no_grad()
def test_control_another_head_or_position_shows(name: str) -> None:
    run = Run(name)
    run.model.vocabulary.gate.weight.copy_(run.model.vocabulary.gate.weight.flip(0))
    assert run.worst() > CONTROL
    run = Run(name)
    for module in run.model.modules():
        if isinstance(module, SplitSinusoids):
            module.first = 1
    assert run.worst() > CONTROL
