"""Generated puzzles over bits: what an example is, that none comes twice, and that chance is chance."""

import hashlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from repro.data import BitMemoryData, BitXorData, Examples
from repro.errors import UserError

BITS, STRINGS, PATCH, EPOCH = 40, 5, 10, 300


def memory() -> BitMemoryData:
    return BitMemoryData(4, BITS, STRINGS, PATCH, train_examples=EPOCH)


def drawn(n: int = EPOCH, split: str = "train", epoch: int | None = 0) -> Examples:
    return memory().examples(split, np.arange(n), epoch)


def rows(examples: Examples) -> torch.Tensor:
    """The strings and the query of each example, ``(B, strings + 1, bits)``."""
    return examples.inputs.reshape(len(examples.inputs), STRINGS + 1, BITS)


def queries(examples: Examples) -> list[int]:
    """Returns the string that each query repeats."""
    signs = examples.targets * 2 - 1
    same = (rows(examples)[:, :STRINGS] == signs[:, None]).all(-1)
    assert bool((same.sum(1) == 1).all()), "the wanted bits are those of exactly one string"
    return same.long().argmax(1).tolist()


def test_an_example_is_some_strings_and_one_of_them_again() -> None:
    result = drawn()
    assert result.inputs.shape == (EPOCH, (STRINGS + 1) * BITS // PATCH, PATCH)
    assert (result.inputs.dtype, result.targets.dtype) == (torch.float32, torch.int64)
    assert result.lengths is None
    assert result.hidden is not None
    assert result.hidden.dtype == torch.bool
    assert result.targets.shape == result.hidden.shape == (EPOCH, BITS)
    strings, query = rows(result)[:, :STRINGS], rows(result)[:, STRINGS]
    assert set(strings.flatten().tolist()) == {-1.0, 1.0}
    assert set(query.flatten().tolist()) == {-1.0, 0.0, 1.0}
    assert torch.equal(query == 0, result.hidden), "what the input does not show"
    for row, which in enumerate(queries(result)):
        for bit in range(BITS):
            assert int(result.targets[row, bit]) == (strings[row, which, bit] > 0)
            if not result.hidden[row, bit]:
                assert query[row, bit] == strings[row, which, bit]


def test_patches_are_pieces_of_a_string() -> None:
    result = drawn(3)
    for row in range(3):
        for token in range((STRINGS + 1) * BITS // PATCH):
            string, at = divmod(token * PATCH, BITS)
            expected = rows(result)[row, string, at : at + PATCH]
            assert torch.equal(result.inputs[row, token], expected)


def within(share: float, wanted: float, n: int) -> bool:
    """Whether a share of n draws lies within four standard deviations."""
    return abs(share - wanted) < 4 * (wanted * (1 - wanted) / n) ** 0.5


def test_bits_are_balanced_and_half_are_hidden() -> None:
    result = drawn(1000)
    strings, hidden, targets = rows(result)[:, :STRINGS] > 0, result.hidden, result.targets.bool()
    assert hidden is not None
    assert within(float(strings.double().mean()), 0.5, strings.numel())
    assert within(float(hidden.double().mean()), 0.5, hidden.numel())
    for place in (strings.flatten(0, 1), hidden):
        shares = place.double().mean(0)
        assert float((shares - 0.5).abs().max()) < 5 * (0.25 / len(place)) ** 0.5, "at every place"
    # what is hidden says nothing of what it is, neither does the same place of another string
    assert within(float((hidden ^ targets).double().mean()), 0.5, hidden.numel())
    assert within(float((strings[:, 0] ^ strings[:, 1]).double().mean()), 0.5, hidden.numel())


def test_queries_are_uniform() -> None:
    which = queries(drawn(2000))
    counts = np.bincount(which, minlength=STRINGS)
    expected = 2000 / STRINGS
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < 18.47, "4 degrees of freedom, 0.1 %"
    pairs = np.bincount([STRINGS * a + b for a, b in pairwise(which)], minlength=STRINGS**2)
    expected = 1999 / STRINGS**2
    assert float(((pairs - expected) ** 2 / expected).sum()) < 51.18, "24 degrees of freedom: neighbours too"


def strings_of(split: str, epoch: int | None) -> set[bytes]:
    known = rows(drawn(split=split, epoch=epoch))[:, :STRINGS]
    return {string.numpy().tobytes() for example in known for string in example}


def test_epochs_and_splits_share_no_string() -> None:
    parts = [strings_of("train", epoch) for epoch in range(3)]
    parts += [strings_of("val", None), strings_of("test", None)]
    assert {len(part) for part in parts} == {EPOCH * STRINGS}
    assert len(set.union(*parts)) == len(parts) * EPOCH * STRINGS


def test_an_epoch_goes_on_where_the_last_one_ended() -> None:
    later = memory().examples("train", np.array([7]), 2)
    far = memory().examples("train", np.array([7 + 2 * EPOCH]), None)
    assert all(torch.equal(a, b) for a, b in zip(later[:3], far[:3], strict=True))


def test_an_example_does_not_depend_on_its_batch() -> None:
    alone, together = (memory().examples("val", np.array(which), None) for which in ([4], [9, 4, 0]))
    for a, b in zip(alone[:3], together[:3], strict=True):
        assert torch.equal(a[0], b[1])
    none = memory().examples("val", np.arange(0), None)
    assert none.inputs.shape == (0, 24, PATCH)
    assert none.targets.shape == (0, BITS)


def digest(examples: Examples) -> str:
    parts = [examples.inputs.to(torch.int8), examples.targets.to(torch.int8)]
    parts += [] if examples.hidden is None else [examples.hidden.to(torch.int8)]
    return hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts)).hexdigest()


