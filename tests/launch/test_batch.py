"""The script on a node: run in bash, with a fake srun."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from repro.events import EVENTS_FILE, encode
from repro.launch.slurm.chain import PlannedJob
from repro.launch.slurm.profile import parse_profile
from repro.launch.slurm.render import Places, render_script
from tests.launch.batch import run_batch
from tests.launch.conftest import spec

REQUEUE = [["requeue", "12_0"]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Folders below the test's own."""
    monkeypatch.setenv("REPRO_RUNS", str(tmp_path / "runs"))
    folder = tmp_path / "runs" / "slurm" / "20260102T030405Z-abcdef"
    variables = {f"REPRO_{n.upper()}": tmp_path / n for n in ("data", "results", "runs", "trials")}
    return Places(tmp_path, folder, {"REPRO_CONFIGS": folder / "code" / "configs", **variables})


def script(here: Places, **profile: Any) -> str:
    made = parse_profile("site", {"gpus_per_node": 0, "tasks_per_node": 2, "max_requeues": 3, **profile})
    return render_script(PlannedJob("x", {0: spec()}), made, here)


def test_a_run_that_ends_well(here: Places, tmp_path: Path) -> None:
    ended = run_batch(script(here), tmp_path / "node", PYTHONPATH="/own")
    assert ended.code == 0
    assert ended.ranks == [
        "--kill-on-bad-exit=1", "--label", "python3", "-P", "-m", "repro", "run",
        "alpha/base", "--scale", "paper", "--seed", "1",
        "--trainer.num_nodes", "1", "--trainer.devices", "2", "--trainer.accelerator", "cpu",
        "--trainer.strategy", "ddp",
    ]  # fmt: skip
    assert ended.of("scontrol") == []
    code = f"{here.submission}/code"
    assert ended.environment["PYTHONPATH"] == f"{code}:/own"
    assert ended.environment["REPRO_CONFIGS"] == f"{code}/configs"
    assert ended.environment["SRUN_CPUS_PER_TASK"] == ended.environment["OMP_NUM_THREADS"] == "1"
    assert ended.out.startswith("== alpha/base --scale paper --seed 1: job 12_0, attempt 1, ")


@pytest.mark.parametrize("code", [1, 2, 130, 137])
def test_a_run_that_failed_is_not_requeued(here: Places, tmp_path: Path, code: int) -> None:
    ended = run_batch(script(here), tmp_path / "node", f"exit {code}")
    assert (ended.code, ended.of("scontrol")) == (code, [])


def test_a_run_that_asks_for_it_is_requeued(here: Places, tmp_path: Path) -> None:
    ended = run_batch(script(here), tmp_path / "node", "exit 75", SLURM_RESTART_COUNT="2")
    assert (ended.code, ended.of("scontrol")) == (75, REQUEUE)
    assert "attempt 3" in ended.out


def test_requeues_are_bounded(here: Places, tmp_path: Path) -> None:
    ended = run_batch(script(here), tmp_path / "node", "exit 75", SLURM_RESTART_COUNT="3")
    assert (ended.code, ended.of("scontrol")) == (75, [])
    assert "not requeued: max_requeues is 3; submit again to resume" in ended.out


def test_a_restart_beyond_the_bound_ends_at_once(here: Places, tmp_path: Path) -> None:
    """Slurm itself requeues after a node's failure, as often as nodes fail."""
    ended = run_batch(script(here), tmp_path / "node", SLURM_RESTART_COUNT="4")
    assert (ended.code, ended.calls) == (1, [])
    assert (
        ended.out.splitlines()[-1]
        == "not started: requeued 4 times, max_requeues is 3; submit again to resume"
    )


def status(here: Places, state: str, step: int = 7, resumed_from: int = 3) -> str:
    folder = spec().recipe.run_dir(1)
    lines = encode("state", resumed_from, {"state": "starting"}) + encode("state", step, {"state": state})
    return f"mkdir -p {folder}; printf '%s' '{lines.decode()}' > {folder}/{EVENTS_FILE}"


