"""``repro submit``: makes and carries out a plan in which no run is queued twice.

One process at a time (a lock on ``$REPRO_RUNS/slurm/.lock``) asks the queue, makes the plan, writes the
submission's folder and its entry in the ledger, and only then calls ``sbatch``. Each job carries
``repro:<submission>:<job>`` as its comment, by which a later process finds a job whose id was not written.
"""

import contextlib
import fcntl
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from repro.errors import ReproError, UserError
from repro.files import lock, write_atomic, writing
from repro.launch.plan import Plan, Request, make_plan, summarise
from repro.launch.slurm import queue
from repro.launch.slurm.chain import PlannedJob
from repro.launch.slurm.limits import read_limits
from repro.launch.slurm.profile import load_profile
from repro.launch.slurm.queue import Queued, Unanswered
from repro.launch.slurm.sbatch import submit_script, test_script
from repro.launch.slurm.snapshot import SNAPSHOTS, link_snapshot, read_sources
from repro.launch.status.ledger import (
    ArrayTask,
    Job,
    Submission,
    ledger_dir,
    read_submissions,
    write_submission,
)
from repro.launch.status.run_index import everything, numbered
from repro.launch.status.state import cancelled

Check = Callable[[Plan], object]  # raises a UserError where a run of a plan could not begin


def dry_run(request: Request, check: Check | None = None) -> tuple[Plan, list[str]]:
    """The plan and its summary; writes nothing. The summary notes what Slurm does not answer.

    Args:
        request: what the user asks for.
        check: see :func:`submit`.
    """
    unknown = []
    tasks: Mapping[str, Queued] = {}
    if read_submissions():
        try:
            tasks = queue.in_queue()
        except UserError as error:
            unknown += [f"what is queued is not known here: {error}"]
    plan = make_plan(request, *queued_runs(tasks), read_limits())
    summary = summarise(plan)
    if plan.jobs:
        try:  # before the check, which takes longer
            for script in plan.first_scripts() if shutil.which("sbatch") else ():
                test_script(script, plan.profile)
        except Unanswered as error:
            unknown += [f"Slurm was not asked whether it takes the jobs: {error}"]
        if check:
            check(plan)
        read_sources()  # what would stop the snapshot
    return plan, [*summary, *unknown]