def test_the_generator_cannot_change_unnoticed() -> None:
    """A record says what was trained on by the generator's version: raise it before these digests change."""
    result = {
        split: digest(BitMemoryData(4).examples(split, np.array([0, 1, 99_999]), epoch))
        for split, epoch in (("train", 3), ("val", None), ("test", None))
    }
    assert result == PINNED


PINNED = {
    "train": "bd38f431bea6b1e817ccc73e1ad77761fbe0f05dc9f94149a091375a506466a9",
    "val": "2b4f2b1900f8a16a6363975c5e45ecef62c160f7dd88e9851efad8b22124bd57",
    "test": "ef38c461b97a5382d0fe3f9f21e8affdaf6b0bb9217178908fe37f24e78d12fd",
}


def test_the_published_sizes() -> None:
    module = BitMemoryData(4)
    assert (module.input_size, module.seq_len, module.n_targets, module.n_classes) == (50, 120, 1000, 2)
    (batch,) = [next(iter(module.train_dataloader()))]
    assert batch.examples.inputs.shape == (4, 120, 50)
    assert batch.examples.targets.shape == (4, 1000)
    assert batch.step_targets == 4000
    assert module.counts["test"] == {"examples": 500, "targets": 500_000, "dropped": 0}


def test_training_epochs_are_fresh() -> None:
    module = BitMemoryData(4, 20, 2, 5, train_examples=8)
    loader = module.train_dataloader()
    epochs = [torch.cat([batch.examples.inputs for batch in loader]) for _ in range(3)]
    assert len({row.numpy().tobytes() for epoch in epochs for row in epoch}) == 24


def test_every_sum_of_two_strings_is_there_once() -> None:
    module = BitXorData(16)
    assert (module.input_size, module.seq_len, module.n_targets, module.n_classes) == (1, 10, 5, 2)
    assert {split: module.size(split) for split in ("train", "val", "test")} == dict.fromkeys(
        ("train", "val", "test"), 1024
    )
    result = module.examples("train", np.arange(1024), 3)
    assert result.inputs.shape == (1024, 10, 1)
    assert (result.inputs.dtype, result.targets.dtype) == (torch.float32, torch.int64)
    assert result.hidden is None
    seen = set()
    for example in range(1024):
        bits = [int(value) for value in result.inputs[example, :, 0]]
        assert bits == [int(digit) for digit in format(example, "010b")]
        assert result.targets[example].tolist() == [
            int(a != b) for a, b in zip(bits[:5], bits[5:], strict=True)
        ]
        seen.add(tuple(bits))
    assert len(seen) == 1024
    assert set(result.inputs.flatten().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BitMemoryData(4, bits=0), "must be at least 1"),
        (lambda: BitMemoryData(4, strings=0), "must be at least 1"),
        (lambda: BitMemoryData(4, patch=0), "must be at least 1"),
        (lambda: BitMemoryData(4, patch=-50), "must be at least 1"),
        (lambda: BitMemoryData(4, train_examples=0), "must be at least 1"),
        (lambda: BitMemoryData(4, eval_examples=0), "must be at least 1"),
        (lambda: BitMemoryData(4, bits=100, patch=30), "patch 30 does not divide the 100 bits of a string"),
        (lambda: BitMemoryData(0), "batch_size must be at least 1"),
        (lambda: BitXorData(4, bits=0), "bits must be between 1 and 10, not 0"),
        (lambda: BitXorData(4, bits=11), "bits must be between 1 and 10, not 11"),
        (lambda: BitXorData(2000).train_dataloader(), "batch_size 2000 is more than the 1024 examples"),
    ],
)
def test_numbers_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


def test_other_settings_are_other_data() -> None:
    made = [
        BitMemoryData(4), BitMemoryData(4, bits=500), BitMemoryData(4, strings=4), BitMemoryData(4, patch=100),
        BitMemoryData(4, train_examples=5), BitMemoryData(4, eval_examples=5), BitXorData(4), BitXorData(4, bits=4),
    ]  # fmt: skip
    assert len({module.manifest_sha256 for module in made}) == len(made)
    assert BitMemoryData(8, seed=5).manifest_sha256 == BitMemoryData(4).manifest_sha256
