"""A cluster profile: the settings of one Slurm site, in ``slurm/clusters/<name>.yaml``."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from repro.errors import UserError, nearest
from repro.launch.slurm import validation
from repro.launch.slurm.validation import FOLDER, NAME
from repro.paths import cluster_files
from repro.yamls import read_yaml

NAMES = re.compile(f"{NAME.pattern}(,{NAME.pattern})*")
OPTION = re.compile(r"--[a-z][a-z0-9-]+(=[A-Za-z0-9._@/&|*()\[\],:+=-]+)?")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MOUNT = re.compile(r"/[A-Za-z0-9._@/+=~-]*:/[A-Za-z0-9._@/+=~-]*(:[a-z+]+)?")
# What the batch scripts set themselves: a job with another REPRO_RUNS writes where `repro status` does not look.
OWN_VARIABLE = re.compile(r"REPRO_\w*|PYTHONPATH|MASTER_PORT|MASTER_ADDR")
# Options of sbatch that stand for one of the keys.
KEYS = "account partition qos constraint reservation exclude mail_type mail_user mem time"
# What the scripts and the other keys of a profile decide.
OWN = {
    "sbatch": "array chdir comment cpus-per-task dependency error export export-file gid gpus gpus-per-node "
    "gpus-per-task input job-name kill-on-invalid-dep no-requeue nodes ntasks ntasks-per-node open-mode output "
    "parsable requeue signal test-only uid wait wrap",
    "srun": "chdir error export input kill-on-bad-exit multi-prog nodes ntasks ntasks-per-node output pty",
}


def like(pattern: re.Pattern[str] | str, example: str) -> AfterValidator:
    """Text that matches a pattern whole, so that it can stand in a batch script.

    Raises:
        UserError: other text; names the key, and shows an example.
    """
    regex = re.compile(pattern)
    return AfterValidator(lambda text, info: validation.matching(str(info.field_name), text, regex, example))


def _option(word: str, info: ValidationInfo) -> str:
    """An option of a command that the scripts do not set themselves."""
    command = str(info.field_name)
    if word.removeprefix("--").partition("=")[0] in OWN[command].split():
        raise UserError(f"{command}: {word!r} is set by repro; the keys of a cluster profile decide it")
    return validation.matching(command, word, OPTION, "--exclusive or --nice=100")


def _setup(line: str) -> str:
    """A shell line, written into the script unchanged; it sets no secret."""
    if any(ord(c) < 32 and c != "\t" for c in line):
        raise UserError(f"setup: {line!r} holds a line break or control character; write one line per item")
    for name in re.findall(rf"({VARIABLE.pattern})=", line):
        validation.refuse_secret_name("setup", name)
    return line


def require_sourced(profile: "Profile", folder: Path) -> None:
    """Checks that the files that the setup sources by a path relative to the folder of the jobs are there.

    Other folders may be the nodes' own, and a name without a slash is looked for on their ``PATH``.

    Raises:
        UserError: one is not.
    """
    for line in profile.setup:
        match = re.fullmatch(r"(?:source|\.)\s+(?!/)([\w.-]*/[\w./-]+)\s*", line)
        if match and not (folder / match[1]).is_file():
            raise UserError(
                f"setup: no {match[1]} in {folder}, where the jobs start; link the environment there, or change "
                "setup of the cluster profile"
            )


def _environment(variables: object) -> object:
    """Names and values to export. Secrets are refused by name; the value is never repeated."""
    if not isinstance(variables, dict):
        return variables
    for name, content in variables.items():
        validation.refuse_secret_name("env", str(name))
        if not VARIABLE.fullmatch(str(name)):
            raise UserError(f"env: {name!r} is not a variable name; use letters, digits and _")
        if OWN_VARIABLE.fullmatch(name):
            raise UserError(
                f"env sets {name}, which the job's script sets: set it in the shell you submit from; of a profile, "
                "stall_s sets the limit of the watchdog, and `setup` activates the environment"
            )
        if isinstance(content, bool) or not isinstance(content, str | int | float):
            raise UserError(f'env: {name} is neither text nor a number; write it in quotes, like {name}: "1"')
        if "\0" in str(content) or "\n" in str(content):
            raise UserError(f"env: {name} holds a line break or NUL; a variable's value is one line")
    return {name: str(content) for name, content in variables.items()}


class _Section(BaseModel):
    """A mapping of a profile: unknown keys and values of another type are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Container(_Section):
    """The container of the ranks, run by pyxis.

    Attributes:
        image: as ``srun --container-image`` takes it: a file, or ``[registry#]name[:tag]``.
        mounts: ``/from:/to[:flags]``, beside the suite's own folders, which are always mounted.
    """

    image: Annotated[str, like(r"[A-Za-z0-9/][A-Za-z0-9._@/+:#-]*", "hub.example#suite/torch:1.0")]
    mounts: list[Annotated[str, like(MOUNT, "/scratch:/scratch or /home/me:/home/me:ro")]] = []


