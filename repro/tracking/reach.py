"""Whether W&B can be reached: its mode, key and host. Standard library only."""

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
    """``disabled``, ``offline`` or ``online``: from WANDB_MODE, else online given a key and a network."""
    return decide()[0]


def decide(probe_s: float = PROBE_S) -> tuple[Mode, str | None]:
    """The mode, and why it is offline where the user did not ask for that; takes at most ``probe_s`` seconds."""
    mode = os.environ.get("WANDB_MODE", "").lower()
    if mode in MODES:
        return MODES[mode], None
    base = os.environ.get("WANDB_BASE_URL") or CLOUD
    try:
        url = urlparse(base)
        host, port = _first_hop(url)
    except ValueError as error:
        return "offline", f"WANDB_BASE_URL={base!r} is not an address ({error})"
    if not has_key(url.hostname or ""):
        return "offline", f"no key for {url.hostname} (set WANDB_API_KEY or run `wandb login`)"
    if not _reachable(host, port, probe_s):
        return "offline", f"{host}:{port} does not answer"
    return "online", None


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


def _reachable(host: str, port: int, within_s: float) -> bool:
    """Whether the host takes a connection in time. In a thread, since a name service may hang longer."""
    answered: list[bool] = []

    def knock() -> None:
        try:
            socket.create_connection((host, port), timeout=within_s).close()
        except OSError:
            return
        answered.append(True)

    thread = threading.Thread(target=knock, daemon=True)
    thread.start()
    thread.join(within_s)
    return bool(answered)
