"""Times of real updates of a recipe with drawn batches, in each arithmetic, eager and compiled. No data are read."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from torch.utils.benchmark import Timer

from repro.batches import Batch, ExampleBatch, PairBatch
from repro.data.core.examples import ExampleData
from repro.experiment import facts
from repro.experiment.build import Parts, build
from repro.experiment.compiling import compile_training, require_compilable
from repro.experiment.costs.batches import BatchSize, batches
from repro.experiment.costs.estimate import Cost
from repro.experiment.costs.measured import FILE, Row, read_rows, shape_of
from repro.experiment.costs.roofline import CARDS, GIB, Arithmetic, Gpu, gpu_of, peak
from repro.experiment.costs.step import attach, fill_memories
from repro.files import write_atomic
from repro.nn.vocabularies.clusters import typical_ids
from repro.paths import results_dir
from repro.recipe import Recipe

COMPARED = 3  # updates without dropout, whose losses are compared
TIMED, LONGEST_S = 20, 15.0  # updates; seconds of the timed ones, of which there are 3 at least


class Variant(NamedTuple):
    """How an update is computed.

    Attributes:
        arithmetic: of products.
        rounded: whether products that stay in float32 may be rounded to TF32.
        compiled: see :mod:`repro.experiment.compiling`.
    """

    arithmetic: Arithmetic
    rounded: bool
    compiled: bool

    @property
    def name(self) -> str:
        rest = " and TF32" if self.rounded and self.arithmetic is Arithmetic.HALF else ""
        return f"{self.arithmetic}{rest}{', compiled' if self.compiled else ''}"


def variants(device: torch.device) -> list[Variant]:
    """All variants, eager ones first; a CPU does not round to TF32."""
    arithmetics = [(Arithmetic.FLOAT32, False), (Arithmetic.HALF, False)]
    if device.type == "cuda":
        arithmetics += [(Arithmetic.TF32, True), (Arithmetic.HALF, True)]
    return [Variant(*one, compiled) for compiled in (False, True) for one in arithmetics]


def device_name(device: torch.device) -> str:
    """The device as rows name it."""
    return str(facts.hardware(1, 1, device)["device"])


def measure_all(
    recipes: Sequence[Recipe], device: torch.device, count: Callable[[Recipe], Cost], ends: float
) -> Iterator[Row | None]:
    """Measures what has no row yet, and writes the file after each one.

    A row without ``seconds`` and ``error`` was begun and never ended: it is measured again, behind all others.

    Args:
        recipes: at one scale; of those with equal updates the first is measured.
        device: to measure on.
        count: counts the cost of a recipe.
        ends: time by :func:`time.monotonic` from which no further one begins.

    Yields:
        Each new row, or None for one that is left.
    """
    rows, name = read_rows(results_dir()), device_name(device)
    own = {(row["shape"], row["variant"]): row for row in rows if row["device"] == name}
    shapes: dict[str, Recipe] = {}
    for recipe in recipes:
        shapes.setdefault(shape_of(recipe), recipe)
    pending = [(shape, variant) for variant in variants(device) for shape in shapes]
    pending = [one for one in pending if not {"seconds", "error"} & own.get((one[0], one[1].name), {}).keys()]
    for shape, variant in sorted(pending, key=lambda one: (one[0], one[1].name) in own):
        recipe, key = shapes[shape], (shape, variant.name)
        if time.monotonic() > ends:
            yield None
            continue
        if key not in own:
            place = {"device": name, "shape": shape, "variant": variant.name}
            origin = {"experiment": recipe.experiment, "scale": recipe.scale, "torch": torch.__version__}
            own[key] = place | origin
            rows.append(own[key])
        _write(rows)
        own[key] |= measured(count(recipe), variant, device)
        exact = own.get((shape, Arithmetic.FLOAT32.value), {}).get("losses")
        if exact and "losses" in own[key]:
            pairs = zip(own[key]["losses"], exact, strict=True)
            own[key]["loss_difference"] = max(abs(a - b) / max(abs(b), 1e-9) for a, b in pairs)
        _write(rows)
        yield own[key]


def _write(rows: Sequence[Row]) -> None:
    write_atomic(results_dir() / FILE, ("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n").encode())


def measured(cost: Cost, variant: Variant, device: torch.device) -> Row:
    """Measures the updates of each phase of a recipe.

    Returns:
        ``micro_batches`` of an update; ``seconds`` of an update of each phase; of the last phase ``mfu``, ``launches``
        and ``peak_bytes``, None where the device has none; ``losses`` of the first updates without dropout, relative
        to which ``loss_difference`` is the largest one from float32. Or ``error``: why there are none.
    """
    parts = micro_batches(cost, device)
    if parts is None:
        return {"error": "a single row does not fit"}
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if variant.rounded else "highest")
    try:
        update = updates(cost.recipe, cost.phases[-1].size, parts, variant, device, drop=False)
        row: Row = {"micro_batches": parts, "losses": [float(update()) for _ in range(COMPARED)]}
        row["seconds"] = []
        for phase in cost.phases:
            del update
            update = updates(cost.recipe, phase.size, parts, variant, device)
            row["seconds"].append(seconds_of(update))
        flops = cost.step.flops / row["seconds"][-1]
        card = gpu_of(device_name(device), CARDS)
        most = peak(card, variant.arithmetic) if card else None
        return row | {"mfu": flops / most if most else None, **gpu_facts(update, device)}
    except torch.OutOfMemoryError:
        return {"error": "out of memory"}
    except Exception as error:  # of a compiler, for instance: a result, unless the GPU is lost
        if "CUDA error" in str(error):
            raise
        return {"error": (str(error).strip() or type(error).__name__).splitlines()[0]}
    finally:
        torch.set_float32_matmul_precision(before)
        torch._dynamo.reset()
        if device.type == "cuda":
            torch.cuda.empty_cache()


def micro_batches(cost: Cost, device: torch.device) -> int | None:
    """The fewest parts of a batch of which each fits the device; None where a single row does not."""
    if device.type != "cuda":
        return 1
    facts_of_gpu = torch.cuda.get_device_properties(device)
    return cost.parts(Gpu(facts_of_gpu.name, (0.0, None, None), facts_of_gpu.total_memory / GIB))


def updates(
    recipe: Recipe, size: BatchSize, parts: int, variant: Variant, device: torch.device, drop: bool = True
) -> Callable[[], Tensor]:
    """Returns a function that makes an update and returns its loss; memories are full.

    Args:
        recipe: resolved.
        size: of the whole batch.
        parts: micro-batches of an update.
        variant: how it is computed.
        device: to compute on.
        drop: whether with dropout.

    Raises:
        ValueError: the recipe cannot be compiled.
    """
    torch.manual_seed(0)
    built = build(recipe)
    attach(built)
    task = built.task.to(device).train()
    if not drop:
        without_dropout(task)
    if variant.compiled:
        require_compilable(task)
        compile_training(task)
    part = replace(size, rows=-(-size.rows // parts))
    given = [drawn(one, built) for one in batches(built.data, recipe.config["data"], part, device)]
    optimizer, clip = task.make_optimizer(), built.trainer.get("gradient_clip_val")
    task.schedule_maker(optimizer)  # which sets the rate of the first update
    half = torch.autocast(device.type, torch.bfloat16, enabled=variant.arithmetic is Arithmetic.HALF)
    with half:
        fill_memories(task, given)

    def update() -> Tensor:
        optimizer.zero_grad()
        loss = torch.empty(0)
        for _ in range(parts):
            with half:
                outputs = task.training_step(given[-1], 0)
            assert isinstance(outputs, dict)
            loss = outputs["loss"]
            loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(task.parameters(), clip)
        optimizer.step()
        return loss.detach()

    return update


def seconds_of(update: Callable[[], Tensor]) -> float:
    """Mean seconds of an update after five that do not count; torch's timer waits for the GPU."""
    timer = Timer("update()", globals={"update": update}, num_threads=torch.get_num_threads())
    one = timer.timeit(1).mean  # the third update; two precede each measurement
    return timer.timeit(min(max(round(LONGEST_S / one), 3), TIMED)).mean


