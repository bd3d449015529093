"""``repro logs``: the log of a run's job, while it is written or afterwards."""

import codecs
import os
import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from repro.errors import ReproError, UserError
from repro.launch.slurm.queue import in_queue
from repro.launch.status.run_index import RunEntry, everything, select

POLL = 0.5  # seconds between two looks at the file
ASK_EVERY = 20  # looks between two questions to squeue
_BLOCK = 1 << 16
# Colours and cursor movements; window titles and links, which end with BEL or ESC \ on the same line; the rest.
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\`-~]|[\x80-\x9f]"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\n]*\x1b?|[ -/]*)$")
_LONGEST = 4096  # characters of an escape sequence that is waited for
_CONTROL = {code: None for code in (*range(32), 127) if chr(code) not in "\t\n\r"}

Writer = Callable[[str], object]
Alive = Callable[[], bool | None]


class Cleaner:
    """Bytes to text without terminal commands: of control characters only tab, newline and return are kept."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._kept = ""

    def feed(self, data: bytes, last: bool = False) -> str:
        """The text of the next piece; a possible start of an escape sequence is held back until the piece after it."""
        text = self._kept + self._decode(data, last)
        unfinished = None if last else _UNFINISHED.search(text, max(len(text) - _LONGEST, 0))
        cut = unfinished.start() if unfinished else len(text)
        text, self._kept = text[:cut], text[cut:]
        return _ESCAPE.sub("", text).translate(_CONTROL)


class Tail:
    """A growing file, which may not exist yet, be truncated, or be replaced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._file = 0

    def skip_to_last(self, lines: int) -> None:
        """Continues from the start of the last ``lines`` lines."""
        try:
            with open(self.path, "rb") as file:
                self._offset = _start_of_last(file, lines)
                self._file = os.fstat(file.fileno()).st_ino
        except FileNotFoundError:
            return

    def read(self) -> bytes | None:
        """The bytes written since the last call, at most a block; empty if none, None while there is no file."""
        try:
            with open(self.path, "rb") as file:
                now = os.fstat(file.fileno())
                if now.st_size < self._offset or (self._file and now.st_ino != self._file):
                    self._offset = 0
                self._file = now.st_ino
                file.seek(self._offset)
                data = file.read(_BLOCK)
        except FileNotFoundError:
            return None
        self._offset += len(data)
        return data


def _start_of_last(file: BinaryIO, lines: int) -> int:
    """The offset of the last ``lines`` lines of a file; a last line without newline counts."""
    end = file.seek(0, os.SEEK_END)
    if lines <= 0 or end == 0:
        return end
    file.seek(end - 1)
    missing = lines + (file.read(1) == b"\n")
    while end > 0:
        start = max(end - _BLOCK, 0)
        file.seek(start)
        breaks: deque[int] = deque(maxlen=missing)
        block = file.read(end - start)
        breaks.extend(i for i, byte in enumerate(block) if byte == 10)
        if len(breaks) == missing:
            return start + breaks[0] + 1
        missing -= len(breaks)
        end = start
    return 0


def choose(
    word: str, scale: str | None = None, seed: int | None = None, entries: Sequence[RunEntry] | None = None
) -> tuple[RunEntry, int]:
    """The run, as its last submission has it, whose log a word means, and how many it could have meant.

    Args:
        word: see :func:`repro.launch.status.run_index.select`; a job means that submission, not the run's last.
        scale: only runs at this scale.
        seed: only runs of this seed.
        entries: of :func:`repro.launch.status.run_index.everything`.

    Raises:
        UserError: an unknown word; no run of that scale and seed; a run that has no log.
    """
    matches = select([word], everything() if entries is None else entries)
    matches = [k for k in matches if scale in (None, k.scale) and seed in (None, k.seed)]
    if not matches:
        which = "".join([f" at scale {scale}" if scale else "", "" if seed is None else f" with seed {seed}"])
        raise UserError(f"{word} has no run{which}; `repro status {word}` shows what there is")
    logged = [entry for entry in matches if entry.log is not None]
    if not logged:
        run = matches[0].run or word
        if any(entry.submission for entry in matches):
            raise UserError(f"{run} is being submitted, or Slurm did not take it; `repro submit` tries again")
        raise UserError(
            f"{run} was not submitted, so its output went to a terminal and to no file; "
            "`repro submit` keeps a log, `repro status` and `repro show` tell what this run did"
        )
    last = max(entry.submission.name for entry in logged if entry.submission)
    newest = [entry for entry in logged if entry.submission and entry.submission.name == last]
    return newest[0], len({entry.run for entry in matches})


def is_queued(entry: RunEntry) -> bool | None:
    """Whether the task is in the queue; None where the queue cannot be read."""
    try:
        queued = in_queue().get(entry.job_id or "")
    except UserError:
        return None
    return queued is not None and entry.owns(queued)


def print_log(entry: RunEntry, write: Writer, lines: int | None = None) -> None:
    """Writes a task's log, all attempts, or its last lines.

    Raises:
        ReproError: there is no log though the task is not in the queue any more.
    """
    tail, cleaner = _tail(entry, lines), Cleaner()
    data = tail.read()
    if data is None:
        require_log_to_come(entry)
        write(f"{entry.job_id}: queued, no output yet\n")
        return
    while data:
        write(cleaner.feed(data))
        data = tail.read()
    write(cleaner.feed(b"", last=True))


def require_log_to_come(entry: RunEntry) -> None:
    """Raises if there is no log and none is to be expected."""
    if is_queued(entry) is False:
        raise ReproError(
            f"job {entry.job_id} left the queue without output: it was cancelled before it started, or {entry.log} "
            "was removed; `repro status` shows its state"
        )


def follow(
    entry: RunEntry,
    write: Writer,
    lines: int | None = None,
    alive: Alive | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Writes a task's log as it grows, until the task has left the queue or Ctrl-C.

    Args:
        entry: the task.
        write: takes text.
        lines: how many of the existing lines are written; None: all.
        alive: whether the task is in the queue; returns None where the queue cannot be read, which counts as yes.
        pause: waits; replaced by tests.

    Raises:
        ReproError: as :func:`print_log`.
    """
    tail, cleaner = _tail(entry, lines), Cleaner()
    alive = alive or (lambda: is_queued(entry))
    looks, exists, waiting = 0, False, False
    try:
        while True:
            data = tail.read()
            exists = exists or data is not None
            if data:
                write(cleaner.feed(data))
                continue
            if data is None and not waiting:
                write(f"{entry.job_id}: queued, no output yet\n")
                waiting = True
            if looks % ASK_EVERY == 0 and alive() is False:
                break
            looks += 1
            pause(POLL)
        pause(POLL)  # what a node wrote last may take a moment to be seen here
        while data := tail.read():
            exists = True
            write(cleaner.feed(data))
    except KeyboardInterrupt:
        return
    finally:
        write(cleaner.feed(b"", last=True))
    if not exists:
        require_log_to_come(entry)


def _tail(entry: RunEntry, lines: int | None) -> Tail:
    if entry.log is None:
        raise UserError(f"{entry.run} has no log")
    tail = Tail(entry.log)
    if lines is not None:
        tail.skip_to_last(lines)
    return tail
