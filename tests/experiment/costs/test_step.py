"""What is counted on the meta device is what a real step on a CPU does and holds."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from repro.batches import Batch, StreamBatch
from repro.experiment.build import Parts, build
from repro.experiment.costs import step
from repro.experiment.costs.batches import BatchSize, batches
from repro.experiment.costs.step import META, attach, cost_of, fill_memories, tensors
from repro.nn import AdaptiveVocabulary
from repro.nn.attention.compressed import memory as compressed
from repro.nn.attention.continuous import long_term
from repro.nn.attention.continuous import memory as continuous
from repro.nn.attention.relative import distance
from repro.nn.attention.relative.biased import attend_with_bias
from repro.nn.vocabularies.clusters import typical_ids
from repro.recipe import Recipe
from repro.tasks.costs.peak import peak_bytes
from tests.experiment.meta_recipes import SOURCE, STEPS, small
from tests.experiment.test_meta import CONFIGS, SHAPES

CPU = torch.device("cpu")
ROWS = 64  # beside which the 5 KB of a CPU's random state, kept for each layer that is undone, are little
# One of each kind of task and of each mixer; `pytest -m matrix` takes every shape.
FEW = (
    "attention-is-all-you-need/base", "transformer-xl/wt103-large", "shortformer/shortformer", "reformer/enwik8",
    "reformer/wmt14", "linear-transformer/wsj", "linear-transformer/mnist", "infinity-former/sorting",
    "frozen-pretrained-transformer/bit-memory", "admin/wmt14-en-de",
)  # fmt: skip


# Products that are added in place, for which torch has no formula.
ADDED = {
    torch.ops.aten.baddbmm_: lambda into, left, right, out_shape=None, **_: 2 * math.prod(left) * right[-1]
}


class Kept(TorchDispatchMode):
    """Bytes that fused attention keeps for its backward pass: with so few tokens, more than a table of weights."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._scaled_dot_product_efficient_attention.default:
            mask = args[3]
            self.bytes += sum(one.nbytes for one in out[:2])  # what it gives, and the sums of its weights
            self.bytes += 0 if mask is None else mask.untyped_storage().nbytes()
        return out


def with_bias(*inputs: Any) -> torch.Tensor:
    """Relative attention as on a GPU; a CPU goes over tiles, which need less memory."""
    *vectors, sight, scale, dropout = inputs
    return attend_with_bias(*vectors, sight.attention_mask, sight.window, scale, dropout)


class NoModules:
    """In place of what says in which module an operation is."""

    parents = {"Global"}

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def chosen() -> list[Any]:
    result, left = [], set(FEW)
    for alike in SHAPES:
        names = {experiment.partition("@")[0] for experiment, _ in alike} & left
        left -= names
        marks = [] if names else [pytest.mark.matrix]
        result.append(pytest.param(alike[0], id="-".join(alike[0]), marks=marks))
    return result


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("REPRO_CONFIGS", str(CONFIGS))
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "none"))  # nothing is read
    # As on a GPU, where nobody looks whether there is work, and relative attention has another form.
    for module in (compressed, continuous, long_term):
        monkeypatch.setattr(module, "may_hold", lambda rows: True)
    monkeypatch.setattr(distance, "attend_by_distance", with_bias)
    with sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False):
        yield  # the kernels whose operations torch's own counter knows


def given(recipe: Recipe, device: torch.device, size: BatchSize) -> tuple[Parts, list[Batch]]:
    """A task and its batches; ids as frequent as the meta device takes them to be."""
    parts = build(recipe, meta=device == META)
    attach(parts)
    made = batches(parts.data, recipe.config["data"], size, device)
    for module in parts.task.modules():
        if isinstance(module, AdaptiveVocabulary) and device == CPU:
            for batch in made:
                assert isinstance(batch, StreamBatch)
                count = len(batch.targets.flatten() if batch.scored is None else batch.scored)
                batch.targets.view(-1)[:count] = typical_ids(count, module.edges[-1])
                batch.ids.view(-1).copy_(typical_ids(batch.ids.numel(), module.edges[-1]))
    return parts, made


def size_of(recipe: Recipe) -> BatchSize:
    seq_len = recipe.config["data"]["init_args"].get("seq_len", STEPS)
    return BatchSize(ROWS, min(seq_len, STEPS), SOURCE)


def real(parts: Parts, made: list[Batch]) -> tuple[int, int]:
    """FLOPs by torch's own counter and the peak by torch's profiler, of an update with full memories."""
    task: Any = parts.task.train()
    optimizer = task.optimizer_maker(task.trained_parameters())

    def update(batch: Batch) -> None:
        loss = task.training_step(batch, 0)["loss"]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    update(made[0])
    fill_memories(task, made)
    carried = task.carried
    held = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors(
        (list(task.parameters()), list(task.buffers()), dict(optimizer.state), made[-1], carried)
    )}  # fmt: skip
    peak = sum(held.values()) + peak_bytes(lambda: update(made[-1]))
    task.carried = carried
    counter = FlopCounterMode(display=False, custom_mapping=ADDED)
    counter.mod_tracker = NoModules()  # whose hooks cannot follow a reversible stack
    with counter:
        update(made[-1])
    return counter.get_total_flops(), peak


@pytest.mark.parametrize("run", chosen())
def test_a_step_costs_what_it_is_counted_to_cost(run: tuple[str, str], sizes: Path) -> None:
    recipe = small(*run, sizes)
    size = size_of(recipe)
    flops, peak = real(*given(recipe, CPU, size))
    counted = cost_of(*given(recipe, META, size), fused=False)
    assert flops > 0
    assert counted.flops == pytest.approx(flops, rel=0.01)
    assert counted.peak == pytest.approx(peak, rel=0.15)
    with Kept() as kept:
        fused = cost_of(*given(recipe, META, size))
    assert fused.flops == pytest.approx(flops, rel=0.01), "a fused kernel does the same products"
    assert fused.peak <= counted.peak + kept.bytes, "it makes no table of weights"


RECURRENT = ("frozen-pretrained-transformer/listops@lstm", "linear-transformer/wsj@bi-lstm")


@pytest.mark.parametrize("name", RECURRENT)
def test_what_reads_token_by_token_is_extended_from_short_lengths(
    name: str, sizes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, size = small(name, "paper", sizes), BatchSize(ROWS, STEPS, SOURCE)
    whole = step.step_cost(recipe, size)
    monkeypatch.setattr(step, "SHORT", 2)
    extended = step.step_cost(recipe, size)
    assert extended.flops == whole.flops
    assert extended.peak == pytest.approx(whole.peak, rel=0.01)
