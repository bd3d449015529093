"""A connection to W&B's public API, with errors of one line."""

import contextlib
import importlib.util
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from repro.errors import ReproError, UserError
from repro.mirror.reach import has_key

if TYPE_CHECKING:
    from wandb import Api

TIMEOUT_S = 15
_NAME = re.compile(r"[^/\\#?%:\x00-\x1f\x7f]{1,128}")  # of entities and projects, as W&B has it


def check_name(name: str, kind: str) -> None:
    """Checks the name of an entity or a project.

    Raises:
        UserError: W&B has no such names.
    """
    if not _NAME.fullmatch(name):
        raise UserError(f"{kind} {name!r} is not a valid W&B name; copy it from the project's address")


def connect(limit_s: int = TIMEOUT_S) -> "Api":
    """W&B's own client for its public API.

    Args:
        limit_s: of one question to W&B, its client's own retries included.

    Raises:
        UserError: the package or a key is missing; the server refuses the key, or does not answer in time.
    """
    if importlib.util.find_spec("wandb") is None:
        raise UserError("wandb is not installed; run `pip install wandb`")
    import wandb

    base = os.environ.get("WANDB_BASE_URL") or str(wandb.setup().settings.base_url)
    host = urlsplit(base).hostname or base
    if not has_key(host):
        raise UserError(f"no key for {host}; set WANDB_API_KEY or run `wandb login`")
    try:
        api = wandb.Api(timeout=limit_s)
        _ = api.default_entity  # sends a request to the server
        return api
    except Exception as error:
        raise UserError(_message(error, limit_s)) from None


@contextlib.contextmanager
def plainly(action: str) -> Iterator[None]:
    """Turns any exception of W&B's client into a one-line error that names ``action``."""
    try:
        yield
    except ReproError:
        raise
    except Exception as error:
        raise ReproError(f"{action}: W&B failed: {_first(error)}; run the same command again") from None


def _message(error: Exception, limit_s: int) -> str:
    """Explains a failed connection. The client reports a server that does not answer as a busy service."""
    words = _first(error)
    if "did not respond in time" in words:
        return f"W&B does not answer within {limit_s} s; see WANDB_BASE_URL and the network"
    refused = re.search(r"error (401|403|404)", words)
    if refused:
        return f"W&B refuses the key (error {refused.group(1)}); set WANDB_API_KEY or run `wandb login --relogin`"
    return f"W&B: {words}"


def _first(error: BaseException) -> str:
    return (str(error).strip().partition("\n")[0] or type(error).__name__)[:200]
