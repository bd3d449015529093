"""Whole runs with W&B beside them: what is mirrored, what never leaves, and that W&B decides nothing."""

import json
import os
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from repro import tracking
from repro.recipe import Recipe, load_recipe
from repro.tracking import client
from repro.tracking.background import BackgroundLogger, Limits
from tests.tracking.conftest import KEY, fragments, records, service, until, writes_soon
from tests.wandb_server import ENTITY, GONE, HANG, PROJECT, WandbServer
from tests.workshop import PAPER, TINY, Workshop, call, make_workshop


def tabled() -> Recipe:
    """The tiny recipe as if it reproduced two rows; a project must be entered."""
    found = load_recipe(TINY, "cpu")
    found.config["reproduces"] = [{"table": "table2", "row": "x"}, {"table": "table3", "row": "y"}]
    return found


def one_record(workshop: Workshop) -> dict[str, Any]:
    (path,) = workshop.records()
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_ids_are_stable_short_and_of_allowed_characters() -> None:
    run_id = f"{PAPER}/base@a:b#c/cpu/s1-01234567"
    assert tracking.wandb_id(run_id) == tracking.wandb_id(run_id) == "5cc87d9bc4127155"
    assert tracking.wandb_id(run_id) != tracking.wandb_id(run_id.replace("s1", "s2"))
    assert not set(tracking.wandb_id(run_id)) & set("/:@#")


