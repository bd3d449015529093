"""The page ``docs/cost.md``: what reproducing each paper costs."""

from collections.abc import Callable, Iterable, Sequence

from tabulate import tabulate

from repro.experiment.costs.estimate import Cost
from repro.experiment.costs.gpus import USABLE, Gpu, gpu_named
from repro.experiment.costs.roofline import BANDWIDTH, KERNEL_S, LAUNCH_S, REACHED, UPDATE_S, Arithmetic
from repro.experiment.costs.show import fitting, flops, number, size
from repro.seeds import SeedChoice

SEEDS = 3
H100 = gpu_named("H100")

HEAD = """# What reproducing each paper costs

Made by `repro cost --markdown > docs/cost.md`. `repro cost TARGET` gives the same for one recipe, for other GPUs
(`--gpu`) and as JSON; it takes settings such as `--data.batch_tokens 50000`. {measured}

- **FLOPs** are counted on torch's meta device: one update of the recipe's own network, loss and optimiser, with batches
  of the recipe's own shape and full memories. Products of matrices, convolutions and attention count, a multiplication
  and an addition one each; attention counts whole squares, causal or not. Layers that are computed again in the
  backward pass count again; scores that a fused kernel computes again do not.
- **Memory** is the peak of the tensors that exist at a time in that update: parameters, gradients, optimiser state,
  memories, activations. Attention takes a fused kernel. What a kernel needs only while it runs is not seen;
  {usable:.0%} of a GPU's memory is taken to be usable. `state` is parameters, gradients and optimiser state.
- **GPU hours** are a model of one GPU, not compiled: each operation of that update takes the longest of its FLOPs over
  the peak, its bytes over the bandwidth, and {kernel:.1f} µs. The host needs {launch:.0f} µs a kernel; the longer of
  both counts, and {update:.1f} ms an update. Reached, as on one H100: {bandwidth:.0%} of the bandwidth; of the peak in
  products and in fused attention {reached}.
  In 16 bits only products are cheaper: what halved tensors save, casts take. GPUs without bfloat16 take float16.
{check}- Not counted: validation, tests, decoding, preparing data.
- Clusters of an adaptive vocabulary have tokens by Zipf's law. Sentence pairs fill their budget on both sides, and
  examples of different lengths have the greatest one: upper bounds.

{fsdp}

## By paper

Runs at scale `paper`, {seeds} judged seeds of each, fewer where a recipe declares fewer. `crossover` is
not a paper but a study of this project.
"""


def page(costs: Iterable[Cost]) -> str:
    """The whole page."""
    by_paper = _grouped(costs, "/")
    return "\n".join([
        _head([one for group in by_paper.values() for one in group]),
        _table(
            [_paper_row(paper, group) for paper, group in by_paper.items()],
            ("paper", "runs", "FLOPs, one seed each", *(f"H100 hours in {one}, all seeds" for one in Arithmetic)),
        ),
        *(f"\n## {paper}\n\n{recipes(group)}" for paper, group in by_paper.items()),
    ])  # fmt: skip


def _head(every: Sequence[Cost]) -> str:
    least, name = max((one.row.peak + one.step.gradients, one.recipe.experiment) for one in every)
    fsdp = "No recipe needs FSDP" if least <= H100.usable else "Not every recipe fits"
    base = [one for one in every if one.recipe.experiment == "attention-is-all-you-need/base"]
    reached = (f"{r['product']:.0%} and {r['attention']:.0%} in {name}" for name, r in REACHED.items())
    rows = [one for one in every if one.measured(H100)]
    return HEAD.format(
        measured=f"Hours with `*` follow from updates that `repro cost --measure` timed ({len(rows)} runs)."
        if rows
        else "Nothing here was measured on a GPU: `repro cost --measure` does.",
        usable=USABLE,
        kernel=KERNEL_S * 1e6,
        launch=LAUNCH_S * 1e6,
        update=UPDATE_S * 1e3,
        reached=", ".join(reached),
        bandwidth=BANDWIDTH,
        check="".join(
            f"  For the base Transformer it gives {number(one.gpu_hours(gpu_named('P100')))} hours of a P100; "
            "its authors took 8 of them for 12 hours.\n"
            for one in base
        ),
        fsdp=f"**{fsdp} on GPUs of 80 GB.** With DDP each GPU keeps all parameters, two copies of the gradients and "
        "the\noptimiser state. With a batch of one sequence the largest recipe then takes\n"
        f"{size(least)} (`{name}`). A batch that does not fit is taken in parts\n"
        "(`--trainer.accumulate_grad_batches N`). `trainer.strategy: fsdp` is refused.",
        seeds=SEEDS,
    )


