"""Checks of values: everything that is written into a batch script passes through one of these.

Slurm reads ``#SBATCH`` lines without a shell, so quoting cannot protect them: values there are restricted to a
small alphabet. Each function takes the value's name for its message and returns the value, or raises
UserError.
"""

import contextlib
import json
import math
import os
import re
from collections.abc import Iterator

import yaml

from repro.errors import UserError
from repro.yamls import parse_yaml

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@/-]*")
NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@/-]*(,[A-Za-z0-9][A-Za-z0-9._@/-]*)*")
NODES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\[\],-]*")
OPTION = re.compile(r"--[a-z][a-z0-9-]+(=[A-Za-z0-9._@/&|*()\[\],:+=-]+)?")
CONSTRAINT = re.compile(r"[A-Za-z0-9\[(][A-Za-z0-9._@/&|*()\[\],:-]*")
MEMORY = re.compile(r"\d+[KMGT]?")
MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@/+-]*")
FOLDER = re.compile(r"/[A-Za-z0-9._@/+=,:~-]*")
IMAGE = re.compile(r"[A-Za-z0-9/][A-Za-z0-9._@/+:#-]*")
MOUNT = re.compile(r"/[A-Za-z0-9._@/+=~-]*:/[A-Za-z0-9._@/+=~-]*(:[a-z+]+)?")
SETTING = re.compile(r"compile|[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_@/-]+)+")  # one section has no keys
REMARK = re.compile(r"[\w .,:;+=/@()!?-]+")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRET = re.compile(r"KEY|TOKEN(?!IZ)|SECRET|PASSWORD|PASSWD", re.IGNORECASE)  # not TOKENIZERS_PARALLELISM
SHORTEST_SECRET = 8  # characters; shorter values ("1", "none") would be found in any text
TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<first>\d+)(?::(?P<second>\d+))?(?::(?P<third>\d+))?")
# Lightning takes a job of such a name for a shell session and ignores Slurm: each rank would train alone.
RESERVED_JOB_NAMES = ("bash", "interactive")
LONGEST_NAME = 200
# What the batch scripts set themselves: a job with another REPRO_RUNS writes where `repro status` does not look.
OWN_VARIABLE = re.compile(r"REPRO_\w*|PYTHONPATH|MASTER_PORT|MASTER_ADDR")
REMEDIES = {
    "REPRO_STALL_S": "write stall_s into the profile",
    "PYTHONPATH": "install packages in the environment that `setup` activates",
    "MASTER_PORT": "leave it out",
    "MASTER_ADDR": "leave it out",
}


def matching(label: str, value: object, pattern: re.Pattern[str], example: str) -> str:
    """A string that matches whole.

    Raises:
        UserError: anything else; shows an example.
    """
    if not isinstance(value, str) or len(value) > LONGEST_NAME or not pattern.fullmatch(value):
        raise UserError(f"{label}: {value!r} cannot be written into a batch script; write it like {example}")
    return value


def inner_path(label: str, value: object, example: str) -> str:
    """A name with slashes that stays below the folder it is used in."""
    name = matching(label, value, NAME, example)
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise UserError(f"{label}: {value!r} leads elsewhere; write it like {example}")
    return name


def job_name(value: object) -> str:
    """A Slurm job name; ``bash`` and ``interactive`` are refused."""
    name = matching("job name", value, NAME, "base-cpu (letters, digits and . _ @ / -)")
    if name in RESERVED_JOB_NAMES:
        raise UserError(f"job name {name!r}: Lightning ignores Slurm in jobs of that name; choose another")
    return name


def remark(value: object) -> str:
    """A user's comment on a job: letters of any script, digits, spaces and plain punctuation.

    Slurm takes it between double quotes, in which ``"``, ``\\`` and line breaks could end it.
    """
    return matching("comment", value, REMARK, "second try, longer warm-up (letters, digits, .,:;+=/@()!?-)")


def setting(key: str, value: object) -> str:
    """Formats an override as one word, ``--key=value``, that the command line reads as the same value.

    Raises:
        UserError: a key that is no dotted name, or a value that YAML cannot carry.
    """
    matching("setting", key, SETTING, "--trainer.max_steps 10")
    for text in _spellings(value):
        with contextlib.suppress(UserError):
            if repr(parse_yaml(text)) == repr(value):
                return f"--{key}={text}"
    raise UserError(f"--{key}: {value!r} cannot be written as one line of YAML; put it into a recipe file")


