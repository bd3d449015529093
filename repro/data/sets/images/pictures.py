"""Reading pictures of a prepared store: which of them a split has, and how training changes them.

Their forms for models, patches or sequences of pixels, are in other modules.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from repro.data.core.draws import Int64s, shuffled, stream
from repro.data.sets.images.picture_sets import IMAGES, LABELS, Bytes, Labelled
from repro.data.store import Store
from repro.errors import UserError

AUGMENTATION_VERSION = 1
HELD_OUT = 10  # key of the random choice of validation pictures, the same for every seed
ANGLES = 4096  # how finely angles are drawn
_ONE = 30  # fractional bits of sines and cosines
Bools = np.ndarray[Any, np.dtype[np.bool_]]


class Shifts(NamedTuple):
    """The transformation of each picture of a batch, all ``(B,)``.

    Attributes:
        top: row of the padded picture at which the cut-out begins.
        left: column at which it begins.
        flip: whether it is mirrored, left for right.
        angle: number of the angle by which it is turned, below ``ANGLES``.
    """

    top: Int64s
    left: Int64s
    flip: Bools
    angle: Int64s


@dataclass(frozen=True)
class Augmentation:
    """Random cut-outs, mirrored or not, and turned: always the same for the same (seed, epoch, picture).

    A picture gets a black border, out of which a picture of the old size is cut; this is mirrored with probability one
    half and turned about its centre. A pixel takes the value of the nearest one; what comes from outside is black.

    Args:
        seed: of the run.
        padding: width of the border.
        degrees: it is turned by up to so many, to either side.

    Source: Lu et al. 2021, the authors' code for CIFAR-10: random crop, flip and rotation of torchvision.
    Deviation: angles are drawn from ``ANGLES`` equally spaced ones, 0.01 degrees apart, and places are reckoned in
    whole numbers, so that any machine turns a picture in the same way.
    """

    seed: int
    padding: int = 4
    degrees: float = 20.0

    def __call__(self, images: Bytes, numbers: Int64s, epoch: int) -> Bytes:
        """Changed pictures.

        Args:
            images: ``(B, H, W, C)``.
            numbers: which pictures of the store they are, ``(B,)``.
            epoch: of training.
        """
        return self.moved(images, self.draw(numbers, epoch))

    def draw(self, numbers: Int64s, epoch: int) -> Shifts:
        """The transformation of each picture in an epoch."""
        drawn = [stream(AUGMENTATION_VERSION, self.seed, epoch, int(n)).random_raw(4) for n in numbers]
        raw = (np.array(drawn, np.uint64).reshape(-1, 4) >> np.uint64(11)).astype(np.int64)
        places = 2 * self.padding + 1
        return Shifts(raw[:, 0] % places, raw[:, 1] % places, raw[:, 2] % 2 == 1, raw[:, 3] % ANGLES)

    def moved(self, images: Bytes, shifts: Shifts) -> Bytes:
        """Transforms pictures ``(B, H, W, C)``, by the old position of each new pixel."""
        height, width = images.shape[1:3]
        rows, columns = turned(height, width, shifts.angle, self.degrees)
        inside = _within(rows, height) & _within(columns, width)
        columns = np.where(shifts.flip[:, None, None], width - 1 - columns, columns)
        rows = rows + (shifts.top - self.padding)[:, None, None]
        columns = columns + (shifts.left - self.padding)[:, None, None]
        inside &= _within(rows, height) & _within(columns, width)
        which = np.arange(len(images))[:, None, None]
        pixels = images[which, rows.clip(0, height - 1), columns.clip(0, width - 1)]
        return np.where(inside[..., None], pixels, np.uint8(0))


def _within(places: Int64s, size: int) -> Bools:
    return (places >= 0) & (places < size)


@lru_cache
def angles(degrees: float) -> tuple[Int64s, Int64s]:
    """Cosines and sines of ``ANGLES`` equally spaced angles in ``(-degrees, degrees)``, times 2^30, rounded."""
    at = np.deg2rad(degrees * ((2 * np.arange(ANGLES) + 1) / ANGLES - 1))
    unit = 2.0**_ONE
    return np.rint(np.cos(at) * unit).astype(np.int64), np.rint(np.sin(at) * unit).astype(np.int64)


def turned(height: int, width: int, which: Int64s, degrees: float) -> tuple[Int64s, Int64s]:
    """Source positions of the pixels of a picture turned about its centre; they may be outside.

    Args:
        height: of the picture.
        width: of the picture.
        which: numbers of angles, ``(B,)``; an angle above 0 turns against the clock.
        degrees: the angles reach so far.

    Returns:
        Rows and columns, ``(B, height, width)``.
    """
    cosine, sine = (table[which][:, None, None] for table in angles(degrees))
    # twice the distance from the centre, which is between pixels
    down = 2 * np.arange(height, dtype=np.int64)[:, None] - (height - 1)
    right = 2 * np.arange(width, dtype=np.int64)[None, :] - (width - 1)
    columns = (cosine * right - sine * down + (width << _ONE)) >> (_ONE + 1)
    rows = (sine * right + cosine * down + (height << _ONE)) >> (_ONE + 1)
    return rows, columns


def grey(images: Bytes) -> Bytes:
    """Luma of ITU-R 601-2 as Pillow reckons it, ``(B, H, W, 1)`` of red, green and blue ``(B, H, W, 3)``."""
    red, green, blue = (images[..., n : n + 1].astype(np.uint32) for n in range(3))
    return ((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16).astype(np.uint8)


def bordered(images: Bytes, side: int) -> Bytes:
    """Pictures in the middle of black squares of the given side, ``(B, side, side, C)``."""
    borders = [(side - n) // 2 for n in images.shape[1:3]]
    around = [(border, side - n - border) for border, n in zip(borders, images.shape[1:3], strict=True)]
    return np.pad(images, [(0, 0), *around, (0, 0)])


def held_out(n: int, val_examples: int) -> tuple[Int64s, Int64s]:
    """The indices of ``n`` training pictures for training and for validation, both ascending.

    The same on any machine and for any seed; fewer validation pictures are some of the more.
    """
    order = shuffled(n, HELD_OUT)
    return np.sort(order[val_examples:]), np.sort(order[:val_examples])


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures of one split, read from disk on access. Cheap to send to a worker process.

    Args:
        store: of pictures.
        split: of the store.
        chosen: which of them these are, ``(M,)``.
        grey: colours are turned into grey.
        side: of the square in which each is centred; None leaves them unchanged.
        augmentation: how training changes them, if it does.
    """

    store: Store
    split: str
    chosen: Int64s
    grey: bool = False
    side: int | None = None
    augmentation: Augmentation | None = None

    def __len__(self) -> int:
        return len(self.chosen)

    def __call__(self, indices: Int64s, epoch: int | None = None) -> Labelled:
        """Some pictures with their classes.

        Args:
            indices: which of these, ``(B,)``.
            epoch: of training; None outside it, where nothing is changed.
        """
        labels = self.store.values(self.split, LABELS)
        return Labelled(self.images(indices, epoch), labels[self.chosen[indices]])

    def images(self, indices: Int64s, epoch: int | None = None) -> Bytes:
        """Some pictures ``(B, H, W, C)`` without their classes, which not every source has.

        Args: as for a call.
        """
        numbers = self.chosen[indices]
        images = self.store.values(self.split, IMAGES)[numbers]
        if self.grey:
            images = grey(images)
        if self.side is not None:
            images = bordered(images, self.side)
        if self.augmentation is not None and epoch is not None:
            images = self.augmentation(images, numbers, epoch)
        return images


