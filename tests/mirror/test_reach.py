"""The mode: as the environment says, else as key and network allow, and never a long wait."""

import socket
from pathlib import Path

import pytest

from repro import mirror
from tests.mirror.conftest import KEY
from tests.wandb_server import WandbServer


@pytest.fixture
def port(server: WandbServer) -> int:
    """A port of this machine that answers."""
    return int(server.url.rpartition(":")[2])


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
    assert mirror.mode() == "online"
    bare.delenv("WANDB_API_KEY")
    assert mirror.mode() == "offline"
    bare.setenv("WANDB_API_KEY", KEY)
    bare.setenv("WANDB_MODE", "nonsense")
    assert mirror.mode() == "online"


@pytest.mark.parametrize("named", [True, False], ids=["NETRC", "home"])
def test_a_key_in_netrc_counts(bare: pytest.MonkeyPatch, port: int, tmp_path: Path, named: bool) -> None:
    bare.delenv("WANDB_API_KEY")
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
