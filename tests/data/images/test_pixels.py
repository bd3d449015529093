"""Pictures in patches: their order, scaling, splits; and every refusal."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from repro.data import PatchData
from repro.data.sets.images.picture_data import Augmentation, cut, grey, held_out
from repro.data.sets.images.picture_sets import Splits
from repro.data.table import DATA_FILE
from repro.errors import UserError
from tests.data.picture_files import small_store

MEAN, STD = [0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]


@pytest.fixture
def cifar(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Splits:
    return small_store(monkeypatch, "cifar10", tmp_path / "files")


@pytest.fixture
def mnist(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Splits:
    return small_store(monkeypatch, "mnist", tmp_path / "files")


def naively(picture: Any, patch: int) -> list[list[float]]:
    """Patches row by row; in each, row, column, channel."""
    height, width, channels = picture.shape
    return [
        [
            float(picture[top + r, left + c, channel])
            for r in range(patch)
            for c in range(patch)
            for channel in range(channels)
        ]
        for top in range(0, height, patch)
        for left in range(0, width, patch)
    ]


@pytest.mark.parametrize(("shape", "patch"), [((2, 8, 12, 3), 4), ((1, 6, 6, 1), 2), ((1, 5, 5, 2), 1)])
def test_the_order_within_and_of_patches(shape: tuple[int, ...], patch: int) -> None:
    pictures = torch.arange(float(np.prod(shape))).reshape(shape)
    result = cut(pictures, patch)
    assert result.tolist() == [naively(one, patch) for one in pictures]
    if patch > 1:
        sideways = cut(pictures.transpose(1, 2), patch)
        assert sideways.tolist() != result.tolist(), "columns first would not show"


def test_cifar_in_colour(cifar: Splits) -> None:
    data = PatchData("cifar10", 4, mean=MEAN, std=STD)
    assert (data.input_size, data.seq_len, data.n_targets, data.n_classes) == (48, 64, 1, 10)
    result = data.examples("train", np.array([6, 0]), 0)
    assert result.inputs.shape == (2, 64, 48)
    assert result.targets.tolist() == [[int(cifar["train"].labels[n])] for n in (6, 0)]
    assert result.hidden is None
    assert result.lengths is None
    for row, n in zip(result.inputs, (6, 0), strict=True):
        scaled = (cifar["train"].images[n] / 255 - np.array(MEAN)) / np.array(STD)
        assert np.allclose(row.numpy(), naively(scaled, 4), atol=1e-5)


def test_cifar_of_the_long_range_arena(cifar: Splits) -> None:
    data = PatchData("cifar10", 4, patch=1, grey=True, mean=[0.5], std=[0.5])
    assert (data.input_size, data.seq_len) == (1, 1024)
    result = data.examples("test", np.array([2]), None).inputs
    levels = grey(cifar["test"].images[2:3]).ravel()
    assert np.allclose(result.numpy().ravel(), levels / 127.5 - 1, atol=1e-6)


def test_a_rank_without_pictures_has_a_batch_without_rows(cifar: Splits) -> None:
    result = PatchData("cifar10", 4).examples("test", np.zeros(0, np.int64), None)
    assert (result.inputs.shape, result.targets.shape) == ((0, 64, 48), (0, 1))


def test_mnist(mnist: Splits) -> None:
    data = PatchData("mnist", 4)
    assert (data.input_size, data.seq_len) == (16, 49)
    result = data.examples("train", np.array([1]), 0).inputs[0]
    assert result.numpy() == pytest.approx(np.array(naively(mnist["train"].images[1] / 255, 4)), abs=1e-7)


def test_validation_on_training_pictures_or_on_the_test_set(cifar: Splits) -> None:
    data = PatchData("cifar10", 3, val_examples=5)
    assert data.val_split == "val"
    assert {split: one["examples"] for split, one in data.counts.items()} == {
        "train": 10,
        "val": 5,
        "test": 4,
    }
    assert data.counts["train"]["dropped"] == 1
    targets = torch.cat([batch.examples.targets for batch in data.val_dataloader()])
    assert targets.flatten().tolist() == cifar["train"].labels[held_out(15, 5)[1]].tolist()
    everything = PatchData("cifar10", 3)
    assert everything.val_split == "test"
    assert {split: one["examples"] for split, one in everything.counts.items()} == {"train": 15, "test": 4}


def test_only_training_is_augmented_and_by_seed_and_epoch(cifar: Splits) -> None:
    data = PatchData("cifar10", 5, augment=True, val_examples=5, seed=11)
    indices, numbers = np.arange(3), held_out(15, 5)[0][:3]
    plain = PatchData("cifar10", 5, val_examples=5)
    for split in ("train", "val", "test"):
        assert torch.equal(
            data.examples(split, indices, None).inputs, plain.examples(split, indices, None).inputs
        )
    assert torch.equal(data.examples("val", indices, 1).inputs, plain.examples("val", indices, 1).inputs)
    changed = Augmentation(11)(cifar["train"].images[numbers], numbers, 1)
    expected = cut(torch.from_numpy(changed).float().div(255), 4)
    assert torch.equal(data.examples("train", indices, 1).inputs, expected)
    assert not torch.equal(plain.examples("train", indices, 1).inputs, expected)


def test_batches_of_training_and_of_workers(cifar: Splits) -> None:
    data = PatchData("cifar10", 5, augment=True, seed=2)
    data.prepare_data()
    data.setup()
    batches = list(data.train_dataloader())
    assert len(batches) == 3
    assert sorted(int(n) for batch in batches for n in batch.indices) == list(range(15))
    for batch in batches:
        assert torch.equal(batch.examples.inputs, data.examples("train", batch.indices.numpy(), 0).inputs)
        assert batch.step_targets == 5
    helped = PatchData("cifar10", 5, augment=True, seed=2, num_workers=1)
    for batch, other in zip(batches, helped.train_dataloader(), strict=True):
        assert torch.equal(batch.examples.inputs, other.examples.inputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"store": "mnist", "patch": 5}, "patch 5 does not divide mnist's pictures, 28 x 28"),
        ({"store": "mnist", "patch": 0}, "patch 0 does not divide"),
        ({"store": "cifar10", "mean": [0.5], "std": [0.5]}, r"mean \[0\.5\] and std .* each of 3 channels"),
        ({"store": "cifar10", "mean": MEAN, "std": [0.5]}, r"std \[0\.5\]: give both or neither"),
        ({"store": "cifar10", "grey": True, "mean": MEAN, "std": STD}, "each of 1 channels"),
        ({"store": "cifar10", "mean": MEAN}, "std None: give both or neither"),
        ({"store": "cifar10", "mean": MEAN, "std": [0.2, 0.0, 0.2]}, "of std above 0"),
        ({"store": "mnist", "grey": True}, "mnist is grey already"),
        ({"store": "cifar10", "val_examples": -1}, "val_examples must be at least 0, not -1"),
        ({"store": "multi30k"}, "multi30k holds no pictures; data sets that do: mnist, cifar10"),
        ({"store": "cifar"}, "unknown data set 'cifar'; nearest: cifar10"),
        ({"store": "mnist", "batch_size": 0}, "batch_size must be at least 1"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        PatchData(**{"batch_size": 4, **options})
    assert "\n" not in str(caught.value)


def test_stores_that_do_not_fit(
    mnist: Splits, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"cifar10/pixels.*`repro data prepare cifar10`"):
        PatchData("cifar10", 4).setup()
    with pytest.raises(UserError, match="val_examples 15: mnist/pixels has 15"):
        PatchData("mnist", 4, val_examples=15).setup()
    with pytest.raises(UserError, match="'grey'"):
        PatchData("mnist/grey", 4).setup()
    assert PatchData("mnist/pixels", 4).size("test") == 4
    (data_folder / "mnist" / "pixels" / "train" / DATA_FILE).write_bytes(b"")
    with pytest.raises(UserError, match="store mnist/pixels"):
        PatchData("mnist", 4).setup()
