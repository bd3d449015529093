"""All runs in a few numbers: counts, GPU hours, and when the last may end."""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime

import pytest

from repro.launch.status.ledger import Submission, write_submission
from repro.launch.status.state import RunState, survey
from repro.launch.status.summary import summarise
from tests.launch.conftest import World
from tests.launch.fake_slurm import MINE, FakeSlurm, only, queued, run_id, slurm, submitted, write_status

__all__ = ["slurm", "submitted"]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOUR = 3600.0
OTHER = "alpha/unknown/cpu/s{}-0123abcd"  # no recipe says how long it takes


def test_runs_are_counted_in_groups(world: World) -> None:
    states = [
        "done",
        "training",
        "ending",
        "queued",
        "requeued",
        "failed",
        "lost",
        "timeout",
        "cancelled",
        "stopped",
    ]
    result = summarise([RunState(run_id(i), state) for i, state in enumerate(states)], NOW)
    assert (result.done, result.running, result.queued, result.failed, result.stopped) == (1, 2, 2, 3, 2)
    assert result.lines[0] == "10 runs: 1 done, 2 running, 2 queued, 3 failed, 2 stopped"
    assert summarise([RunState(run_id(), "done")], NOW).lines == ["1 run: 1 done"]


def test_hours_and_end_of_what_is_left(world: World) -> None:
    """Two run at a time: the third begins after one hour, the fourth after two."""
    rows = [
        RunState(OTHER.format(0), "done", gpus=4, wall_s=3 * HOUR, gpu_hours=12.0),
        RunState(OTHER.format(1), "training", gpus=4, seconds_left=HOUR, gpu_hours=4.0),
        RunState(OTHER.format(2), "training", gpus=4, seconds_left=2 * HOUR),
        RunState(OTHER.format(3), "queued", gpus=4),  # three hours, as the first
        RunState(OTHER.format(4), "requeued", gpus=4, step=2, max_steps=6),  # two thirds of that
        RunState(OTHER.format(5), "failed", gpus=4, gpu_hours=1.5),
    ]
    result = summarise(rows, NOW)
    assert (result.gpu_hours_used, result.gpu_hours_left) == (17.5, pytest.approx(4 * (1 + 2 + 3 + 2)))
    assert result.seconds_left == pytest.approx(4 * HOUR)
    assert result.expected_end == "2026-01-02T07:04:05Z"
    assert result.lines[1] == "GPU hours: 17.5 used, 32.0 left; expected end: 2026-01-02 07:04 UTC"
    json.dumps(asdict(result))


def test_what_nothing_tells_is_unknown(world: World) -> None:
    rows = [
        RunState(OTHER.format(1), "training", gpus=4, seconds_left=60),
        RunState(OTHER.format(2), "queued", gpus=4),
    ]
    result = summarise(rows, NOW)
    assert (result.gpu_hours_left, result.seconds_left, result.expected_end) == (None, None, None)
    assert result.lines[1:] == ["expected end: unknown"]
    recipe = RunState("alpha/base/paper/s1-0123abcd", "queued", gpus=8)
    assert summarise([recipe], NOW).seconds_left == 12 * HOUR, "as the recipe expects"
    assert summarise([recipe], NOW).gpu_hours_left == 96
    unread = RunState("alpha/base/paper/s2-0123abcd", "done", gpus=8)
    assert summarise([unread, recipe], NOW).seconds_left == 12 * HOUR, "not no time, as a record without one"


def test_a_row_knows_its_gpus_and_their_hours(submitted: Submission, slurm: FakeSlurm) -> None:
    slurm.queue(queued("12_0", "RUNNING", MINE))
    write_submission(replace(submitted, gpus=8))
    folder = write_status(tokens=7200, **{"train/tokens_per_s": 2.0})
    row = only()
    assert (row.gpus, row.wall_s, row.gpu_hours) == (8, HOUR, 8.0)
    (folder / "record.json").write_text('{"wall_seconds": 10.0, "gpu_hours": 0.5}')
    (row,) = survey(old_too=True).rows
    assert (row.state, row.wall_s, row.gpu_hours) == ("done", 10.0, 0.5)


@pytest.mark.parametrize("text", ["", "{}", '{"wall_seconds": null, "gpu_hours": 1}'])
def test_a_damaged_record_counts_as_no_hours(submitted: Submission, slurm: FakeSlurm, text: str) -> None:
    folder = write_status(tokens=7200, **{"train/tokens_per_s": 2.0})
    (folder / "record.json").write_text(text)
    assert (only().state, only().gpu_hours) == ("done", None)
