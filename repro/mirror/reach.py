"""How runs reach W&B: mode, key and host. Standard library only."""

import contextlib
import netrc
import os
from typing import Literal, get_args
from urllib.parse import urlparse

Mode = Literal["disabled", "offline", "online"]
MODES: dict[str, Mode] = {**{name: name for name in get_args(Mode)}, "dryrun": "offline"}
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
