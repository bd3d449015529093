"""The events of a run, one JSON object a line in ``events.jsonl`` of its folder. Standard library only.

Every event has ``t`` (seconds since 1970), ``step`` (optimiser updates) and ``kind``: ``train``, ``val`` and ``test``
hold numbers by name, ``state`` a new state of the run, ``note`` anything else. Rank 0 writes. Another rank writes a
note, when it fails, to ``events-<rank>.jsonl``. Numbers that are not finite are ``NaN`` and ``Infinity``.
"""

import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from repro.errors import ReproError
from repro.files import write_atomic, writing

EVENTS_FILE = "events.jsonl"
METRICS = ("train", "val", "test")
SILENT_S = 120.0  # without an event, after which a run is not believed to be alive; it writes every 30
ENDS = ("done", "requeue", "stopped", "failed")  # states after which a run writes nothing more
LAST_TIME = 1e11  # seconds since 1970; later times are damage
# Of values that are read; an event with a value of another type is damage.
TYPES: dict[str, Any] = {
    "config": dict, "state": str, "run": str, "max_steps": int, "job": str | None, "message": str,
}  # fmt: skip
LOGGED = ("train/loss", "train/tokens_per_s", "train/lr", "trainer/tokens")

Event = dict[str, Any]
Curves = dict[str, list[list[float]]]


