"""Each check says the truth about a machine made good or bad for it, and none raises."""

import errno
import fcntl
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from repro.cli import doctor
from repro.cli.doctor import FAIL, OK, WARN, Check
from tests.wandb_server import WandbServer

KEY = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders, home and settings of the test's own."""
    for name in ("data", "runs", "results"):
        monkeypatch.setenv(f"REPRO_{name.upper()}", str(tmp_path / name))
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_MODE", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def versions(monkeypatch: pytest.MonkeyPatch, **result: str) -> None:
    """Makes exactly these packages installed; ``_`` stands for ``-``."""

    def version(package: str) -> str:
        if (name := package.replace("-", "_")) not in result:
            raise metadata.PackageNotFoundError(package)
        return result[name]

    monkeypatch.setattr(metadata, "version", version)


def commands(monkeypatch: pytest.MonkeyPatch, folder: Path, *names: str, script: str = "#!/bin/sh\n") -> None:
    """Makes exactly these commands the ones on PATH."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"torch": "2.13.0+cpu", "lightning": "2.10.0"}, "torch 2.13.0+cpu, lightning 2.10.0"),
        ({"torch": "2.9.1", "lightning": "2.6.6"}, "not as required: torch>=2.11 (2.9.1)"),
        ({"torch": "2.11", "lightning": "2.6.2"}, "not as required: lightning>=2.6.6 (2.6.2)"),
        ({"torch": "2.11"}, "not as required: lightning>=2.6.6 (not installed)"),
    ],
)
def test_packages(monkeypatch: pytest.MonkeyPatch, result: dict[str, str], message: str) -> None:
    versions(monkeypatch, **result)
    needs = ["torch>=2.11", "lightning>=2.6.6", "nltk>=3.10; extra == 'dialogue'"]
    monkeypatch.setattr(metadata, "requires", lambda name: needs)
    check = doctor.packages()
    assert check.detail == message
    assert check.status == (FAIL if "not as" in message else OK)
    assert bool(check.remedy) == (check.status != OK)


def test_versions_are_read_without_importing() -> None:
    code = (
        "import sys; from repro.cli import doctor\n"
        "doctor.packages(), doctor.wandb_state()\n"
        "heavy = ('torch', 'lightning', 'pytorch_lightning', 'wandb', 'datasets')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_two_ranks_really_meet() -> None:
    assert doctor.ranks() == Check(OK, "2 processes all-reduce over gloo")


def test_ranks_that_cannot_meet_are_reported_with_their_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "none0")
    check = doctor.ranks()
    assert check.status == FAIL
    assert "none0" in check.detail
    assert "GLOO_SOCKET_IFNAME" in check.remedy


def test_ranks_that_take_too_long_are_stopped() -> None:
    check = doctor.ranks(limit_s=0.2)
    assert check.status == FAIL
    assert "within 0.2 s" in check.detail


def test_a_folder(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = doctor.folder("runs", clean / "runs")
    assert "not made yet" in check.detail
    assert not (clean / "runs").exists()
    (clean / "runs").mkdir()
    assert "not made yet" not in doctor.folder("runs", clean / "runs").detail
    assert list((clean / "runs").iterdir()) == []


@pytest.mark.parametrize(("free", "status"), [(50e9, OK), (2e9, WARN)])
def test_disk_space(clean: Path, monkeypatch: pytest.MonkeyPatch, free: float, status: str) -> None:
    monkeypatch.setattr(
        doctor.shutil, "disk_usage", lambda path: doctor.shutil._ntuple_diskusage(1e12, 0, free)
    )
    assert doctor.folder("data", clean).status == status


def test_a_folder_without_locks(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    check = doctor.folder("runs", clean)
    assert check.status == WARN
    assert "two processes could write one run" in check.detail
    assert "flock" in check.remedy


def test_a_folder_that_cannot_be_written(clean: Path) -> None:
    (clean / "file").write_text("")
    check = doctor.folder("runs", clean / "file" / "runs")
    assert check.status == FAIL
    assert "REPRO_RUNS" in check.remedy


def test_a_folder_without_permission(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)  # root may write anywhere
    check = doctor.folder("results", clean)
    assert check.status == FAIL
    assert "Permission denied" in check.detail


def test_stores(clean: Path) -> None:
    assert doctor.stores().status == WARN
    broken = clean / "data" / "pairs" / "bpe8"
    broken.mkdir(parents=True)
    (broken / "manifest.json").write_text("{")
    check = doctor.stores()
    assert check.status == FAIL
    assert "pairs/bpe8" in check.detail


def test_wandb_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, wandb="0.31.0")
    check = doctor.wandb_state()
    assert (check.status, check.detail) == (WARN, "0.31.0, runs are offline")
    assert "WANDB_API_KEY" in check.remedy
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert doctor.wandb_state().status == OK


def test_wandb_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch)
    assert (doctor.wandb_state().status, doctor.wandb_state().detail[:13]) == (WARN, "not installed")


def test_the_key_is_tried_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    server = WandbServer()
    monkeypatch.setenv("WANDB_BASE_URL", server.url)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    accepted = doctor.wandb_state()
    server.fail(401)
    refused = doctor.wandb_state()
    server.vanish()
    monkeypatch.setattr(doctor, "WANDB_LIMIT_S", 1)
    gone = doctor.wandb_state()
    assert [check.status for check in (accepted, refused, gone)] == [OK, WARN, WARN]
    assert "the key is accepted" in accepted.detail
    assert "refuses the key" in refused.detail
    assert "does not answer within 1 s" in gone.detail
    assert KEY not in f"{accepted}{refused}{gone}"


def test_slurm(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands(monkeypatch, clean / "none")
    assert doctor.slurm().status == WARN
    commands(monkeypatch, clean / "some", "sbatch", "srun")
    check = doctor.slurm()
    assert check.status == FAIL
    assert "squeue" in check.detail
    commands(monkeypatch, clean / "all", *doctor.SLURM_COMMANDS, script="#!/bin/sh\n")
    assert doctor.slurm().status == WARN, "scontrol does not say what is set"
    (clean / "all" / "scontrol").write_text(
        "#!/bin/sh\necho 'KillWait = 30 sec\nSLURM_VERSION = 22.05.8\nMaxArraySize = 1001\n"
        "PartitionName=gpu GraceTime=60'\n"
    )
    check = doctor.slurm()
    assert check.status == OK
    assert check.detail.startswith("slurm 22.05.8; arrays of up to 1,000 runs; ")
    assert "KillWait (30 sec), a preempted one GraceTime (60 s in gpu)" in check.detail


def test_gpus(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(doctor.Path, "exists", lambda self: False)
    commands(monkeypatch, clean / "none")
    assert doctor.gpus().status == WARN
    commands(monkeypatch, clean / "driver", "nvidia-smi")
    assert doctor.gpus().status == FAIL
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i: "H200")
    assert doctor.gpus().status == OK
    assert "2: H200" in doctor.gpus().detail


def test_a_check_that_raises_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def burst() -> Check:
        raise OSError("libcudart.so: not found\nand more")

    monkeypatch.setattr(doctor, "gpus", burst)
    monkeypatch.setattr(doctor, "ranks", lambda: Check(OK, "not looked at here"))
    result = doctor.checks()
    assert result["gpus"].status == FAIL
    assert result["gpus"].detail == "OSError: libcudart.so: not found"
    assert {c.status for c in result.values()} <= {OK, WARN, FAIL}
    assert len(result) == 9
