"""``repro doctor``: checks of this machine. A failing check is a line, never a traceback."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from repro.errors import UserError
from repro.files import has_locks
from repro.launch.slurm.limits import read_limits
from repro.paths import data_dir, results_dir, runs_dir

OK, WARN, FAIL = "ok", "warn", "fail"
LOW_SPACE = 5e9  # bytes free, below which a check warns
RANKS_LIMIT_S = 60.0
WANDB_LIMIT_S = 5
INSTALL = "pip install -r requirements.lock"
SLURM_COMMANDS = ("sbatch", "srun", "squeue", "sacct", "scontrol", "scancel")


@dataclass(frozen=True)
class Check:
    """The result of a check.

    Attributes:
        status: ``ok``, ``warn`` (works in part, or is not needed everywhere) or ``fail``.
        detail: the finding, in one line.
        remedy: what to do; empty where there is nothing to do.
    """

    status: str
    detail: str
    remedy: str = ""


def checks() -> dict[str, Check]:
    """Runs every check, in the order shown. Takes a few seconds, mostly for two processes that import torch."""
    probes: dict[str, Callable[[], Check]] = {
        "packages": packages,
        "gpus": gpus,
        "ranks": ranks,
        "runs": lambda: folder("runs", runs_dir()),
        "data": lambda: folder("data", data_dir()),
        "results": lambda: folder("results", results_dir()),
        "stores": stores,
        "wandb": wandb_state,
        "slurm": slurm,
    }
    return {name: guarded(probe) for name, probe in probes.items()}


def guarded(probe: Callable[[], Check]) -> Check:
    """The result of a check; one that raises has failed."""
    try:
        return probe()
    except metadata.PackageNotFoundError:
        return Check(FAIL, "not installed", INSTALL)
    except Exception as error:  # a broken installation can raise anything; the other checks still help
        message = (str(error).strip().splitlines() or [""])[0]
        return Check(FAIL, f"{type(error).__name__}: {message}", "repair what the line names, then run again")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def packages() -> Check:
    """Compares the installed packages with the project's requirements, by their metadata: none is imported."""
    unmet = []
    for requirement in map(Requirement, metadata.requires("repro") or ()):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            found = _version(requirement.name)
            if found is None or not requirement.specifier.contains(found, prereleases=True):
                unmet.append(f"{requirement} ({found or 'not installed'})")
    if unmet:
        return Check(FAIL, f"not as required: {', '.join(unmet)}", INSTALL)
    return Check(OK, ", ".join(f"{name} {metadata.version(name)}" for name in ("torch", "lightning")))


def gpus() -> Check:
    """GPUs that torch can use."""
    import torch

    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return Check(OK, f"{len(names)}: {', '.join(sorted(set(names)))}; CUDA {torch.version.cuda}")
    if shutil.which("nvidia-smi") or Path("/dev/nvidia0").exists():
        built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "a CPU build"
        remedy = "install a CUDA build of torch that fits the driver"
        return Check(FAIL, f"there is a GPU, but torch is {built}", remedy)
    return Check(WARN, "none", "use --scale cpu or small here, or submit to a cluster")


