"""The mode: as the environment says, else as key and network allow, and never a long wait."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repro import mirror
from repro.mirror.reach import reachable
from tests.mirror.conftest import KEY


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
    assert mirror.mode() == mode


def test_without_a_word_a_key_decides(bare: pytest.MonkeyPatch, port: int) -> None:
    assert mirror.mode() == "offline"
    bare.setenv("WANDB_API_KEY", KEY)
    assert mirror.mode() == "online"
    bare.setenv("WANDB_MODE", "nonsense")
    assert mirror.mode() == "online"
    assert reachable()


@pytest.mark.parametrize("named", [True, False], ids=["NETRC", "home"])
def test_a_key_in_netrc_counts(bare: pytest.MonkeyPatch, port: int, tmp_path: Path, named: bool) -> None:
    file = tmp_path / ("other" if named else ".netrc")
    if named:
        bare.setenv("NETRC", str(file))
    file.write_text(f"machine other.example login user password {KEY}\n")
    file.chmod(0o600)
    assert mirror.mode() == "offline"
    file.write_text(f"machine 127.0.0.1 login user password {KEY}\n")
    assert mirror.mode() == "online"
    assert mirror.has_key("127.0.0.1")
    file.write_text("machine\n")  # broken
    assert mirror.mode() == "offline"


def test_a_server_that_does_not_listen_is_out_of_reach(bare: pytest.MonkeyPatch, closed_port: int) -> None:
    bare.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{closed_port}")
    began = time.monotonic()
    assert not reachable()
    assert time.monotonic() - began < 2


def test_a_name_service_that_hangs_is_given_up(bare: pytest.MonkeyPatch) -> None:
    """Its wait is not bounded by the timeout of a connection."""
    over = threading.Event()

    def hang(address: Any, timeout: float) -> None:
        over.wait(20)
        raise TimeoutError

    bare.setattr(socket, "create_connection", hang)
    began = time.monotonic()
    assert not reachable(0.2)
    over.set()
    assert time.monotonic() - began < 2


def test_behind_a_proxy_the_proxy_is_asked(bare: pytest.MonkeyPatch, port: int, closed_port: int) -> None:
    bare.setenv("WANDB_BASE_URL", "https://wandb.example")
    bare.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
    assert reachable()
    bare.setenv("HTTPS_PROXY", f"127.0.0.1:{closed_port}")
    assert not reachable()


def test_an_address_that_is_none_is_out_of_reach(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("WANDB_BASE_URL", "http://host:port")
    assert not reachable()
    bare.setenv("WANDB_BASE_URL", "http://[")
    assert (mirror.mode(), reachable()) == ("offline", False)
