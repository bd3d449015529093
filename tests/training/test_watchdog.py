"""The watchdog of one process; ranks that die or stop are in tests/experiment/test_watchdogs.py."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from repro.errors import UserError
from repro.training.watchdog import LEADER_VARIABLE, LIMIT_S, Watchdog, stall_limit


def child(work: Callable[[Watchdog], None], limit_s: float) -> int:
    """Runs work under a watchdog in a process of its own; returns its number."""
    number = os.fork()
    if number == 0:
        try:
            with Watchdog(limit_s) as watchdog:
                work(watchdog)
            os._exit(0)
        finally:
            os._exit(9)
    return number


def exit_code(number: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def busy(seconds: float) -> Callable[[Watchdog], None]:
    def work(watchdog: Watchdog) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            watchdog.beat("working")
            time.sleep(0.05)

    return work


def test_quiet_for_too_long_ends_the_process() -> None:
    began = time.monotonic()
    assert exit_code(child(lambda watchdog: time.sleep(60), limit_s=0.5)) == 1
    assert time.monotonic() - began < 10


def test_signs_of_life_keep_it_alive() -> None:
    assert exit_code(child(busy(2.0), limit_s=1.0)) == 0


@pytest.mark.parametrize(("alone", "code"), [(True, 0), (False, 1)])
def test_a_single_rank_that_computes_is_alive(alone: bool, code: int) -> None:
    def work(watchdog: Watchdog) -> None:
        watchdog.alone = alone
        end = time.process_time() + 1.5
        while time.process_time() < end:
            pass

    assert exit_code(child(work, limit_s=0.5)) == code


def test_a_single_rank_that_has_computed_and_then_waits_is_ended() -> None:
    def work(watchdog: Watchdog) -> None:
        watchdog.alone = True
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
        time.sleep(60)

    assert exit_code(child(work, limit_s=0.5)) == 1


@pytest.mark.parametrize(
    ("ranks", "device", "alone"), [(1, "cpu", True), (2, "cpu", False), (1, "cuda", False)]
)
def test_a_rank_is_alone_on_a_cpu(ranks: int, device: str, alone: bool) -> None:
    watchdog = Watchdog(60)
    strategy = SimpleNamespace(launcher=None, root_device=SimpleNamespace(type=device))
    watchdog.setup(SimpleNamespace(world_size=ranks, strategy=strategy), None, "fit")  # type: ignore[arg-type]
    assert watchdog.alone is alone


def test_a_job_that_is_suspended_as_a_whole_does_not_age() -> None:
    number = child(busy(0.8), limit_s=1.0)
    time.sleep(0.3)
    os.kill(number, signal.SIGSTOP)
    time.sleep(2.0)
    os.kill(number, signal.SIGCONT)
    assert exit_code(number) == 0


def test_it_tells_before_it_ends_and_takes_its_siblings_along() -> None:
    read, write = os.pipe()

    def work(watchdog: Watchdog) -> None:
        sibling = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=[write]
        )  # holds the pipe open
        os.kill(sibling.pid, signal.SIGSTOP)
        watchdog.farewell = lambda message: os.write(write, message.encode()) and None
        watchdog.siblings = [sibling]
        watchdog.beat("training, step 5")
        time.sleep(60)

    os.set_inheritable(write, True)
    assert exit_code(child(work, limit_s=0.5)) == 1
    os.close(write)
    output = b""
    while part := os.read(read, 1000):  # ends when every process that could write has gone
        output += part
    assert b"nothing moved for 0.5 s (training, step 5)" in output


@pytest.mark.parametrize("hangs", ["farewell", "stderr"])
def test_a_farewell_that_hangs_keeps_no_process(hangs: str) -> None:
    def hang(*_: object, **__: object) -> int:
        time.sleep(30)
        os._exit(5)

    def work(watchdog: Watchdog) -> None:
        watchdog.FAREWELL_S = 0.1  # type: ignore[misc]
        if hangs == "stderr":
            sys.stderr = SimpleNamespace(write=hang, flush=hang)  # type: ignore[assignment]
        else:
            watchdog.farewell = hang  # type: ignore[assignment]
        time.sleep(60)

    assert exit_code(child(work, limit_s=0.5)) == 1


def test_the_leader_is_named_for_the_ranks_it_starts_only_while_it_runs() -> None:
    assert LEADER_VARIABLE not in os.environ
    with Watchdog(60):
        assert os.environ[LEADER_VARIABLE] == str(os.getpid())
    assert LEADER_VARIABLE not in os.environ


def test_the_limit_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPRO_STALL_S", raising=False)
    assert stall_limit() == LIMIT_S
    monkeypatch.setenv("REPRO_STALL_S", "90")
    assert stall_limit() == 90.0
    for wrong in ("soon", "0", "-1", "inf", "nan"):
        monkeypatch.setenv("REPRO_STALL_S", wrong)
        with pytest.raises(UserError, match=rf"REPRO_STALL_S='{wrong}'.*0"):
            stall_limit()
