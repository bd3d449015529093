"""Requests to stop: a signal handler only sets a flag. Needs no torch."""

import os
import signal
import threading
from types import FrameType
from typing import Any


class StopRequest:
    """USR1 (before Slurm's time limit), TERM (preemption, ``scancel``) and Ctrl-C, as a flag.

    Used as a context manager from the beginning of a command, so that a signal during imports ends nothing
    either. A second Ctrl-C does not wait. Processes that are forked meanwhile inherit the handlers. In a loader worker,
    torch replaces that of TERM, and :mod:`repro.data.core.loader` sees to it that the worker lives on.

    Attributes:
        is_requested: whether this process was asked to stop.
        by_user: whether by Ctrl-C.
    """

    SIGNALS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self.is_requested = False
        self.by_user = False
        self._pid = os.getpid()
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():  # the only one that may set handlers
            self._previous = {number: signal.signal(number, self._handle) for number in self.SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.is_requested = True
        if number == signal.SIGINT and os.getpid() == self._pid:
            self.by_user = True
            signal.signal(number, self._previous[signal.SIGINT])
