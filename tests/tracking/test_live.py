"""A fragment that is sent while it is written, by a child that ends with its parent."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from repro.tracking.fragments import fragments_of, is_synced
from tests.tracking.conftest import RUN, Make, put, until, writes_soon
from tests.wandb_server import ENTITY, PROJECT, WandbServer

ROOT = Path(__file__).resolve().parents[2]


@writes_soon
def test_rows_are_on_the_server_while_the_run_goes_on(
    make: Make, server: WandbServer, tmp_path: Path
) -> None:
    made = make(online=True)
    put(made, *range(10))
    assert server.wait_until(lambda: len(server.rows.get(RUN, [])) > 0, 60)
    put(made, 10)
    made.close(60)
    assert made.url == f"{server.url}/{ENTITY}/{PROJECT}/runs/{RUN}"
    assert server.steps(RUN) == list(range(11))
    assert server.exits == {RUN: 0}
    (log,) = fragments_of(tmp_path / "run")
    assert is_synced(log)


def test_a_server_that_fails_in_mid_run_delays_the_end_by_no_more_than_its_limit(
    make: Make, server: WandbServer, tmp_path: Path
) -> None:
    made = make(online=True)
    server.fail(500)
    put(made, 1, 2)
    made.close(2)
    (log,) = fragments_of(tmp_path / "run")
    assert not is_synced(log)
    assert not made._thread.is_alive()


def test_it_does_not_overtake_an_earlier_fragment(make: Make, server: WandbServer, tmp_path: Path) -> None:
    first = make()
    put(first, 1)
    first.close(20)
    earlier = fragments_of(tmp_path / "run")[0].parent
    earlier.rename(earlier.with_name(f"offline-run-20260101_000000-{RUN}"))
    second = make(online=True)
    put(second, 2)
    second.close(20)
    assert second.url is None
    assert server.rows == {}


def test_it_ends_with_its_parent(server: WandbServer, tmp_path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from repro.tracking.background import BackgroundLogger
from tests.tracking.conftest import LIMITS, about, put
folder = Path(sys.argv[1])
(folder / "wandb").mkdir(parents=True)
made = BackgroundLogger(about(folder), folder / "wandb", LIMITS, True)
put(made, 1)
print(made._live._child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    group = int(done.stdout)

    def ended() -> bool:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        return all_zombies(group)

    until(ended)


def all_zombies(group: int) -> bool:
    """Whether every process of a group has ended, whether or not its parent has asked how."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = stat.read_text().rsplit(")", 1)[1].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state != "Z":
            return False
    return True
