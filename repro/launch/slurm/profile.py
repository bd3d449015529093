"""A cluster profile: the settings of one Slurm site, in ``slurm/clusters/<name>.yaml``."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from repro.errors import UserError, nearest
from repro.launch.slurm import validation
from repro.paths import cluster_files
from repro.yamls import read_yaml

Check = Callable[[str, object], Any]  # takes a key and its value; returns the value or raises UserError


@dataclass(frozen=True)
class Container:
    """The container of the ranks, run by pyxis.

    Attributes:
        image: as ``srun --container-image`` takes it: a file, or ``[registry#]name[:tag]``.
        mounts: ``/from:/to[:flags]``, beside the suite's own folders, which are always mounted.
    """

    image: str
    mounts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profile:
    """A validated cluster profile; slurm/clusters/example.yaml explains each key.

    Attributes:
        name: of the file.
        gpus_per_node: GPUs of each node, one rank each; 0 for a CPU profile.
        account, partition, qos, constraint, reservation: the queue; None is the site's default.
        exclude: nodes that are not used, or None.
        mail_type, mail_user: when and to whom Slurm sends mail, or None.
        gpu_type: kind of the GPUs, as the site names it in its GRES, or None for any.
        time: limit of one attempt, ``[days-]h:m:s``.
        nodes: nodes of one run.
        tasks_per_node: ranks per node; equals ``gpus_per_node`` where there are GPUs.
        cpus_per_task: CPU cores of a rank.
        mem: memory of a node in Slurm's notation, or None.
        max_parallel: the most runs of one array at the same time, or None.
        max_requeues: how often a run may return to the queue.
        warning_s: seconds before the time limit at which a run is asked to save and leave.
        stall_s: seconds without a step after which a run ends itself, or None for the suite's own limit.
        modules: environment modules that are loaded.
        setup: shell lines, written into the script unchanged.
        env: variables that are exported.
        stage_data: local folder of a node to which the data is copied, or None.
        container: of the ranks, or None.
        sbatch, srun: further options of these commands.
    """

    name: str
    gpus_per_node: int
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    exclude: str | None = None
    mail_type: str | None = None
    mail_user: str | None = None
    gpu_type: str | None = None
    time: str = "24:00:00"
    nodes: int = 1
    tasks_per_node: int = 1
    cpus_per_task: int = 1
    mem: str | None = None
    max_parallel: int | None = None
    max_requeues: int = 20
    warning_s: int = 120
    stall_s: int | None = None
    modules: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    stage_data: str | None = None
    container: Container | None = None
    sbatch: tuple[str, ...] = ()
    srun: tuple[str, ...] = ()

    @property
    def gpus(self) -> str | None:
        """GPUs of a node as Slurm takes them: ``4`` or ``a100:4``; None for a CPU profile."""
        kind = f"{self.gpu_type}:" if self.gpu_type else ""
        return f"{kind}{self.gpus_per_node}" if self.gpus_per_node else None

    @property
    def ranks(self) -> int:
        """Processes of one run."""
        return self.nodes * self.tasks_per_node


def _text(pattern: re.Pattern[str], example: str) -> Check:
    return lambda key, value: validation.matching(key, value, pattern, example)


def _texts(pattern: re.Pattern[str], example: str) -> Check:
    one = _text(pattern, example)
    return lambda key, value: tuple(one(key, line) for line in validation.lines(key, value))


def _whole(least: int) -> Check:
    return lambda key, value: validation.count(key, value, least)


def _stage(key: str, value: object) -> str:
    if isinstance(value, str) and value.startswith("$") and validation.VARIABLE.fullmatch(value[1:]):
        return value
    return validation.matching(key, value, validation.FOLDER, "/local/scratch or $TMPDIR")


_IMAGE = _text(validation.IMAGE, "hub.example#suite/torch:1.0")
_MOUNTS = _texts(validation.MOUNT, "/scratch:/scratch or /home/me:/home/me:ro")


def _container(key: str, value: object) -> Container:
    if not isinstance(value, dict) or "image" not in value:
        raise UserError(
            f"{key}: {value!r} names no image; write container: {{image: /images/suite.sqsh, mounts: []}}"
        )
    _refuse_unknown(value, ("image", "mounts"), f"{key}: ")
    image = _IMAGE("container image", value["image"])
    return Container(image, _MOUNTS("container mounts", value.get("mounts") or []))


CHECKS: dict[str, Check] = {
    "account": _text(validation.NAME, "my-project"),
    "partition": _text(validation.NAMES, "gpu or gpu,long"),
    "qos": _text(validation.NAME, "normal"),
    "constraint": _text(validation.CONSTRAINT, "h100 or a100|h100"),
    "reservation": _text(validation.NAMES, "course-2026"),
    "exclude": _text(validation.NODES, "cn7 or cn[3-4],cn9"),
    "mail_type": _text(validation.NAMES, "END,FAIL"),
    "mail_user": _text(validation.NAME, "me@example.org"),
    "gpu_type": _text(validation.NAME, "a100"),
    "time": validation.time_limit,
    "nodes": _whole(1),
    "gpus_per_node": _whole(0),
    "tasks_per_node": _whole(1),
    "cpus_per_task": _whole(1),
    "mem": _text(validation.MEMORY, "64G"),
    "max_parallel": _whole(1),
    "max_requeues": _whole(0),
    "warning_s": _whole(1),
    "stall_s": _whole(1),
    "modules": _texts(validation.MODULE, "cuda/12.8"),
    "setup": validation.setup_lines,
    "env": validation.environment,
    "stage_data": _stage,
    "container": _container,
    "sbatch": validation.lines,
    "srun": validation.lines,
}
# Options of sbatch that stand for one of these keys.
KEYS = (
    "account",
    "partition",
    "qos",
    "constraint",
    "reservation",
    "exclude",
    "mail_type",
    "mail_user",
    "mem",
    "time",
)
# What the scripts and the other keys of a profile decide.
OWN = {
    "sbatch": "array chdir comment cpus-per-task dependency error export export-file gid gpus gpus-per-node "
    "gpus-per-task input job-name kill-on-invalid-dep no-requeue nodes ntasks ntasks-per-node open-mode output "
    "parsable requeue signal test-only uid wait wrap",
    "srun": "chdir error export input kill-on-bad-exit multi-prog nodes ntasks ntasks-per-node output pty",
}


def with_options(profile: Profile, sbatch: Sequence[str] = (), srun: Sequence[str] = ()) -> Profile:
    """Adds options of ``sbatch`` and ``srun`` to a profile; ``--exclude=cn3`` replaces the key ``exclude``.

    Raises:
        UserError: a word that is no long option, or an option that the scripts set themselves.
    """
    changed: dict[str, Any] = {}
    further: dict[str, list[str]] = {"sbatch": [], "srun": []}
    for command, word in (*(("sbatch", w) for w in sbatch), *(("srun", w) for w in srun)):
        validation.matching(command, word, validation.OPTION, "--exclusive or --nice=100")
        name, _, value = word[2:].partition("=")
        if name in OWN[command].split():
            raise UserError(f"{command}: {word!r} is set by repro; the keys of a cluster profile decide it")
        if command == "sbatch" and (key := name.replace("-", "_")) in KEYS:
            changed[key] = CHECKS[key](word, value)
        else:
            further[command].append(word)
    changed |= {command: (*getattr(profile, command), *words) for command, words in further.items()}
    result = replace(profile, **changed)
    if 3600 * validation.hours(result.time) <= result.warning_s:
        raise UserError(
            f"time: {result.time!r} leaves no time to train: a run is asked to save {result.warning_s} s before the "
            'end (warning_s); give it more, like "24:00:00"'
        )
    return result


def load_profile(name: str) -> Profile:
    """Reads and validates one profile.

    Raises:
        UserError: no such profile, an unknown key (nearest offered), or a value that cannot be used.
    """
    files = cluster_files()
    if name not in list(files):  # never a path; a list because argparse makes [] of `--cluster=--`
        hint = f"; there are: {', '.join(files)}" if files else ""
        raise UserError(
            f"no cluster profile {name!r}{nearest(name, files) or hint}; "
            "copy slurm/clusters/example.yaml to add one; `repro init` writes it into a new project"
        )
    path = files[name]
    try:
        return parse_profile(name, read_yaml(path))
    except UserError as error:
        raise UserError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def parse_profile(name: str, raw: object) -> Profile:
    """Validates the content of a profile file; see :func:`load_profile`."""
    if not isinstance(raw, dict):
        raise UserError(f"a profile is a mapping of {', '.join(CHECKS)}")
    _refuse_unknown(raw, tuple(CHECKS))
    values = {key: CHECKS[key](key, value) for key, value in raw.items() if value is not None}
    if "gpus_per_node" not in values:
        raise UserError("gpus_per_node is missing; write the number of GPUs of a node, 0 for a CPU profile")
    gpus = values["gpus_per_node"]
    if gpus and "tasks_per_node" in values:
        raise UserError(
            f"tasks_per_node: {values['tasks_per_node']!r} beside gpus_per_node: {gpus}; one rank runs on each GPU, "
            "leave it out"
        )
    if gpus:
        values["tasks_per_node"] = gpus
    if "gpu_type" in values and not gpus:
        raise UserError(f"gpu_type: {values['gpu_type']!r} beside gpus_per_node: 0; leave it out")
    options = {command: values.pop(command, ()) for command in ("sbatch", "srun")}
    name = validation.matching("profile name", name, validation.NAME, "my-cluster")
    return with_options(Profile(name, **values), **options)


def _refuse_unknown(raw: dict[str, Any], known: tuple[str, ...], place: str = "") -> None:
    for key in raw:
        if key not in known:
            raise UserError(f"{place}unknown key {key!r}{nearest(str(key), known)}")
