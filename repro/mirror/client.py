"""W&B's client for one run: its settings, its rows and its end. Public names only."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.events import ENDS, METRICS, Event
from repro.mirror import place

if TYPE_CHECKING:
    from wandb import Run

STEP = "trainer/global_step"
EXIT_CODES = {"done": 0, "requeue": 75, "stopped": 130}  # W&B shows 0 as finished, all else as failed
# What W&B shows as a run's summary: the best, not the last.
SUMMARIES = {
    **dict.fromkeys(("val/loss", "val/ppl", "val/bpc", "val/bpb"), "min"),
    **dict.fromkeys(("val/bleu", "val/exact_match", "val/accuracy"), "max"),
}
# No command line, host, package list or repository is sent.
SETTINGS: dict[str, Any] = {
    "console": "off",
    "silent": True,
    "save_code": False,
    "disable_code": True,
    "disable_git": True,
    "disable_job_creation": True,
    "host": "",
    "program": "",
    "x_disable_meta": True,
    "x_save_requirements": False,
    "finish_timeout_raises": True,
}
CONFIRM_S = 15.0


def start(first: Event, scratch: str, finish_s: float, pid: int | None, ended: bool) -> "Run":
    """Begins the run on W&B or continues it.

    Args:
        first: the first event of the run's last attempt.
        scratch: a folder for W&B's files.
        finish_s: limit of :func:`finish`.
        pid: the process whose load is logged, and with it that of its node; None: none is.
        ended: whether the run is over, and W&B is to show that.

    Raises:
        Exception: whatever W&B's client raises.
    """
    import wandb

    os.environ.update(WANDB_DATA_DIR=scratch, WANDB_CACHE_DIR=scratch)
    load = {"x_disable_stats": True} if pid is None else {"x_disable_stats": False, "x_stats_pid": pid}
    settings = {**SETTINGS, "finish_timeout": finish_s, "x_update_finish_state": ended, **load}
    run: Run = wandb.init(
        id=first["wandb_id"], name=first["run"],
        project=place()["project"],
        group=first["group"], job_type="train", tags=first["tags"], config=first["config"], dir=scratch,
        resume="allow", mode="online", settings=wandb.Settings(**settings),
    )  # fmt: skip
    run.define_metric(STEP)
    run.define_metric("*", step_metric=STEP)
    for metric, goal in SUMMARIES.items():
        run.define_metric(metric, step_metric=STEP, summary=goal)
    return run


def rows_of(events: Sequence[Event]) -> list[Event]:
    """The events that are rows of W&B's history, one row each."""
    return [e for e in events if e["kind"] in METRICS or "table" in e or "picture" in e]


def log(run: "Run", event: Event, folder: Path, published: Mapping[str, float]) -> None:
    """Sends one row; that of a validation has the published numbers beside it, which make a line in its charts."""
    import wandb

    row = {n: value for n, value in event.items() if n not in ("t", "kind", "step") and value is not None}
    if "table" in event:
        row = {event["table"]: wandb.Table(columns=event["columns"], data=event["rows"])}
    elif "picture" in event:
        file = folder / event["file"]
        row = {}
        if file.exists():
            row = {event["picture"]: [wandb.Image(str(file), caption=event["caption"])]}
    if event["kind"] == "val":
        row |= {f"published/{name}": value for name, value in published.items()}
    if event["kind"] in METRICS or not row:
        row[STEP] = event["step"]
    run.log({**row, "_timestamp": event["t"] or time.time()})


def finish(run: "Run", events: Sequence[Event], state: str, message: str | None) -> None:
    """Sets the summary and ends the run; returns once the server has all of it.

    Args:
        run: of W&B.
        events: all of the run.
        state: of the run.
        message: of an alert that is sent first.

    Raises:
        Exception: whatever W&B's client raises, among it that the time is up.
    """
    import wandb

    for event in events:
        run.summary.update(event.get("summary", {}))
    if message:
        run.alert("Failed", message)
    if state == "requeue":
        run.mark_preempting()
    rows, path = len(rows_of(events)), f"{run.entity}/{run.project}/{run.id}"
    run.finish(exit_code=EXIT_CODES.get(state, 1))
    remote, end = wandb.Api(timeout=int(CONFIRM_S)).run(path), time.monotonic() + CONFIRM_S
    while remote.lastHistoryStep + 1 < rows:
        if time.monotonic() > end:
            raise TimeoutError(f"the server has {remote.lastHistoryStep + 1} of {rows} rows")
        time.sleep(0.5)


def is_over(events: Sequence[Event]) -> bool:
    """Whether a run has written its last event."""
    return bool(events) and events[-1].get("state") in ENDS
