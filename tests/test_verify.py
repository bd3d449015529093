"""A record's command runs again from its commit: what code runs, what is refused, what is kept."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repro.errors import Interrupted, ReproError, UserError
from repro.evidence.verified import BIT_EQUAL, DIFFERS, FAILED, Verified, keep, read_verified
from repro.record import INSTRUCTIONS, Measurement, RunRecord
from repro.verify.rerun import environment, refuse, rerun
from tests.fake_checkout import FakeCheckout, make_checkout, make_record
from tests.workshop import PROJECT


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> FakeCheckout:
    """A git repository with two commits of a tiny package; do not change it."""
    return make_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary folders."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def left(checkout: FakeCheckout, temporary: Path) -> list[str]:
    """Returns the remains of a verification: temporary folders, registered worktrees."""
    worktrees = checkout.git("worktree", "list", "--porcelain").count("worktree ") - 1
    return [path.name for path in temporary.glob("repro-verify-*")] + ["worktree"] * worktrees


# --- what runs ------------------------------------------------------------------------------------------------------


def test_the_code_of_the_commit_runs_not_the_installed_one_nor_that_of_head(
    checkout: FakeCheckout, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    values = []
    for commit in checkout.commits:
        made = rerun(make_record(commit), checkout.root, loud=False)
        assert isinstance(made, RunRecord)
        assert made.commit == commit
        values.append(made.metrics[0].value)
    assert values == [0.5, 0.75]
    assert left(checkout, temporary) == []


def test_the_run_sees_our_data_and_the_threads_of_the_record_and_nothing_else_of_ours(
    checkout: FakeCheckout, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(temporary)
    for name in ("REPRO_CONFIGS", "REPRO_RUNS", "REPRO_RESULTS"):
        monkeypatch.setenv(name, "/ours")
    monkeypatch.setenv("REPRO_DATA", "here")
    monkeypatch.setenv("MKL_NUM_THREADS", "9")
    record = make_record(checkout.commits[0])
    record.hardware["threads"] = 3
    record.hardware["instructions"] = {"torch": "AVX2", "onednn": "AVX2", "mkl": "default"}
    monkeypatch.setenv("MKL_ENABLE_INSTRUCTIONS", "AVX512")
    made = rerun(record, checkout.root, loud=False)
    assert isinstance(made, RunRecord)
    seen = made.data["seen"]
    assert (seen["REPRO_DATA"], seen["OMP_NUM_THREADS"]) == (str(temporary / "here"), "3")
    assert (seen["WANDB_MODE"], seen["CUDA_VISIBLE_DEVICES"]) == ("disabled", "")
    assert (seen["REPRO_CONFIGS"], seen["MKL_NUM_THREADS"]) == (None, None)
    assert [seen[name] for name in INSTRUCTIONS.values()] == ["avx2", "AVX2", None]
    assert {Path(seen[name]).parent.parent for name in ("REPRO_RUNS", "REPRO_RESULTS")} == {temporary}


def test_what_a_record_starts_from_runs_first_to_the_end_of_the_chain(
    checkout: FakeCheckout, temporary: Path
) -> None:
    record = make_record(checkout.commits[0], "p/third", seed=4)
    record.config["start_from"] = "p/second"
    made = rerun(record, checkout.root, loud=False)
    assert isinstance(made, RunRecord)
    assert made.data["begun"] == ["p/first/cpu/s4", "p/second/cpu/s4"]
    assert left(checkout, temporary) == []


def test_a_circle_of_experiments_fails(checkout: FakeCheckout, temporary: Path) -> None:
    record = make_record(checkout.commits[0], "p/round")
    record.config["start_from"] = "p/round"
    assert "run p/round --scale cpu --seed 1 ended with exit code 1" in str(
        rerun(record, checkout.root, loud=False)
    )


def test_settings_of_the_command_reach_the_run(checkout: FakeCheckout, temporary: Path) -> None:
    record = make_record(checkout.commits[0])
    record.command += " --model.words '[\"two words\"]'"
    made = rerun(record, checkout.root, loud=False)
    assert isinstance(made, RunRecord)
    assert made.data["words"] == ["--model.words", '["two words"]']


@pytest.mark.parametrize(
    ("experiment", "reason"), [("p/broken", "ended with exit code 2"), ("p/silent", "left 0 records")]
)
@pytest.mark.parametrize("loud", [True, False])
def test_a_run_that_fails_gives_the_reason_and_leaves_nothing(
    checkout: FakeCheckout,
    temporary: Path,
    experiment: str,
    reason: str,
    loud: bool,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert reason in str(rerun(make_record(checkout.commits[0], experiment), checkout.root, loud))
    assert ("cannot do that" in capfd.readouterr().err) == (experiment == "p/broken")
    assert left(checkout, temporary) == []


def test_a_run_that_fails_without_packages_of_its_commit_is_no_outcome(
    checkout: FakeCheckout, temporary: Path
) -> None:
    lock = "# versions\nPytest==1.0\npytest_xdist==1.0\nno-such.other==2.1\n"
    (checkout.root / "requirements.lock").write_text(lock)
    checkout.git("add", "-A")
    checkout.git("commit", "-qm", "lock")
    commit = checkout.git("rev-parse", "HEAD").strip()
    with pytest.raises(UserError, match=r"the run failed, .* pip install no-such\.other; nothing was"):
        rerun(make_record(commit, "p/broken"), checkout.root, loud=False)
    assert isinstance(rerun(make_record(commit), checkout.root, loud=False), RunRecord), "only a failure asks"
    assert left(checkout, temporary) == []


def test_other_code_than_the_commits_is_noticed(checkout: FakeCheckout, temporary: Path) -> None:
    with pytest.raises(ReproError, match="0" * 40):
        rerun(make_record(checkout.commits[0], "p/liar"), checkout.root, loud=False)
    assert left(checkout, temporary) == []


def test_a_requeued_run_is_no_outcome(checkout: FakeCheckout, temporary: Path) -> None:
    with pytest.raises(Interrupted):
        rerun(make_record(checkout.commits[0], "p/requeue"), checkout.root, loud=False)
    assert left(checkout, temporary) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_and_leaves_nothing(
    checkout: FakeCheckout, temporary: Path, number: int
) -> None:
    code = (
        "import signal, sys, tempfile; from pathlib import Path\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background job\n"
        "from tests.fake_checkout import make_record; from repro.verify.rerun import rerun\n"
        f"tempfile.tempdir = {str(temporary)!r}\n"
        f"rerun(make_record({checkout.commits[0]!r}, 'p/endless'), Path({str(checkout.root)!r}), True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        child = int(process.stderr.readline())  # the run has begun
        process.send_signal(number)
        assert b"Interrupted" in process.stderr.read()
    assert process.returncode == 1  # of an exception that nobody caught
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert left(checkout, temporary) == []


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"commit": None}, "None"),
        ({"commit": "--upload-pack=x"}, "--upload-pack=x"),
        ({"commit": "a" * 40}, "a" * 40),
        ({"dirty": True}, "uncommitted"),
        ({"dirty": None}, "uncommitted"),
        ({"command": "rm -rf x"}, "rm -rf x"),
        ({"hardware": {"device": "EPYC", "count": 4, "nodes": 2, "threads": 1}}, "2 nodes"),
        ({"metrics": [Measurement("cost/time", 1.0, "seconds", "none")]}, "measured its machine only"),
    ],
    ids=str,
)
def test_refused(checkout: FakeCheckout, changes: dict[str, Any], named: str) -> None:
    good = make_record(checkout.commits[0])
    refuse(good, checkout.root)
    with pytest.raises(UserError) as caught:
        refuse(replace(good, **changes), checkout.root)
    assert named in str(caught.value)


def test_outside_git_it_is_refused(checkout: FakeCheckout, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=str(tmp_path)):
        refuse(make_record(checkout.commits[0]), tmp_path)


def test_a_run_sees_as_many_gpus_as_the_record_had(
    checkout: FakeCheckout, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make_record(checkout.commits[0])
    record.hardware = {"device": "NVIDIA X", "count": 2, "nodes": 1}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    assert environment(record, Path("/t/code"))["CUDA_VISIBLE_DEVICES"] == "4,5"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert environment(record, Path("/t/code"))["CUDA_VISIBLE_DEVICES"] == "0,1"


# --- what is kept ---------------------------------------------------------------------------------------------------


def outcome(detail: str = "3 numbers", same: bool | None = True, word: str = BIT_EQUAL) -> Verified:
    return Verified("2026-11-22T10:00:00Z", "p/x/cpu-s1.json", "c" * 64, word, same, detail)


def test_outcomes_come_back_in_order(tmp_path: Path) -> None:
    assert read_verified(tmp_path) == []
    (tmp_path / "runs").mkdir()
    given = [outcome(), outcome(same=False, word=DIFFERS), outcome(same=None, word=FAILED)]
    for one in given:
        keep(tmp_path, one)
    assert read_verified(tmp_path) == given
    assert (tmp_path / "runs" / "VERIFIED.tsv").read_text().count("time\trecord") == 1


def test_a_detail_never_breaks_the_table(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    keep(tmp_path, outcome("a\tb\nc\x0bd\u2028e"))
    assert [one.detail for one in read_verified(tmp_path)] == ["a b c d e"]


@pytest.mark.parametrize("bad", ["x", "\t" * 5, "t\tr\ts\tfine\tyes\td", "t\tr\ts\tdiffers\tperhaps\td", ""])
def test_a_malformed_line_is_named(tmp_path: Path, bad: str) -> None:
    (tmp_path / "runs").mkdir()
    keep(tmp_path, outcome())
    path = tmp_path / "runs" / "VERIFIED.tsv"
    path.write_text(path.read_text() + bad + "\n")
    with pytest.raises(UserError, match=r"VERIFIED\.tsv:3"):
        read_verified(tmp_path)
    path.write_text("something else\n")
    with pytest.raises(UserError, match=r"VERIFIED\.tsv:1"):
        read_verified(tmp_path)


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    children = []
    for writer in range(4):
        child = os.fork()
        if not child:
            try:
                for i in range(20):
                    keep(tmp_path, outcome(f"{writer} {i}"))
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert sorted(one.detail for one in read_verified(tmp_path)) == sorted(
        f"{writer} {i}" for writer in range(4) for i in range(20)
    )
