"""``repro sync`` from the command line: which runs are meant, what is said, exit codes."""

import json
import time
from pathlib import Path

import pytest

from repro.cli import sync as verb
from repro.tracking import spool
from tests.tracking.conftest import KEY
from tests.wandb_server import WandbServer
from tests.workshop import Workshop, call

RUNS = ("paper/one/cpu/s1-01234567", "paper/one/cpu/s2-01234567", "paper/one-more/cpu/s1-01234567")


@pytest.fixture
def runs(workshop: Workshop) -> list[Path]:
    """Three runs, of which each but the last left two rows that lie in no fragment."""
    folders = [workshop.runs / run for run in RUNS]
    for folder in folders:
        folder.mkdir(parents=True)
    for number, folder in enumerate(folders[:2]):
        (folder / "wandb").mkdir()
        about = {
            "id": f"{number:016x}", "name": RUNS[number], "dir": "/moved/since", "project": "repro", "group": "g",
            "tags": [], "config": {}, "summaries": {}, "job_type": "train",
        }  # fmt: skip
        rows = [{"row": {"trainer/global_step": step}, "at": time.time() + step} for step in range(2)]
        said = [{"about": about, "beat_s": 5, "init_timeout_s": 5}, *rows, {"end": {"code": 0}}]
        (folder / "wandb" / "rows-1.jsonl").write_bytes(b"".join(map(spool.line, said)))
    return folders


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> WandbServer:
    """A server that the environment names. It ends with the process."""
    made = WandbServer()
    monkeypatch.setenv("WANDB_BASE_URL", made.url)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_MODE", "offline")  # as on a cluster; here it does not count
    return made


def test_a_dry_run_says_what_would_be_sent_and_asks_nobody(runs: list[Path]) -> None:
    said = call("sync", "--dry-run")
    assert said.code == 0, said.err
    assert said.out == "".join(f"{run}: would send up to 2 of 2 rows\n" for run in RUNS[:2])
    found = call("sync", "--dry-run", "--json", RUNS[0]).json()
    assert [(one["run"], one["state"], one["sent"]) for one in found] == [(RUNS[0], "planned", 2)]
    assert all((folder / "wandb" / "rows-1.jsonl").exists() for folder in runs[:2])


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("", RUNS),
        ("paper", RUNS),
        ("paper/one", RUNS[:2]),
        ("paper/one/", RUNS[:2]),
        ("paper/one/cpu", RUNS[:2]),
        (RUNS[1], RUNS[1:2]),
        ("{runs}/" + RUNS[1], RUNS[1:2]),
        ("runs/" + RUNS[1] + "/wandb/..", RUNS[1:2]),
    ],
)
def test_runs_go_by_id_folder_experiment_or_paper(
    runs: list[Path], workshop: Workshop, word: str, meant: tuple[str, ...]
) -> None:
    assert set(verb.runs_of(word.format(runs=workshop.runs))) == set(meant)


def test_bad_input_is_one_line(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    call("sync", "paper/one/cpu/s3-01234567").refused(
        "no run 'paper/one/cpu/s3-01234567'", "nearest: paper/one/cpu/s"
    )
    call("sync", "/").refused("no run '/'")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    call("sync").refused("no key for 127.0.0.1; set WANDB_API_KEY or run `wandb login`")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    call("sync").refused("http://127.0.0.1:9 does not answer", "set WANDB_BASE_URL")


def test_a_key_that_is_refused_is_one_line(runs: list[Path], server: WandbServer) -> None:
    server.mood = 401
    call("sync").refused("refuses the key (error 401); run `wandb login --relogin`")
    server.mood = 500
    call("sync").refused("answers with error 500; try again")


def test_nothing_to_send_needs_no_server(workshop: Workshop) -> None:
    said = call("sync")
    assert (said.code, said.out) == (0, "nothing to send: no run here has anything of W&B's\n")


def test_runs_are_sent_and_counted_and_one_that_is_not_complete_fails(
    runs: list[Path], server: WandbServer
) -> None:
    said = call("sync", RUNS[0])
    assert (said.code, said.out) == (0, f"{RUNS[0]}: 2 rows sent, 2 there, complete\n")
    server.rows["0" * 16].pop()
    said = call("sync", RUNS[0], "--json")
    assert said.code == 1
    (told,) = json.loads(said.out)
    assert (told["state"], told["there"], told["held"]) == ("missing", 1, 2)