def submit(
    request: Request, report: Callable[[str], object], check: Check | None = None
) -> tuple[Plan, Submission | None]:
    """Submits runs that are neither recorded nor queued, and releases tasks that Slurm holds after a failed start.

    Args:
        request: what the user asks for.
        report: called with each line of the summary.
        check: called with a plan that has jobs.

    Returns:
        The plan, and its entry in the ledger; None where there was nothing to do.

    Raises:
        UserError: bad input, no Slurm here, or Slurm refuses a job (what it took before stays).
        ReproError: ``sbatch`` did not answer; the same command finds out and goes on.
    """
    if shutil.which("sbatch") is None:
        raise UserError(
            "sbatch is not on PATH; submit on the cluster's login node, or see the scripts with --dry-run"
        )
    load_profile(request.cluster)  # a wrong name is reported even where the queue cannot be read
    with locked(ledger_dir()):
        tasks = queue.in_queue()
        for entry in read_submissions():
            known = numbered(entry, tasks)
            if known != entry:
                write_submission(known)
        plan = make_plan(request, *queued_runs(tasks), read_limits())
        if plan.jobs and check:
            check(plan)
        for line in summarise(plan):
            report(line)
        for job in {plan.queued[spec.run_id]: None for spec in plan.requested if spec.run_id in plan.queued}:
            if tasks[job].is_held and queue.release(job):
                report(f"released: task {job}, which Slurm had held since its start failed")
        return plan, carry_out(plan) if plan.jobs else None


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks the ledger: a second process waits, and then sees what the first has submitted."""
    with writing(folder):
        make_folder(folder)
        file = open(folder / ".lock", "w")  # noqa: SIM115 - closed below
    with file:
        if not lock(file):
            print("another `repro submit` is at work; waiting for it", file=sys.stderr, flush=True)
            lock(file, fcntl.LOCK_EX)
        yield


def make_folder(folder: Path) -> None:
    """Makes a folder for this user alone, or for the group that shares ``$REPRO_RUNS``."""
    shared = queue.is_shared()
    with contextlib.suppress(FileExistsError):  # of another's first submission at the same moment
        folder.mkdir(mode=0o770 if shared else 0o700, parents=True)
        if shared:
            folder.chmod(0o2770)


def queued_runs(tasks: Mapping[str, Queued]) -> tuple[dict[str, str], dict[str, str]]:
    """The task of each run in the queue, ``{run_id: "12_0"}``; apart from them, those whose task was cancelled.

    A cancelled task stays in the queue while its ranks save, for up to Slurm's ``KillWait`` (30 s). A task that waits
    for a cancelled one stays until Slurm looks at it again.
    """
    runs: dict[str, str] = {}
    ending: set[str] = set()
    stopped = {job for submission in read_submissions() for job in cancelled(submission)}
    for entry in everything(tasks):
        task = entry.task_in(tasks)
        if entry.run and entry.submission and task:
            runs[entry.run] = task.job  # of the newest submission, which comes last
            saves = task.state == "COMPLETING" and task.job in cancelled(entry.submission)
            if saves or (task.state == "PENDING" and entry.parents & stopped):
                ending.add(task.job)
    staying = {run: job for run, job in runs.items() if job not in ending}
    return staying, {run: job for run, job in runs.items() if job in ending}


def carry_out(plan: Plan) -> Submission:
    """Writes the submission's folder and entry, then submits job after job. The caller holds the lock."""
    files, facts = read_sources()
    folder = plan.places.submission
    entry = Submission(
        name=folder.name,
        cluster=plan.profile.name,
        command=plan.request.command,
        commit=facts["commit"],
        dirty=facts["dirty"],
        jobs=tuple(_job(job) for job in plan.jobs),
        gpus=plan.profile.nodes * plan.profile.gpus_per_node,
    )
    try:
        make_folder(folder)
        (folder / "logs").mkdir()  # Slurm ends a job silently that cannot open its log
        make_folder(ledger_dir() / SNAPSHOTS)
        link_snapshot(folder, files)
        write_submission(entry)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # nothing was submitted yet
        raise
    for job in plan.jobs:
        entry = _submit_next(plan, job, entry)
    return entry


def _job(job: PlannedJob) -> Job:
    tasks = (
        ArrayTask(i, run.recipe.experiment, run.recipe.scale, run.seed, run.run_id)
        for i, run in job.tasks.items()
    )
    after = tuple(name for name in (job.follows, *job.waits_for) if name)
    return Job(job.name, f"{job.name.replace('/', '-')}.sbatch", None, after, tuple(tasks))


def _submit_next(plan: Plan, job: PlannedJob, entry: Submission) -> Submission:
    """Submits one job and records its id; if Slurm refuses, the entry keeps the jobs that it took before."""
    ids = {j.name: j.job_id for j in entry.jobs if j.job_id is not None}
    script = entry.folder / _job(job).script
    write_atomic(script, plan.script(job, ids).encode())
    script.chmod(0o640 if queue.is_shared() else 0o600)
    try:
        number = submit_script(script, plan.profile)
    except Unanswered as error:
        again = "the same command checks whether it is queued, and continues"
        raise ReproError(f"{error}; {job.name} may be queued or not: {again}") from None
    except UserError as error:
        _withdraw(entry)
        taken = ", ".join(map(str, ids.values()))
        before = f" ({taken} submitted before stay; see `repro cancel`)" if ids else ""
        raise UserError(f"{error}{before}") from None
    jobs = tuple(replace(j, job_id=number) if j.name == job.name else j for j in entry.jobs)
    entry = replace(entry, jobs=jobs)
    write_submission(entry)
    return entry


def _withdraw(entry: Submission) -> None:
    """Removes the jobs that Slurm does not have; deletes a submission without any job."""
    accepted = tuple(job for job in entry.jobs if job.job_id is not None)
    if accepted:
        write_submission(replace(entry, jobs=accepted))
    else:
        shutil.rmtree(entry.folder, ignore_errors=True)
