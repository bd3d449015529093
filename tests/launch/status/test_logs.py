"""A run's log: which file, which lines, and nothing that commands a terminal."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro.errors import ReproError, UserError
from repro.launch.status import logs
from repro.launch.status.ledger import Submission
from repro.launch.status.logs import Tail, choose, clean, follow, log_of, print_log
from repro.launch.status.run_index import RunEntry
from tests.launch.conftest import World
from tests.launch.fake_slurm import FakeSlurm, queued, run_id, slurm, write_status

__all__ = ["slurm"]
NAME = "20260101T000000Z-aa"

DIRTY = [
    (b"plain\n\ttab\rback\r\n", "plain\n\ttab\rback\r\n"),
    (b"\x1b[31mred\x1b[0m \x1b[2J\x1b[1;1H\x1b[?25l.", "red ."),
    (b"\x1b]0;title\x07a\x1b]0;never ended\nnext", "]0;titlea]0;never ended\nnext"),
    (b"bell\x07 back\x08 null\x00 \x7fdel \x0bvt \x0e", "bell back null del vt "),
    ("ümläut ∞ \u009b31mC1".encode(), "ümläut ∞ 31mC1"),
    (b"broken \xff\xc3", "broken \ufffd\ufffd"),
    (b"end \x1b[3", "end [3"),
    (b"\x1b\x1b[31m", ""),
]


@pytest.mark.parametrize(("data", "text"), DIRTY)
def test_only_tab_newline_and_return_pass(data: bytes, text: str) -> None:
    assert clean(data) == text


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        (b"a\nb\nc\n", 2, "b\nc\n"),
        (b"a\nb\nc", 2, "b\nc"),
        (b"a\nb\nc\n", 9, "a\nb\nc\n"),
        (b"a\nb\n\n", 1, "\n"),
        (b"a\nb\n", 0, ""),
        (b"", 3, ""),
        (b"long line, no end", 1, "long line, no end"),
    ],
)
def test_the_last_lines(tmp_path: Path, text: bytes, lines: int, expected: str) -> None:
    (tmp_path / "log").write_bytes(text)
    assert Tail(tmp_path / "log", lines).read(last=True) == expected


def test_a_file_that_grows_is_read_by_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(path)
    assert tail.read() is None
    path.write_bytes(b"one\ntw")
    assert (tail.read(), tail.read()) == ("one\n", "")
    append(path, b"o\nend")()
    assert (tail.read(), tail.read(last=True)) == ("two\n", "end")
    path.write_bytes(b"cut\n")
    assert tail.read() == "cut\n"


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


class Screen:
    """Collects the written text."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, text: str) -> None:
        self.text += text


@pytest.fixture
def entry(submitted: Submission) -> RunEntry:
    return choose("12_0")[0]


def test_a_run_without_a_job_has_its_events(world: World, slurm: FakeSlurm) -> None:
    run = run_id(1, "beta/only")
    folder = write_status(run, None, step=3, message="a\x1b[2J", **{"train/loss": 0.25})
    entry, count = choose("beta")
    assert (entry.run, count) == (run, 1)
    whole, last = Screen(), Screen()
    print_log(entry, whole)
    print_log(entry, last, lines=1)
    assert [line.split("  ")[1:] for line in whole.text.splitlines()] == [
        ["step 0", "starting"],
        ["step 3", "train/loss 0.25"],
        ["step 3", "training", "a"],
    ]
    assert last.text == whole.text.splitlines(True)[-1]
    assert folder.is_dir()
    with pytest.raises(
        UserError, match=r"was not submitted.*`repro submit` keeps a log.*prints the run's events"
    ):
        follow(entry, Screen())


def test_a_log_is_printed_whole_or_its_end(entry: RunEntry) -> None:
    log_of(entry).write_bytes(b"attempt 1\n\x1b[31mattempt 2\x1b[0m\n")
    whole, last = Screen(), Screen()
    print_log(entry, whole)
    print_log(entry, last, lines=1)
    assert (whole.text, last.text) == ("attempt 1\nattempt 2\n", "attempt 2\n")


def test_no_log_yet(entry: RunEntry, slurm: FakeSlurm) -> None:
    screen = Screen()
    slurm.queue(queued("12_0", "PENDING", NAME))
    print_log(entry, screen)
    assert screen.text == "12_0: queued, no output yet\n"


def test_no_log_ever(entry: RunEntry, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "POLL", 0.0)
    for act in (print_log, follow):
        with pytest.raises(ReproError, match="left the queue without output") as caught:
            act(entry, Screen())
        assert caught.value.exit_code == 1


def play(entry: RunEntry, steps: list[Callable[[], object]], lines: int | None = None) -> str:
    """Follows; at each pause one step happens; when all have, the job has left the queue."""
    screen = Screen()

    def pause(seconds: float) -> None:
        if steps:
            steps.pop(0)()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "is_queued", lambda entry: bool(steps))
        patch.setattr(logs, "time", SimpleNamespace(sleep=pause))
        follow(entry, screen, lines)
    assert steps == []
    return screen.text


def append(path: Path, data: bytes) -> Callable[[], object]:
    def act() -> None:
        with open(path, "ab") as file:
            file.write(data)

    return act


@pytest.fixture
def _ask_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "ASK_EVERY", 1)


@pytest.mark.usefixtures("_ask_always")
def test_following_from_before_the_first_line_to_after_the_last(entry: RunEntry) -> None:
    path = log_of(entry)
    steps = [
        lambda: None,
        append(path, b"one\n\x1b[3"),
        append(path, b"1mtwo\n"),
        lambda: path.write_bytes(b"cut\n"),
        append(path, b"last \xc3"),
    ]
    text = play(entry, steps)
    assert text == "12_0: queued, no output yet\none\ntwo\ncut\nlast \ufffd"


@pytest.mark.usefixtures("_ask_always")
def test_following_starts_with_the_last_lines(entry: RunEntry) -> None:
    log_of(entry).write_bytes(b"a\nb\nc\n")
    assert play(entry, [append(log_of(entry), b"d\n")], lines=1) == "c\nd\n"


def test_what_comes_with_the_end_of_the_job_is_shown(
    entry: RunEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_of(entry).write_bytes(b"a\n")
    screen = Screen()
    end = append(log_of(entry), b"last words\n")
    monkeypatch.setattr(logs, "time", SimpleNamespace(sleep=lambda seconds: end()))
    follow(entry, screen)
    assert screen.text == "a\nlast words\n"


def test_following_asks_slurm_seldom(
    entry: RunEntry, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_of(entry).write_bytes(b"a\n")
    slurm.queue(queued("12_0", "RUNNING", NAME))
    pauses = 0

    def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 45:
            slurm.queue()

    monkeypatch.setattr(logs, "time", SimpleNamespace(sleep=pause))
    follow(entry, Screen())
    assert len(slurm.calls("squeue")) == 4
    assert pauses == 61


def test_following_goes_on_where_the_queue_cannot_be_asked(
    entry: RunEntry, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    (slurm.folder / "squeue").unlink()
    log_of(entry).write_bytes(b"a\n")
    pauses = 0

    def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 50:
            raise KeyboardInterrupt

    screen = Screen()
    monkeypatch.setattr(logs, "time", SimpleNamespace(sleep=pause))
    follow(entry, screen)  # ends by Ctrl-C, and that is no error
    assert (screen.text, pauses) == ("a\n", 50)