def _spellings(value: object) -> Iterator[str]:
    for ascii_only in (
        False,
        True,
    ):  # readable where possible; JSON is YAML but for a few line breaks of Unicode's
        with contextlib.suppress(TypeError, ValueError):
            yield json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)
    with contextlib.suppress(yaml.YAMLError):
        text: str = yaml.safe_dump(value, default_flow_style=True, width=math.inf, allow_unicode=True)
        yield text.removesuffix("\n").removesuffix("\n...")


def count(label: str, value: object, least: int) -> int:
    """A whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{label}: {value!r} is not a whole number of at least {least}")
    return value


def lines(label: str, value: object) -> tuple[str, ...]:
    """A list of one-line strings."""
    if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
        raise UserError(f"{label}: {value!r} is not a list of strings, one per line")
    for line in value:
        if any(ord(c) < 32 and c != "\t" for c in line):
            raise UserError(
                f"{label}: {line!r} holds a line break or control character; write one line per item"
            )
    return tuple(value)


def setup_lines(label: str, value: object) -> tuple[str, ...]:
    """Shell lines, written into the script unchanged; refuses one that sets a secret."""
    commands = lines(label, value)
    for line in commands:
        for name in re.findall(r"([A-Za-z_][A-Za-z0-9_]*)=", line):
            _refuse_secret(label, name)
    return commands


def environment(label: str, value: object) -> dict[str, str]:
    """Names and values to export. Secrets are refused by name; the value is never repeated."""
    if not isinstance(value, dict):
        raise UserError(f"{label}: {type(value).__name__} is not a mapping of names to values")
    out = {}
    for name, content in value.items():
        if not isinstance(name, str) or not VARIABLE.fullmatch(name):
            raise UserError(f"{label}: {name!r} is not a variable name; use letters, digits and _")
        _refuse_secret(label, name)
        if OWN_VARIABLE.fullmatch(name):
            remedy = REMEDIES.get(name, "set it in the shell you submit from")
            raise UserError(f"{label} sets {name}, which the job's script sets: {remedy}")
        if isinstance(content, bool) or not isinstance(content, str | int | float):
            raise UserError(
                f'{label}: {name} is neither text nor a number; write it in quotes, like {name}: "1"'
            )
        if "\0" in str(content) or "\n" in str(content):
            raise UserError(f"{label}: {name} holds a line break or NUL; a variable's value is one line")
        out[name] = str(content)
    return out


def _refuse_secret(label: str, name: str) -> None:
    if SECRET.search(name):
        raise UserError(
            f"{label} sets {name}: secrets are never written into scripts; export it in the shell you submit from "
            "(Slurm passes it on) or keep it in ~/.netrc"
        )


def refuse_secrets(place: str, text: str | bytes) -> None:
    """Refuses text that holds the value of a secret variable of this shell.

    Args:
        place: where the text would be written, for the message: ``the script``, ``configs/x.yaml``.
        text: what would be written.

    Raises:
        UserError: one is there; names the variable, never the value.
    """
    data = text.encode(errors="surrogateescape") if isinstance(text, str) else text
    secrets = {n: v for n, v in os.environ.items() if SECRET.search(n) and len(v) >= SHORTEST_SECRET}
    for name, value in secrets.items():
        if value.encode(errors="surrogateescape") in data:
            raise UserError(
                f"{place} would hold the value of ${name}; take it out, jobs see the variable itself"
            )


def time_limit(label: str, value: object) -> str:
    """A Slurm time limit as a string, ``[days-]hours:minutes:seconds``."""
    if isinstance(value, int):  # YAML 1.1 reads 24:00:00 without quotes as 86400
        raise UserError(f'{label}: {value!r} is a number; write it in quotes, like {label}: "24:00:00"')
    return matching(label, value, TIME, '"24:00:00" or "2-00:00:00" (days-hours:minutes:seconds)')


def hours(limit: str) -> float:
    """Hours of a Slurm time limit: minutes, m:s, h:m:s, d-h, d-h:m or d-h:m:s."""
    match = TIME.fullmatch(limit)
    if match is None:
        raise UserError(f'time: {limit!r} is not a time limit; write it like "24:00:00"')
    parts = [int(p) for p in match.group("first", "second", "third") if p is not None]
    if match["days"] is not None:
        h, m, s = (*parts, 0, 0)[:3]
        return 24 * int(match["days"]) + h + m / 60 + s / 3600
    if len(parts) == 3:
        return parts[0] + parts[1] / 60 + parts[2] / 3600
    minutes, seconds = (*parts, 0)[:2]
    return minutes / 60 + seconds / 3600
