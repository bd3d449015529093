"""Operations and memory of one update of training, counted on the meta device."""

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from repro.batches import Batch
from repro.experiment.build import AnyTask, Parts, build
from repro.experiment.compiling import why_eager
from repro.experiment.costs.batches import BatchSize, batches
from repro.nn import BidirectionalLSTM, CtcHead, NormedLSTM
from repro.nn.mixer import nbytes
from repro.recipe import Recipe
from repro.tasks.costs.live_bytes import LiveBytes, fused_kernels
from repro.tasks.costs.operations import Operation, OperationCounter, flops_in, tensors
from repro.tasks.lightning_private import stand_in_trainer

META = torch.device("meta")
MOST_BATCHES = 32  # until memories are full
SHORT = 16  # tokens
# Settings of a task that change no cost of training; of the optimiser only its class counts.
FREE = (
    "optimizer", "schedule", "protocol", "protocols", "validation", "unit", "beam", "length_penalty", "max_extra",
    "length_form", "min_length", "max_ratio",
)  # fmt: skip


@dataclass(frozen=True)
class StepCost:
    """The cost of one update, with full memories. Bytes are those of float32.

    Attributes:
        flops: of the forward and the backward pass; multiplications and additions count one each.
        parameters: bytes of weights and buffers.
        gradients: bytes.
        optimizer: bytes of its state.
        carried: bytes of memories that one update leaves to the next.
        peak: the most bytes at a time, all of these and the batch included.
        operations: how often each kernel of a GPU runs; fractions where a cost is extended from shorter ones.
        compiled: the kernels of an update whose forward and backward pass are compiled; empty where they cannot be.
    """

    flops: int
    parameters: int
    gradients: int
    optimizer: int
    carried: int
    peak: int
    operations: Mapping[Operation, float] = field(default_factory=dict, repr=False)
    compiled: Mapping[Operation, float] = field(default_factory=dict, repr=False)

    @property
    def activations(self) -> int:
        """Bytes at the peak beside parameters, gradients, optimiser state and memories."""
        return max(0, self.peak - self.parameters - self.gradients - self.optimizer - self.carried)


