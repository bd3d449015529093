"""``repro logs``: what a run's job wrote, while it writes or afterwards."""

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
    """Bytes to text that cannot command a terminal: of control characters only tab, newline and return stay."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._kept = ""

    def feed(self, data: bytes, last: bool = False) -> str:
        """The text of a further piece; what may be the start of an escape sequence waits for the next."""
        text = self._kept + self._decode(data, last)
        unfinished = None if last else _UNFINISHED.search(text, max(len(text) - _LONGEST, 0))
        cut = unfinished.start() if unfinished else len(text)
        text, self._kept = text[:cut], text[cut:]
        return _ESCAPE.sub("", text).translate(_CONTROL)


class Tail:
    """A file that grows, and that may not be there yet, be cut, or be replaced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._file = 0

    def skip_to_last(self, lines: int) -> None:
        """Goes on from the start of the last so many lines."""
        try:
            with open(self.path, "rb") as file:
                self._offset = _start_of_last(file, lines)
                self._file = os.fstat(file.fileno()).st_ino
        except FileNotFoundError:
            return

    def read(self) -> bytes | None:
        """What has come since; at most a block, nothing if nothing has, None while there is no file."""
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
    """Where the last so many lines of a file start; a last line without newline counts."""
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
    found = select([word], everything() if entries is None else entries)
    found = [k for k in found if scale in (None, k.scale) and seed in (None, k.seed)]
    if not found:
        which = "".join([f" at scale {scale}" if scale else "", "" if seed is None else f" with seed {seed}"])
        raise UserError(f"{word} has no run{which}; `repro status {word}` shows what there is")
    logged = [entry for entry in found if entry.log is not None]
    if not logged:
        run = found[0].run or word
        if any(entry.submission for entry in found):
            raise UserError(f"{run} is being submitted, or Slurm did not take it; `repro submit` tries again")
        raise UserError(
            f"{run} was not submitted, so its output went to the terminal it was started in and to no file; "
            "`repro submit` keeps a log, `repro status` and `repro show` tell what this run did"
        )
    last = max(entry.submission.name for entry in logged if entry.submission)
    newest = [entry for entry in logged if entry.submission and entry.submission.name == last]
    return newest[0], len({entry.run for entry in found})


def is_queued(entry: RunEntry) -> bool | None:
    """Whether the task is in the queue; None where the queue cannot be asked."""
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
    """Raises where a log is neither there nor to be expected."""
    if is_queued(entry) is False:
        raise ReproError(
            f"job {entry.job_id} left the queue without output: it was cancelled before it started, or {entry.log} "
            "was removed; `repro status` tells its state"
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
        lines: of what is there already, only the last so many.
        alive: whether the task is in the queue; None: cannot be asked, go on.
        pause: waits; replaced by tests.

    Raises:
        ReproError: as :func:`print_log`.
    """
    tail, cleaner = _tail(entry, lines), Cleaner()
    alive = alive or (lambda: is_queued(entry))
    looks, there, waiting = 0, False, False
    try:
        while True:
            data = tail.read()
            there = there or data is not None
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
            there = True
            write(cleaner.feed(data))
    except KeyboardInterrupt:
        return
    finally:
        write(cleaner.feed(b"", last=True))
    if not there:
        require_log_to_come(entry)


def _tail(entry: RunEntry, lines: int | None) -> Tail:
    if entry.log is None:
        raise UserError(f"{entry.run} has no log")
    tail = Tail(entry.log)
    if lines is not None:
        tail.skip_to_last(lines)
    return tail
