"""The mode: as the environment says, else as key and network allow, and never a long wait."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repro import tracking
from repro.tracking.reach import decide
from tests.tracking.conftest import KEY


@pytest.fixture
def port(bare: pytest.MonkeyPatch) -> Iterator[int]:
    """A port of this machine that answers, named as W&B's."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        number = listening.getsockname()[1]
        bare.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{number}")
        yield number


@pytest.fixture
def closed_port() -> int:
    """A port of this machine at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("asked", "mode"),
    [
        ("disabled", "disabled"),
        ("offline", "offline"),
        ("dryrun", "offline"),
        ("online", "online"),
        ("OFFLINE", "offline"),
    ],
)
def test_the_environment_decides(bare: pytest.MonkeyPatch, asked: str, mode: str) -> None:
    bare.setenv("WANDB_MODE", asked)
    assert decide() == (mode, None)
    assert tracking.mode() == mode


def test_without_a_key_runs_are_offline(port: int) -> None:
    mode, why = decide()
    assert mode == "offline"
    assert why == "no key for 127.0.0.1 (set WANDB_API_KEY or run `wandb login`)"


def test_with_a_key_and_a_host_that_answers_runs_are_online(bare: pytest.MonkeyPatch, port: int) -> None:
    bare.setenv("WANDB_API_KEY", KEY)
    assert decide() == ("online", None)
    bare.setenv("WANDB_MODE", "nonsense")
    assert tracking.mode() == "online"


@pytest.mark.parametrize("named", [True, False], ids=["NETRC", "home"])
def test_a_key_in_netrc_counts(bare: pytest.MonkeyPatch, port: int, tmp_path: Path, named: bool) -> None:
    file = tmp_path / ("other" if named else ".netrc")
    if named:
        bare.setenv("NETRC", str(file))
    file.write_text(f"machine other.example login user password {KEY}\n")
    file.chmod(0o600)
    assert tracking.mode() == "offline"
    file.write_text(f"machine 127.0.0.1 login user password {KEY}\n")
    assert tracking.mode() == "online"
    assert tracking.has_key("127.0.0.1")
    file.write_text("machine\n")  # broken
    assert tracking.mode() == "offline"


def test_with_a_key_but_no_network_runs_are_offline_at_once(
    bare: pytest.MonkeyPatch, closed_port: int
) -> None:
    bare.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{closed_port}")
    bare.setenv("WANDB_API_KEY", KEY)
    began = time.monotonic()
    assert decide() == ("offline", f"127.0.0.1:{closed_port} does not answer")
    assert time.monotonic() - began < 2


def test_a_name_service_that_hangs_is_given_up(bare: pytest.MonkeyPatch) -> None:
    """Its wait is not bounded by the timeout of a connection."""
    over = threading.Event()

    def hang(address: Any, timeout: float) -> None:
        over.wait(20)
        raise TimeoutError

    bare.setenv("WANDB_API_KEY", KEY)
    bare.setattr(socket, "create_connection", hang)
    began = time.monotonic()
    mode, why = decide(0.2)
    over.set()
    assert time.monotonic() - began < 2
    assert (mode, why) == ("offline", "api.wandb.ai:443 does not answer")


def test_behind_a_proxy_the_proxy_is_asked(bare: pytest.MonkeyPatch, port: int, closed_port: int) -> None:
    bare.setenv("WANDB_API_KEY", KEY)
    bare.setenv("WANDB_BASE_URL", "https://wandb.example")
    bare.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
    assert tracking.mode() == "online"
    bare.setenv("HTTPS_PROXY", f"127.0.0.1:{closed_port}")
    assert decide()[1] == f"127.0.0.1:{closed_port} does not answer"


def test_an_address_that_is_none_is_said(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("WANDB_API_KEY", KEY)
    bare.setenv("WANDB_BASE_URL", "http://host:port")
    mode, why = decide()
    assert mode == "offline"
    assert why is not None
    assert why.startswith("WANDB_BASE_URL='http://host:port' is not an address")
