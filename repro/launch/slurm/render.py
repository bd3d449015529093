"""The batch scripts: one template for an array of runs, one for the job that makes the tables.

Everything that comes from a profile, a recipe or the environment is either restricted to a small alphabet
(``#SBATCH`` lines, :mod:`repro.launch.slurm.validation`) or quoted for the shell (all else). The exception is
a profile's ``setup``, which is shell code.
"""

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from repro.errors import UserError
from repro.launch.slurm import validation
from repro.launch.slurm.chain import PlannedJob
from repro.launch.slurm.profile import Profile
from repro.launch.targets import RunSpec
from repro.paths import INSTALLED, PROJECT, SHARED, configs_dir, data_dir, results_dir, runs_dir, trials_dir
from repro.seeds import show_ranges

# What the profile decides: stated once, there.
DERIVED = ("trainer.num_nodes", "trainer.devices", "trainer.accelerator", "trainer.strategy")


@dataclass(frozen=True)
class Places:
    """The folders a job works with, absolute.

    Attributes:
        work: where the job starts: the folder submitted from.
        submission: the submission's own folder, with ``code/`` and ``logs/`` in it.
        variables: ``REPRO_DATA`` and its like, so that the job sees what the user sees; the recipes are the
            snapshot's.
    """

    work: Path
    submission: Path
    variables: dict[str, Path]


def current_places(submission: str) -> Places:
    """The folders of the current command.

    Args:
        submission: its name.
    """
    folder = runs_dir().absolute() / "slurm" / submission
    variables = {
        "REPRO_CONFIGS": folder / "code" / "configs",
        "REPRO_DATA": data_dir().absolute(),
        "REPRO_RESULTS": results_dir().absolute(),
        "REPRO_RUNS": runs_dir().absolute(),
        "REPRO_TRIALS": trials_dir().absolute(),
    }
    return Places(Path.cwd(), folder, variables)


def render_script(
    job: PlannedJob,
    profile: Profile,
    places: Places,
    dependency: str | None = None,
    flags: Sequence[str] = (),
    template: str = "tables",
) -> str:
    """The script of one job.

    Args:
        job: its runs, one array task each.
        profile: the cluster.
        places: folders; ``work`` and ``submission`` stand in ``#SBATCH`` lines.
        dependency: what it waits for, in Slurm's words or with placeholders.
        flags: of `repro run`, beside the settings.
        template: of a job without runs: ``tables`` or ``meeting``.

    Raises:
        UserError: a value that cannot be written into a script.
    """
    template = "job" if job.tasks else template
    example = "base-cpu (letters, digits and . _ @ / -)"
    name = validation.matching("job name", job.name, validation.NAME, example)
    variables, code = places.variables, places.submission / "code"
    if template == "tables":  # of today's recipes: an old snapshot would write over newer tables
        variables = {**variables, "REPRO_CONFIGS": configs_dir().absolute()}
        code = code if INSTALLED else PROJECT
    if profile.container is not None:
        _check_mounts([places.work, code, *variables.values()])
    script = _template(f"{template}.sbatch.j2").render(
        job_name=name,
        comment=f"repro:{places.submission.name}:{name}",  # identifies a job in the queue whose id was lost
        dependency=dependency,
        profile=profile,
        container=profile.container,
        strategy="ddp" if profile.ranks > 1 else "auto",
        work=_sbatch_folder("the folder to submit from", places.work),
        submission=_sbatch_folder("the folder of the submission", places.submission),
        variables=variables,
        code=code,
        array=show_ranges(sorted(job.tasks)),
        runs={index: _run(run, flags) for index, run in job.tasks.items()},
        stage=_stage_folder(profile.stage_data),
        time_of_tables=min("00:30:00", profile.time, key=validation.hours),
    )
    validation.refuse_secrets("the script", script)
    return script


def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(SHARED / "slurm"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # shell, not HTML: the template quotes with `| quote`
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["quote"] = lambda value: shlex.quote(str(value))
    return environment.get_template(name)


def _sbatch_folder(name: str, folder: Path) -> str:
    if not validation.FOLDER.fullmatch(str(folder)):
        raise UserError(
            f"{name}, {str(folder)!r}, cannot be written into an #SBATCH line: spaces, quotes and % have a meaning "
            "there; work in another folder, or set REPRO_RUNS"
        )
    return str(folder)


def _run(run: RunSpec, flags: Sequence[str]) -> dict[str, str]:
    validation.inner_path("experiment", run.recipe.experiment, "attention-is-all-you-need/base")
    stores = [validation.inner_path("store", store, "multi30k") for store in run.stores]
    for word in run.recipe.overrides:
        key = word[2:].partition("=")[0]
        if any(key == d or key.startswith(f"{d}.") for d in DERIVED):
            raise UserError(
                f"--{key}: nodes, devices and strategy follow from the cluster profile; set them there"
            )
    return {
        "arguments": shlex.join([*run.recipe.words(run.seed), *flags]),
        "folder": shlex.quote(str(run.recipe.run_dir(run.seed).absolute())),
        "stores": shlex.join(stores),
    }


def _check_mounts(folders: Sequence[Path]) -> None:
    """Checks the suite's own folders, which the script mounts into the container."""
    for folder in folders:
        if not validation.FOLDER.fullmatch(str(folder)) or any(c in str(folder) for c in ",:"):
            raise UserError(
                f"{str(folder)!r} cannot be mounted into a container; use a folder without spaces, , and :"
            )


def _stage_folder(stage: str | None) -> str | None:
    """A shell word for the node-local folder: a quoted path, or a variable that must be set on the node."""
    if stage is None:
        return None
    return f'"${{{stage[1:]}:?}}"' if stage.startswith("$") else shlex.quote(stage)


def check_syntax(script: str) -> None:
    """Has bash parse the script without running it; only the setup lines can be wrong.

    Raises:
        UserError: gives bash's first error.
    """
    bash = shutil.which("bash")
    if bash is None:
        return
    result = subprocess.run([bash, "-n"], input=script.encode(), capture_output=True, check=False)
    if result.returncode:
        complaint = (result.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[0]
        raise UserError(f"bash cannot parse the script: {complaint}; look at `setup` of the cluster profile")
