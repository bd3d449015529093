"""Connections to W&B's public API, with W&B's own client and a server on the loopback."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from repro.errors import ReproError, UserError
from repro.mirror import api as module
from repro.mirror.api import check_name, connect, plainly
from tests.mirror.conftest import KEY
from tests.wandb_server import ENTITY, GONE, HANG, WandbServer


@pytest.mark.parametrize("name", ["", "b/c", "b?c", "b#c", "\x1b[2J", "b:c", "x" * 129])
def test_a_name_of_another_form_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"project .* is not a valid W&B name"):
        check_name(name, "project")


@pytest.mark.parametrize("name", ["An na", "größer-2.0"])
def test_a_name_that_wandb_allows_is_taken(name: str) -> None:
    check_name(name, "project")


def test_without_a_key_nobody_is_asked_for_one(server: WandbServer, bare: pytest.MonkeyPatch) -> None:
    bare.delenv("WANDB_API_KEY")
    with pytest.raises(UserError, match=r"127.0.0.1; set WANDB_API_KEY.*`wandb login`"):
        connect()
    assert server.requests == []


def test_a_key_of_the_cloud_may_stand_under_either_of_its_names(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine api.wandb.ai login user password {KEY}\n")
    bare.setenv("NETRC", str(netrc))
    bare.setenv("WANDB_BASE_URL", "https://other.example")
    with pytest.raises(UserError, match=r"no key for other.example"):
        connect()
    asked: list[int] = []
    bare.setattr("wandb.Api", lambda timeout: SimpleNamespace(default_entity=asked.append(timeout)))
    bare.setenv("WANDB_BASE_URL", "https://api.forge.coreweave.com")
    connect()
    assert asked == [module.TIMEOUT_S]


@pytest.mark.parametrize("mode", ["offline", "disabled"])
def test_an_environment_that_logs_offline_can_still_connect(
    server: WandbServer, bare: pytest.MonkeyPatch, mode: str
) -> None:
    bare.setenv("WANDB_MODE", mode)
    assert connect().default_entity == ENTITY


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        (401, "refuses the key"),
        (500, "does not answer"),
        (HANG, "does not answer"),
        (GONE, "does not answer"),
    ],
)
def test_a_server_that_fails_ends_in_a_line_soon(
    server: WandbServer, monkeypatch: pytest.MonkeyPatch, mood: int, words: str
) -> None:
    server.fail(mood)
    with pytest.raises(UserError, match=words) as caught:
        connect(0.3)
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_an_error_of_the_client_is_one_line_and_ours_stay_as_they_are() -> None:
    with pytest.raises(ReproError, match=r"^a: W&B failed: lost; run the same command again$"), plainly("a"):
        raise ValueError("lost\nin a trace")
    with pytest.raises(UserError, match=r"^ours$"), plainly("a"):
        raise UserError("ours")
