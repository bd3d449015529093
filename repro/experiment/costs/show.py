"""Costs for the terminal and for programs."""

from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from repro.experiment.costs.estimate import Cost
from repro.experiment.costs.measured import Row
from repro.experiment.costs.roofline import GIB, MODERN, VARIANTS, Gpu
from repro.experiment.costs.step import StepCost


def chosen(named: Sequence[Gpu], cost: Cost) -> list[Gpu]:
    """Returns the named GPUs; without any, current ones and the recipe's own."""
    own = [] if cost.own_gpu is None else [cost.own_gpu]
    return list(named) or list(dict.fromkeys([*MODERN, *own]))


def as_json(cost: Cost, gpus: Sequence[Gpu]) -> dict[str, Any]:
    """One object with plain numbers: FLOPs, bytes, hours."""
    step = cost.step
    return {
        "experiment": cost.recipe.experiment,
        "scale": cost.recipe.scale,
        "arithmetic": cost.arithmetic.value,
        "updates": cost.updates,
        "flops_per_update": step.flops,
        "flops": cost.flops,
        "rows": cost.rows,
        "bytes": {**_parts(step), "peak": step.peak, "peak_of_one_row": cost.row.peak},
        "kernels_per_update": round(sum(step.operations.values())),
        "notes": list(cost.notes),
        "gpus": [
            {
                "name": gpu.name,
                "gpu_hours": {name: cost.gpu_hours(gpu, *one) for name, one in VARIANTS.items()},
                "measured": list(cost.measured(gpu).values()),
                "micro_batches_on_one": cost.parts(gpu),
            }
            for gpu in gpus
        ],
    }


def _parts(step: StepCost) -> dict[str, int]:
    return {
        "parameters": step.parameters,
        "gradients": step.gradients,
        "optimiser state": step.optimizer,
        "memories": step.carried,
        "activations": step.activations,
    }


def describe(cost: Cost, gpus: Sequence[Gpu]) -> str:
    """A cost for the terminal."""
    step, recipe = cost.step, cost.recipe
    hours = {gpu: [number(cost.gpu_hours(gpu, *one)) for one in VARIANTS.values()] for gpu in gpus}
    rows = [[gpu.name, f"{gpu.memory:g} GiB", *hours[gpu], fitting(cost, gpu)] for gpu in gpus]
    heads = ["GPU", "memory", *(f"hours in {name}" for name in VARIANTS), "fits"]
    measured = (row for gpu in gpus for row in cost.measured(gpu).values())
    table = tabulate(rows, heads, disable_numparse=True)
    return "\n  ".join([
        f"{recipe.experiment} ({recipe.scale}), one seed, training alone",
        f"{flops(step.flops)} an update (forward and backward), {flops(cost.flops)} in {cost.updates:,} updates",
        ", ".join(f"{size(value)} {name}" for name, value in _parts(step).items() if value),
        f"peak {size(step.peak)} with the whole batch of {cost.rows:,} rows, {size(cost.row.peak)} with one row",
        *(f"assumed: {note}" for note in cost.notes),
        "",
        *table.splitlines(),
        f"by a model of each operation; the recipe's own arithmetic is {cost.arithmetic}",
        *(f"measured: {measurement(row)}, {number(cost.hours_by(row))} hours" for row in measured),
    ])  # fmt: skip


def measurement(row: Row) -> str:
    """A measured variant in one line."""
    head = f"{row['experiment']} on {row['device']}, {row['variant']}: "
    if "error" in row:
        return head + row["error"]
    facts = [f"{1000 * row['seconds'][-1]:.3g} ms an update"]
    facts += [f"{row['mfu']:.1%} of the peak"] if row["mfu"] else []
    facts += [f"{row['launches']:,} launches, {size(row['peak_bytes'])}"] if row["launches"] else []
    return head + ", ".join([*facts, f"losses differ from float32 by {row.get('loss_difference', 0):.1g}"])


def fitting(cost: Cost, gpu: Gpu) -> str:
    """Describes whether a global batch fits a GPU whole or in parts."""
    parts = cost.parts(gpu)
    if parts is None:
        return f"one row takes {size(cost.row.peak)}"
    return "1 GPU" if parts == 1 else f"1 GPU in {parts:,} parts"


def flops(value: float) -> str:
    """``9.53 TFLOP`` up to a quadrillion, powers of ten above."""
    if value >= 1e15:
        return f"{value:.2e} FLOP"
    unit, name = next(((u, n) for u, n in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if value >= u), (1, ""))
    return f"{value / unit:.3g} {name}FLOP"


def size(value: float) -> str:
    """Bytes in GiB or MiB."""
    if value >= 1000 * GIB:
        return f"{value / GIB:,.0f} GiB"
    return f"{value / GIB:.3g} GiB" if value >= GIB / 10 else f"{value / (1 << 20):.3g} MiB"


def number(value: float | None) -> str:
    """Hours with two or three digits; ``-`` where there are none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.1f}"
