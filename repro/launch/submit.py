"""``repro submit``: one script for all runs of the targets. This version prints it for ``sbatch``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.errors import UserError
from repro.launch.cost import describe_cost
from repro.launch.profile import Profile, load_profile
from repro.launch.render import check_syntax, current_places, render_script
from repro.launch.targets import RunSpec, pending, resolve_targets, without_scale


@dataclass(frozen=True)
class Submission:
    """What a submission would be.

    Attributes:
        script: text for ``sbatch``; empty where every run has its record.
        summary: lines for the user: runs, GPU hours, logs.
        runs: the runs in the script, in the order of the array.
        logs: folder of the job's output; must exist when the job starts.
    """

    script: str
    summary: tuple[str, ...]
    runs: tuple[RunSpec, ...]
    logs: Path


def plan_submission(
    targets: Sequence[str], cluster: str, scale: str, seeds: Sequence[int], name: str | None = None
) -> Submission:
    """Resolves targets, leaves out what is done, renders the script. Writes nothing.

    Args:
        targets: see :mod:`repro.launch.targets`; at least one.
        cluster: name of a profile in ``slurm/clusters``.
        scale: one of :data:`repro.recipe.SCALES`.
        seeds: one run of each experiment for each.
        name: the job's name; by default made of the first target and the scale.

    Raises:
        UserError: anything named that does not exist or cannot be used.
    """
    if not targets:
        raise UserError(
            "no target to submit; name a paper, an experiment, a table or a row (see `repro list`)"
        )
    profile = load_profile(cluster)
    specs = resolve_targets(targets, scale, seeds)
    todo = pending(specs)
    places = current_places()
    script = ""
    if todo:
        script = render_script(
            todo, profile, default_name(targets[0], scale) if name is None else name, places
        )
        check_syntax(script)
    left_out = without_scale(targets, scale)
    summary = _summarise(specs, todo, left_out, scale, profile, places.logs)
    return Submission(script, tuple(summary), tuple(todo), places.logs)


def default_name(target: str, scale: str) -> str:
    """``attention-is-all-you-need/base`` at ``cpu`` → ``attention-is-all-you-need.base.cpu``."""
    return f"{target}.{scale}".replace("/", ".").replace(":", ".")


def dry_run(
    targets: Sequence[str], cluster: str, scale: str, seeds: Sequence[int], name: str | None = None
) -> tuple[str, str]:
    """The script and its summary, ready to print; arguments as :func:`plan_submission`.

    The folder of the logs is made, since Slurm ends a job silently that cannot open its log.

    Raises:
        UserError: as :func:`plan_submission`, or the folder cannot be made.
    """
    submission = plan_submission(targets, cluster, scale, seeds, name)
    if submission.script:
        try:
            submission.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            remedy = "set REPRO_RUNS to a writable folder"
            raise UserError(f"cannot make {submission.logs}: {error.strerror}; {remedy}") from None
    return submission.script, "\n".join(submission.summary)


def _summarise(
    specs: Sequence[RunSpec],
    todo: Sequence[RunSpec],
    left_out: Sequence[str],
    scale: str,
    profile: Profile,
    logs: Path,
) -> list[str]:
    lines = [f"runs: {len(todo)} to submit, {len(specs) - len(todo)} already recorded"]
    if left_out:
        lines.append(f"left out, no scale {scale!r}: {', '.join(left_out)}")
    if not todo:
        return [*lines, "nothing to submit: every run has its record"]
    lines += describe_cost(todo, profile.resources)
    lines.append(f"logs: {logs}")
    return lines
