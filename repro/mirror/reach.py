"""Whether W&B can be reached: its mode, key and host. Standard library only."""

import contextlib
import netrc
import os
import socket
import threading
import urllib.request
from typing import Literal
from urllib.parse import ParseResult, urlparse

Mode = Literal["disabled", "offline", "online"]
MODES: dict[str, Mode] = {
    "disabled": "disabled",
    "offline": "offline",
    "dryrun": "offline",
    "online": "online",
}
PROBE_S = 3.0
CLOUD = "https://api.wandb.ai"
CLOUD_HOSTS = ("api.wandb.ai", "api.forge.coreweave.com")  # its names: a key for one is a key for all


def mode() -> Mode:
    """``disabled``, ``offline`` or ``online``: from WANDB_MODE, else online where there is a key."""
    asked = os.environ.get("WANDB_MODE", "").lower()
    return MODES.get(asked) or ("online" if has_key(host()) else "offline")


def host() -> str:
    """The host of the server, empty where its address is none."""
    with contextlib.suppress(ValueError):
        return urlparse(os.environ.get("WANDB_BASE_URL") or CLOUD).hostname or ""
    return ""


def reachable(within_s: float = PROBE_S) -> bool:
    """Whether the server, or the proxy before it, takes a connection in time; a name service may hang longer."""
    answered: list[bool] = []

    def knock() -> None:
        with contextlib.suppress(OSError, ValueError):
            first = _first_hop(urlparse(os.environ.get("WANDB_BASE_URL") or CLOUD))
            socket.create_connection(first, timeout=within_s).close()
            answered.append(True)

    thread = threading.Thread(target=knock, daemon=True)
    thread.start()
    thread.join(within_s)
    return bool(answered)


def has_key(host: str) -> bool:
    """Whether a key is set for the host, in the environment or in ``.netrc``."""
    return key_for(host) is not None


def key_for(host: str) -> str | None:
    """The key for the host, which must never be printed; None if there is none."""
    if os.environ.get("WANDB_API_KEY"):
        return os.environ["WANDB_API_KEY"]
    try:
        logins = netrc.netrc(os.environ.get("NETRC"))
    except (OSError, netrc.NetrcParseError):
        return None
    names = CLOUD_HOSTS if host in CLOUD_HOSTS else (host,)
    return next((login[2] for login in map(logins.authenticators, names) if login is not None), None)


def _first_hop(url: ParseResult) -> tuple[str, int]:
    """The first hop of a connection to the address: its host, or the proxy that the environment names."""
    host, proxy = url.hostname or "", urllib.request.getproxies().get(url.scheme)
    if proxy and not urllib.request.proxy_bypass(host):
        url = urlparse(proxy if "://" in proxy else f"http://{proxy}")
    return url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
