"""W&B mirrors a run and never stands in its way. No test leaves this machine."""

import json
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from repro import tracking
from repro.recipe import Recipe, load_recipe
from tests.workshop import PAPER, TINY, Workshop, call

KEY = "0123456789abcdef" * 2 + "planted0"


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment that does not say which mode, and holds no key."""
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    return monkeypatch


@pytest.fixture
def server() -> Iterator[int]:
    """A port of this machine that answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    """A port of this machine at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def tabled() -> Recipe:
    """The tiny recipe as if it reproduced two rows; a project must be entered."""
    found = load_recipe(TINY, "cpu")
    found.config["reproduces"] = [{"table": "table2", "row": "x"}, {"table": "table3", "row": "y"}]
    return found


def test_ids_are_stable_short_and_of_allowed_characters() -> None:
    run_id = f"{PAPER}/base@a:b#c/cpu/s1-01234567"
    assert tracking.wandb_id(run_id) == tracking.wandb_id(run_id) == "5cc87d9bc4127155"
    assert tracking.wandb_id(run_id) != tracking.wandb_id(run_id.replace("s1", "s2"))
    assert not set(tracking.wandb_id(run_id)) & set("/:@#")


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
def test_the_environment_decides(online: pytest.MonkeyPatch, asked: str, mode: str) -> None:
    online.setenv("WANDB_MODE", asked)
    assert tracking.mode() == mode


def test_without_a_key_runs_are_offline(online: pytest.MonkeyPatch, server: int) -> None:
    online.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server}")
    assert tracking.mode() == "offline"


def test_with_a_key_and_a_host_that_answers_runs_are_online(online: pytest.MonkeyPatch, server: int) -> None:
    online.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server}")
    online.setenv("WANDB_API_KEY", KEY)
    assert tracking.mode() == "online"
    online.setenv("WANDB_MODE", "nonsense")
    assert tracking.mode() == "online"


def test_a_key_in_netrc_counts(online: pytest.MonkeyPatch, server: int, tmp_path: Path) -> None:
    online.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server}")
    file = tmp_path / ".netrc"
    file.write_text(f"machine other.example login user password {KEY}\n")
    file.chmod(0o600)
    assert tracking.mode() == "offline"
    file.write_text(f"machine 127.0.0.1 login user password {KEY}\n")
    assert tracking.mode() == "online"
    file.write_text("machine\n")  # broken
    assert tracking.mode() == "offline"


def test_with_a_key_but_no_network_runs_are_offline_at_once(
    online: pytest.MonkeyPatch, closed_port: int
) -> None:
    online.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{closed_port}")
    online.setenv("WANDB_API_KEY", KEY)
    began = time.monotonic()
    assert tracking.mode() == "offline"
    assert time.monotonic() - began < 5


def test_a_host_that_never_answers_is_given_up_within_seconds(online: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def hang(address: Any, timeout: float) -> None:
        seen.append(timeout)
        raise TimeoutError

    online.setenv("WANDB_API_KEY", KEY)
    online.setattr(socket, "create_connection", hang)
    assert tracking.mode() == "offline"
    assert seen
    assert seen[0] <= 5


def test_disabled_is_no_logger(workshop: Workshop) -> None:
    assert tracking.logger(tabled(), 1, workshop.runs) is None


def test_without_the_package_there_is_no_logger_and_a_run_trains_all_the_same(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setitem(sys.modules, "wandb", None)
    said = call("run", TINY, "--scale", "cpu")
    assert said.code == 0, said.err
    assert "W&B is off for this run: ModuleNotFoundError" in said.out
    (path,) = workshop.records()
    assert json.loads(path.read_text())["wandb_url"] is None


def fake(monkeypatch: pytest.MonkeyPatch, run: Any) -> dict[str, Any]:
    """Puts a wandb in place whose ``init`` returns ``run`` or raises it; returns what it was given."""
    given: dict[str, Any] = {}

    def init(**named: Any) -> Any:
        given.update(named)
        if isinstance(run, Exception):
            raise run
        return run

    module = ModuleType("wandb")
    module.init = init  # type: ignore[attr-defined]
    module.Settings = lambda **named: named  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setenv("WANDB_MODE", "offline")
    return given


@pytest.mark.parametrize("error", [RuntimeError("no\nlines"), OSError(28, "No space left"), ValueError()])
def test_a_wandb_that_does_not_start_is_one_line(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    fake(monkeypatch, error)
    assert tracking.logger(tabled(), 1, workshop.runs) is None
    said = capsys.readouterr().out
    assert said.startswith(f"W&B is off for this run: {type(error).__name__}")
    assert said.count("\n") == 1


def test_a_wandb_that_does_not_finish_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise RuntimeError("gone")

    run = SimpleNamespace(settings=SimpleNamespace(_offline=True), url=None, finish=fail)
    assert tracking.finish(SimpleNamespace(experiment=run)) is None
    assert capsys.readouterr().out == "W&B did not finish: RuntimeError: gone\n"
    assert tracking.finish(None) is None


@pytest.mark.parametrize(("offline", "url"), [(True, None), (False, "https://wandb.example/run")])
def test_the_address_of_a_run_is_recorded_where_it_has_one(offline: bool, url: str | None) -> None:
    done: list[bool] = []
    run = SimpleNamespace(
        settings=SimpleNamespace(_offline=offline),
        url="https://wandb.example/run",
        finish=lambda: done.append(True),
    )
    assert tracking.finish(SimpleNamespace(experiment=run)) == url
    assert done == [True]


def test_what_a_run_is_called_there(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    given = fake(monkeypatch, RuntimeError("only looking"))
    chosen = tabled()
    tracking.logger(chosen, 3, workshop.runs)
    run_id = chosen.run_id(3)
    assert (given["id"], given["name"], given["resume"]) == (tracking.wandb_id(run_id), run_id, "allow")
    assert given["group"] == f"{TINY}/cpu"
    assert given["tags"] == sorted({PAPER, "cpu", f"{PAPER}:table2", f"{PAPER}:table3"})
    assert given["mode"] == "offline"
    assert given["dir"] == workshop.runs
    assert given["config"]["seed"] == 3
    assert given["config"]["recipe"] == chosen.config


def test_an_offline_run_with_the_real_package(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way: a run with a planted key logs curves and a table, ends, and the key is in no file."""
    from lightning.pytorch.loggers import WandbLogger

    tables: list[tuple[str, list[str], int]] = []
    logged: set[str] = set()
    seen: list[Any] = []
    real_table, real_metrics, real_finish = WandbLogger.log_table, WandbLogger.log_metrics, tracking.finish

    def log_table(self: Any, key: str, columns: Any = None, data: Any = None, **named: Any) -> None:
        tables.append((key, columns, len(data)))
        real_table(self, key, columns=columns, data=data, **named)

    def log_metrics(self: Any, metrics: Any, step: Any = None) -> None:
        logged.update(metrics)
        real_metrics(self, metrics, step)

    def finish(made: Any) -> Any:
        run = made.experiment
        seen.extend([run.id, run.group, run.name, set(run.tags), run.offline, dict(run.summary)])
        return real_finish(made)

    monkeypatch.setattr(WandbLogger, "log_table", log_table)
    monkeypatch.setattr(WandbLogger, "log_metrics", log_metrics)
    monkeypatch.setattr(tracking, "finish", finish)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    said = call("run", TINY, "--scale", "cpu")
    assert said.code == 0, said.err
    (path,) = workshop.records()
    record = json.loads(path.read_text())
    run_id, group, name, tags, offline, summary = seen
    assert (run_id, group, name) == (tracking.wandb_id(record["run_id"]), f"{TINY}/cpu", record["run_id"])
    assert (tags, offline) == ({PAPER, "cpu"}, True)
    assert [key for key, *_ in tables] == ["samples"]
    assert tables[0][2] > 0
    assert {"train/loss", "train/tokens_per_s", "val/nll", "test/bleu"} <= logged
    assert summary["test/bleu"] == pytest.approx(
        next(m["value"] for m in record["metrics"] if m["name"] == "test/bleu")
    )
    assert record["wandb_url"] is None
    run_folder = workshop.runs / record["run_id"]
    assert list((run_folder / "wandb").glob("offline-run-*/run-*.wandb"))
    for file in (p for p in workshop.root.rglob("*") if p.is_file()):
        assert KEY.encode() not in file.read_bytes(), file
    for text in (said.out, said.err):
        assert KEY not in text


def test_a_wandb_that_dies_in_mid_run_does_not_stop_it(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb

    def dead(*_: Any, **__: Any) -> None:
        raise ConnectionError("the service is gone")

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setattr(wandb.Run, "log", dead)
    said = call("run", TINY, "--scale", "cpu")
    assert said.code == 0, said.err
    assert len(workshop.records()) == 1
    assert said.out.count("W&B takes no more of this run: ConnectionError: the service is gone") == 1
