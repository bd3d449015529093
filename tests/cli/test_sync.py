"""``repro sync`` from the command line: which runs are meant, what is said, exit codes."""

import json
from pathlib import Path

import pytest

from repro.events import EventLog
from repro.mirror import api
from tests.mirror.conftest import FIRST, KEY, end, put
from tests.wandb_server import WandbServer
from tests.workshop import Workshop, call

RUNS = (
    "paper/one/cpu/s1-01234567", "paper/one/cpu/s2-01234567", "paper/one-more/cpu/s1-01234567",
    "paper/two@a/cpu/s1-01234567",
)  # fmt: skip


@pytest.fixture
def runs(workshop: Workshop) -> list[Path]:
    """Four runs, of which the first two have rows."""
    folders = [workshop.runs / run for run in RUNS]
    for run, folder in zip(RUNS, folders, strict=True):
        log = EventLog(folder)
        log.begin(b"", 0, {**FIRST, "run": run, "wandb_id": run.replace("/", "-")})
        put(log, *((1, 2) if run in RUNS[:2] else ()))
        end(log, 2)
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
    output = call("sync", "--dry-run")
    assert output.code == 0, output.err
    assert output.out.splitlines() == [f"{run}: would send 2 of 2 rows" for run in RUNS[:2]]
    result = call("sync", "--dry-run", "--json", RUNS[0]).json()
    assert [(one["run"], one["state"], one["sent"]) for one in result] == [(RUNS[0], "planned", 2)]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        (None, RUNS),
        ("paper", RUNS),
        ("paper/one", RUNS[:2]),
        ("paper/one/", RUNS[:2]),
        ("paper/one/cpu", RUNS[:2]),
        (RUNS[1], RUNS[1:2]),
        ("{runs}/" + RUNS[1], RUNS[1:2]),
        ("runs/" + RUNS[1] + "/../s2-01234567", RUNS[1:2]),
        ("paper/two", RUNS[3:]),
    ],
)
def test_runs_go_by_the_words_of_status(
    runs: list[Path], workshop: Workshop, monkeypatch: pytest.MonkeyPatch, word: str, meant: tuple[str, ...]
) -> None:
    monkeypatch.setattr("repro.mirror.sync.waits", lambda _: True)
    words = [] if word is None else [word.format(runs=workshop.runs)]
    result = call("sync", "--dry-run", "--json", *words).json()
    assert [one["run"] for one in result] == sorted(meant)


def test_bad_input_is_one_line(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    call("sync", "paper/one/cpu/s3-01234567").refused(
        "no run or target 'paper/one/cpu/s3-01234567'", "nearest: paper/one/cpu/s"
    )
    call("sync", "/").refused("no run or target '/'")
    for words in (["--watch", "0"], ["--watch", "5", "--json"], ["--watch", "--dry-run"]):
        call("sync", *words).refused("--watch takes 1 to 86400 seconds")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    call("sync").refused("no key for 127.0.0.1; set WANDB_API_KEY or run `wandb login`")
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setattr(api, "TIMEOUT_S", 1)
    call("sync").refused("does not answer")


def test_a_key_that_is_refused_is_one_line(runs: list[Path], server: WandbServer) -> None:
    server.mood = 401
    call("sync").refused("error 401", "`wandb login --relogin`")


def test_nothing_to_send_needs_no_server(workshop: Workshop) -> None:
    output = call("sync")
    assert (output.code, output.out) == (0, "nothing to send: no run here has rows for W&B\n")


def test_runs_are_sent_and_one_that_is_not_complete_fails(
    runs: list[Path], server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = call("sync", RUNS[0])
    assert (output.code, output.out) == (0, f"{RUNS[0]}: 2 of 2 rows sent, complete\n")
    assert server.steps(RUNS[0].replace("/", "-")) == [1, 2]
    monkeypatch.setattr("repro.mirror.sync._call", lambda *_: 1)
    output = call("sync", RUNS[1], "--json")
    assert output.code == 1
    (messages,) = json.loads(output.out)
    assert (messages["state"], messages["sent"], messages["held"]) == ("missing", 0, 2)
