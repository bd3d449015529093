"""Averaging, stamps, and files that are not what they should be."""

import hashlib
from pathlib import Path

import pytest
import torch

from repro.errors import UserError
from repro.experiment import checkpoint


def save(path: Path, **more: object) -> Path:
    torch.save({"state_dict": {"w": torch.ones(2)}, **more}, path)
    return path


def test_average_is_the_mean_and_keeps_types(tmp_path: Path) -> None:
    paths = []
    for i, value in enumerate((1.0, 2.0, 6.0)):
        state = {
            "w": torch.full((2,), value),
            "h": torch.full((1,), value, dtype=torch.bfloat16),
            "n": torch.tensor(i),
        }
        paths.append(tmp_path / f"{i}.ckpt")
        torch.save({"state_dict": state}, paths[-1])
    found = checkpoint.average(paths)
    assert found["w"].tolist() == [3.0, 3.0]
    assert found["w"].dtype == torch.float32
    assert found["h"].dtype == torch.bfloat16
    assert int(found["n"]) == 2, "what is no float comes from the last"


def test_average_adds_in_double_precision(tmp_path: Path) -> None:
    values = [1e8, 1.0, -1e8]
    paths = []
    for i, value in enumerate(values):
        paths.append(tmp_path / f"{i}.ckpt")
        torch.save({"state_dict": {"w": torch.tensor([value])}}, paths[-1])
    assert float(checkpoint.average(paths)["w"]) == pytest.approx(1 / 3)


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "text", "other"])
def test_damaged_files_are_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.ckpt"
    if damage == "empty":
        path.touch()
    elif damage == "truncated":
        save(path)
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "text":
        path.write_text("hello")
    elif damage == "other":
        torch.save([1, 2], path)
    with pytest.raises(UserError) as caught:
        checkpoint.read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


class Boom:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path("boom"),))  # type: ignore[return-value]


def test_a_malicious_file_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": Boom()}, tmp_path / "bad.ckpt")
    with pytest.raises(UserError):
        checkpoint.read(tmp_path / "bad.ckpt")
    assert not (tmp_path / "boom").exists()


def test_stamps(tmp_path: Path) -> None:
    signature = {"trainer.max_steps": 10, "model.d": 4}
    loaded = {checkpoint.STAMP: checkpoint.stamp(signature, "a" * 64)}
    path = tmp_path / "x.ckpt"
    checkpoint.check_stamp(path, loaded, signature, "a" * 64)
    checkpoint.check_stamp(path, loaded, None, None)
    with pytest.raises(UserError, match=r"differs in trainer\.max_steps: 10 → 20"):
        checkpoint.check_stamp(path, loaded, {**signature, "trainer.max_steps": 20}, None)
    with pytest.raises(UserError, match=r"another vocabulary \(aaaaaaaa, here bbbbbbbb\)"):
        checkpoint.check_stamp(path, loaded, signature, "b" * 64)
    with pytest.raises(UserError, match="not written by repro"):
        checkpoint.check_stamp(path, {}, signature, None)


def test_write_model_returns_the_hash_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    digest = checkpoint.write_model(path, {"w": torch.ones(3)}, {"model": {}}, {"signature": {}})
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert checkpoint.read(path)["state_dict"]["w"].tolist() == [1.0, 1.0, 1.0]
