"""Checks of values that are written into a batch script.

Slurm reads ``#SBATCH`` lines without a shell, so quoting cannot protect them: values there are restricted to a
small alphabet. A function returns the value, or raises UserError.
"""

import os
import re

from repro.errors import UserError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@/-]*")
FOLDER = re.compile(r"/[A-Za-z0-9._@/+=,:~-]*")
SECRET = re.compile(r"KEY|TOKEN(?!IZ)|SECRET|PASSWORD|PASSWD", re.IGNORECASE)  # not TOKENIZERS_PARALLELISM
SHORTEST_SECRET = 8  # characters; shorter values ("1", "none") would be found in any text
TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<first>\d+)(?::(?P<second>\d+))?(?::(?P<third>\d+))?")
LONGEST_NAME = 200


def matching(label: str, value: object, pattern: re.Pattern[str], example: str) -> str:
    """A string that matches whole.

    Raises:
        UserError: anything else; shows an example.
    """
    if not isinstance(value, str) or len(value) > LONGEST_NAME or not pattern.fullmatch(value):
        raise UserError(f"{label}: {value!r} cannot be written into a batch script; write it like {example}")
    return value


def inner_path(label: str, value: str, example: str) -> str:
    """A name with slashes that stays below the folder it is used in."""
    name = matching(label, value, NAME, example)
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise UserError(f"{label}: {value!r} leads out of its folder; write it like {example}")
    return name


def refuse_secret_name(label: str, name: str) -> None:
    """Refuses to set a variable whose name is that of a secret."""
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


def hours(limit: str) -> float:
    """Hours of a Slurm time limit: minutes, m:s, h:m:s, d-h, d-h:m or d-h:m:s."""
    match = TIME.fullmatch(limit)
    if match is None:
        raise UserError(f'time: {limit!r} is not a time limit; write it like "24:00:00"')
    parts = [int(p) for p in match.group("first", "second", "third") if p is not None]
    if match["days"] is None and len(parts) < 3:
        parts.insert(0, 0)  # without days the first of one or two numbers is minutes
    h, m, s = (*parts, 0, 0)[:3]
    return 24 * int(match["days"] or 0) + h + m / 60 + s / 3600
