"""Pictures as sequences of single values, row by row, for generative models."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch

from repro.batches import Examples
from repro.data.core.draws import Int64s
from repro.data.core.examples import Reader
from repro.data.sets.images.picture_data import PictureData
from repro.data.sets.images.pictures import Pictures, open_pictures
from repro.errors import UserError

LEVELS = 256


@dataclass(frozen=True)
class Sequences:
    """Examples of one split: values row by row, the colours of a pixel next to each other.

    Args:
        pictures: of the split.
        whole: the first value is predicted too, behind a value 0.
    """

    pictures: Pictures
    whole: bool

    def __call__(self, indices: Int64s, epoch: int | None) -> Examples:
        """Inputs and targets ``(B, T)``, each target the value that follows."""
        images = self.pictures.images(indices, epoch)
        values = torch.from_numpy(images.reshape(len(images), -1).astype(np.int64))
        if self.whole:
            values = torch.cat([torch.zeros_like(values[:, :1]), values], dim=1)
        return Examples(values[:, :-1], values[:, 1:])


class PixelData(PictureData):
    """Pictures of a store, value by value, for models that predict what follows.

    A picture of ``n = H W C`` values is a sequence of ``n - 1`` inputs, the values ``x_1 .. x_{n-1}``, and ``n - 1``
    targets, ``x_2 .. x_n``: **the first value is neither predicted nor counted**, 783 values of MNIST and 3,071 of
    CIFAR-10 remain. With ``whole`` the inputs are ``0, x_1 .. x_{n-1}`` and all n values are predicted, which is what
    positions over all of a picture's axes want. The 0 in front shares its vector with black; its position tells.

    The validation split ``val`` is a random choice of training pictures, the same for every seed; ``train`` is the
    rest. With ``val_examples: 0`` everything is trained on and **the test set is validated on**: a best validated step
    is then chosen on the test set. The test set of ``imagenet64`` is its published validation set.

    Args:
        store: ``mnist``, ``cifar10`` or ``imagenet64``.
        batch_size: examples of the global batch.
        whole: all n values are predicted, the first one behind a value 0.
        val_examples: training pictures that are for validation.
        eval_examples: only the first so many of the validation and of the test pictures are used; None for all.
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
        eval_examples: int | None = None,
        eval_batch_size: int = 50,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(store, val_examples, batch_size, eval_batch_size, seed, num_workers)
        self.shape = self.look.shape
        if eval_examples is not None and eval_examples < 1:
            raise UserError(f"eval_examples must be at least 1, not {eval_examples}; leave it out for all")
        self.whole = whole
        self.eval_examples = eval_examples
        self.n_values = int(np.prod(self.shape))
        self.seq_len = self.n_targets = self.n_values if whole else self.n_values - 1
        self.vocab_size = self.input_size = self.n_classes = LEVELS

    def pictures(self, split: str) -> Pictures:
        """The pictures of a split."""
        if split == self.test_split:  # the store may know it by another name, which here means something else
            pictures = open_pictures(self.store, self.store.split(split), 0)
        else:
            pictures = open_pictures(self.store, split, self.val_examples)
        if split == self.train_split:
            return pictures
        return dataclasses.replace(pictures, chosen=pictures.chosen[: self.eval_examples])

    def reader(self, split: str) -> Reader:
        """The sequences of a split."""
        return Sequences(self.pictures(split), self.whole)
