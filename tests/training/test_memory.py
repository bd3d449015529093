"""Freed memory stays with the process, unless its environment chooses otherwise."""

import ctypes
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from repro.training.memory import keep_freed_memory

PAGES = 16384  # of 4 KiB, in the tensor of the probe
PROBE = """
import resource
import torch
from repro.training.memory import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

keep_freed_memory()
torch.ones(2**24 + 2**12)
before = faults()
torch.ones(2**24)
print(faults() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library")
def test_a_tensor_takes_the_memory_of_a_larger_one_before() -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=clean, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < PAGES / 10


@pytest.mark.parametrize(("variable", "calls"), [(None, [(-4, 0), (-1, -1)]), ("MALLOC_TRIM_THRESHOLD_", [])])
def test_the_environment_chooses(
    variable: str | None, calls: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, int]] = []
    allocator = SimpleNamespace(mallopt=lambda *call: made.append(call))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: allocator)
    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    if variable:
        monkeypatch.setenv(variable, "0")
    keep_freed_memory()
    assert made == calls


def test_other_c_libraries_have_no_such_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    keep_freed_memory()
