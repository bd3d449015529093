"""Pictures: grey, augmentation against naive loops; which of them are for validation."""

import math
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import affine_grid, grid_sample

from repro.data.sets.images.picture_data import (
    ANGLES,
    Augmentation,
    PatchData,
    Shifts,
    angles,
    grey,
    held_out,
)
from repro.data.sets.images.picture_sets import Bytes
from repro.errors import UserError
from tests.data.picture_files import pictures, small_store

IMAGES = pictures("cifar10")["train"].images
STRAIGHT = ANGLES // 2  # within a hundredth of a degree
PINNED = [[7, 3], [2, 2], [False, False], [774, 22]]
CHOSEN = [62, 83, 89, 92, 98, 99, 111, 147]


def shifts(n: int, top: int = 4, left: int = 4, flip: bool = False, angle: int = STRAIGHT) -> Shifts:
    """Makes equal shifts for ``n`` pictures; by default nothing moves."""
    return Shifts(np.full(n, top), np.full(n, left), np.full(n, flip), np.full(n, angle))


def degrees(angle: int) -> float:
    return 20.0 * ((2 * angle + 1) / ANGLES - 1)


def naively(picture: Bytes, top: int, left: int, flip: bool, angle: int) -> Bytes:
    """Pad by 4 and cut, mirror, turn about the centre against the clock: one step after another, pixel by pixel."""
    side = len(picture)
    cut = np.zeros_like(picture)
    for r in range(side):
        for c in range(side):
            if 0 <= r + top - 4 < side and 0 <= c + left - 4 < side:
                cut[r, c] = picture[r + top - 4, c + left - 4]
    if flip:
        cut = np.stack([[row[side - 1 - c] for c in range(side)] for row in cut])
    result = np.zeros_like(picture)
    turn, middle = math.radians(degrees(angle)), (side - 1) / 2
    for r in range(side):
        for c in range(side):
            x, up = c - middle, middle - r
            # turning back: with the clock
            old_x = math.cos(turn) * x + math.sin(turn) * up
            old_up = -math.sin(turn) * x + math.cos(turn) * up
            old_r, old_c = round(middle - old_up), round(old_x + middle)
            if 0 <= old_r < side and 0 <= old_c < side:
                result[r, c] = cut[old_r, old_c]
    return result


@pytest.mark.parametrize(
    "moved", [(0, 8, False, 17), (8, 3, True, 4000), (4, 4, True, 3000), (2, 6, False, 1300)]
)
def test_augmentation_is_cut_mirror_turn(moved: tuple[int, int, bool, int]) -> None:
    result = Augmentation(0).moved(IMAGES[:1], shifts(1, *moved))[0]
    assert np.array_equal(result, naively(IMAGES[0], *moved))
    wrong = (moved[0], moved[1], moved[2], ANGLES - 1 - moved[3])
    assert not np.array_equal(result, naively(IMAGES[0], *wrong)), "the other way round would not show"


def test_every_picture_of_a_batch_moves_in_its_own_way() -> None:
    own = [(0, 8, False, 17), (8, 3, True, 4000), (4, 4, True, 3000)]
    batch = Shifts(*(np.array(column) for column in zip(*own, strict=True)))
    result = Augmentation(0).moved(IMAGES[:3], batch)
    for n, moved in enumerate(own):
        assert np.array_equal(result[n], naively(IMAGES[n], *moved))


def test_turning_is_grid_sample_of_torch() -> None:
    """Compares with torchvision's rotation of a tensor: nearest neighbours, black outside."""
    which = [0, 333, 1777, 2900, ANGLES - 1]
    batch = shifts(len(which))._replace(angle=np.array(which))
    result = Augmentation(0).moved(IMAGES[: len(which)], batch)
    turns = [math.radians(degrees(n)) for n in which]
    matrices = [[[math.cos(t), -math.sin(t), 0], [math.sin(t), math.cos(t), 0]] for t in turns]
    planes = torch.from_numpy(IMAGES[: len(which)]).permute(0, 3, 1, 2).double()
    grid = affine_grid(torch.tensor(matrices, dtype=torch.float64), list(planes.shape), align_corners=False)
    expected = grid_sample(planes, grid, mode="nearest", padding_mode="zeros", align_corners=False)
    assert np.array_equal(result, expected.permute(0, 2, 3, 1).byte().numpy())


def test_nothing_moves_but_what_is_asked_to() -> None:
    change = Augmentation(0)
    assert np.array_equal(change.moved(IMAGES, shifts(len(IMAGES))), IMAGES)
    assert np.array_equal(change.moved(IMAGES, shifts(len(IMAGES), flip=True)), IMAGES[:, :, ::-1])
    lower = change.moved(IMAGES, shifts(len(IMAGES), top=1))
    assert np.array_equal(lower[:, 3:], IMAGES[:, :-3])
    assert not lower[:, :3].any()


def test_oblong_pictures_turn_about_their_centre() -> None:
    picture = np.zeros((1, 5, 9, 1), np.uint8)
    picture[0, 2, 4] = 9  # in the centre
    assert np.array_equal(Augmentation(0).moved(picture, shifts(1, angle=0)), picture)


