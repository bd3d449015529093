"""Job arrays of runs and their dependencies.

A run that begins with another's final weights (``start_from``) follows it. Where both are submitted together it is
task ``i`` of an array that waits, task by task, for task ``i`` of the other's; where the other is in the queue
already, its whole array waits for that task to succeed. A run whose cancelled task is still saving is queued again
behind that task.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repro.errors import UserError
from repro.launch.slurm.limits import DEFAULT_ARRAY
from repro.launch.targets import RunSpec, prerequisite


@dataclass
class PlannedJob:
    """One job to be submitted.

    Attributes:
        name: its Slurm name, its own within the submission.
        tasks: its runs by array index; empty for the job that makes the tables.
        follows: name of the job of which task i must succeed before task i of this one.
        waits_for: tasks in the queue (``12_0``) that must all succeed before this one.
        ends: names of jobs, and tasks in the queue, that must all have ended, however they did.
    """

    name: str
    tasks: dict[int, RunSpec]
    follows: str | None = None
    waits_for: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


def needed(
    requested: Sequence[RunSpec], queued: Mapping[str, str]
) -> tuple[tuple[RunSpec, ...], dict[str, str]]:
    """Leaves out recorded and queued runs, and adds the runs that others need first.

    Args:
        requested: the runs that the targets mean.
        queued: tasks in the queue, by run id.

    Returns:
        The runs to submit, each behind the one it needs; for each run that waits, the run (both by run id) it waits
        for.

    Raises:
        UserError: experiments that start from each other.
    """
    specs: dict[str, RunSpec] = {}
    needs: dict[str, str] = {}

    def add(spec: RunSpec, after: tuple[str, ...] = ()) -> None:
        experiment = spec.recipe.experiment
        if experiment in after:
            circle = ", ".join((*after, experiment))
            raise UserError(f"{circle}: each starts from the next, so none can begin; correct `start_from`")
        if spec.run_id in specs or spec.run_id in queued:
            return
        before = prerequisite(spec)
        if before is not None and not before.done:
            add(before, (*after, experiment))
            needs[spec.run_id] = before.run_id
        specs[spec.run_id] = spec

    for spec in requested:
        if not spec.done:
            add(spec)
    return tuple(specs.values()), needs


def arrange(
    specs: Sequence[RunSpec],
    needs: Mapping[str, str],
    queued: Mapping[str, str],
    name: str,
    leaving: Mapping[str, str] | None = None,
    most: int = DEFAULT_ARRAY,
) -> tuple[PlannedJob, ...]:
    """Puts runs into as few arrays as their order allows, each behind those it waits for.

    Args:
        specs: the runs, in the order of :func:`needed`.
        needs: the run that a run waits for, both by run id.
        queued: tasks in the queue, by run id.
        name: of the job; several are numbered.
        leaving: cancelled tasks that have not ended yet, by run id.
        most: tasks of an array.
    """
    leaving = leaving or {}
    first_stage = {spec.recipe.experiment for spec in specs if spec.run_id in needs.values()}
    jobs: list[PlannedJob] = []
    groups: dict[object, list[PlannedJob]] = {}
    places: dict[str, tuple[str, int]] = {}  # job and index of each run so far
    for spec in specs:
        need, behind = needs.get(spec.run_id), leaving.get(spec.run_id)
        follows, index = places.get(need or "", (None, None))
        # Of an array that waits for several tasks, Slurm cancels every task once one of those fails.
        group = follows or (need or spec.recipe.experiment in first_stage, behind is not None)
        for job in groups.setdefault(group, []):
            if index not in job.tasks and len(job.tasks) < most:
                break
        else:
            waits_for = (queued[need],) if need and not follows else ()
            job = PlannedJob(f"{name}.{len(jobs) + 1}", {}, follows, waits_for)
            groups[group].append(job)
            jobs.append(job)
        at = len(job.tasks) if index is None else index
        job.tasks[at] = spec
        job.ends += (behind,) if behind else ()
        places[spec.run_id] = (job.name, at)
    for job in jobs:
        job.tasks = dict(sorted(job.tasks.items()))
        job.name = job.name if len(jobs) > 1 else name
    return tuple(jobs)


def dependency(job: PlannedJob, ids: Mapping[str, str]) -> str | None:
    """The value of ``--dependency``, or None.

    Args:
        job: the job.
        ids: of the submission's jobs by name: Slurm's, or placeholders.
    """
    parts = [f"aftercorr:{ids[job.follows]}"] if job.follows else []
    parts += [f"afterok:{':'.join(job.waits_for)}"] if job.waits_for else []
    parts += [f"afterany:{':'.join(ids.get(name, name) for name in job.ends)}"] if job.ends else []
    return ",".join(parts) or None
