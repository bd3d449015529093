"""Keeps secrets out of everything that is written or printed: scripts, snapshots, the ledger."""

import os
from collections.abc import Mapping

from repro.errors import UserError
from repro.launch.slurm.validation import SECRET

SHORTEST = 8  # characters; shorter values of secret variables ("1", "none") would be found in any text


def secret_values(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment whose names mark them as secret."""
    return {n: v for n, v in environment.items() if SECRET.search(n) and len(v) >= SHORTEST}


def refuse_secrets(place: str, text: str | bytes, environment: Mapping[str, str] | None = None) -> None:
    """Refuses text that holds the value of a secret variable of this shell.

    Args:
        place: where the text would be written, for the message: ``the script``, ``configs/x.yaml``.
        text: what would be written.
        environment: by default this process's.

    Raises:
        UserError: one is there; names the variable, never the value.
    """
    data = text.encode(errors="surrogateescape") if isinstance(text, str) else text
    for name, value in secret_values(os.environ if environment is None else environment).items():
        if value.encode(errors="surrogateescape") in data:
            raise UserError(
                f"{place} would hold the value of ${name}; take it out, jobs see the variable itself"
            )
