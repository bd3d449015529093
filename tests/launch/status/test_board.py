"""The form of the table, and how it is redrawn."""

import io
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest

from repro.launch.status import board
from repro.launch.status.board import duration, page, show, table, watch
from repro.launch.status.state import RunState, Survey
from tests.launch.fake_slurm import run_id

URL = "https://wandb.ai/team/project/runs/abcd1234"
TRAINING = RunState(
    run_id(), "training", job="12_0", step=120, max_steps=1000, loss=3.14159, tokens_per_s=12345.6,
    seconds_left=4000, restarts=2, wandb_url=URL, silent_s=12.3,
)  # fmt: skip
QUEUED = RunState(run_id(2), "queued", "Priority", job="12_1")
FAILED = RunState(run_id(3), "failed", step=7, message="loss is NaN at step 3")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_table() -> None:
    names = "step    left  last event   loss  tokens/s  job    restarts  W&B"
    assert table([TRAINING, QUEUED, FAILED]) == [
        f"run                         state                  {names}",
        f"{run_id()}  training           120/1000  67 min    12 s ago  3.142    12,346  12_0          2  {URL}",
        f"{run_id(2)}  queued (Priority)                                                 12_1",
        f"{run_id(3)}  failed                    7                                       local",
    ]
    assert page(Survey([TRAINING, FAILED]))[-1] == f"{run_id(3)}: failed: loss is NaN at step 3"


def test_nothing_of_a_run_commands_the_terminal() -> None:
    evil = RunState(
        "a/b/c/s1-\x1b[2J", "x\x07", wandb_url="https://x/\x1b]0;t\x07", message="\x1b[31mred\r\nnext"
    )
    text = "\n".join(page(Survey([evil])))
    assert [c for c in text if not c.isprintable() and c != "\n"] == []


def test_when_a_waiting_job_will_start() -> None:
    start = (datetime.now() + timedelta(minutes=30, seconds=10)).strftime("%Y-%m-%dT%H:%M:%S")
    assert "starts in 30 min" in table([RunState(run_id(), "queued", "Resources", start=start)])[1]
    assert "starts in 0 s" in table([RunState(run_id(), "queued", start="2020-01-01T00:00:00")])[1]


LONG = [
    RunState(
        f"transformer-xl/ablation@xl-with-a-long-name/small/s{seed}-0123abcd", state, reason, job=f"1234567_{seed}",
        step=120_000, max_steps=400_000, loss=3.14159, tokens_per_s=1_234_567.8, restarts=12, wandb_url=URL,
        seconds_left=4000, message="it was asked to stop, and " * 9,
    )
    for seed, (state, reason) in enumerate([("training", ""), ("queued", "QOSMaxJobsPerUserLimit")])
]  # fmt: skip


def test_a_pipe_gets_everything(capsys: pytest.CaptureFixture[str]) -> None:
    show(Survey(LONG))
    text = capsys.readouterr().out
    assert f"{LONG[0].run}  training" in text
    assert text.count(URL) == 2


@pytest.mark.parametrize(
    ("seconds", "message"),
    [(0, "0 s"), (89, "89 s"), (120, "2 min"), (5340, "89 min"), (5400, "1.5 h"), (172800, "2.0 d")],
)
def test_durations(seconds: float, message: str) -> None:
    assert duration(seconds) == message


def test_no_runs_and_hidden_runs_are_said() -> None:
    assert page(Survey([])) == ["no runs; `repro submit` or `repro run` starts one"]
    assert page(Survey([], 3)) == ["3 more that ended over 7 days ago; --all shows them"]
    assert page(Survey([QUEUED], 3))[-1] == "3 more that ended over 7 days ago; --all shows them"


def test_what_could_not_be_found_out_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    show(Survey([QUEUED], 0, ["squeue is away"]))
    output = capsys.readouterr()
    assert output.err == "repro: squeue is away\n"
    assert "squeue" not in output.out


class Script:
    """Surveys in turn, and the pauses between them."""

    def __init__(self, *surveys: Survey, interrupt: bool = False) -> None:
        self.surveys = list(surveys)
        self.interrupt = interrupt
        self.pauses: list[float] = []

    def look(self) -> Survey:
        if not self.surveys and self.interrupt:
            raise KeyboardInterrupt
        return self.surveys.pop(0)

    def play(self, out: io.StringIO) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(board, "time", SimpleNamespace(sleep=self.pauses.append))
            patch.setattr("sys.stdout", out)
            watch(self.look, 3)
        return out.getvalue()


def test_watching_ends_when_every_run_has() -> None:
    script = Script(Survey([TRAINING, FAILED]), Survey([TRAINING], 0, ["squeue is away"]), Survey([FAILED]))
    text = script.play(io.StringIO())
    assert (len(script.pauses), set(script.pauses), script.surveys) == (2, {3}, [])
    assert (text.count("run   "), text.count("squeue is away"), text.count(" UTC, every 3 s")) == (3, 1, 3)
    assert "\x1b" not in text
    assert text.endswith("NaN at step 3\n")


def test_watching_ends_at_once_where_nothing_runs() -> None:
    script = Script(Survey([]))
    assert "\nno runs; " in script.play(io.StringIO())
    assert script.pauses == []


def test_watching_ends_with_control_c() -> None:
    script = Script(Survey([TRAINING]), interrupt=True)
    assert run_id() in script.play(io.StringIO())


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "8")
    return Terminal()


def test_a_terminal_is_redrawn_within_its_size(screen: Terminal) -> None:
    many = Survey([TRAINING, *(RunState(run_id(i), "queued") for i in range(20))], 0, ["squeue is away"])
    text = Script(many, many, interrupt=True).play(screen)
    frames = text.split("\x1b[H\x1b[2J")
    assert len(frames) == 3
    for frame in frames[1:]:
        lines = frame.removesuffix("\n").split("\n")
        assert len(lines) == 7
        assert max(map(len, lines)) <= 60
        assert "squeue is away" in lines


def test_the_last_table_stays_whole_on_the_terminal(screen: Terminal) -> None:
    text = Script(Survey([TRAINING]), Survey([FAILED] * 20)).play(screen)
    last = text.split("\x1b[H\x1b[2J")[-1]
    assert last.count("  failed  ") == 20
    assert last.endswith("\n")
