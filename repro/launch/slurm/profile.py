"""A cluster profile: the settings of one Slurm site, in ``slurm/clusters/<name>.yaml``."""

import re
from dataclasses import dataclass

from repro.errors import UserError, nearest
from repro.launch.slurm import validation
from repro.paths import cluster_files
from repro.yamls import read_yaml

# Every key of a profile with its default; slurm/clusters/example.yaml explains each.
DEFAULTS: dict[str, object] = {
    "account": None, "partition": None, "qos": None, "constraint": None, "reservation": None,
    "time": "24:00:00", "nodes": 1, "gpus_per_node": None, "tasks_per_node": None, "cpus_per_task": 1,
    "mem": None,
    "max_parallel": None, "max_requeues": 20, "stall_s": None,
    "modules": [], "setup": [], "env": {}, "stage_data": None, "container": None,
}  # fmt: skip


@dataclass(frozen=True)
class Queue:
    """The queue of a job: the values of ``--account``, ``--partition``, ... (None: the site's default)."""

    account: str | None
    partition: str | None
    qos: str | None
    constraint: str | None
    reservation: str | None


@dataclass(frozen=True)
class Resources:
    """The resources of one run.

    Attributes:
        time: limit of one attempt, ``[days-]h:m:s``.
        nodes: nodes of one run.
        gpus_per_node: GPUs of each node, one rank each; 0 for a CPU profile.
        tasks_per_node: ranks per node; equals ``gpus_per_node`` where there are GPUs.
        cpus_per_task: CPU cores of a rank.
        mem: memory of a node in Slurm's notation, or None.
    """

    time: str
    nodes: int
    gpus_per_node: int
    tasks_per_node: int
    cpus_per_task: int
    mem: str | None

    @property
    def ranks(self) -> int:
        """Processes of one run."""
        return self.nodes * self.tasks_per_node


@dataclass(frozen=True)
class Container:
    """The container of the ranks, run by pyxis.

    Attributes:
        image: as ``srun --container-image`` takes it: a file, or ``[registry#]name[:tag]``.
        mounts: ``/from:/to[:flags]``, beside the suite's own folders, which are always mounted.
    """

    image: str
    mounts: tuple[str, ...]


@dataclass(frozen=True)
class Surroundings:
    """The environment of a job: modules, setup lines, variables, data copied to a local folder, container."""

    modules: tuple[str, ...]
    setup: tuple[str, ...]
    env: dict[str, str]
    stage_data: str | None
    container: Container | None


@dataclass(frozen=True)
class Profile:
    """A validated cluster profile.

    Attributes:
        max_parallel: the most runs of one array at the same time, or None.
        max_requeues: how often a run may return to the queue.
        stall_s: seconds without a step after which a run ends itself, or None for the suite's own limit.
    """

    name: str
    queue: Queue
    resources: Resources
    surroundings: Surroundings
    max_parallel: int | None
    max_requeues: int
    stall_s: int | None


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
        raise UserError(f"a profile is a mapping of {', '.join(DEFAULTS)}")
    for key in raw:
        if key not in DEFAULTS:
            raise UserError(f"unknown key {key!r}{nearest(str(key), DEFAULTS)}")
    values = {**DEFAULTS, **{k: v for k, v in raw.items() if v is not None}}
    parallel, stall = values["max_parallel"], values["stall_s"]
    return Profile(
        name=validation.matching("profile name", name, validation.NAME, "my-cluster"),
        queue=_queue(values),
        resources=_resources(values),
        surroundings=_surroundings(values),
        max_parallel=None if parallel is None else validation.count("max_parallel", parallel, 1),
        max_requeues=validation.count("max_requeues", values["max_requeues"], 0),
        stall_s=None if stall is None else validation.count("stall_s", stall, 1),
    )


def _queue(values: dict[str, object]) -> Queue:
    def optional(key: str, pattern: re.Pattern[str], example: str) -> str | None:
        value = values[key]
        return None if value is None else validation.matching(key, value, pattern, example)

    return Queue(
        account=optional("account", validation.NAME, "my-project"),
        partition=optional("partition", validation.NAMES, "gpu or gpu,long"),
        qos=optional("qos", validation.NAME, "normal"),
        constraint=optional("constraint", validation.CONSTRAINT, "h100 or a100|h100"),
        reservation=optional("reservation", validation.NAMES, "course-2026"),
    )


def _resources(values: dict[str, object]) -> Resources:
    if values["gpus_per_node"] is None:
        raise UserError("gpus_per_node is missing; write the number of GPUs of a node, 0 for a CPU profile")
    gpus = validation.count("gpus_per_node", values["gpus_per_node"], 0)
    tasks = values["tasks_per_node"]
    if gpus and tasks is not None:
        raise UserError(
            f"tasks_per_node: {tasks!r} beside gpus_per_node: {gpus}; one rank runs on each GPU, leave it out"
        )
    mem = values["mem"]
    return Resources(
        time=validation.time_limit(values["time"]),
        nodes=validation.count("nodes", values["nodes"], 1),
        gpus_per_node=gpus,
        tasks_per_node=gpus or validation.count("tasks_per_node", 1 if tasks is None else tasks, 1),
        cpus_per_task=validation.count("cpus_per_task", values["cpus_per_task"], 1),
        mem=None if mem is None else validation.matching("mem", mem, validation.MEMORY, "64G"),
    )


def _surroundings(values: dict[str, object]) -> Surroundings:
    modules = validation.lines("modules", values["modules"])
    for module in modules:
        validation.matching("modules", module, validation.MODULE, "cuda/12.8")
    return Surroundings(
        modules=modules,
        setup=validation.setup_lines(values["setup"]),
        env=validation.environment(values["env"]),
        stage_data=_stage(values["stage_data"]),
        container=_container(values["container"]),
    )


def _stage(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value.startswith("$") and validation.VARIABLE.fullmatch(value[1:]):
        return value
    return validation.matching("stage_data", value, validation.FOLDER, "/local/scratch or $TMPDIR")


def _container(value: object) -> Container | None:
    if value is None:
        return None
    if not isinstance(value, dict) or "image" not in value:
        raise UserError(
            f"container: {value!r} names no image; write container: {{image: /images/suite.sqsh, mounts: []}}"
        )
    for key in value:
        if key not in ("image", "mounts"):
            raise UserError(f"container: unknown key {key!r}{nearest(str(key), ('image', 'mounts'))}")
    image = validation.matching(
        "container image", value["image"], validation.IMAGE, "hub.example#suite/torch:1.0"
    )
    mounts = validation.lines("container mounts", value.get("mounts") or [])
    for mount in mounts:
        validation.matching(
            "container mounts", mount, validation.MOUNT, "/scratch:/scratch or /home/me:/home/me:ro"
        )
    return Container(image, mounts)
