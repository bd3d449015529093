"""Memory that a computation takes, to the byte."""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the profiler prints two lines at each use


def peak_bytes(work: Callable[[], Any], device: torch.device | None = None) -> int:
    """Returns the peak of bytes during ``work`` beyond those allocated before.

    On a CPU every allocation and release is counted as the profiler sees them, which is slow; on a GPU the allocator
    counts.
    """
    if device is not None and device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        result = work()
        torch.cuda.synchronize(device)
        del result
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        result = work()
    events = watched.profiler.kineto_results.events()
    current = most = 0
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        current += event.nbytes()
        most = max(most, current)
    del result
    return most
