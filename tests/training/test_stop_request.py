"""A signal sets a flag and nothing else."""

import os
import signal
import subprocess
import sys

import pytest

from repro.paths import PROJECT
from repro.training.stop_request import StopRequest


@pytest.mark.parametrize("number", StopRequest.SIGNALS)
def test_a_signal_sets_the_flag_and_handlers_are_put_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopRequest() as request:
        assert not request.is_requested
        os.kill(os.getpid(), number)
        assert request.is_requested
        assert request.by_user == (number == signal.SIGINT)
    assert signal.getsignal(number) is before


def test_a_second_interrupt_does_not_wait() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        with StopRequest() as request:
            os.kill(os.getpid(), signal.SIGINT)
            assert request.by_user
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_forked_processes_live_through_the_signals() -> None:
    with StopRequest():
        child = os.fork()
        if child == 0:
            for number in StopRequest.SIGNALS:
                os.kill(os.getpid(), number)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_the_command_handles_signals_before_its_heavy_imports() -> None:
    code = (
        "import os, signal, sys, types\n"
        "from repro.cli import runs\n"
        "def late(*_): assert 'torch' not in sys.modules; os.kill(os.getpid(), signal.SIGTERM); print('alive')\n"
        "sys.modules['repro.experiment.run'] = types.SimpleNamespace(run=late)\n"
        "runs.is_leader = lambda: False\n"
        "from repro.cli.main import main\n"
        "main(['run', 'attention-is-all-you-need/base', '--scale', 'cpu', '--seed', '987654', '--no-record'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
