"""Checks whether W&B can be reached: mode, key and host. Standard library only."""

import contextlib
import netrc
import os
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Literal, get_args
from urllib.parse import urlparse

Mode = Literal["disabled", "offline", "online"]
MODES: dict[str, Mode] = {name: name for name in get_args(Mode)}
PROBE_S = 3.0
CLOUD = "https://api.wandb.ai"
CLOUD_HOSTS = ("api.wandb.ai", "api.forge.coreweave.com")  # its names: a key for one is a key for all


def mode() -> Mode:
    """``disabled``, ``offline`` or ``online``: from WANDB_MODE, else online where there is a key."""
    requested = os.environ.get("WANDB_MODE", "").lower()
    return MODES.get(requested) or ("online" if has_key(host()) else "offline")


def host() -> str:
    """The host of the server, empty where its address is none."""
    with contextlib.suppress(ValueError):
        return urlparse(os.environ.get("WANDB_BASE_URL") or CLOUD).hostname or ""
    return ""


def reachable(within_s: float = PROBE_S) -> bool:
    """Whether the server, or a proxy before it, answers in time."""
    try:
        opener = urllib.request.build_opener()  # reads the proxies of this moment
        opener.open(os.environ.get("WANDB_BASE_URL") or CLOUD, timeout=within_s).close()
    except urllib.error.HTTPError:  # an answer
        return True
    except (OSError, ValueError, HTTPException):
        return False
    return True


def has_key(host: str) -> bool:
    """Whether a key is set for the host, in the environment or in ``.netrc``."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        logins = netrc.netrc(os.environ.get("NETRC"))
    except (OSError, netrc.NetrcParseError):
        return False
    names = CLOUD_HOSTS if host in CLOUD_HOSTS else (host,)
    return any(logins.authenticators(name) for name in names)
