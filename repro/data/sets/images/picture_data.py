"""Pictures of a store in patches or value by value: which of them a split has, and how training changes them."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from repro.batches import Examples
from repro.data.core.draws import Int64s, shuffled, stream
from repro.data.core.examples import ExampleData
from repro.data.registry import find_of_class
from repro.data.sets.images.picture_sets import IMAGES, LABELS, Bytes, Labelled, PictureSet
from repro.data.store import Store
from repro.data.store_data import StoreDataModule
from repro.errors import UserError, at_least

AUGMENTATION_VERSION = 1
HELD_OUT = 10  # key of the random choice of validation pictures, the same for every seed
ANGLES = 4096  # how finely angles are drawn
LEVELS = 256
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
    half and turned about its centre. A pixel takes the value of the nearest one; pixels from outside are black.

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
        examples = np.arange(len(images))[:, None, None]
        pixels = images[examples, rows.clip(0, height - 1), columns.clip(0, width - 1)]
        return np.where(inside[..., None], pixels, np.uint8(0))


def _within(places: Int64s, size: int) -> Bools:
    return (places >= 0) & (places < size)


@lru_cache
def angles(degrees: float) -> tuple[Int64s, Int64s]:
    """Cosines and sines of ``ANGLES`` equally spaced angles in ``(-degrees, degrees)``, times 2^30, rounded."""
    radians = np.deg2rad(degrees * ((2 * np.arange(ANGLES) + 1) / ANGLES - 1))
    unit = 2.0**_ONE
    return np.rint(np.cos(radians) * unit).astype(np.int64), np.rint(np.sin(radians) * unit).astype(np.int64)


def turned(height: int, width: int, angle: Int64s, degrees: float) -> tuple[Int64s, Int64s]:
    """Source positions of the pixels of a picture turned about its centre; they may be outside.

    Args:
        height: of the picture.
        width: of the picture.
        angle: numbers of angles, ``(B,)``; an angle above 0 turns against the clock.
        degrees: the angles reach so far.

    Returns:
        Rows and columns, ``(B, height, width)``.
    """
    cosine, sine = (table[angle][:, None, None] for table in angles(degrees))
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


@lru_cache
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
        augmentation: how training changes them, if it does.
    """

    store: Store
    split: str
    chosen: Int64s
    grey: bool = False
    augmentation: Augmentation | None = None

    def __len__(self) -> int:
        return len(self.chosen)

    def __call__(self, indices: Int64s, epoch: int | None = None) -> Labelled:
        """Some pictures ``(B, H, W, C)`` with their classes.

        Args:
            indices: which of these, ``(B,)``.
            epoch: of training; None outside it, where nothing is changed.
        """
        numbers = self.chosen[indices]
        images = self.store.values(self.split, IMAGES)[numbers]
        if self.grey:
            images = grey(images)
        if self.augmentation is not None and epoch is not None:
            images = self.augmentation(images, numbers, epoch)
        return Labelled(images, self.store.values(self.split, LABELS)[numbers])


class PictureData(StoreDataModule, ExampleData):
    """Pictures of a store.

    Args:
        store: name of the data set.
        val_examples: training pictures that are for validation; 0 validates on the test pictures.
        batch_size, eval_batch_size, seed, num_workers: see :class:`ExampleData`.

    Raises:
        UserError: no store of pictures, or a negative number.
    """

    def __init__(
        self,
        store: str,
        val_examples: int,
        batch_size: int,
        eval_batch_size: int,
        seed: int,
        num_workers: int,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, seed, num_workers)
        at_least(0, val_examples=val_examples)
        self.store_name, _, self.variant = store.partition("/")
        self.picture_set: PictureSet = find_of_class(self.store_name, PictureSet, "pictures")
        self.val_examples = val_examples
        self.val_split = "val" if val_examples else "test"

    def check(self, store: Store) -> None:
        """Refuses a store with too few pictures to take validation pictures from."""
        n = store.manifest.counts["train"]["examples"]
        if self.val_examples >= n:
            raise UserError(
                f"val_examples {self.val_examples}: {store.name} has {n:,} training pictures to take them from"
            )

    def pictures(self, split: str) -> Pictures:
        """The pictures of a split: ``val`` are some of the store's training pictures, ``train`` the others."""
        stored = "train" if split == "val" and self.val_examples else split
        n = self.store.manifest.counts[self.store.split(stored)]["examples"]
        train, val = held_out(n, self.val_examples if stored == "train" else 0)
        return Pictures(self.store, stored, val if split == "val" else train)

    def size(self, split: str) -> int:
        """Pictures of a split."""
        return len(self.pictures(split))


def cut(pictures: Tensor, patch: int) -> Tensor:
    """Cuts pictures into square patches.

    Args:
        pictures: ``(B, H, W, C)``.
        patch: side of a patch, divides H and W.

    Returns:
        ``(B, T, patch * patch * C)``: patches row by row; in each, row by row, the channels of a pixel together.
    """
    n, height, width, channels = pictures.shape
    rows, columns = height // patch, width // patch
    split = pictures.reshape(n, rows, patch, columns, patch, channels)
    return split.transpose(2, 3).reshape(n, rows * columns, patch * patch * channels)  # B may be 0