def step_cost(recipe: Recipe, size: BatchSize) -> StepCost:
    """The cost of an update of a recipe with batches of a size, attention by a GPU's fused kernel.

    Networks that read token by token are counted at two short lengths and extended: all of their cost is a line.
    """
    parts = build(recipe, meta=True)
    recurrent = any(isinstance(module, NormedLSTM | BidirectionalLSTM) for module in parts.task.modules())
    n_targets = getattr(parts.data, "n_targets", 1)  # which must find room
    if not recurrent or size.steps <= 2 * SHORT or n_targets > SHORT:
        attach(parts)
        return cost_of(parts, batches(parts.data, recipe.config["data"], size, META))
    first, second = (step_cost(recipe, replace(size, steps=steps)) for steps in (SHORT, 2 * SHORT))
    return _extended(first, second, (size.steps - SHORT) // SHORT)


def _extended(first: StepCost, second: StepCost, times: int) -> StepCost:
    """The cost at a length that is ``times`` as far beyond the first as the second is."""

    def line(a: Any, b: Any) -> Any:
        if not isinstance(a, Mapping):
            return a + (b - a) * times
        return {one: line(a.get(one, 0), b.get(one, 0)) for one in {**a, **b}}

    names = [one.name for one in fields(StepCost)]
    return StepCost(**{name: line(getattr(first, name), getattr(second, name)) for name in names})


def attach(parts: Parts) -> None:
    """Gives the task the attributes of a trainer and of data that it needs; no data are read."""
    known = {"tokenizer": SimpleNamespace(pad_id=0), "ends": (0, 1, 2), "target_language": "de"}
    known |= {name: getattr(parts.data, name, None) for name in ("seq_len", "doc_id", "n_classes")}
    counts = {"world_size": 1, "accumulate_grad_batches": 1, "global_step": 0}
    stand_in_trainer(parts.task, datamodule=SimpleNamespace(**known), **counts)


def cost_of(parts: Parts, steps: Sequence[Batch], fused: bool = True) -> StepCost:
    """The cost of an update of a task on the meta device, with batches there.

    Args:
        parts: built there.
        steps: batches in turn; the last one is given again until memories no longer grow, and its update is counted.
        fused: attention by a GPU's fused kernel; False spells it out.
    """
    task = parts.task.train()
    optimizer = task.make_optimizer()
    begin(optimizer)
    with contextlib.ExitStack() as stack:
        if any(isinstance(module, CtcHead) for module in task.modules()):
            stack.enter_context(ctc_backward())
        if fused:
            stack.enter_context(fused_kernels())
        fill_memories(task, steps)
        carried = nbytes(task.carried)
        clip = parts.trainer.get("gradient_clip_val")
        operations, compiled, peak = _update(task, steps[-1], optimizer, clip)
    return StepCost(
        flops=flops_in(operations),
        parameters=_bytes([*task.parameters(), *task.buffers()]),
        gradients=sum(p.grad.nbytes for p in task.parameters() if p.grad is not None),
        optimizer=_bytes(tensors(dict(optimizer.state))),
        carried=carried,
        peak=peak,
        operations=operations,
        compiled={} if why_eager(task) else compiled,
    )


def begin(optimizer: torch.optim.Optimizer) -> None:
    """Makes an optimiser create its state by an update with gradients on the meta device."""
    for parameter in (p for group in optimizer.param_groups for p in group["params"]):
        parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    optimizer.zero_grad()


@torch.no_grad()
def fill_memories(task: AnyTask, steps: Sequence[Batch]) -> None:
    """Reads batches until what the task carries no longer grows."""
    before = -1
    for number in range(MOST_BATCHES if len(steps) > 1 else 0):
        if number > 1 and nbytes(task.carried) == before:
            return
        before = nbytes(task.carried)
        task.training_step(steps[min(number, 1)], 0)


def _update(
    task: AnyTask, batch: Batch, optimizer: torch.optim.Optimizer, clip: float | None
) -> tuple[Mapping[Operation, int], Mapping[Operation, int], int]:
    """Operations, those with compiled passes, and the peak; as with Lightning, the graph is there until the end."""
    with LiveBytes(META) as live:
        live.hold(*task.parameters(), *task.buffers(), *tensors((dict(optimizer.state), batch, task.carried)))
        with OperationCounter() as passes:
            outputs = task.training_step(batch, 0)
            assert isinstance(outputs, dict)
            outputs["loss"].backward()
        with OperationCounter() as clipping:
            if clip:
                nn.utils.clip_grad_norm_(task.parameters(), clip)
        for group in (group for group in optimizer.param_groups if "foreach" in group):
            group["foreach"] = True  # as on a GPU: an operation takes all parameters at once
        with OperationCounter() as update:
            optimizer.step()
    parameters = sum(len(group["params"]) for group in optimizer.param_groups)
    rest = _joined(clipping.operations, parameters) + update.operations
    return passes.operations + rest, passes.fused + rest, live.peak


def _joined(operations: Counter[Operation], parameters: int) -> Counter[Operation]:
    """Joins operations on each parameter: torch's clipping on a GPU takes all at once, and none on ``meta``."""
    moved = sum(n * operation.bytes for operation, n in operations.items())
    launches = round(operations.total() / parameters)
    return Counter({Operation("memory", 0, moved // launches): launches} if launches else {})


def _bytes(some: Iterable[Tensor]) -> int:
    """Bytes of distinct storages."""
    storages = {one.untyped_storage()._cdata: one.untyped_storage().nbytes() for one in some}
    return sum(storages.values())


@contextlib.contextmanager
def ctc_backward() -> Iterator[None]:
    """The backward pass of CTC on ``meta``, which torch lacks: its shape is that of the input."""
    library = torch.library.Library("aten", "IMPL")
    library.impl("_ctc_loss_backward", lambda grad, log_probs, *_: torch.empty_like(log_probs), "Meta")
    try:
        yield
    finally:
        library._destroy()


def cache_key(recipe: Recipe, size: BatchSize | None = None) -> str:
    """Returns a key that is equal for recipes that differ only in numbers without cost, such as learning rates."""
    model = recipe.config["model"]
    args = {key: value for key, value in model["init_args"].items() if key not in FREE}
    optimizer = model["init_args"].get("optimizer") or {}
    clips = bool((recipe.config.get("trainer") or {}).get("gradient_clip_val"))
    facts = [model["class_path"], args, optimizer.get("class_path"), clips, recipe.config["data"], str(size)]
    return json.dumps(facts, sort_keys=True, default=str)
