"""The plan of a submission: its runs, their jobs and the cost. Writes nothing."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from repro.code.plugins import hashes
from repro.code.source import code_hash
from repro.errors import UserError
from repro.events import EVENTS_FILE, attempts, read
from repro.launch.cost import describe_cost
from repro.launch.slurm.chain import PlannedJob, arrange, dependency, needed
from repro.launch.slurm.limits import Limits
from repro.launch.slurm.profile import Profile, load_profile, require_sourced, with_options
from repro.launch.slurm.render import Places, check_syntax, current_places, render_script
from repro.launch.status.job_state import is_held
from repro.launch.targets import RunSpec, few_seeds, not_judged, recorded, resolve_targets, without_scale
from repro.paths import PROJECT
from repro.recipe import Overrides
from repro.seeds import SeedChoice


@dataclass(frozen=True)
class Request:
    """The user's request.

    Attributes:
        targets: see :mod:`repro.launch.targets`; at least one.
        cluster: name of a profile in ``slurm/clusters``.
        scale: one of :data:`repro.recipe.SCALES`.
        seeds: of each experiment, a run for each.
        grid: settings of the runs that a target means, each a run of its own for every seed.
        tables: whether a last job makes the tables.
        command: as typed, for the ledger.
        sbatch, srun: options of these commands beside the profile's.
        accept_changes: whether checkpoints of other code are resumed.
    """

    targets: Sequence[str]
    cluster: str
    scale: str
    seeds: SeedChoice
    grid: Sequence[Overrides] = ([],)
    tables: bool = False
    command: str = "repro submit"
    sbatch: Sequence[str] = ()
    srun: Sequence[str] = ()
    accept_changes: bool = False


@dataclass(frozen=True)
class Plan:
    """A submission that could be made.

    Attributes:
        request: what was asked for.
        profile: the cluster.
        places: folders of the jobs; the submission's name is that of its folder.
        jobs: in the order in which they must be submitted; empty where nothing is left to do.
        requested: every run that the targets mean, and those that must come first.
        added: those of them that no target names.
        queued: tasks in the queue, by run id.
        leaving: cancelled tasks that have not ended yet, by run id.
    """

    request: Request
    profile: Profile
    places: Places
    jobs: tuple[PlannedJob, ...]
    requested: tuple[RunSpec, ...]
    added: tuple[RunSpec, ...]
    queued: Mapping[str, str]
    leaving: Mapping[str, str]

    @property
    def runs(self) -> list[RunSpec]:
        """The runs to be submitted."""
        return [spec for job in self.jobs for spec in job.tasks.values()]

    @property
    def waits(self) -> dict[str, list[str]]:
        """The runs that must succeed before a run starts, and cancelled tasks that are still saving, by run id."""
        runs = {task: run for run, task in (*self.queued.items(), *self.leaving.items())}
        jobs = {job.name: job for job in self.jobs}
        waiting = {}
        for job in self.jobs:
            tasks = [f"{runs[task]} (task {task})" for task in job.waits_for]
            tasks += [f"the cancelled task {task} to save itself" for task in job.ends if task in runs]
            for index, spec in job.tasks.items():
                before = [jobs[job.follows].tasks[index].run_id] if job.follows else []
                waiting[spec.run_id] = before + tasks
        return {run: before for run, before in waiting.items() if before}

    def script(self, job: PlannedJob, ids: Mapping[str, int] | None = None) -> str:
        """A job's script.

        Args:
            job: one of :attr:`jobs`.
            ids: Slurm's ids by the job's name; where they are not known yet, placeholders stand for them.
        """
        placeholders = {job.name: f"<id of job {i}>" for i, job in enumerate(self.jobs, 1)}
        known = placeholders | {name: str(number) for name, number in (ids or {}).items()}
        flags = ["--accept-changes"] * self.request.accept_changes
        return render_script(job, self.profile, self.places, dependency(job, known), flags)

    def first_scripts(self) -> list[str]:
        """The scripts of the jobs that wait for no other, which Slurm can be asked about before anything is queued."""
        return [self.script(job) for job in self.jobs if not (job.follows or job.waits_for or job.ends)]


def make_plan(
    request: Request,
    queued: Mapping[str, str],
    leaving: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Plan:
    """Resolves targets, leaves out what is done or queued, arranges the rest, and renders every script once.

    Args:
        request: what the user asks for.
        queued: tasks in the queue, by run id.
        leaving: cancelled tasks that have not ended yet, by run id; their runs are queued again, behind them.
        limits: of the site; None where it cannot be asked.

    Raises:
        UserError: anything named that does not exist or cannot be used.
    """
    limits, leaving = limits or Limits(), leaving or {}
    profile = with_options(load_profile(request.cluster), request.sbatch, request.srun)
    limits.refuse(profile)
    targets, scale, done = request.targets, request.scale, recorded()
    meant = (resolve_targets(targets, scale, request.seeds, one, done) for one in request.grid)
    requested = list({spec.run_id: spec for specs in meant for spec in specs}.values())
    specs, needs = needed(requested, queued)
    named = {spec.run_id for spec in requested}
    added = tuple(spec for spec in specs if spec.run_id not in named)
    name = job_name(targets[0], scale)
    own = [s for s in specs if s.run_id not in leaving]  # a cancelled task may hold its run's folder yet
    if held := [spec.run_id for spec in own if is_held(spec.recipe.run_dir(spec.seed))]:
        raise UserError(f"{listed(held)}: being run by another process; wait for it, or name other seeds")
    if not request.accept_changes:
        _refuse_changes(specs)
    jobs = arrange(specs, needs, queued, name, leaving, limits.largest_array)
    if jobs and request.tables:
        waiting = [queued[spec.run_id] for spec in requested if spec.run_id in queued]
        jobs = (*jobs, PlannedJob(f"{name}.tables", {}, ends=(*(job.name for job in jobs), *waiting)))
    places = current_places(submission_name())
    require_sourced(profile, places.work)
    plan = Plan(request, profile, places, jobs, (*added, *requested), added, queued, leaving)
    for job in jobs:
        check_syntax(plan.script(job))
    return plan


def _refuse_changes(specs: Sequence[RunSpec]) -> None:
    """Refuses runs whose checkpoints other code or plugins wrote: their jobs would refuse to resume."""
    code, plugins = code_hash(PROJECT), {f"plugin {n}": f"sha256:{sha256}" for n, sha256 in hashes().items()}
    changed = []
    for spec in specs:
        folder = spec.recipe.run_dir(spec.seed)
        for newest in sorted(folder.glob("checkpoints/step-*.ckpt"))[-1:]:
            step = int(newest.stem.rpartition("-")[2])
            known = attempts(read(folder / EVENTS_FILE), step, ("commit", "code_sha256", "versions"))
            wrote = [one for one in known if one["first"] < step <= one["last"]] or [{}]
            then = wrote[-1].get("versions")
            used = plugins if then is None else {k: v for k, v in then.items() if k.startswith("plugin ")}
            if wrote[-1].get("code_sha256") not in (None, code) or used != plugins:
                changed.append(f"{spec.run_id} (at commit {str(wrote[-1]['commit'])[:8]})")
    if changed:
        raise UserError(
            f"checkpoints of other code: {listed(changed)}; go back to it, continue with --accept-changes (the records "
            "are then `mixed` and not judged), or remove the runs' folders to begin anew"
        )


def submission_name() -> str:
    """``<UTC time>-<random>``: sorts by time, and no two are alike."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}Z-{secrets.token_hex(3)}"