class Profile(_Section):
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

    name: Annotated[str, like(NAME, "my-cluster")]
    gpus_per_node: int = Field(ge=0)
    account: Annotated[str, like(NAME, "my-project")] | None = None
    partition: Annotated[str, like(NAMES, "gpu or gpu,long")] | None = None
    qos: Annotated[str, like(NAME, "normal")] | None = None
    constraint: Annotated[str, like(r"[A-Za-z0-9\[(][A-Za-z0-9._@/&|*()\[\],:-]*", "a100|h100")] | None = None
    reservation: Annotated[str, like(NAMES, "course-2026")] | None = None
    exclude: Annotated[str, like(r"[A-Za-z0-9][A-Za-z0-9._\[\],-]*", "cn7 or cn[3-4],cn9")] | None = None
    mail_type: Annotated[str, like(NAMES, "END,FAIL")] | None = None
    mail_user: Annotated[str, like(NAME, "me@example.org")] | None = None
    gpu_type: Annotated[str, like(NAME, "a100")] | None = None
    time: Annotated[str, like(validation.TIME, '"24:00:00" or "2-00:00:00"')] = "24:00:00"
    nodes: int = Field(1, ge=1)
    tasks_per_node: int = Field(1, ge=1)
    cpus_per_task: int = Field(1, ge=1)
    mem: Annotated[str, like(r"\d+[KMGT]?", "64G")] | None = None
    max_parallel: int | None = Field(None, ge=1)
    max_requeues: int = Field(20, ge=0)
    warning_s: int = Field(120, ge=1)
    stall_s: int | None = Field(None, ge=1)
    modules: list[Annotated[str, like(r"[A-Za-z0-9][A-Za-z0-9._@/+-]*", "cuda/12.8")]] = []
    setup: list[Annotated[str, AfterValidator(_setup)]] = []
    env: Annotated[dict[str, str], BeforeValidator(_environment)] = {}
    stage_data: Annotated[str, like(rf"\${VARIABLE.pattern}|{FOLDER.pattern}", "$TMPDIR")] | None = None
    container: Container | None = None
    sbatch: list[Annotated[str, AfterValidator(_option)]] = []
    srun: list[Annotated[str, AfterValidator(_option)]] = []

    @property
    def gpus(self) -> str | None:
        """GPUs of a node as Slurm takes them: ``4`` or ``a100:4``; None for a CPU profile."""
        kind = f"{self.gpu_type}:" if self.gpu_type else ""
        return f"{kind}{self.gpus_per_node}" if self.gpus_per_node else None

    @property
    def ranks(self) -> int:
        """Processes of one run."""
        return self.nodes * self.tasks_per_node

    @model_validator(mode="after")
    def _fits(self) -> "Profile":
        if self.gpus_per_node and self.tasks_per_node != self.gpus_per_node:
            raise UserError(
                f"tasks_per_node: {self.tasks_per_node} beside gpus_per_node: {self.gpus_per_node}; one rank runs on "
                "each GPU, leave it out"
            )
        if self.gpu_type and not self.gpus_per_node:
            raise UserError(f"gpu_type: {self.gpu_type!r} beside gpus_per_node: 0; leave it out")
        if 3600 * validation.hours(self.time) <= self.warning_s:
            raise UserError(
                f"time: {self.time!r} leaves no time to train: a run is asked to save {self.warning_s} s before the "
                'end (warning_s); give it more, like "24:00:00"'
            )
        return self


def with_options(profile: Profile, sbatch: Sequence[str] = (), srun: Sequence[str] = ()) -> Profile:
    """Adds options of ``sbatch`` and ``srun`` to a profile; ``--exclude=cn3`` replaces the key ``exclude``.

    Raises:
        UserError: a word that is no long option, or an option that the scripts set themselves.
    """
    known = profile.model_dump(exclude_unset=True)
    options = {"sbatch": [*profile.sbatch, *sbatch], "srun": [*profile.srun, *srun]}
    return parse_profile(profile.name, known | options)


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
    if not isinstance(raw, Mapping):
        raise UserError(f"a profile is a mapping of {', '.join(Profile.model_fields)}")
    given = {key: value for key, value in raw.items() if value is not None}
    if given.get("name", name) != name:
        raise UserError(
            f"name: {given['name']!r}: a profile has the name of its file, {name!r}; leave it out"
        )
    if given.get("gpus_per_node"):
        given.setdefault("tasks_per_node", given["gpus_per_node"])
    try:
        return Profile.model_validate(_apart(given) | {"name": name})
    except ValidationError as error:
        raise UserError(_line(error)) from None


def _apart(given: dict[str, Any]) -> dict[str, Any]:
    """The settings of a profile, with those options of ``sbatch`` as keys that stand for one."""
    options = given.get("sbatch")
    if not isinstance(options, list):
        return given
    keys, further = {}, []
    for word in options:
        name, _, value = str(word).partition("=")
        key = name.removeprefix("--").replace("-", "_")
        if name.startswith("--") and key in KEYS.split():
            keys[key] = value
        else:
            further.append(word)
    return given | keys | {"sbatch": further}


def _line(error: ValidationError) -> str:
    """The first of pydantic's errors in a line."""
    first = error.errors()[0]
    place = ".".join(part for part in first["loc"] if isinstance(part, str))
    if first["type"] == "missing":
        return f"{place} is missing"
    if first["type"] == "extra_forbidden":
        known = Container.model_fields if "." in place else Profile.model_fields
        return f"unknown key {place!r}{nearest(place.rpartition('.')[2], known)}"
    remedy = "; write it in quotes" if first["type"] == "string_type" else ""
    return f"{place}: {first['msg']}, not {first['input']!r:.80}{remedy}"