def _paper_row(paper: str, group: Sequence[Cost]) -> list[str]:
    seeds = [len(SeedChoice.parse(str(SEEDS)).select(one.recipe.seeds)) for one in group]
    hours = [
        sum(n * (one.gpu_hours(H100, arithmetic) or 0.0) for n, one in zip(seeds, group, strict=True))
        for arithmetic in Arithmetic
    ]
    total = flops(sum(one.flops for one in group))
    return [paper, f"{len(group)} x seeds = {sum(seeds)}", total, *map(number, hours)]


def recipes(costs: Iterable[Cost]) -> str:
    """A row for each recipe; a range over the points of a grid."""
    heads = (
        "recipe", "points", "updates", "FLOPs a run", "state", "peak", "on H100",
        *(f"H100 hours in {arithmetic}" for arithmetic in Arithmetic), "own GPU hours",
    )  # fmt: skip
    return _table([_recipe_row(name, group) for name, group in _grouped(costs, "@").items()], heads)


def _recipe_row(name: str, group: Sequence[Cost]) -> list[str]:
    largest, own = max(group, key=lambda one: one.step.peak), group[0].own_gpu
    state = max(one.step.parameters + one.step.gradients + one.step.optimizer for one in group)
    recipe_hours = "-" if own is None else f"{_range(number, _hours(group, own))} ({own.name})"
    return [
        name.partition("/")[2], str(len(group)), _range(lambda n: f"{n:,.0f}", [one.updates for one in group]),
        _range(flops, [one.flops for one in group]), size(state), size(largest.step.peak), fitting(largest, H100),
        *(_marked(group, arithmetic) for arithmetic in Arithmetic), recipe_hours,
    ]  # fmt: skip


def _marked(group: Sequence[Cost], arithmetic: Arithmetic) -> str:
    """Hours in an arithmetic, with a star where any was measured, and measured ones of compiled training."""
    star = "*" if any(arithmetic in one.measured(H100) for one in group) else ""
    rows = [(one, one.measured(H100).get(f"{arithmetic}, compiled")) for one in group]
    compiled = [one.hours_by(row) for one, row in rows if row]
    more = f" ({_range(number, compiled)}* compiled)" if compiled else ""
    return _range(number, _hours(group, H100, arithmetic)) + star + more


def _hours(group: Sequence[Cost], gpu: Gpu, arithmetic: Arithmetic | None = None) -> list[float]:
    return [one.gpu_hours(gpu, arithmetic) or 0.0 for one in group]


def _range(format_value: Callable[[float], str], values: Sequence[float]) -> str:
    low, high = format_value(min(values)), format_value(max(values))
    return low if low == high else f"{low} to {high}"


def _grouped(costs: Iterable[Cost], sign: str) -> dict[str, list[Cost]]:
    """Groups experiments by the part of their names before a sign."""
    groups: dict[str, list[Cost]] = {}
    for one in costs:
        groups.setdefault(one.recipe.experiment.partition(sign)[0], []).append(one)
    return groups


def _table(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    return tabulate(rows, heads, tablefmt="pipe", disable_numparse=True) + "\n"
