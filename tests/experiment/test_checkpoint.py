"""Averaging, stamps, and files that are not what they should be."""

import hashlib
from pathlib import Path

import pytest
import torch

from repro.errors import UserError
from repro.experiment import checkpoint
from repro.training.checkpoints import read, write


def test_average_is_the_mean_and_keeps_types(tmp_path: Path) -> None:
    paths = []
    for i, value in enumerate((1.0, 2.0, 6.0)):
        state = {
            "w": torch.full((2,), value),
            "h": torch.full((1,), value, dtype=torch.bfloat16),
            "n": torch.tensor(i),
        }
        paths.append(tmp_path / f"{i}.ckpt")
        write(paths[-1], {"state_dict": state})
    result = checkpoint.average(paths)
    assert result["w"].tolist() == [3.0, 3.0]
    assert result["w"].dtype == torch.float32
    assert result["h"].dtype == torch.bfloat16
    assert int(result["n"]) == 2, "what is no float comes from the last"


def test_average_adds_in_double_precision(tmp_path: Path) -> None:
    values = [1e8, 1.0, -1e8]
    paths = []
    for i, value in enumerate(values):
        paths.append(tmp_path / f"{i}.ckpt")
        write(paths[-1], {"state_dict": {"w": torch.tensor([value])}})
    assert float(checkpoint.average(paths)["w"]) == pytest.approx(1 / 3)


def test_stamps(tmp_path: Path) -> None:
    signature = {"trainer.max_steps": 10, "model.d": 4}
    loaded = {checkpoint.STAMP: checkpoint.stamp(signature, "a" * 64)}
    path = tmp_path / "x.ckpt"
    checkpoint.check_stamp(path, loaded, signature, "a" * 64)
    checkpoint.check_stamp(path, loaded, None, None)
    with pytest.raises(UserError, match=r"trainer\.max_steps: 10 → 20"):
        checkpoint.check_stamp(path, loaded, {**signature, "trainer.max_steps": 20}, None)
    with pytest.raises(UserError, match=r"another vocabulary \(aaaaaaaa, here bbbbbbbb\)"):
        checkpoint.check_stamp(path, loaded, signature, "b" * 64)
    with pytest.raises(UserError, match="not written by repro"):
        checkpoint.check_stamp(path, {}, signature, None)


def test_a_checkpoint_of_another_seed_is_refused(tmp_path: Path) -> None:
    mark = checkpoint.stamp({}, None)
    path = tmp_path / "x.ckpt"
    for known in ({}, {"seed": 1}):
        checkpoint.check_stamp(path, {checkpoint.STAMP: mark | known}, {}, None, 1)
    with pytest.raises(UserError, match=r"x\.ckpt is of seed 1, not 2: a copy; remove the run's folder"):
        checkpoint.check_stamp(path, {checkpoint.STAMP: mark | {"seed": 1}}, {}, None, 2)


def test_write_model_returns_the_hash_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    digest = checkpoint.write_model(path, {"w": torch.ones(3)}, {"model": {}}, {"signature": {}})
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert read(path)["state_dict"]["w"].tolist() == [1.0, 1.0, 1.0]
