"""The batch script: one template, one job array over runs.

Everything that comes from a profile, a recipe or the environment is either held to a small alphabet
(``#SBATCH`` lines, :mod:`repro.launch.checked`) or quoted for the shell (all else). The exception is
a profile's ``setup``: that is shell by purpose.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repro.errors import UserError
from repro.launch import checked
from repro.launch.profile import Profile
from repro.launch.targets import RunSpec
from repro.paths import PROJECT, configs_dir, data_dir, results_dir, runs_dir
from repro.recipe import SCALES, load_recipe

if TYPE_CHECKING:
    import jinja2

LARGEST_ARRAY = 1000  # Slurm's default MaxArraySize is 1001
SHORTEST_SECRET = 8  # shorter values of secret variables ("1", "none") would be found in any script


@dataclass(frozen=True)
class Places:
    """The folders a job works with, absolute.

    Attributes:
        work: where the job starts: the folder submitted from.
        logs: where its output goes.
        variables: ``REPRO_CONFIGS`` and its like, so that the job sees what the user sees.
    """

    work: Path
    logs: Path
    variables: dict[str, Path]


def current_places() -> Places:
    """The folders as they are for the command being run."""
    folders = {"CONFIGS": configs_dir(), "DATA": data_dir(), "RESULTS": results_dir(), "RUNS": runs_dir()}
    variables = {f"REPRO_{name}": folder.absolute() for name, folder in folders.items()}
    return Places(Path.cwd(), variables["REPRO_RUNS"] / "slurm", variables)


def render_script(runs: Sequence[RunSpec], profile: Profile, name: str, places: Places) -> str:
    """The script that runs these runs as one job array.

    Args:
        runs: one array task each; at least one.
        profile: the cluster.
        name: the job's name.
        places: folders; ``work`` and ``logs`` stand in ``#SBATCH`` lines.

    Returns:
        Text for ``sbatch``.

    Raises:
        UserError: a name or folder that cannot be written safely, too many runs, or a secret in the script.
    """
    if not runs:
        raise UserError("no run to submit")
    if len(runs) > LARGEST_ARRAY:
        raise UserError(f"{len(runs)} runs exceed one job array ({LARGEST_ARRAY}); name fewer rows or seeds")
    script = _template().render(
        profile=profile,
        queue=profile.queue,
        resources=profile.resources,
        surroundings=profile.surroundings,
        strategy="ddp" if profile.resources.ranks > 1 else "auto",
        job_name=checked.job_name(name),
        log_stem=checked.job_name(name).replace("/", "-"),
        work=_sbatch_folder("the folder to submit from", places.work),
        logs=_sbatch_folder("the folder of the logs", places.logs),
        variables=places.variables,
        runs=[_run(run) for run in runs],
        stage=_stage_folder(profile.surroundings.stage_data),
    )
    refuse_secrets(script, os.environ)
    return script


def _template() -> "jinja2.Template":
    import jinja2  # here, to keep `repro --help` quick

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PROJECT / "slurm"),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # shell, not HTML: the template quotes with `| quote`
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["quote"] = lambda value: shlex.quote(str(value))
    return environment.get_template("job.sbatch.j2")


def _sbatch_folder(what: str, folder: Path) -> str:
    if not checked.FOLDER.fullmatch(str(folder)):
        raise UserError(
            f"{what}, {str(folder)!r}, cannot stand in an #SBATCH line: spaces, quotes and % have a meaning "
            "there; work in another folder, or set REPRO_RUNS"
        )
    return str(folder)


def _run(run: RunSpec) -> dict[str, str]:
    checked.matching("experiment", run.experiment, checked.NAME, "attention-is-all-you-need/base")
    if run.scale not in SCALES:
        raise UserError(f"scale: {run.scale!r}; choose one of {', '.join(SCALES)}")
    seed = str(checked.count("seed", run.seed, 0))
    return {
        "arguments": shlex.join([run.experiment, "--scale", run.scale, "--seed", seed]),
        "folder": shlex.quote(str(run.run_dir.absolute())),
        "store": shlex.quote(_store(run)),
    }


def _store(run: RunSpec) -> str:
    """Name of the data store that a run reads, or an empty string: what is staged."""
    data = load_recipe(run.experiment, run.scale).config.get("data") or {}
    store = (data.get("init_args") or {}).get("store", "") if isinstance(data, dict) else ""
    return checked.matching("store", store, checked.NAME, "multi30k") if store else ""


def _stage_folder(stage: str | None) -> str | None:
    """A shell word for the node-local folder: a quoted path, or a variable that must be set on the node."""
    if stage is None:
        return None
    return f'"${{{stage[1:]}:?}}"' if stage.startswith("$") else shlex.quote(stage)


def refuse_secrets(script: str, environment: Mapping[str, str]) -> None:
    """Looks for the value of every secret variable of this shell in the script.

    Raises:
        UserError: one is there; names the variable, never the value.
    """
    for name, value in environment.items():
        if checked.SECRET.search(name) and len(value) >= SHORTEST_SECRET and value in script:
            raise UserError(f"the script would hold the value of ${name}; take it out of the cluster profile")


def check_syntax(script: str) -> None:
    """Lets bash parse the script, running nothing; setup lines are the only part that can be wrong.

    Raises:
        UserError: with bash's own first complaint.
    """
    bash = shutil.which("bash")
    if bash is None:
        return
    result = subprocess.run(
        [bash, "-n"], input=script, capture_output=True, text=True, check=False, timeout=30
    )
    if result.returncode:
        complaint = (result.stderr.strip().splitlines() or ["no message"])[0]
        raise UserError(f"bash cannot parse the script: {complaint}; look at `setup` of the cluster profile")
