"""Checkpoint files: killed at any point of a save, damaged in any way, on a full disk."""

import errno
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from repro.errors import ReproError, UserError
from repro.training import checkpoints
from repro.training.checkpoints import (
    DurableIO,
    checkpoint_path,
    fault,
    manifest_path,
    read,
    remove,
    set_aside,
    step_of,
    write,
)
from repro.training.saving import best_checkpoints


def content(step: int) -> dict[str, Any]:
    return {"state_dict": {"w": torch.full((40_000,), float(step))}, "global_step": step}


def save(folder: Path, step: int) -> Path:
    path = checkpoint_path(folder, step)
    write(path, content(step))
    return path


def newest_sound(folder: Path) -> int:
    """The step of the newest checkpoint that can be used, which is also read."""
    sound = [path for path in checkpoints.checkpoints(folder) if fault(path) is None]
    assert read(sound[-1])["state_dict"]["w"][0] == step_of(sound[-1])
    return step_of(sound[-1])


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = save(tmp_path / "new folder", 7)
    assert fault(path) is None
    loaded = read(path)
    assert loaded["global_step"] == 7
    assert torch.equal(loaded["state_dict"]["w"], content(7)["state_dict"]["w"])
    assert torch.equal(read(path, mmap=True)["state_dict"]["w"], loaded["state_dict"]["w"])
    assert sorted(p.name for p in path.parent.iterdir()) == ["step-00000007.ckpt", "step-00000007.ckpt.json"]
    remove(path)
    assert not list(path.parent.iterdir())


def test_a_copy_of_another_name_is_no_checkpoint(tmp_path: Path) -> None:
    path = save(tmp_path, 15)
    shutil.copy(path, tmp_path / "step-00000015-backup.ckpt")
    shutil.copy(path, tmp_path / "best-00000015.ckpt")
    shutil.copy(path, tmp_path / "best-backup.ckpt")
    assert checkpoints.checkpoints(tmp_path) == [path]
    assert best_checkpoints(tmp_path) == [tmp_path / "best-00000015.ckpt"]


# --- kill -9 at each phase of a save -------------------------------------------------------------------------------


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_in_the_middle(folder: Path) -> None:
    written = checkpoints._Counted.write

    def half(self: Any, data: Any) -> int:
        if self.bytes > 50_000:
            self._file.flush()
            die()
        return written(self, data)

    checkpoints._Counted.write = half  # type: ignore[method-assign]


def replacing(owner: Any, name: str) -> Callable[[Path], None]:
    return lambda folder: setattr(owner, name, die)


PHASES: dict[str, Callable[[Path], None]] = {
    "before the temporary file": replacing(tempfile, "mkstemp"),
    "while writing": die_in_the_middle,
    "before fsync": replacing(checkpoints.os, "fsync"),  # type: ignore[attr-defined]
    "before the rename": replacing(checkpoints.os, "replace"),  # type: ignore[attr-defined]
    "before the manifest": replacing(checkpoints, "write_atomic"),
    "while pruning": lambda folder: setattr(Path, "unlink", die),
}


@pytest.mark.parametrize("repeat", range(5))
@pytest.mark.parametrize("phase", PHASES)
def test_killed_in_any_phase_of_a_save_the_newest_sound_checkpoint_loads(
    tmp_path: Path, phase: str, repeat: int
) -> None:
    for step in range(1, repeat + 2):
        save(tmp_path, step)
    last = repeat + 1
    child = os.fork()
    if child == 0:  # what a save of the next step does, up to the phase
        try:
            if phase != "while pruning":
                PHASES[phase](tmp_path)
            save(tmp_path, last + 1)
            PHASES[phase](tmp_path)
            remove(checkpoint_path(tmp_path, last))
        finally:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert newest_sound(tmp_path) == (last + 1 if phase == "while pruning" else last)
    save(tmp_path, last + 1)  # and the same save succeeds the next time
    assert newest_sound(tmp_path) == last + 1


# --- damage ---------------------------------------------------------------------------------------------------------


def truncate(path: Path, tenth: int) -> None:
    os.truncate(path, path.stat().st_size * tenth // 10)


def flip(path: Path, tenth: int) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) * tenth // 10] ^= 1 << (tenth % 8)
    path.write_bytes(data)


def wrong_hash(path: Path, _: int) -> None:
    proof = json.loads(manifest_path(path).read_text())
    manifest_path(path).write_text(json.dumps({**proof, "sha256": "0" * 64}))


DAMAGES: list[tuple[Callable[[Path, int], Any], int]] = [
    *((truncate, tenth) for tenth in range(10)),
    *((flip, tenth) for tenth in range(10)),
    (lambda path, _: path.write_bytes(b""), 0),
    (lambda path, _: manifest_path(path).unlink(), 0),
    (lambda path, _: manifest_path(path).write_text("{"), 0),
    (lambda path, _: manifest_path(path).write_text("[]"), 0),
    (wrong_hash, 0),
    (lambda path, _: shutil.copy(checkpoint_path(path.parent, 1), path), 0),
]


