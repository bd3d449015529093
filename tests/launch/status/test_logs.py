"""A run's log: which file, which lines, and until when."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.errors import ReproError, UserError
from repro.launch.status import logs
from repro.launch.status.ledger import Submission
from repro.launch.status.logs import choose, follow, log_of, print_log
from repro.launch.status.run_index import RunEntry
from tests.launch.conftest import World
from tests.launch.fake_slurm import FakeSlurm, queued, run_id, slurm, write_status

__all__ = ["slurm"]
NAME = "20260101T000000Z-aa"


@pytest.fixture
def submitted(world: World, slurm: FakeSlurm) -> Submission:
    return slurm.submit(NAME, 12, run_id(1), run_id(2), run_id(1, scale="small"))


def chosen(word: str, scale: str | None = None, seed: int | None = None) -> tuple[str | None, int]:
    entry, count = choose(word, scale, seed)
    return entry.job_id, count


def test_which_log_is_meant(submitted: Submission, slurm: FakeSlurm) -> None:
    assert chosen(run_id(2)) == ("12_1", 1)
    assert chosen("12_1") == ("12_1", 1)
    assert chosen("alpha/base") == ("12_0", 3)
    assert chosen("alpha/base", seed=2) == ("12_1", 1)
    assert chosen("alpha/base", scale="small") == ("12_2", 1)
    slurm.submit("20260201T000000Z-bb", 15, run_id(2))
    assert chosen(run_id(2)) == ("15_0", 1)  # the last submission
    assert chosen("alpha/base")[0] == "15_0"
    assert chosen("12_1") == ("12_1", 1)  # unless an earlier one is named
    assert choose("12_1")[0].log == submitted.folder / "logs" / "12_1.log"


@pytest.mark.parametrize(
    ("word", "scale", "seed", "parts"),
    [
        ("alpha/bse", None, None, ["'alpha/bse'", "nearest: "]),
        ("99", None, None, ["job 99"]),
        ("alpha/base", "gpu", None, ["no run at scale gpu"]),
        ("alpha/base", "cpu", 7, ["no run at scale cpu with seed 7"]),
        ("alpha/grid@a", None, None, ["alpha/grid@a has no run"]),
        (run_id(9), None, None, ["being submitted, or Slurm did not take it"]),
    ],
)
def test_no_log_is_said_with_the_remedy(
    submitted: Submission, world: World, slurm: FakeSlurm, word: str, scale: str | None, seed: int | None,
    parts: list[str],
) -> None:  # fmt: skip
    slurm.submit("20260301T000000Z-dd", None, run_id(9))
    with pytest.raises(UserError) as caught:
        choose(word, scale, seed)
    assert [part for part in parts if part not in str(caught.value)] == []


@pytest.fixture
def entry(submitted: Submission) -> RunEntry:
    return choose("12_0")[0]


def printed(capfd: pytest.CaptureFixture[str], entry: RunEntry, lines: int | None = None) -> str:
    """What is printed of a log."""
    print_log(entry, lines)
    return capfd.readouterr().out


def test_a_run_without_a_job_has_its_events(
    world: World, slurm: FakeSlurm, capfd: pytest.CaptureFixture[str]
) -> None:
    run = run_id(1, "beta/only")
    folder = write_status(run, None, step=3, message="a", **{"train/loss": 0.25})
    entry, count = choose("beta")
    assert (entry.run, count) == (run, 1)
    whole = printed(capfd, entry)
    assert [line.split("  ")[1:] for line in whole.splitlines()] == [
        ["step 0", "starting"],
        ["step 3", "train/loss 0.25"],
        ["step 3", "training", "a"],
    ]
    assert printed(capfd, entry, 1) == whole.splitlines(True)[-1]
    assert folder.is_dir()
    with pytest.raises(
        UserError, match=r"was not submitted.*`repro submit` keeps a log.*prints the run's events"
    ):
        follow(entry)


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        (b"attempt 1\nattempt 2\n", None, "attempt 1\nattempt 2\n"),
        (b"a\nb\nc\n", 2, "b\nc\n"),
        (b"a\nb\nc", 2, "b\nc"),
        (b"a\nb\nc\n", 9, "a\nb\nc\n"),
        (b"a\nb\n\n", 1, "\n"),
        (b"a\nb\n", 0, ""),
        (b"", 3, ""),
        (b"long line, no end", 1, "long line, no end"),
        ("\xfc".encode() + b" broken \xff\xc3", None, "\xfc broken \ufffd\ufffd"),
    ],
)
def test_a_log_is_printed_whole_or_its_end(
    entry: RunEntry, capfd: pytest.CaptureFixture[str], text: bytes, lines: int | None, expected: str
) -> None:
    log_of(entry).write_bytes(text)
    assert printed(capfd, entry, lines) == expected


def test_no_log_yet(entry: RunEntry, slurm: FakeSlurm, capfd: pytest.CaptureFixture[str]) -> None:
    slurm.queue(queued("12_0", "PENDING", NAME))
    assert printed(capfd, entry) == "12_0: queued, no output yet\n"


@pytest.fixture
def tail(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs that following starts, beside Slurm's; the queue is asked without long pauses."""
    for name in ("tail", "cat"):
        program = shutil.which(name, path=os.defpath)
        assert program
        (slurm.folder / name).symlink_to(program)
    monkeypatch.setattr(logs, "ASK_S", 0.2)
    monkeypatch.setattr(logs, "LATE_S", 0.0)


