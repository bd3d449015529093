"""Joins the fragments of a run into one that holds what the server lacks, for W&B's own client to send."""

import json
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from repro.tracking.fragments import BASE_FILE, Fragment, Record, log_of, time_of
from repro.tracking.server import There

# Sent once: with rows behind them on the server, they are there. All else is sent again, so that the last one counts.
ONCE = ("alert", "artifact", "stats", "output", "output_raw", "files")
LEFT = ("header", "run", "exit", "footer", "final", "preempting")  # the joined one has its own


@dataclass(frozen=True)
class Plan:
    """What the fragments of a run hold, and what of it the server lacks.

    Attributes:
        fragments: in the order in which they were begun, those that were only copied left out.
        rows: times of all rows.
        there: times of those that the server has.
        sent: folders that are all there.
    """

    fragments: list[Fragment]
    rows: set[float]
    there: set[float]
    sent: set[Path]

    @property
    def missing(self) -> int:
        """How many rows the server lacks."""
        return len(self.rows - self.there)

    @property
    def open(self) -> bool:
        """Whether anything is to be sent, if only a summary."""
        return any(one.folder not in self.sent for one in self.fragments)


def plan(fragments: list[Fragment], there: There | None) -> Plan:
    """Finds out which rows the server has.

    It has all of a fragment that is marked. Of one whose sending was cut off it has the rows whose numbers were given
    out before the next sending began, or up to now; a fragment that was never sent it has not.

    Args:
        fragments: of one run.
        there: what the server has; None where it was not asked: then only marks count.
    """
    begun = [(one.base, one) for one in fragments if one.base is not None]
    known: set[float] = set()
    sent = set()
    for one in fragments:
        if there is not None and not there.exists:
            continue  # whatever was sent was sent elsewhere, or was removed
        if one.synced:
            known |= set(one.times)
            sent.add(one.folder)
        elif there is not None and one.base is not None:
            later = [base for base, other in begun if other.started > one.started]
            end = min([*later, there.next_step])
            known |= set(one.times[: max(0, end - one.base)])
    own = [one for one in fragments if not one.copied]
    return Plan(own, {at for one in own for at in one.times}, known, sent)


def join(made: Plan, run: str, first: int, root: Path) -> Fragment:
    """Writes one fragment with all that the server lacks, its rows in order.

    Rows, alerts and loads that the server has are left out. Summaries, definitions and artifacts of all fragments
    are in it, in order, so that what the run said last stands there in the end. It ends as the last fragment did.

    Args:
        made: what is to be sent.
        run: the run's id.
        first: the number that the server will give to the first row.
        root: where fragments of the run lie.
    """
    folder = root / f"sync-run-{time.strftime('%Y%m%d_%H%M%S')}-{time.time_ns() % 10**9:09d}-{run}"
    (folder / "files").mkdir(parents=True)
    first_one, last = made.fragments[0], made.fragments[-1]
    records = [_copied(first_one.of_kind("header")[-1]), _copied(last.of_kind("run")[-1])]
    rows, done = 0, set(made.there)
    for one in made.fragments:
        _link_files(one.folder / "files", folder / "files")
        for record in map(_copied, _lacking(one, made, done)):
            rows += _number(record, rows)
            records.append(record)
    records += [_copied(found) for kind in ("preempting", "exit") for found in last.of_kind(kind)[-1:]]
    for number, record in enumerate(records, 1):
        record.num = number
    (folder / BASE_FILE).write_text(json.dumps({"starting_step": first, "at": time.time()}), encoding="utf-8")
    log = folder / f"run-{run}.wandb"
    log.write_bytes(log_of(record.SerializeToString() for record in records))
    return Fragment(folder)


def _copied(record: Record) -> Record:
    made = type(record)()
    made.CopyFrom(record)
    return made


def _lacking(one: Fragment, made: Plan, done: set[float]) -> list[Record]:
    """The records of a fragment that are to be sent; ``done`` are the rows that need not be, and then also these."""
    times = [time_of(record) for record in one.records]
    reached = max((i for i, at in enumerate(times) if at in made.there), default=-1)
    if one.folder in made.sent:
        reached = len(times)
    found = []
    for i, (record, at) in enumerate(zip(one.records, times, strict=True)):
        kind = record.WhichOneof("record_type")
        if kind in LEFT or (kind in ONCE and i < reached):
            continue
        if kind == "history":
            if at is None or at in done:
                continue
            done.add(at)
        found.append(record)
    return found


def _number(record: Record, rows: int) -> int:
    """Numbers a row, or what a summary says of the last one, from 0 on: W&B's client adds where the server stands."""
    kind = record.WhichOneof("record_type")
    if kind == "history":
        record.history.step.num = rows
        items, number = record.history.item, rows
    elif kind == "summary":
        items, number = record.summary.update, rows
    else:
        return 0
    for item in items:
        if item.key == "_step" or list(item.nested_key) == ["_step"]:
            item.value_json = str(number)
    return int(kind == "history")


def _link_files(source: Path, target: Path) -> None:
    """Tables and pictures, which are called by their content; linked, or copied where links are not known."""
    for path in sorted(p for p in source.rglob("*") if p.is_file()) if source.is_dir() else ():
        to = target / path.relative_to(source)
        if to.exists() or path.relative_to(source).parts[0] != "media":
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, to)
        except OSError:
            shutil.copyfile(path, to)
