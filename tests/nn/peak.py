"""Memory that a computation takes on a CPU, to the byte: every allocation and release, as the profiler sees them."""

from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile


def peak_bytes(work: Callable[[], Any]) -> int:
    """The most bytes held at a time by ``work`` beyond what was held before it."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        kept = work()
    events = watched.profiler.kineto_results.events()
    held = most = 0
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    del kept
    return most
