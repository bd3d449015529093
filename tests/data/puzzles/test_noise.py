"""Noise is noise, of the shape that was asked for, and the same on any machine."""

import numpy as np
import pytest
import torch

from repro.data import NoiseData, NoisePixelData
from repro.errors import UserError


def test_vectors_have_mean_zero_and_variance_one() -> None:
    x = NoiseData(4, 8, 50, 64).examples("train", np.arange(64), 0).inputs
    assert x.shape == (64, 50, 8)
    assert x.dtype == torch.float32
    assert abs(float(x.mean())) < 0.02
    assert float(x.var()) == pytest.approx(1.0, abs=0.02)
    assert float(x.abs().max()) < 12**0.5 / 2 + 1e-6


def test_pictures_are_shifted_sequences_of_all_levels() -> None:
    data = NoisePixelData(2, [8, 8, 3], examples=16)
    inputs, targets, *_ = data.examples("test", np.arange(16), None)
    assert inputs.shape == targets.shape == (16, data.seq_len) == (16, 191)
    torch.testing.assert_close(inputs[:, 1:], targets[:, :-1])
    assert set(inputs.flatten().tolist()) == set(range(256))


def test_examples_differ_by_index_split_and_epoch_only() -> None:
    data = NoisePixelData(2, [4, 4, 1])
    first = data.examples("train", np.array([3]), 1).inputs
    torch.testing.assert_close(
        first, NoisePixelData(7, [4, 4, 1], seed=5).examples("train", np.array([3]), 1).inputs
    )
    for other in (data.examples("train", np.array([4]), 1), data.examples("train", np.array([3]), 2)):
        assert not torch.equal(first, other.inputs)
    assert not torch.equal(first, data.examples("val", np.array([3]), 1).inputs)


@pytest.mark.parametrize("shape", [[28, 28], [0, 4, 1], [1, 1, 1]])
def test_a_shape_that_is_none_is_refused(shape: list[int]) -> None:
    with pytest.raises(UserError, match="shape must be height, width and channels"):
        NoisePixelData(2, shape)


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(UserError, match="width must be at least 1"):
        NoiseData(2, 0, 4)
