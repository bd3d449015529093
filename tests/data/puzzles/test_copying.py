"""Sequences that are said twice: what an example is, and which targets count."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from repro.data import CopyData, DuplicationData, Examples
from repro.errors import UserError


def follows(examples: Examples) -> None:
    """Asserts that every target that counts is the next input."""
    inputs, targets = examples.inputs.tolist(), examples.targets.tolist()
    for tokens, expected in zip(inputs, targets, strict=True):
        for (_, after), target in zip(pairwise(tokens), expected, strict=False):
            assert target in (-1, after)
        assert expected[-1] == -1, "nothing follows the last one"


def test_a_duplication_is_a_sequence_twice_behind_zeros() -> None:
    result = DuplicationData(4, length=20, symbols=5).examples("train", np.arange(200), 0)
    assert (result.inputs.dtype, result.targets.dtype) == (torch.int64, torch.int64)
    assert result.inputs.shape == result.targets.shape == (200, 20)
    assert (result.lengths, result.hidden) == (None, None)
    for tokens in result.inputs.tolist():
        assert tokens[0] == tokens[10] == 0
        assert tokens[1:10] == tokens[11:]
        assert set(tokens[1:10]) <= {1, 2, 3, 4, 5}
    follows(result)
    counts = torch.bincount(result.inputs[:, 1:10].flatten(), minlength=6)[1:].double()
    assert float(((counts - 360) ** 2 / 360).sum()) < 18.47, "4 degrees of freedom, 0.1 %"
    assert len({tuple(tokens) for tokens in result.inputs.tolist()}) > 190


def test_only_the_second_half_of_a_duplication_counts() -> None:
    result = DuplicationData(4, length=20, symbols=5).examples("val", np.arange(3), None)
    counted = [t for t in range(20) if result.targets[0, t] >= 0]
    assert counted == list(range(10, 19)), "the zero is shown, and nothing follows the last one"


def test_the_published_duplication() -> None:
    module = DuplicationData(64)
    assert (module.vocab_size, module.input_size, module.n_classes) == (128, 128, 128)
    assert (module.seq_len, module.n_targets, module.steps_per_epoch) == (1024, 511, 200)
    batch = next(iter(module.train_dataloader()))
    assert batch.examples.inputs.shape == (64, 1024)
    assert int(batch.examples.inputs.max()) == 127
    assert int((batch.examples.targets >= 0).sum()) == batch.step_targets == 64 * 511


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length": 7}, "length must be even and at least 4, not 7"),
        ({"length": 2}, "length must be even and at least 4, not 2"),
        ({"symbols": 0}, "symbols must be at least 1, not 0"),
    ],
)
def test_duplications_that_cannot_be(settings: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DuplicationData(4, **settings)


def by_hand(word: list[int], length: int) -> tuple[list[int], list[int]]:
    """Tokens and targets of the authors' generator, one place at a time."""
    n = len(word)
    tokens = [*word, 0, *word] + [0] * (length - 2 * n - 1)
    targets = [-1] * length
    for place in range(n - 1, 2 * n):
        targets[place] = tokens[place + 1]
    return tokens, targets


@pytest.mark.parametrize("length", [128, 125])
def test_a_copy_is_that_of_the_authors(length: int) -> None:
    module = CopyData(4, length=length)
    result = module.examples("train", np.arange(300), 2)
    words = module.targets_of("train", np.arange(300), 2) - 1
    assert result.inputs.shape == result.targets.shape == (300, length)
    for row, n in enumerate(words.tolist()):
        word = result.inputs[row, :n].tolist()
        assert min(word) >= 1
        assert (result.inputs[row].tolist(), result.targets[row].tolist()) == by_hand(word, length)
    follows(result)
    assert set(words.tolist()) == set(range(32, 63))
    symbols = torch.bincount(result.inputs[:, :32].flatten(), minlength=11)[1:].double()
    assert len(symbols) == 10
    assert float(((symbols - 960) ** 2 / 960).sum()) < 27.88, "9 degrees of freedom, 0.1 %"


def test_the_published_copy() -> None:
    module = CopyData(64)
    assert (module.vocab_size, module.input_size, module.n_classes) == (11, 11, 11)
    assert (module.seq_len, module.n_targets, module.steps_per_epoch) == (128, 48, 100)
    counts = module.counts
    assert counts["test"]["examples"] == 20 * 64
    assert counts["test"]["targets"] == int(
        (module.examples("test", np.arange(1280), None).targets >= 0).sum()
    )
    assert counts["test"]["targets"] / 1280 == pytest.approx(48, abs=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length": 124}, "length 124 has no room for twice 62 symbols and a zero between"),
        ({"shortest": 63}, "longest must be at least 63"),
        ({"shortest": 0}, "shortest must be at least 1"),
        ({"symbols": 0}, "symbols must be at least 1"),
    ],
)
def test_copies_that_cannot_be(settings: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        CopyData(4, **settings)