def gpu_facts(update: Callable[[], Tensor], device: torch.device) -> Row:
    """Kernels and copies of an update, and the most bytes that are allocated during it; None on a CPU."""
    if device.type != "cuda":
        return {"launches": None, "peak_bytes": None}
    torch.cuda.reset_peak_memory_stats(device)
    with profile(activities=[ProfilerActivity.CUDA]) as watched:
        update()
        torch.cuda.synchronize(device)
    launches = sum(event.device_type == DeviceType.CUDA for event in watched.events() or [])
    return {"launches": launches, "peak_bytes": torch.cuda.max_memory_allocated(device)}


def without_dropout(task: nn.Module) -> None:
    """Sets every probability of dropout to 0, those that a recipe leaves to constructors included."""
    for module in task.modules():
        for name, value in vars(module).copy().items():
            if isinstance(value, float) and (name.endswith("dropout") or isinstance(module, nn.Dropout)):
                setattr(module, name, 0.0)


def drawn(batch: Batch, built: Parts) -> Batch:
    """A batch with ids as frequent as Zipf's law has them, normal vectors, and rows that are full."""
    data, vocabulary = built.data, built.task.vocabulary_size or built.data.vocab_size

    def ids(like: Tensor, n: int) -> Tensor:
        values = typical_ids(like.numel(), n)[torch.randperm(like.numel())].clamp(min=min(1, n - 1))
        return values.view(like.shape).to(like.device)  # 0 is padding, or the blank of CTC

    if isinstance(batch, ExampleBatch):
        assert isinstance(data, ExampleData)
        read, targets = batch.examples.inputs, batch.examples.targets
        vectors = read.is_floating_point()
        read = torch.randn_like(read) if vectors else ids(read, vocabulary or data.input_size)
        examples = batch.examples._replace(inputs=read, targets=ids(targets, vocabulary or data.n_classes))
        return batch._replace(examples=examples)
    assert vocabulary is not None
    if isinstance(batch, PairBatch):
        return batch._replace(
            source=ids(batch.source, vocabulary),
            target_in=ids(batch.target_in, vocabulary),
            target_out=ids(batch.target_out, vocabulary),
            source_lengths=batch.source_lengths * batch.source.shape[1],
            target_lengths=batch.target_lengths * batch.target_in.shape[1],
        )
    return batch._replace(ids=ids(batch.ids, vocabulary), targets=ids(batch.targets, vocabulary))