def attempts(here: Places, folder: Path, *ranks: str) -> list[bool]:
    """Whether each attempt of a job, one after the other, was requeued."""
    result = []
    for i, one in enumerate(ranks):
        ended = run_batch(script(here, max_requeues=9), folder / str(i), f"{one}; exit 75")
        result.append(bool(ended.of("scontrol")))
        assert ("two attempts in a row made no new step" in ended.out) == (not result[-1])
    return result


def test_two_attempts_in_a_row_without_a_new_step_end_the_requeues(here: Places, tmp_path: Path) -> None:
    stuck, well, silent = status(here, "requeue", 3), status(here, "requeue"), "true"
    assert attempts(here, tmp_path / "a", stuck, stuck) == [True, False]
    assert attempts(here, tmp_path / "b", silent, stuck) == [True, False]
    assert attempts(here, tmp_path / "c", well, stuck, well, silent, well, stuck) == [True] * 6
    assert attempts(here, tmp_path / "d", silent) == [False], "the same job"
    ended = run_batch(script(here), tmp_path / "e", f"{stuck}; exit 75", SLURM_JOB_ID="14")
    assert ended.of("scontrol") == REQUEUE, "another job"


def test_a_killed_rank_hides_no_request(here: Places, tmp_path: Path) -> None:
    """srun reports the rank it killed (143), the run has said that it wants to go on."""
    ended = run_batch(script(here), tmp_path / "node", f"{status(here, 'requeue')}; exit 143")
    assert (ended.code, ended.of("scontrol")) == (75, REQUEUE)


def test_a_rank_that_is_killed_while_leaving_fails_no_run(here: Places, tmp_path: Path) -> None:
    """Slurm repeats a TERM that a node did not acknowledge, a minute later; the record is written by then."""
    record = spec().recipe.run_dir(1) / "record.json"
    ended = run_batch(script(here), tmp_path / "node", f"{status(here, 'testing')}; : > {record}; exit 143")
    assert (ended.code, ended.of("scontrol")) == (0, [])


def test_a_request_of_an_earlier_attempt_does_not_count(here: Places, tmp_path: Path) -> None:
    folder = spec().recipe.run_dir(1)
    folder.mkdir(parents=True)
    (folder / EVENTS_FILE).write_bytes(encode("state", 3, {"state": "requeue"}))
    ended = run_batch(script(here), tmp_path / "node", "exit 143")
    assert (ended.code, ended.of("scontrol")) == (143, [])


def test_a_killed_run_that_did_not_ask_is_not_requeued(here: Places, tmp_path: Path) -> None:
    ended = run_batch(script(here), tmp_path / "node", f"{status(here, 'training')}; exit 143")
    assert (ended.code, ended.of("scontrol")) == (143, [])


def test_a_run_that_was_asked_before_it_could_listen_is_requeued(here: Places, tmp_path: Path) -> None:
    ended = run_batch(script(here), tmp_path / "node", "exit 138")  # killed by USR1
    assert ended.code == 75
    assert len(ended.of("scontrol")) == 1


def test_a_cancelled_job_does_not_come_back(here: Places, tmp_path: Path) -> None:
    """scancel sends TERM to this shell too: whoever did that has decided, even if the run saved and left with 75."""
    ended = run_batch(script(here), tmp_path / "node", "kill -TERM $PPID; exit 75")
    assert (ended.code, ended.of("scontrol")) == (75, [])


def test_term_at_any_moment_after_the_run_is_heard(here: Places, tmp_path: Path) -> None:
    """bash 5.2 ends a script with a syntax error where a trap runs as it reads a command substitution."""
    storm = "while kill -TERM $PPID; do :; done >/dev/null 2>&1 &"
    for i in range(5):  # a script with one after srun fails in about two of three
        ended = run_batch(script(here), tmp_path / str(i), f"{status(here, 'requeue')}; {storm} exit 75")
        assert (ended.code, ended.of("scontrol")) == (75, []), ended.out


def test_an_index_without_a_run(here: Places, tmp_path: Path) -> None:
    ended = run_batch(script(here), tmp_path / "node", SLURM_ARRAY_TASK_ID="7")
    assert (ended.code, ended.calls) == (2, [])
    assert "array task 7 has no run in this script" in ended.out


