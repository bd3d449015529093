"""Distributes the tests of ``pytest -n N`` among its workers, which are processes of pytest-xdist."""

import re

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# One unit each, for they share what is expensive to start: Slurm's cluster; the program that forks ranks.
# The test of preemption, which mostly waits, has a cluster of its own.
UNITS = {
    "preemption": re.compile(r"tests/slurm/test_preemption\.py"),
    "Slurm": re.compile(r"tests/slurm/"),
    "ranks": re.compile(r"tests/experiment/test_(ranks|resume|signals|watchdogs)\.py"),
}
# The long ones begin first, so that no worker is left with one of them at the end.
FIRST = (
    "preemption", "Slurm", "ranks", "tests/mirror/test_run.py", "tests/mirror/test_sync.py", "tests/test_configs.py",
)  # fmt: skip


def unit(nodeid: str) -> str:
    """Returns the unit that runs on one worker, one test after another: a file, or one of :data:`UNITS`."""
    path = nodeid.partition("::")[0]
    return next((name for name, pattern in UNITS.items() if pattern.match(path)), path)


def turn(nodeid: str) -> int:
    """Returns the order of a test's unit: the place in :data:`FIRST`, or after these."""
    name = unit(nodeid)
    return FIRST.index(name) if name in FIRST else len(FIRST)


class ByUnit(LoadScopeScheduling):
    """Hands out units in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