def test_disabled_is_no_logger(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert tracking.logger(tabled(), 1, workshop.runs) is None
    assert tracking.finish(None) is None
    assert tracking.url(None) is None
    assert not workshop.runs.exists()


def test_other_ranks_have_none(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    from lightning.pytorch.utilities.rank_zero import rank_zero_only

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    assert tracking.logger(tabled(), 1, workshop.runs) is None
    assert not workshop.runs.exists()


def test_without_the_package_a_run_trains_all_the_same(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setitem(sys.modules, "wandb", None)
    said = call("run", TINY, "--scale", "cpu")
    assert said.code == 0, said.err
    assert said.err.count("W&B: ") == 1
    assert one_record(workshop)["wandb_url"] is None


def test_a_folder_that_cannot_be_written_is_one_line(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    workshop.runs.mkdir()
    (workshop.runs / "wandb").write_text("in the way")
    assert tracking.logger(tabled(), 1, workshop.runs) is None
    said = capsys.readouterr()
    assert "FileExistsError" in said.err
    assert (said.out, said.err.count("\n")) == ("", 1)


def test_an_offline_run_mirrors_all_and_holds_no_secret_and_nothing_of_the_machine(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    for name in ("USER", "LOGNAME", "USERNAME", "WANDB_USERNAME", "SLURM_JOB_USER"):
        monkeypatch.setenv(name, "planted-user")
    said = call("run", TINY, "--scale", "cpu")
    assert said.code == 0, said.err
    record = one_record(workshop)
    (fragment,) = fragments(workshop.runs)
    assert fragment.name.endswith("-" + tracking.wandb_id(record["run_id"]))
    found = records(fragment)
    (run,) = [r["run"] for r in found if "run" in r]
    assert (run["display_name"], run["run_group"]) == (record["run_id"], f"{TINY}/cpu")
    assert set(run["tags"]) - {"dirty"} == {PAPER, "cpu"}
    logged = [r["history"]["item"] for r in found if "history" in r]
    assert {"train/loss", "train/tokens_per_s", "val/nll", "test/bleu"} <= {
        key for row in logged for key in row
    }
    (bleu,) = [m["value"] for m in record["metrics"] if m["name"] == "test/bleu"]
    assert [row["test/bleu"] for row in logged if "test/bleu" in row][-1] == pytest.approx(bleu)
    assert [row["samples.nrows"] > 0 for row in logged if "samples.nrows" in row] == [True]
    for file in (p for p in workshop.root.rglob("*") if p.is_file()):
        assert KEY.encode() not in file.read_bytes(), file
    assert KEY not in said.out + said.err
    for file in (p for p in (fragment / "files").rglob("*") if p.is_file()):
        nothing_of_the_machine(file.read_bytes(), workshop.root)
    names = {p.name for p in (fragment / "files").rglob("*")}
    assert not names & {"wandb-metadata.json", "requirements.txt", "output.log", "diff.patch"}


def nothing_of_the_machine(sent: bytes, root: Path) -> None:
    """Neither the run's place, nor the user, nor the host's name as a word."""
    assert str(root).encode() not in sent
    assert b"planted-user" not in sent
    assert str(Path(sys.executable).parent).encode() not in sent
    assert not re.search(rb'"' + re.escape(socket.gethostname().encode()) + rb'[".]', sent)


@writes_soon
def test_an_online_run_has_its_address_in_the_record_and_sends_nothing_of_the_machine(
    workshop: Workshop, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", "planted-user")
    said = call("run", TINY, "--scale", "cpu")
    assert said.code == 0, said.err
    assert "W&B" not in said.err
    record = one_record(workshop)
    name = tracking.wandb_id(record["run_id"])
    assert record["wandb_url"] == f"{server.url}/{ENTITY}/{PROJECT}/runs/{name}"
    assert server.exits == {name: 0}
    assert 2 in server.steps(name)
    for body in server.bodies:
        if (
            b'"storagePolicy"' not in body
        ):  # W&B's manifests name the files of artifacts, which lie below the run
            nothing_of_the_machine(body, workshop.root)
        assert b"planted-user" not in body
        assert KEY.encode() not in body


FAILURES = (
    "500",
    "hang",
    "gone",
    "no key",
    "KILL at start",
    "STOP in mid-run",
    "STOP at the end",
    pytest.param("STOP at start", marks=pytest.mark.matrix),
    pytest.param("KILL in mid-run", marks=pytest.mark.matrix),
    pytest.param("KILL at the end", marks=pytest.mark.matrix),
)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, small_store: Path) -> dict[str, Any]:
    """The record of a run that knows of no W&B."""
    made = make_workshop(tmp_path_factory.mktemp("alone") / "workshop", small_store)
    with pytest.MonkeyPatch.context() as patch:
        made.enter(patch)
        patch.setenv("WANDB_MODE", "disabled")
        assert call("run", TINY, "--scale", "cpu").code == 0
    return one_record(made)


@pytest.mark.slow
@pytest.mark.parametrize("failure", FAILURES)
def test_whatever_fails_training_reaches_the_same_weights(
    workshop: Workshop,
    server: WandbServer,
    monkeypatch: pytest.MonkeyPatch,
    alone: dict[str, Any],
    failure: str,
) -> None:
    what, _, when = failure.partition(" ")
    monkeypatch.setattr(tracking.finish, "__defaults__", (1.0, 0))
    monkeypatch.setattr(Limits.__init__, "__defaults__", (3.0, 1.0, 60.0))  # probe, start, hang
    if what in ("500", "hang", "gone"):
        server.fail({"500": 500, "hang": HANG, "gone": GONE}[what])
    elif what == "no":
        monkeypatch.delenv("WANDB_API_KEY")
    else:
        monkeypatch.setenv("WANDB_MODE", "offline")
        strike(when.split()[-1], getattr(signal, f"SIG{what}"), monkeypatch)
    began = time.monotonic()
    said = call("run", TINY, "--scale", "cpu")
    assert said.code == 0, said.err
    assert time.monotonic() - began < 60
    record = one_record(workshop)
    for key in ("checkpoint_sha256", "metrics"):
        assert record[key] == alone[key]
    assert "Traceback" not in said.err
    assert said.err.count("W&B: ") <= 2
    until(lambda: client.services() == [])


def strike(when: str, number: int, patch: pytest.MonkeyPatch) -> None:
    """Sends W&B's service a signal as soon as it is there, before the first row, or before the end."""
    if when == "start":
        threading.Thread(target=lambda: os.kill(service(), number), daemon=True).start()
        return
    name = "log_metrics" if when == "mid-run" else "close"
    original: Any = getattr(BackgroundLogger, name)
    struck: list[int] = []

    def striking(self: BackgroundLogger, *given: Any, **more: Any) -> None:
        if not struck:
            struck.append(service())
            os.kill(struck[0], number)
        original(self, *given, **more)

    patch.setattr(BackgroundLogger, name, striking)


def test_a_run_whose_server_refuses_is_offline_and_says_so_once(
    workshop: Workshop, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.vanish()
    said = call("run", TINY, "--scale", "cpu")
    assert said.code == 0, said.err
    assert said.err.count("W&B: ") == 1
    assert one_record(workshop)["wandb_url"] is None
    (fragment,) = fragments(workshop.runs)
    assert any("history" in r for r in records(fragment))