def test_a_port_in_use_is_passed_over(here: Places, tmp_path: Path) -> None:
    with socket.socket() as taken:
        port = next(p for p in range(15000, 31000) if taken.connect_ex(("127.0.0.1", p)))
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        ended = run_batch(script(here), tmp_path / "node", SLURM_JOB_ID=str(port - 15000))
    assert int(ended.environment["MASTER_PORT"]) > port
    ended = run_batch(script(here), tmp_path / "again", SLURM_JOB_ID=str(port - 15000))
    assert int(ended.environment["MASTER_PORT"]) == port


def test_an_environment_without_the_packages_is_named(here: Places, tmp_path: Path) -> None:
    ended = run_batch(script(here, setup=["python3() { return 1; }"]), tmp_path / "node")
    assert (ended.code, ended.of("srun")) == (2, [])
    assert "activate its environment in setup of the cluster profile" in ended.out


def test_modules_and_variables(here: Places, tmp_path: Path) -> None:
    text = script(
        here, modules=["cuda/12.8"], env={"OWN": "a 'b' $(x)"}, stall_s=60, setup=["export LATE=$OWN"]
    )
    ended = run_batch(text, tmp_path / "node")
    assert ended.of("module") == [["load", "cuda/12.8"]]
    result = ended.environment
    assert (result["OWN"], result["LATE"], result["REPRO_STALL_S"]) == ("a 'b' $(x)", "a 'b' $(x)", "60")


def test_the_container_sees_the_suites_folders(here: Places, tmp_path: Path) -> None:
    container = {"image": "hub.example#suite/torch:1.0", "mounts": ["/opt/x:/y:ro"]}
    for name in ("data", "results"):
        (tmp_path / name).mkdir()
    ended = run_batch(script(here, container=container), tmp_path / "node", PYTHONPATH="/own")
    words = ended.ranks
    assert words.index("python3") > words.index("--container-image=hub.example#suite/torch:1.0")
    work = tmp_path / "node" / "work"
    folders = [*(here.variables[f"REPRO_{n}"] for n in ("RUNS", "RESULTS", "TRIALS", "DATA")), work]
    mounts = ",".join(["/opt/x:/y:ro", *(f"{f}:{f}" for f in folders)])
    assert f"--container-mounts={mounts}" in words
    assert f"--container-workdir={work}" in words
    (names,) = (word.partition("=")[2].split(",") for word in words if word.startswith("--container-env="))
    assert names[1:6] == sorted(here.variables)
    assert (
        ended.environment["PYTHONPATH"] == f"{here.submission}/code"
    )  # the node's packages are not the image's


def test_the_store_is_staged_and_the_copy_goes(here: Places, tmp_path: Path) -> None:
    store = here.variables["REPRO_DATA"] / "pairs"
    store.mkdir(parents=True)
    ended = run_batch(script(here, stage_data="$LOCAL"), tmp_path / "node", "exit 75", LOCAL="/local disk")
    staged = ended.environment["REPRO_DATA"]
    assert staged.startswith(f"/local disk/repro-{os.getuid()}-")
    copy, ranks, clear = ended.of("srun")
    assert copy[-5:] == ["stage", staged, "13", str(here.variables["REPRO_DATA"]), "pairs"]
    assert "run" in ranks
    assert clear[-3:] == ["unstage", staged, "13"]
    assert ended.calls[-1] == ["scontrol", "requeue", "12_0"]  # after the copy is gone


def test_a_copy_that_was_interrupted_is_requeued(here: Places, tmp_path: Path) -> None:
    """USR1, which ends the copy with 138, comes before the time limit to all steps."""
    (here.variables["REPRO_DATA"] / "pairs").mkdir(parents=True)
    batch = script(here, stage_data="/local").replace('bash -ec "$lock$tidy$copy" stage', "run stage")
    for code, requeued in ((138, REQUEUE), (1, [])):
        ended = run_batch(batch, tmp_path / f"node{code}", f"exit {code}")
        assert [call for call in ended.of("srun") if "repro" in call] == [], "the run does not begin"
        assert ended.of("scontrol") == requeued