@pytest.mark.parametrize("case", range(len(DAMAGES)))
def test_damage_is_found_and_lightning_does_not_get_to_load_it(tmp_path: Path, case: int) -> None:
    save(tmp_path, 1)
    path = save(tmp_path, 2)
    assert newest_sound(tmp_path) == 2
    damage, where = DAMAGES[case]
    damage(path, where)
    assert fault(path) is not None
    assert newest_sound(tmp_path) == 1
    with pytest.raises(UserError, match=r"step-00000002\.ckpt"):
        DurableIO().load_checkpoint(path)


def test_a_file_set_aside_is_kept_and_not_found_again(tmp_path: Path) -> None:
    aside = set_aside(save(tmp_path, 3))
    assert aside.name == "step-00000003.ckpt.damaged"
    assert aside.is_file()
    assert checkpoints.checkpoints(tmp_path) == []
    save(tmp_path, 3)
    assert set_aside(checkpoint_path(tmp_path, 3)) == aside, "a second one replaces the first"


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "text", "other"])
def test_files_that_are_no_checkpoints_are_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.ckpt"
    if damage == "empty":
        path.touch()
    elif damage == "truncated":
        write(path, content(1))
        truncate(path, 9)
    elif damage == "text":
        path.write_text("hello")
    elif damage == "other":
        torch.save([1, 2], path)
    with pytest.raises(UserError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


# --- malice ---------------------------------------------------------------------------------------------------------


class Boom:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("boom"),))


@pytest.mark.parametrize(
    "malice",
    [
        {"state_dict": Boom()},
        {"state_dict": {}, "extra": Boom()},
        {"state_dict": {}, "hyper_parameters": {"_instantiator": "os.mkdir", "path": "boom"}},
        {"state_dict": {}, "hyper_parameters": {"_class_path": "antigravity", "init_args": {}}},
    ],
)
def test_a_malicious_checkpoint_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, malice: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = checkpoint_path(tmp_path, 1)
    write(path, malice)
    if any(isinstance(value, Boom) for value in malice.values()):
        with pytest.raises(UserError, match="is not a readable checkpoint"):
            DurableIO().load_checkpoint(path)
    else:
        DurableIO().load_checkpoint(path)
    assert not (tmp_path / "boom").exists()
    assert "antigravity" not in __import__("sys").modules


# --- no space, no permission ----------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 300 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_fails_loudly_and_leaves_the_last_checkpoint_intact(small_disk: Path) -> None:
    save(small_disk, 1)
    with pytest.raises(ReproError, match=r"step-00000002\.ckpt"):
        save(small_disk, 2)
    assert newest_sound(small_disk) == 1
    assert sorted(p.name for p in small_disk.iterdir()) == ["step-00000001.ckpt", "step-00000001.ckpt.json"]
    files = DurableIO()
    files.save_checkpoint(content(2), checkpoint_path(small_disk, 2))
    assert files.failure is not None
    assert files.failure.startswith("no space left")
    remove(checkpoint_path(small_disk, 1))
    files.save_checkpoint(content(3), checkpoint_path(small_disk, 3))
    assert files.failure is None


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failing_system_call_is_never_taken_for_a_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    save(tmp_path, 1)

    def fail(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(checkpoints.os, call, fail)  # type: ignore[attr-defined]
    with pytest.raises(ReproError) as caught:
        save(tmp_path, 2)
    monkeypatch.undo()
    assert "step-00000002.ckpt" in str(caught.value)
    assert newest_sound(tmp_path) == 1
    assert len(list(tmp_path.iterdir())) == 2, "nothing half-written is left"


def test_files_of_another_node_are_waited_for(tmp_path: Path) -> None:
    late = checkpoint_path(tmp_path, 5)
    thread = threading.Timer(0.2, lambda: save(tmp_path, 5))
    thread.start()
    checkpoints.await_files([late])
    thread.join()
    assert fault(late) is None
    checkpoints.await_files([checkpoint_path(tmp_path, 6)], seconds=0.1)


@pytest.mark.parametrize("found", [None, "its SHA-256 is not that of the manifest"])
def test_rank_0_verifies_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str | None) -> None:
    """On another rank the file is not hashed: what rank 0 found is what counts."""
    path = checkpoint_path(tmp_path, 1)
    write(path, {"state_dict": {}})
    monkeypatch.setattr(checkpoints, "fault", lambda _: pytest.fail("another rank hashed the file"))
    monkeypatch.setattr(checkpoints, "by_rank_0", lambda _: found)
    if found is None:
        assert DurableIO().load_checkpoint(path)["state_dict"] == {}
    else:
        with pytest.raises(UserError, match="is damaged: its SHA-256"):
            DurableIO().load_checkpoint(path)