def job_name(target: str, scale: str) -> str:
    """``attention-is-all-you-need/base`` at ``cpu`` → ``attention-is-all-you-need.base.cpu``."""
    return f"{target}.{scale}".replace("/", ".").replace(":", ".")


def summarise(plan: Plan) -> list[str]:
    """Returns lines for the user: runs, GPU hours, dependencies.

    Raises:
        UserError: a run that needs far more than the time of all its attempts.
    """
    request, runs = plan.request, plan.runs
    queued = [spec for spec in plan.requested if spec.run_id in plan.queued]
    kept = len(plan.requested) - len(runs) - len(queued)
    lines = [f"runs: {len(runs)} to submit, {kept} already recorded, {len(queued)} already queued"]
    lines += [f"queued: {spec.run_id} is task {plan.queued[spec.run_id]}" for spec in queued]
    left_out = without_scale(request.targets, request.scale)
    if left_out:
        lines.append(f"left out, no scale {request.scale!r}: {', '.join(left_out)}")
    lines += [*few_seeds(plan.requested, request.seeds), *not_judged(runs)]
    if not runs:
        why = "every run has its record or is in the queue" if queued else "every run has its record"
        return [*lines, f"nothing to submit: {why}; --seeds names other seeds"]
    if plan.added:
        names = ", ".join(dict.fromkeys(spec.recipe.experiment for spec in plan.added))
        plainly = " (without the settings given)" if any(request.grid) else ""
        lines.append(f"added, since others start from them: {names}{plainly}")
    lines += [" ".join(("grid:", r.run_id, *r.recipe.overrides)) for r in runs if len(request.grid) > 1]
    lines += describe_cost(runs, plan.profile)
    lines += [f"waits: {run} for {listed(before)}" for run, before in plan.waits.items()]
    if not all(job.tasks for job in plan.jobs):
        lines.append("waits: the tables for the end of every run above" + ", queued ones too" * bool(queued))
    return lines


def listed(words: Sequence[str], most: int = 3) -> str:
    """Returns the first of some words and the number of the others."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