class Node:
    """Copies as the jobs of one node make and remove them, with a cp that waits to be let go on."""

    def __init__(self, here: Places, root: Path) -> None:
        store = here.variables["REPRO_DATA"] / "pairs"
        store.mkdir(parents=True)
        for i in range(3):
            (store / f"{i}.bin").write_bytes(b"x" * 1000)
        ended = run_batch(script(here, stage_data=str(root / "local")), root / "node")
        self.root, self.staged = root, Path(ended.environment["REPRO_DATA"])
        self.words = {
            call[-5 if "stage" in call else -3]: call for call in ended.of("srun") if "run" not in call
        }
        (root / "bin").mkdir()
        shim = root / "bin" / "cp"
        waits = (
            f'mkdir "$4"; : >"$4/half"; echo >>{root}/copies; while [ ! -e {root}/go ]; do sleep 0.02; done'
        )
        shim.write_text(f'#!/bin/sh\n{waits}\nrm "$4/half"\nexec /bin/cp "$@"\n')
        shim.chmod(0o755)

    def start(self, what: str, job: str) -> "subprocess.Popen[bytes]":
        words = self.words[what]
        words = [job if word == "13" else word for word in words[words.index("bash") :]]
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        return subprocess.Popen(words, env={"PATH": path}, start_new_session=True)

    def queue(self, *jobs: str) -> None:
        """Sets the jobs that squeue knows."""
        (self.root / "bin" / "squeue").write_text(f"#!/bin/sh\necho {' '.join(jobs)} | tr ' ' '\\n'\n")
        (self.root / "bin" / "squeue").chmod(0o755)

    def await_copies(self, number: int) -> None:
        end = time.monotonic() + 60
        while not (self.root / "copies").exists() or len((self.root / "copies").read_text()) < number:
            assert time.monotonic() < end
            time.sleep(0.02)

    def files(self) -> list[str]:
        return sorted(p.name for p in self.staged.rglob("*") if p.is_file())


def test_jobs_of_a_node_share_a_copy_that_is_always_whole(here: Places, tmp_path: Path) -> None:
    node = Node(here, tmp_path)
    node.queue("1")
    killed = node.start("stage", "1")
    node.await_copies(1)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    node.queue("2", "3")
    both = [node.start("stage", "2"), node.start("stage", "3")]
    node.await_copies(2)
    assert not node.staged.exists(), "nobody sees half a copy"
    (tmp_path / "go").touch()
    assert [job.wait(timeout=60) for job in both] == [0, 0]
    assert len((tmp_path / "copies").read_text()) == 2, "the second waited and found it"
    assert node.files() == ["0.bin", "1.bin", "2.bin"]
    node.start("unstage", "2").wait(timeout=60)
    assert node.files() == ["0.bin", "1.bin", "2.bin"]
    assert node.start("unstage", "3").wait(timeout=60) == 0
    assert [p.name for p in (tmp_path / "local").iterdir()] == [f".repro-{os.getuid()}.lock"]


def test_a_store_of_ones_own_is_copied_with_what_names_its_data_set(here: Places, tmp_path: Path) -> None:
    node = Node(here, tmp_path)
    (tmp_path / "go").touch()
    mine = here.variables["REPRO_DATA"] / "mine"
    (mine / "bpe264").mkdir(parents=True)
    (mine / "bpe264" / "0.bin").touch()
    (mine / "data_set.json").write_text("{}")
    words = node.words["stage"]
    assert subprocess.run([*words[words.index("bash") : -1], "mine/bpe264"], check=True).returncode == 0
    copied = {path.relative_to(node.staged).as_posix() for path in node.staged.rglob("*") if path.is_file()}
    assert copied == {"mine/data_set.json", "mine/bpe264/0.bin"}


def test_a_cancelled_job_that_starts_no_step_removes_the_copy_of_its_own_node(
    here: Places, tmp_path: Path
) -> None:
    (here.variables["REPRO_DATA"] / "pairs").mkdir(parents=True)
    batch = script(here, stage_data=str(tmp_path / "local"))
    first = run_batch(batch, tmp_path / "first", "exit 1")
    mark = Path(f"{first.environment['REPRO_DATA']}.jobs/13")
    mark.parent.mkdir(parents=True)
    mark.touch()
    run_batch(batch.replace('"$@" 2>/dev/null', 'run "$@" 2>/dev/null'), tmp_path / "second", "exit 1")
    assert not mark.parent.exists()
