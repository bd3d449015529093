"""Pictures as sequences of values: their order, what is predicted, splits; and every refusal."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from repro.data import PixelData
from repro.data.sets.images.picture_sets import Splits
from repro.errors import UserError
from tests.data.picture_files import small_store


@pytest.fixture
def cifar(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Splits:
    return small_store(monkeypatch, "cifar10", tmp_path / "files")


@pytest.fixture
def mnist(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Splits:
    return small_store(monkeypatch, "mnist", tmp_path / "files")


def naively(picture: Any) -> list[int]:
    """Row by row, the colours of a pixel next to each other."""
    height, width, channels = picture.shape
    return [int(picture[y, x, c]) for y in range(height) for x in range(width) for c in range(channels)]


def test_the_first_value_is_given_and_each_other_follows_what_is_before_it(cifar: Splits) -> None:
    data = PixelData("cifar10", 4)
    assert (data.seq_len, data.n_targets, data.n_values) == (3071, 3071, 3072)
    assert (data.vocab_size, data.input_size, data.n_classes, data.shape) == (256, 256, 256, (32, 32, 3))
    result = data.examples("train", np.array([6, 0]), 0)
    assert result.inputs.dtype == result.targets.dtype == torch.int64
    for row, target, n in zip(result.inputs, result.targets, (6, 0), strict=True):
        values = naively(cifar["train"].images[n])
        assert row.tolist() == values[:-1]
        assert target.tolist() == values[1:]
        columns_first = naively(cifar["train"].images[n].transpose(1, 0, 2))
        assert row.tolist() != columns_first[:-1], "another order would not show"
    assert result.hidden is None
    assert result.lengths is None


@pytest.mark.parametrize("whole", [False, True])
def test_a_rank_without_pictures_has_a_batch_without_rows(mnist: Splits, whole: bool) -> None:
    result = PixelData("mnist", 4, whole=whole).examples("test", np.zeros(0, np.int64), None)
    assert result.inputs.shape == result.targets.shape == (0, 784 if whole else 783)


def test_a_whole_picture_is_predicted_behind_a_zero(mnist: Splits) -> None:
    data = PixelData("mnist", 4, whole=True)
    assert (data.seq_len, data.n_targets) == (784, 784)
    result = data.examples("test", np.array([3]), None)
    values = naively(mnist["test"].images[3])
    assert result.inputs[0].tolist() == [0, *values[:-1]]
    assert result.targets[0].tolist() == values
    assert values[0] != 0, "a picture that begins with a zero would not show"
    plain = PixelData("mnist", 4).examples("test", np.array([3]), None)
    assert plain.inputs.shape == plain.targets.shape == (1, 783)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"val_examples": -1}, "val_examples must be at least 0, not -1"),
        ({"store": "multi30k"}, "multi30k holds no pictures; data sets that do: mnist, cifar10"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        PixelData(**{"store": "mnist", "batch_size": 4, **options})
    assert "\n" not in str(caught.value)