def ranks(limit_s: float = RANKS_LIMIT_S) -> Check:
    """Two processes all-reduce over gloo on this machine, within a time limit."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    remedy = "set GLOO_SOCKET_IFNAME to a network interface, like lo or eth0"
    with tempfile.TemporaryDirectory() as folder:
        words += ["-m", "repro.experiment.rendezvous", f"{folder}/met"]
        torchrun = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            output, _ = torchrun.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return Check(FAIL, f"2 processes did not meet within {limit_s:g} s", remedy)
        finally:
            torchrun.terminate()  # and with it both processes
            torchrun.wait()
    if torchrun.returncode == 0:
        return Check(OK, "2 processes all-reduce over gloo")
    return Check(FAIL, (output.splitlines() or ["a process died without a message"])[-1], remedy)


def folder(name: str, path: Path) -> Check:
    """Free space of a folder, and whether a file can be written and locked there."""
    existing = path if path.exists() else next(p for p in path.absolute().parents if p.exists())
    remedy = f"make {path} writable, or set REPRO_{name.upper()} to another folder"
    if not existing.is_dir():
        return Check(FAIL, f"{existing} is not a folder", remedy)
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(b"x")
            locks = has_locks(file)
    except OSError as error:
        return Check(FAIL, f"cannot write to {existing}: {error.strerror}", remedy)
    free = shutil.disk_usage(existing).free
    summary = f"{path}, writable, {free / 1e9:.1f} GB free" + ("" if path.exists() else " (not made yet)")
    if free < LOW_SPACE:
        remedy = f"free some space, or set REPRO_{name.upper()} to a larger disk"
        return Check(WARN, summary, remedy)
    if not locks:
        remedy = "mount it with locks (Lustre: -o flock), or never start one run twice at a time"
        return Check(WARN, f"{summary}, no file locks: two processes could write one run", remedy)
    return Check(OK, summary)


def stores() -> Check:
    """Prepared data stores: manifests and file sizes, not the hashes."""
    from repro.data.prepare import open_store

    prepared = sorted(path.parts[-3:-1] for path in data_dir().glob("[!.]*/[!.]*/manifest.json"))
    if not prepared:
        remedy = "`repro data list` shows what can be prepared; --scale cpu makes its own data"
        return Check(WARN, "none prepared", remedy)
    broken = []
    for name, variant in prepared:
        try:
            open_store(name, variant)
        except UserError as error:
            broken.append(str(error))
    if broken:
        return Check(FAIL, broken[0], "run the command that the line names")
    return Check(OK, ", ".join(f"{name}/{variant}" for name, variant in prepared))


def wandb_state() -> Check:
    """Checks whether runs reach W&B with the key of this machine. The key is never shown."""
    from repro import mirror
    from repro.mirror.api import connect

    version, mode = _version("wandb"), mirror.mode()
    if version is None:
        return Check(WARN, "not installed; runs train and are recorded all the same", "pip install wandb")
    if mode != "online":
        remedy = "export WANDB_API_KEY or run `wandb login`"
        return Check(OK if os.environ.get("WANDB_MODE") else WARN, f"{version}, runs are {mode}", remedy)
    try:
        connect(WANDB_LIMIT_S)
    except UserError as error:
        return Check(WARN, f"{version}, {error}", "`repro sync` sends runs later")
    return Check(OK, f"{version}, the key is accepted, runs are mirrored")


def slurm() -> Check:
    """Slurm's commands, version, and the times that a stopped run has to save itself."""
    missing = [command for command in SLURM_COMMANDS if shutil.which(command) is None]
    if len(missing) == len(SLURM_COMMANDS):
        return Check(WARN, "not on this machine", "needed on a cluster's login node only")
    if missing:
        remedy = "install Slurm's client commands, or correct PATH"
        return Check(FAIL, f"{', '.join(missing)} not on PATH", remedy)
    limits = read_limits()
    if not limits.settings:
        return Check(WARN, "the controller does not answer", "do this on a login node")
    grace = ", ".join(f"{p.get('GraceTime', '?')} s in {p['PartitionName']}" for p in limits.partitions)
    return Check(
        OK,
        f"slurm {limits.settings.get('SLURM_VERSION', 'of unknown version')}; arrays of up to "
        f"{limits.largest_array:,} runs; to save itself a cancelled run has KillWait "
        f"({limits.settings.get('KillWait', 'unknown')}), a preempted one GraceTime ({grace or 'unknown'})",
    )


def meeting(cluster: str) -> Check:
    """Ranks on two nodes of a cluster, in a job of its own, meet over gloo and see one folder of runs."""
    from repro.launch.meeting import Unmet, meet

    remedy = (
        "nodes must share the folder of runs; GLOO_SOCKET_IFNAME in `env` of the profile names the network"
    )
    try:
        return Check(OK, "; ".join(meet(cluster)))
    except Unmet as error:
        return Check(FAIL, str(error), remedy)