def test_no_machine_rounds_sines_otherwise() -> None:
    """The last digit of a sine is the machine's own: none of them may decide how it is rounded."""
    at = [math.radians(degrees(n)) for n in range(ANGLES)]
    for table, function in zip(angles(20.0), (math.cos, math.sin), strict=True):
        exact = np.array([function(one) for one in at]) * 2**30
        assert np.abs(exact - table).max() < 0.5 - 1e-5
    assert degrees(0) > -20
    assert degrees(ANGLES - 1) < 20


def test_draws_are_the_same_on_every_machine() -> None:
    result = Augmentation(seed=5).draw(np.array([0, 49_999]), epoch=2)
    assert [one.tolist() for one in result] == PINNED


def test_draws_depend_on_seed_epoch_and_picture_alone() -> None:
    numbers = np.arange(40)
    base = Augmentation(1).draw(numbers, 0)
    alone = Augmentation(1).draw(numbers[7:8], 0)
    assert all(one[0] == all_of[7] for one, all_of in zip(alone, base, strict=True))
    others = (
        Augmentation(2).draw(numbers, 0),
        Augmentation(1).draw(numbers, 1),
        Augmentation(1).draw(numbers + 40, 0),
    )
    for other in others:
        assert (base.angle == other.angle).mean() < 0.1
    assert Augmentation(1)(IMAGES[:0], numbers[:0], 0).shape == (0, 32, 32, 3)


def test_draws_are_uniform() -> None:
    drawn = Augmentation(1).draw(np.arange(3000), 0)
    for places in (drawn.top, drawn.left):
        shares = np.bincount(places, minlength=9) / len(places)
        assert shares.shape == (9,)
        assert np.abs(shares - 1 / 9).max() < 0.02
    assert abs(drawn.flip.mean() - 0.5) < 0.03
    assert np.abs(np.histogram(drawn.angle, 8, (0, ANGLES))[0] / 3000 - 1 / 8).max() < 0.02
    pairs = np.corrcoef(np.array(drawn, float)) - np.eye(4)
    assert np.abs(pairs).max() < 0.06


def test_grey_is_pillows() -> None:
    colours = [
        [255, 0, 0],
        [0, 255, 0],
        [0, 0, 255],
        [255, 255, 255],
        [1, 2, 3],
        [200, 100, 50],
        [17, 250, 99],
    ]
    colours += [[128, 127, 126], [3, 3, 4], [254, 1, 254]]
    result = grey(np.array([[colours]], np.uint8))
    assert result.shape == (1, 1, 10, 1)
    # Image.convert("L") of Pillow 13
    assert result.ravel().tolist() == [76, 150, 29, 255, 2, 124, 163, 127, 3, 105]
    random = IMAGES[:2]
    for pixel, level in zip(random.reshape(-1, 3).tolist(), grey(random).ravel().tolist(), strict=True):
        assert level == (19595 * pixel[0] + 38470 * pixel[1] + 7471 * pixel[2] + 0x8000) // 65536


def test_validation_pictures_are_a_fixed_choice() -> None:
    rest, chosen = held_out(1000, 100)
    assert sorted([*rest, *chosen]) == list(range(1000))
    assert len(chosen) == 100
    assert np.array_equal(chosen, np.sort(chosen))
    assert np.array_equal(rest, np.sort(rest))
    assert chosen[:8].tolist() == CHOSEN, "on every machine"
    assert set(held_out(1000, 30)[1]) < set(chosen)
    assert [len(part) for part in held_out(1000, 0)] == [1000, 0]


def test_splits_of_a_store(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = small_store(monkeypatch, "cifar10", tmp_path / "files")
    data = PatchData("cifar10", 4, val_examples=5)
    train, val, test = (data.pictures(split) for split in ("train", "val", "test"))
    assert (len(train), len(val), len(test)) == (10, 5, 4)
    for part, numbers in zip((train, val), held_out(15, 5), strict=True):
        images, labels = part(np.arange(len(part)))
        assert np.array_equal(images, splits["train"].images[numbers])
        assert np.array_equal(labels, splits["train"].labels[numbers])
    assert np.array_equal(test(np.array([3, 1])).images, splits["test"].images[[3, 1]])
    whole = PatchData("cifar10", 4)
    assert np.array_equal(whole.pictures("train")(np.arange(15)).images, splits["train"].images)
    with pytest.raises(UserError, match=r"'val'.*test, train"):
        whole.pictures("val")


def test_pictures_go_through_all_changes_and_to_workers(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = small_store(monkeypatch, "cifar10", tmp_path / "files")
    change = Augmentation(7)
    data = PatchData("cifar10", 4, grey=True, augment=True, val_examples=5, seed=7)
    opened = data.pictures("train")
    indices = np.array([8, 2])
    numbers = held_out(15, 5)[0][indices]
    plain = grey(splits["train"].images[numbers])
    assert np.array_equal(opened(indices).images, plain), "not changed outside of training"
    changed = opened(indices, 3).images
    assert np.array_equal(changed, change(plain, numbers, 3))
    assert not np.array_equal(changed, opened(indices, 4).images)
    sent = pickle.dumps(opened)
    assert len(sent) < 20_000, "pixels were sent along"
    assert np.array_equal(pickle.loads(sent)(indices, 3).images, changed)
