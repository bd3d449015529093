"""The runs of the targets that a user names.

A target is a paper (``attention-is-all-you-need``), an experiment (``<paper>/<recipe>``: all of its points;
or ``<paper>/<recipe>@<point>``), a published table (``<paper>:table2``) or one of its rows
(``<paper>:table2:transformer-base``). Tables and rows are found through ``ours`` of the published files.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from repro.errors import UserError, nearest
from repro.grouping import grouped
from repro.paths import all_records_dirs
from repro.recipe import SCALES, Overrides, Recipe, experiments, load_recipe, reproduced, scales_of
from repro.record import RECORD_FILE, read_records, withdrawn
from repro.seeds import SeedChoice, show_ranges, unjudged


@dataclass(frozen=True)
class RunSpec:
    """A run that a target names.

    Attributes:
        recipe: its recipe, with the settings that were given.
        seed: the run's seed.
        done: a record of this experiment, scale, seed and configuration exists.
    """

    recipe: Recipe
    seed: int
    done: bool = False

    @property
    def run_id(self) -> str:
        return self.recipe.run_id(self.seed)

    @property
    def stores(self) -> list[str]:
        """Names of the stores that it reads: of data, and of pretrained weights."""
        data = self.recipe.config.get("data")
        arguments = (data.get("init_args") or {}) if isinstance(data, dict) else {}
        names = arguments.get("store"), self.recipe.pretrained
        return [name for name in names if isinstance(name, str)]


# Experiment, scale, seed, the configuration's hash, and whether on a GPU.
Recorded = frozenset[tuple[str, str, int, str, bool]]
_ON_GPU = {"gpu": True, "cuda": True, "cpu": False}  # by trainer.accelerator


def recorded() -> Recorded:
    """Returns the runs that have a record which is not withdrawn."""
    left_out = withdrawn(*all_records_dirs())
    kept = [r for r in read_records(*all_records_dirs()).good if r.path not in left_out]
    return frozenset((r.experiment, r.scale, r.seed, r.config_hash, r.on_gpu) for r in kept)


def resolve_targets(
    targets: Sequence[str],
    scale: str,
    seeds: SeedChoice,
    overrides: Overrides | None = None,
    done: Recorded | None = None,
) -> list[RunSpec]:
    """Returns every run that the targets name, once: experiments in their order, then seeds.

    Args:
        targets: see the module; none at all means every experiment.
        scale: a target that means several experiments leaves out those without this scale
            (:func:`without_scale` names them); an experiment named outright must have it.
        seeds: of each recipe: the first of its judged ones, or those named.
        overrides: settings of every run; see :func:`repro.recipe.load_recipe`. Where they name an accelerator, only
            records of such a device save a run.
        done: as :func:`recorded`, which is read where it is not given.

    Raises:
        UserError: unknown target (nearest names offered) or scale, nothing to run at that scale, or a recipe that
            declares its judged seeds wrongly.
    """
    if scale not in SCALES:
        raise UserError(f"unknown scale {scale!r}{nearest(scale, SCALES)}; choose one of {', '.join(SCALES)}")
    outright = [t for t in targets if "/" in t and t in experiments()]
    for experiment in outright:
        load_recipe(experiment, scale)  # raises for a scale it lacks
    chosen = experiments_at(targets, scale)
    on_gpu = _ON_GPU.get(str(dict(overrides or ()).get("trainer.accelerator")))
    matching = {r[:-1] for r in (recorded() if done is None else done) if on_gpu in (None, r[-1])}
    recipes = [load_recipe(e, scale, overrides) for e in chosen]
    return [
        RunSpec(recipe, seed, (recipe.experiment, scale, seed, recipe.config_hash) in matching)
        for recipe in recipes
        for seed in seeds.select(recipe.seeds)
    ]


def prerequisite(spec: RunSpec) -> RunSpec | None:
    """The run whose final weights a run begins with: same scale, same seed, without overrides.

    It is done only if its run folder holds a record. A record in ``results`` alone may have no weights here.

    Raises:
        UserError: ``start_from`` names no experiment, or one without this scale.
    """
    experiment, start_from = spec.recipe.experiment, spec.recipe.start_from
    if start_from is None:
        return None
    try:
        recipe = load_recipe(start_from, spec.recipe.scale)
    except UserError as error:
        raise UserError(f"{experiment} starts from {start_from!r}: {error}") from None
    return RunSpec(recipe, spec.seed, (recipe.run_dir(spec.seed) / RECORD_FILE).is_file())


def recipes_of(specs: Iterable[RunSpec]) -> list[Recipe]:
    """The recipes of some runs, each once."""
    recipes = (spec.recipe for spec in specs)
    return list({(recipe.experiment, recipe.scale, recipe.overrides): recipe for recipe in recipes}.values())


def without_scale(targets: Sequence[str], scale: str) -> list[str]:
    """Returns the experiments of the targets that have no recipe at this scale."""
    return [e for e in named_experiments(targets) if scale not in scales_of(e)]


def few_seeds(specs: Sequence[RunSpec], seeds: SeedChoice) -> list[str]:
    """A line that names the recipes with fewer judged seeds than requested, if there are any."""
    judged = {spec.recipe.experiment: spec.recipe.seeds for spec in specs}
    few = [f"{e} has {show_ranges(own)}" for e, own in judged.items() if len(own) < seeds.count]
    return [f"fewer than {seeds.count} judged seeds: {', '.join(few)}"] if few else []


def not_judged(specs: Sequence[RunSpec]) -> list[str]:
    """A line for each experiment with runs whose records are kept and not judged."""
    seeds = grouped((spec.recipe.experiment, spec.seed) for spec in specs)
    judged = {spec.recipe.experiment: spec.recipe.seeds for spec in specs}
    return [line for e, seeds_of in seeds.items() for line in unjudged(e, dict.fromkeys(seeds_of), judged[e])]


def named_experiments(targets: Sequence[str]) -> list[str]:
    """Returns the experiments of the targets, each once; all without targets."""
    names = [e for target in targets for e in _experiments_of(target)] if targets else experiments()
    return list(dict.fromkeys(names))


def experiments_at(targets: Sequence[str], scale: str) -> list[str]:
    """Returns the experiments of the targets that have this scale.

    Raises:
        UserError: there is none.
    """
    named = named_experiments(targets)
    chosen = [experiment for experiment in named if scale in scales_of(experiment)]
    if not chosen:
        names = ", ".join(targets) or "the configs folder"
        others = sorted({s for e in named for s in scales_of(e)}, key=SCALES.index)
        hint = f"; there is: {', '.join(others)}" if others else ""
        raise UserError(f"{names}: nothing to run at scale {scale!r}{hint}")
    return chosen


def _experiments_of(target: str) -> list[str]:
    if ":" in target:
        return _of_table(target)
    if target in experiments():
        return [target]
    inside = [e for e in experiments() if e.startswith((f"{target}/", f"{target}@"))]
    if inside and "@" not in target:
        return inside
    papers = {e.split("/", 1)[0] for e in experiments()}
    raise UserError(
        f"unknown target {target!r}{nearest(target, [*papers, *experiments()])}; see `repro list`"
    )


def _of_table(target: str) -> list[str]:
    paper, _, rest = target.partition(":")
    table, _, row = rest.partition(":")
    inside = _experiments_of(paper)
    if "/" in paper:
        raise UserError(f"{target!r}: a table belongs to a paper; write {paper.split('/', 1)[0]}:{rest}")
    cells = [(e, cell["table"], cell["row"]) for e in inside for cell in reproduced(e, "paper")]
    matches = [e for e, t, r in cells if t == table and (not row or r == row)]
    if not matches:
        known = {f"{paper}:{t}:{r}" if row else f"{paper}:{t}" for _, t, r in cells}
        raise UserError(
            f"{target!r}: no recipe reproduces it{nearest(target, sorted(known))}; see `repro list {paper}`"
        )
    return matches
