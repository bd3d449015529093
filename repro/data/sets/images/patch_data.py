"""Pictures as sequences of patches, for classifiers."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from repro.batches import Examples
from repro.data.core.draws import Int64s
from repro.data.core.examples import Reader
from repro.data.sets.images.picture_data import PictureData
from repro.data.sets.images.picture_sets import PictureSet
from repro.data.sets.images.pictures import Augmentation, Pictures, open_pictures
from repro.errors import UserError


def cut(pictures: Tensor, patch: int) -> Tensor:
    """Cuts pictures into square patches.

    Args:
        pictures: ``(B, H, W, C)``.
        patch: side of a patch, divides H and W.

    Returns:
        ``(B, T, patch * patch * C)``: patches row by row; in each, row by row, the channels of a pixel together.
    """
    n, height, width, channels = pictures.shape
    split = pictures.reshape(n, height // patch, patch, width // patch, patch, channels)
    return split.transpose(2, 3).reshape(n, -1, patch * patch * channels)


@dataclass(frozen=True)
class Scaled:
    """Bytes to numbers in ``[0, 1]``, then ``(x - mean) / std`` of each channel.

    Args:
        mean: for each channel; empty leaves both out.
        std: for each channel.
    """

    mean: list[float] = field(default_factory=list)
    std: list[float] = field(default_factory=list)

    def __call__(self, pictures: Tensor) -> Tensor:
        """``(..., C)`` float32 of uint8."""
        scaled = pictures.to(torch.float32).div(255)
        if not self.mean:
            return scaled
        return scaled.sub(torch.tensor(self.mean)).div(torch.tensor(self.std))


@dataclass(frozen=True)
class Patches:
    """Examples of one split.

    Args:
        pictures: of the split.
        patch: side of a patch.
        scaled: from bytes to numbers.
    """

    pictures: Pictures
    patch: int
    scaled: Scaled

    def __call__(self, indices: Int64s, epoch: int | None) -> Examples:
        """Examples ``(T, patch * patch * C)`` with one target."""
        images, labels = self.pictures(indices, epoch)
        inputs = cut(self.scaled(torch.from_numpy(np.ascontiguousarray(images))), self.patch)
        return Examples(inputs, torch.from_numpy(labels.astype(np.int64))[:, None])


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
        size: pictures are put in the middle of black squares of this side; None leaves them as they are.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training and of the augmentation; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Raises:
        UserError: no store of pictures, ``patch`` does not divide their side, ``size`` is less than it, or ``mean``
            and ``std`` have another number of channels.

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
        size: int | None = None,
        eval_batch_size: int = 50,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(store, val_examples, batch_size, eval_batch_size, seed, num_workers)
        if not self.look.n_classes:
            raise UserError(f"the pictures of {self.store_name} have no classes to tell apart")
        side, channels = _seen(self.store_name, self.look, grey, size)
        if patch < 1 or side % patch:
            raise UserError(f"patch {patch} does not divide the side {side} of {self.store_name}'s pictures")
        _check_scale(mean, std, channels)
        self.patch = patch
        self.augment = augment
        self.scaled = Scaled(mean or [], std or [])
        self.input_size = patch * patch * channels
        self.seq_len = (side // patch) ** 2
        self.n_classes = self.look.n_classes
        self._opened = partial(open_pictures, val_examples=val_examples, grey=grey, side=size)

    def pictures(self, split: str) -> Pictures:
        """The pictures of a split; those of training are augmented if configured."""
        augmented = self.augment and split == self.train_split
        return self._opened(self.store, split, augmentation=Augmentation(self.seed) if augmented else None)

    def reader(self, split: str) -> Reader:
        """The patches of a split."""
        return Patches(self.pictures(split), self.patch, self.scaled)


def _seen(name: str, look: PictureSet, grey: bool, size: int | None) -> tuple[int, int]:
    """Side and channels of the pictures after all changes."""
    side, _, channels = look.shape
    if grey and channels == 1:
        raise UserError(f"{name} is grey already; leave out grey")
    if size is not None and size < side:
        raise UserError(f"size {size} is less than the side {side} of {name}'s pictures, which are never cut")
    return size or side, 1 if grey else channels


def _check_scale(mean: list[float] | None, std: list[float] | None, channels: int) -> None:
    if (mean is None) != (std is None):
        raise UserError("mean and std go together: give both or neither")
    for name, numbers in (("mean", mean), ("std", std)):
        if numbers is not None and len(numbers) != channels:
            raise UserError(f"{name} {numbers} has {len(numbers)} numbers for {channels} channels")
    if std is not None and min(std) <= 0:
        raise UserError(f"std {std} must be above 0")