class EventLog:
    """Appends events to a run's file. Lines that cannot be written are written with the next ones.

    Args:
        folder: of the run.

    Attributes:
        size: bytes written so far.
        written: when the last event was appended, by the monotonic clock.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / EVENTS_FILE
        self.size = self.path.stat().st_size if self.path.exists() else 0
        self.written = time.monotonic()
        self._waiting = b""
        self._warned = False

    def begin(self, kept: bytes, step: int, facts: Mapping[str, object]) -> None:
        """Begins an attempt: events after the checkpoint are removed, earlier states stay.

        Args:
            kept: the lines up to the checkpoint; see :func:`prefix`.
            step: step of the checkpoint.
            facts: facts of this attempt, for its first event.

        Raises:
            ReproError: the file cannot be written.
        """
        known = self.path.read_bytes() if self.path.exists() else b""
        later = b"".join(line for line in known.removeprefix(kept).splitlines(True) if _stays(line, step))
        for path in self.path.parent.glob("events-*.jsonl"):
            path.unlink()
        attempt = 1 + sum(b'"state": "starting"' in line for line in (kept + later).splitlines())
        first = {"state": "starting", "attempt": attempt, "resumed_from": step, **facts}
        content = kept + later + encode("state", step, first)
        write_atomic(self.path, content)
        self.size, self.written = len(content), time.monotonic()

    def append(self, kind: str, step: int, values: Mapping[str, object]) -> None:
        """Appends one event. If that fails, one line on stderr reports it, and the run goes on."""
        self._waiting += encode(kind, step, values)
        self.written = time.monotonic()
        try:
            self._write()
        except OSError as error:
            if not self._warned:
                self._warned = True
                message = f"{self.path} is not up to date, the run goes on: {error.strerror}"
                with contextlib.suppress(OSError):  # stderr may be a file on the same disk
                    print(message, file=sys.stderr)

    def sync(self) -> None:
        """Writes all events to disk, before a checkpoint that refers to them.

        Raises:
            ReproError: they cannot be written, or earlier ones are gone.
        """
        with writing(self.path):
            self._write()
            if self.path.exists():
                with open(self.path, "rb") as file:
                    os.fsync(file.fileno())

    def fail(self, message: str, rank: int = 0) -> None:
        """Notes why the run fails; each rank in its own file."""
        values = {"state": "failed", "message": " ".join(message.split())[:500]}
        step = int(last_state(read(self.path)).get("step", 0))
        if rank == 0:
            self.append("state", step, values)
        elif self.path.parent.is_dir():
            own = self.path.with_name(f"events-{rank}.jsonl")
            with contextlib.suppress(OSError), own.open("ab") as file:
                file.write(encode("note", step, values))

    def _write(self) -> None:
        if self.size and (not self.path.exists() or self.path.stat().st_size < self.size):
            raise OSError(errno.EIO, "it was shortened or removed; restore it, or run the same command again")
        if self._waiting:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab") as file:
                file.truncate(self.size)  # of a line that was written in part
                file.write(self._waiting)
            self.size, self._waiting = self.size + len(self._waiting), b""


def encode(kind: str, step: int, values: Mapping[str, object], t: float | None = None) -> bytes:
    """Encodes an event as a line."""
    event = {"t": round(time.time() if t is None else t, 3), "step": step, "kind": kind, **values}
    return json.dumps(event).encode() + b"\n"


def decode(data: bytes) -> list[Event]:
    """Decodes the events of whole lines; other lines are left out."""
    return [event for line in data.split(b"\n")[:-1] if (event := _event(line))]


def _event(line: bytes) -> Event | None:
    with contextlib.suppress(ValueError, RecursionError):
        match json.loads(line):
            case {"kind": str(kind), "step": int(step), "t": int() | float() as t} as event:
                typed = all(isinstance(event[name], TYPES[name]) for name in TYPES.keys() & event.keys())
                whole = type(step) is int and (kind != "state" or "state" in event)
                if typed and whole and 0 <= t < LAST_TIME:
                    return event
    return None


def _stays(line: bytes, step: int) -> bool:
    """Whether a line after a checkpoint is kept: states, and what is logged of a step after it was saved."""
    event = _event(line) if line.endswith(b"\n") else None
    return event is not None and (
        event["kind"] == "state" or (event["kind"] == "train" and event["step"] <= step)
    )


def read(path: Path) -> list[Event]:
    """All events of a file; none where there is no file."""
    try:
        return decode(path.read_bytes())
    except OSError:
        return []


def prefix(path: Path, size: int) -> bytes:
    """Returns the lines of a file up to a checkpoint.

    Raises:
        ReproError: the file is shorter than it was then.
    """
    data = path.read_bytes()[:size] if path.exists() else b""
    if len(data) < size:
        raise ReproError(
            f"{path} is shorter than when the checkpoint was written; restore it, or remove its folder to begin anew"
        )
    return data


def only_metrics(data: bytes, validated_again: int | None = None) -> bytes:
    """Returns the lines of numbers alone, for a run that continues another's training.

    Args:
        data: the lines of the other run.
        validated_again: a step whose validation is left out, since the run makes it again.
    """
    lines = ((line, _event(line)) for line in data.splitlines(True))
    return b"".join(
        line
        for line, event in lines
        if event and event["kind"] in METRICS and (event["kind"], event["step"]) != ("val", validated_again)
    )


def from_curves(points: Curves) -> bytes:
    """Lines for the curves in a checkpoint of a version before there were events."""
    rows: dict[tuple[float, str], Event] = {}
    for name, curve in points.items():
        for step, value in curve:
            rows.setdefault((step, name.partition("/")[0]), {})[name] = value
    return b"".join(encode(kind, int(step), row, 0) for (step, kind), row in sorted(rows.items()))


def curves(events: Iterable[Event]) -> Curves:
    """The curves of a record: points of training, which have a learning rate, and validations."""
    by_name: Curves = {}
    for event in events:
        if event["kind"] == "val" or (event["kind"] == "train" and "train/lr" in event):
            for name, value in event.items():
                if name.startswith(("train/", "val/")):
                    by_name.setdefault(name, []).append([event["step"], value])
    return by_name


def seconds(events: Sequence[Event]) -> float:
    """The time of all attempts of a run, each from its first event to its last."""
    starts = [i for i, event in enumerate(events) if event.get("state") == "starting"]
    ends = [*starts[1:], len(events)]
    spans = (max(0.0, events[b - 1]["t"] - events[a]["t"]) for a, b in zip(starts, ends, strict=True))
    return round(sum(spans), 1)


def attempts(events: Sequence[Event], last: int, facts: Sequence[str]) -> list[dict[str, Any]]:
    """Lists the attempts of a run: named facts of each, and between which steps its updates were kept.

    Args:
        events: of the run.
        last: the run's last step.
        facts: names in the configuration that an attempt's first event holds; None stands for a missing one.
    """
    starts = [event for event in events if event.get("state") == "starting"]
    result = []
    for i, start in enumerate(starts, 1):
        end = min((later["step"] for later in starts[i:]), default=last)
        known = {name: start.get("config", {}).get(name) for name in facts}
        result.append({**known, "first": start["step"], "last": max(end, start["step"])})
    return result


def last_state(events: Sequence[Event]) -> Event:
    """The last state; empty where there is none."""
    return next((event for event in reversed(events) if event["kind"] == "state"), {})


def status(folder: Path) -> dict[str, Any]:
    """Returns the current state of a run from its events: state, step, speed, attempt, message; empty without events.

    ``updated`` is the time of the last event, and ``seconds_left`` follows from the pace of this attempt.
    """
    events = _of_status(folder / EVENTS_FILE)
    starts = [i for i, event in enumerate(events) if event.get("state") == "starting"]
    if not starts:
        return {}
    first, attempt = events[starts[-1]], events[starts[-1] :]
    summary = {name: value for name, value in first.items() if name not in ("t", "kind", "config")}
    summary |= {name: event[name] for event in events for name in LOGGED if name in event}
    summary |= {"attempt": len(starts), "step": max(event["step"] for event in attempt)}
    summary["tokens"] = summary.pop("trainer/tokens", summary.get("tokens"))
    last, trained = attempt[-1], [event for event in attempt if event["step"] > first["step"]]
    state = _failure(folder, last_state(attempt) or first)
    if trained and trained[-1]["step"] > trained[0]["step"] and summary.get("max_steps"):
        pace = (trained[-1]["t"] - trained[0]["t"]) / (trained[-1]["step"] - trained[0]["step"])
        summary["seconds_left"] = max(0, round(pace * (summary["max_steps"] - trained[-1]["step"])))
    updated = datetime.fromtimestamp(max(last["t"], state["t"]), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {**summary, "state": state["state"], "message": state.get("message", ""), "updated": updated}


def _failure(folder: Path, state: Event) -> Event:
    """Returns the first failure that any rank noted, which is nearest to the cause; else the given state."""
    if state["state"] in ("done", "requeue", "stopped"):
        return state
    noted = [event for path in sorted(folder.glob("events-*.jsonl")) for event in read(path)]
    noted += [state] if state["state"] == "failed" else []
    return min(noted, key=lambda event: float(event["t"]), default=state)


def _of_status(path: Path) -> list[Event]:
    """The events that the state of a run follows from: states, the last point, and the last event."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError:
        return []
    point = max((i for i, line in enumerate(lines) if b'"train/lr"' in line), default=None)
    last = len(lines) - 1
    relevant = [line for i, line in enumerate(lines) if b'"kind": "state"' in line or i in (point, last)]
    return [event for line in relevant if (event := _event(line))]


def moment(text: object) -> datetime | None:
    """A time of ISO 8601; one without a zone is local, as Slurm's are."""
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except ValueError:
        return None


def age(status: Mapping[str, Any]) -> float | None:
    """Seconds since the last event of a run, by its status, or until it: clocks differ. None where there is none."""
    updated = moment(status.get("updated"))
    return None if updated is None else abs((datetime.now(UTC) - updated).total_seconds())


def is_fresh(status: Mapping[str, Any]) -> bool:
    """Whether an event was written within the last :data:`SILENT_S` seconds."""
    seconds = age(status)
    return seconds is not None and seconds <= SILENT_S