def open_pictures(
    store: Store,
    split: str,
    val_examples: int,
    grey: bool = False,
    side: int | None = None,
    augmentation: Augmentation | None = None,
) -> Pictures:
    """The pictures of a split: ``val`` are some of the store's training pictures, ``train`` the others.

    Args:
        store: of pictures.
        split: ``train``, ``val``, ``test``.
        val_examples: pictures of ``val``.
        grey: colours are turned into grey.
        side: of the square in which each is centred; None leaves them unchanged.
        augmentation: how training changes them, if it does.

    Raises:
        UserError: no such split.
    """
    stored = "train" if split == "val" and val_examples else split
    n = store.manifest.counts[store.split(stored)]["examples"]
    train, val = held_out(n, val_examples if stored == "train" else 0)
    chosen = val if split == "val" and val_examples else train  # a store may have a split of that name
    return Pictures(store, stored, chosen, grey, side, augmentation)


def check_pictures(store: Store, shape: tuple[int, int, int], val_examples: int) -> None:
    """Refuses a store that holds no such pictures, or too few to take validation pictures from.

    Raises:
        UserError: pictures of another shape, or ``val_examples`` is negative, or as many as there are.
    """
    for split, counts in store.manifest.counts.items():
        if tuple(counts.get("shape", ())) != shape:
            raise UserError(f"store {store.name}: {split} holds no pictures of {shape}")
    n = store.manifest.counts["train"]["examples"]
    if not 0 <= val_examples < n:
        raise UserError(
            f"val_examples {val_examples}: {store.name} has {n:,} training pictures to take them from"
        )
