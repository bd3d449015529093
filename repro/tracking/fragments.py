"""Fragments: the folders in which W&B's client keeps what it was given of a run. Standard library and wandb only.

A fragment is ``[offline-]run-<time>-<id>/run-<id>.wandb``: a LevelDB log of protobuf records behind a header of seven
bytes. Each start of a run makes one; ``.synced`` beside the log says that the server has all of it.
"""

import contextlib
import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

BASE_FILE = "base.json"  # where in the run's history the server put the first row of a fragment that was sent
_BLOCK, _HEADER = 32768, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MAGIC = b":W&B\xe1\xbe\x00"


class Item(Protocol):
    """A value of a row or a summary, under a key or a path of keys."""

    key: str
    nested_key: Sequence[str]
    value_json: str


class Record(Protocol):
    """A protobuf message of W&B's: one of several kinds, whose part is set."""

    num: int
    run: Any
    history: Any
    summary: Any

    def WhichOneof(self, group: str) -> str | None: ...
    def CopyFrom(self, other: "Record") -> None: ...
    def SerializeToString(self) -> bytes: ...


def payloads(log: bytes) -> Iterator[bytes]:
    """The records of a LevelDB log behind a header of 7 bytes, up to where it was cut off."""
    at, parts = _HEADER, b""
    while at + _HEADER <= len(log):
        if _BLOCK - at % _BLOCK < _HEADER:  # what is left of a block is padding
            at += _BLOCK - at % _BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", log, at)
        chunk = log[at + _HEADER : at + _HEADER + length]
        if len(chunk) < length or kind not in (_FULL, _FIRST, _MIDDLE, _LAST):
            return
        parts = chunk if kind in (_FULL, _FIRST) else parts + chunk
        at += _HEADER + length
        if kind in (_FULL, _LAST):
            yield parts


def log_of(records: Iterable[bytes]) -> bytes:
    """A log that holds these records; the opposite of :func:`payloads`."""
    out = bytearray(_MAGIC)
    for record in records:
        start, first = 0, True
        while True:
            room = _BLOCK - len(out) % _BLOCK
            if room < _HEADER:
                out += bytes(room)
                continue
            chunk = record[start : start + room - _HEADER]
            last = start + len(chunk) == len(record)
            kind = (_FULL if last else _FIRST) if first else (_LAST if last else _MIDDLE)
            checksum = zlib.crc32(chunk, zlib.crc32(bytes([kind])))
            out += struct.pack("<IHB", checksum, len(chunk), kind) + chunk
            start, first = start + len(chunk), False
            if last:
                break
    return bytes(out)


def items_of(said: Iterable[Item]) -> dict[str, str]:
    """What a row or a summary says, values as JSON."""
    return {".".join(item.nested_key) or item.key: item.value_json for item in said}


def time_of(record: Record) -> float | None:
    """When the row was logged that a record holds, to the microsecond, which tells rows apart; None for others."""
    if record.WhichOneof("record_type") != "history":
        return None
    with contextlib.suppress(KeyError, ValueError):
        return float(items_of(record.history.item)["_timestamp"])
    return None


@dataclass(frozen=True)
class Fragment:
    """One fragment.

    Attributes:
        folder: of the fragment.
    """

    folder: Path

    @property
    def log(self) -> Path:
        """Its log file."""
        return next(iter(sorted(self.folder.glob("run-*.wandb"))))

    @property
    def online(self) -> bool:
        """Whether its rows went to a server while they came."""
        return self.folder.name.startswith("run-")

    @property
    def copied(self) -> bool:
        """Whether `repro sync` made it of rows that other fragments hold."""
        return self.folder.name.startswith("sync-")

    @property
    def synced(self) -> bool:
        """Whether the server has said that it has all of it."""
        return self.log.with_name(self.log.name + ".synced").exists()

    @cached_property
    def records(self) -> list[Record]:
        """All its records, up to where the log was cut off."""
        from wandb.proto import wandb_internal_pb2

        messages: Any = wandb_internal_pb2
        found = []
        for payload in payloads(self.log.read_bytes()):
            record = messages.Record()
            with contextlib.suppress(Exception):  # damaged in one of several ways
                record.ParseFromString(payload)
                found.append(record)
        return found

    def of_kind(self, kind: str) -> list[Record]:
        """Its records of a kind, in order."""
        return [record for record in self.records if record.WhichOneof("record_type") == kind]

    @cached_property
    def times(self) -> list[float]:
        """Of its rows, in order."""
        return [at for at in map(time_of, self.records) if at is not None]

    @cached_property
    def run(self) -> Any:
        """What it says of the run; None where it was cut off before."""
        return next((record.run for record in self.of_kind("run")), None)

    @property
    def started(self) -> tuple[float, str]:
        """Sorts fragments of a run by when they were begun."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads((self.folder / BASE_FILE).read_text(encoding="utf-8"))
            return float(said["at"]), self.folder.name
        began = 0.0 if self.run is None else self.run.start_time.seconds + self.run.start_time.nanos / 1e9
        return began, self.folder.name.partition("run-")[2]

    @property
    def base(self) -> int | None:
        """The number that the server gave its first row, or would have given; None where it was never sent."""
        places = ((self.folder / BASE_FILE), self.log.with_name(self.log.name + ".syncstate"))
        for path in places:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                return int(json.loads(path.read_text(encoding="utf-8"))["starting_step"])
        if not self.online:
            return None
        steps = [r.history.step.num for r in self.records if time_of(r) is not None]
        return int(steps[0]) if steps else None

    def mark(self) -> None:
        """Says that the server has all of it, as ``wandb sync`` does, which would else send it a second time."""
        self.log.with_name(self.log.name + ".synced").touch()

    def unmark(self) -> None:
        """Takes that back."""
        self.log.with_name(self.log.name + ".synced").unlink(missing_ok=True)


def fragments_of(folder: Path) -> list[Fragment]:
    """The fragments of a run that hold anything, in the order in which they were begun."""
    found = [Fragment(log.parent) for log in sorted(folder.glob("*run-*/run-*.wandb"))]
    return sorted((one for one in found if one.run is not None), key=lambda one: one.started)


def times_on_disk(folder: Path) -> set[float]:
    """Times of the rows that lie in a fragment, as far as it can be read."""
    return set(Fragment(folder).times) if list(folder.glob("run-*.wandb")) else set()