@pytest.mark.usefixtures("tail")
def test_no_log_ever(entry: RunEntry) -> None:
    for act in (print_log, follow):
        with pytest.raises(ReproError, match="left the queue without output") as caught:
            act(entry)
        assert caught.value.exit_code == 1


def play(entry: RunEntry, steps: list[Callable[[], object]], lines: int | None = None) -> None:
    """Follows; one step happens each time that the queue is asked, and after the last the job has left it."""

    def ask(entry: RunEntry) -> bool:
        if steps:
            steps.pop(0)()
        return bool(steps)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "is_queued", ask)
        follow(entry, lines)
    assert steps == []


def append(path: Path, data: bytes) -> Callable[[], object]:
    def act() -> None:
        with open(path, "ab") as file:
            file.write(data)

    return act


@pytest.mark.usefixtures("tail")
def test_following_from_before_the_first_line_to_after_the_last(
    entry: RunEntry, capfd: pytest.CaptureFixture[str]
) -> None:
    """What comes with the end of the job is printed, too."""
    path = log_of(entry)
    play(entry, [lambda: None, append(path, b"one\ntw"), append(path, b"o\n"), append(path, b"last words")])
    assert capfd.readouterr() == ("12_0: queued, no output yet\none\ntwo\nlast words", "")


@pytest.mark.usefixtures("tail")
def test_following_starts_with_the_last_lines(entry: RunEntry, capfd: pytest.CaptureFixture[str]) -> None:
    log_of(entry).write_bytes(b"a\nb\nc\n")
    play(entry, [lambda: None, append(log_of(entry), b"d\n")], lines=1)
    assert capfd.readouterr().out == "c\nd\n"


@pytest.mark.usefixtures("tail")
def test_following_goes_on_where_the_queue_cannot_be_asked(
    entry: RunEntry, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (slurm.folder / "squeue").unlink()
    log_of(entry).write_bytes(b"a\n")
    asked = 0
    ask = logs.is_queued

    def interrupted(entry: RunEntry) -> bool | None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise KeyboardInterrupt
        return ask(entry)

    monkeypatch.setattr(logs, "is_queued", interrupted)
    follow(entry)  # ends by Ctrl-C, and that is no error
    assert (capfd.readouterr().out, asked) == ("a\n", 3)


@pytest.mark.usefixtures("tail")
def test_following_ends_where_the_reader_of_the_output_has_left(entry: RunEntry, slurm: FakeSlurm) -> None:
    slurm.queue(queued("12_0", "RUNNING", NAME))
    log_of(entry).write_bytes(b"a\n")
    read, write = os.pipe()
    os.close(read)
    kept = os.dup(1)
    os.dup2(write, 1)
    try:
        follow(entry)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(write)
