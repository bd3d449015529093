"""The cost of a submission: the recipes' estimates, and the limit of the allocation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from repro.errors import UserError
from repro.launch.slurm.profile import Profile
from repro.launch.slurm.validation import hours
from repro.launch.targets import RunSpec
from repro.recipe import Recipe, load_recipe

FASTER = 10  # the most that hardware is believed to be faster than that of an estimate


@dataclass(frozen=True)
class Expectation:
    """The expected cost of one run, from ``hours``, ``devices`` and ``hardware`` of a recipe's scale.

    Attributes:
        hours: wall time of the run.
        devices: GPUs it keeps busy; 0 for a run on CPUs.
        hardware: one of those devices, like ``NVIDIA P100``, or the CPU.
    """

    hours: float
    devices: int
    hardware: str


def expectation(recipe: Recipe) -> Expectation | None:
    """The expectation of a recipe; None if it states nothing.

    Raises:
        UserError: it states only a part of it.
    """
    stated = {key: recipe.config[key] for key in ("hours", "devices", "hardware") if key in recipe.config}
    hours, devices, hardware = stated.get("hours"), stated.get("devices") or 0, stated.get("hardware")
    if not stated:
        return None
    if hours is None or hardware is None:
        raise UserError(
            f"{recipe.experiment}: a scale gives hours, devices (GPUs; none for a CPU) and hardware; found {stated!r}"
        )
    return Expectation(hours, devices, hardware)


def describe_cost(specs: Sequence[RunSpec], profile: Profile) -> list[str]:
    """Returns lines for the summary of a submission: estimated GPU hours, and the limit of the allocation.

    Raises:
        UserError: a run that needs far more than the time of all its attempts.
    """
    estimates = [(spec.recipe, _expected(spec.recipe)) for spec in specs]
    for recipe, estimate in estimates:
        if estimate is not None:
            _refuse_too_long(recipe, estimate, profile)
    known = [e for _, e in estimates if e is not None]
    unknown = sorted({recipe.experiment for recipe, e in estimates if e is None})
    on = ", ".join(dict.fromkeys(f"{e.devices} x {e.hardware}" if e.devices else e.hardware for e in known))
    lines = []
    if known:
        busy, wall = sum(e.hours * e.devices for e in known), sum(e.hours for e in known)
        lines.append(f"estimated: {busy:.4g} GPU hours, {wall:.4g} h of runs ({on})")
    if unknown:
        lines.append(f"estimated: unknown for {', '.join(unknown)} (the recipe does not state it)")
    gpus, limit = profile.nodes * profile.gpus_per_node, hours(profile.time)
    allocation = f"{gpus} GPUs" if gpus else f"{profile.ranks * profile.cpus_per_task} CPU cores, no GPU"
    most = f", at most {len(specs) * gpus * limit:.4g} GPU hours" if gpus else ""
    lines.append(f"allocated: {len(specs)} x {allocation} for up to {profile.time} an attempt{most}")
    return lines


def _expected(recipe: Recipe) -> Expectation | None:
    """The expectation of a run, which is shorter where a setting reduces its number of updates."""
    expected = expectation(recipe)
    plain = load_recipe(recipe.experiment, recipe.scale)
    given, planned = (one.config.get("trainer", {}).get("max_steps") for one in (recipe, plain))
    if expected is None or not isinstance(given, int) or given < 0 or not planned:
        return expected
    return replace(expected, hours=expected.hours * given / planned)


def _refuse_too_long(recipe: Recipe, expected: Expectation, profile: Profile) -> None:
    gpus = profile.nodes * profile.gpus_per_node
    at_once = (gpus or profile.ranks * profile.cpus_per_task) if expected.devices else 1
    given = hours(profile.time) * (profile.max_requeues + 1) * at_once
    needed = expected.hours * max(expected.devices, 1)
    if needed > FASTER * given:
        unit = ("GPU hours" if gpus else "core hours") if expected.devices else "h"
        raise UserError(
            f"{recipe.experiment} ({recipe.scale}) is estimated at {needed:.4g} hours of {expected.hardware}, but time "
            f"{profile.time} and max_requeues {profile.max_requeues} of the cluster profile {profile.name} give "
            f"{given:.4g} {unit} in all attempts; raise them, or choose a smaller scale"
        )