class PatchData(PictureData):
    """Pictures of a store in patches, for classifiers.

    The validation split ``val`` is a random choice of training pictures, the same for every seed; ``train`` is the
    rest. With ``val_examples: 0`` everything is trained on and **the test set is validated on**, as the code of
    Lu et al. does: a best validated step is then chosen on the test set.

    Args:
        store: ``mnist`` or ``cifar10``.
        batch_size: examples of the global batch.
        patch: side of a patch.
        grey: colours are turned into grey, 8 bits.
        augment: training pictures are cut out, mirrored and turned at random, :class:`Augmentation`.
        mean: subtracted from each channel, whose numbers are in ``[0, 1]``; None with ``std`` None: neither is done.
        std: each channel is divided by it.
        val_examples: training pictures that are for validation.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training and of the augmentation; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Raises:
        UserError: no store of pictures, ``patch`` does not divide their sides, or ``mean`` and ``std`` have another
            number of channels.

    Source: Lu et al. 2021, section 2.1 "MNIST", "CIFAR-10", "CIFAR-10 LRA".
    Deviation: grey is reckoned in whole numbers before pictures are scaled, as in the Long Range Arena's 8-bit
    pictures; the code of Lu et al. adds up scaled channels, which differs by less than one grey level.
    """

    def __init__(
        self,
        store: str,
        batch_size: int,
        patch: int = 4,
        grey: bool = False,
        augment: bool = False,
        mean: list[float] | None = None,
        std: list[float] | None = None,
        val_examples: int = 0,
        eval_batch_size: int = 50,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(store, val_examples, batch_size, eval_batch_size, seed, num_workers)
        height, width, channels = self.picture_set.shape
        if grey and channels == 1:
            raise UserError(f"{self.store_name} is grey already; leave out grey")
        channels = 1 if grey else channels
        if patch < 1 or height % patch or width % patch:
            raise UserError(f"patch {patch} does not divide {self.store_name}'s pictures, {height} x {width}")
        if {len(mean or ()), len(std or ())} not in ({0}, {channels}) or min(std or [1]) <= 0:
            raise UserError(
                f"mean {mean} and std {std}: give both or neither, a number for each of {channels} channels, of std "
                "above 0"
            )
        self.patch = patch
        self.grey = grey
        self.augment = augment
        self.mean, self.std = mean or [], std or []
        self.input_size = patch * patch * channels
        self.seq_len = (height // patch) * (width // patch)
        self.n_classes = self.picture_set.n_classes

    def pictures(self, split: str) -> Pictures:
        """The pictures of a split; those of training are augmented if configured."""
        augmentation = Augmentation(self.seed) if self.augment and split == self.train_split else None
        return replace(super().pictures(split), grey=self.grey, augmentation=augmentation)

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """Examples ``(T, patch * patch * C)`` with one target."""
        images, labels = self.pictures(split)(indices, epoch)
        numbers = torch.from_numpy(np.ascontiguousarray(images)).to(torch.float32).div(255)
        if self.mean:
            numbers = numbers.sub(torch.tensor(self.mean)).div(torch.tensor(self.std))
        return Examples(cut(numbers, self.patch), torch.from_numpy(labels.astype(np.int64))[:, None])


class PixelData(PictureData):
    """Pictures of a store, value by value, for models that predict what follows.

    A picture of ``n = H W C`` values is a sequence of ``n - 1`` inputs, the values ``x_1 .. x_{n-1}``, and ``n - 1``
    targets, ``x_2 .. x_n``: **the first value is neither predicted nor counted**, 783 values of MNIST and 3,071 of
    CIFAR-10 remain. With ``whole`` the inputs are ``0, x_1 .. x_{n-1}`` and all n values are predicted, which is what
    positions over all of a picture's axes want. The 0 in front shares its vector with black, but not its
    position.

    The validation split ``val`` is a random choice of training pictures, the same for every seed; ``train`` is the
    rest. With ``val_examples: 0`` everything is trained on and **the test set is validated on**: a best validated step
    is then chosen on the test set.

    Args:
        store: ``mnist`` or ``cifar10``.
        batch_size: examples of the global batch.
        whole: all n values are predicted, the first one behind a value 0.
        val_examples: training pictures that are for validation.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Attributes:
        shape: height, width and channels of a picture.
        vocab_size: levels of a value.

    Raises:
        UserError: no store of pictures, or a number out of range.

    Source: Katharopoulos et al. 2020, section 4.2 and the authors' code: 783 and 3,071 values, evaluation on the test
        set. ``whole``: Kitaev et al. 2020, the authors' code, which shifts inputs by a zero.
    Deviation: training pictures come in a new random order in every epoch; the code of Katharopoulos et al. reads them
        in the order of the files, always the same.
    """

    def __init__(
        self,
        store: str,
        batch_size: int,
        whole: bool = False,
        val_examples: int = 0,
        eval_batch_size: int = 50,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(store, val_examples, batch_size, eval_batch_size, seed, num_workers)
        self.shape = self.picture_set.shape
        self.whole = whole
        self.n_values = int(np.prod(self.shape))
        self.seq_len = self.n_targets = self.n_values if whole else self.n_values - 1
        self.vocab_size = self.input_size = self.n_classes = LEVELS

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """Inputs and targets ``(B, T)``, each target the value that follows."""
        images = self.pictures(split)(indices, epoch).images
        values = torch.from_numpy(images.astype(np.int64)).flatten(1)
        if self.whole:
            values = torch.cat([torch.zeros_like(values[:, :1]), values], dim=1)
        return Examples(values[:, :-1], values[:, 1:])
