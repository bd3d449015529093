"""Sorting by frequency: the order, the drift of the distribution, what is fixed, what a window of tokens can give."""

import hashlib
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.levels import counting_oracle
from repro.data import SortingData
from repro.data.sets.puzzles.sorting import by_frequency
from repro.errors import UserError
from repro.paths import PROJECT
from repro.recipe import experiments, load_recipe, scales_of
from repro.tasks.sequence_model import last_segment, require_scored_last


def by_hand(tokens: list[int], symbols: int) -> list[int]:
    """The authors' lines."""
    result = [symbol for symbol, _ in Counter(tokens).most_common()]
    return result + [symbol for symbol in range(symbols) if symbol not in result]


@pytest.mark.parametrize(("length", "symbols"), [(1, 5), (7, 6), (40, 8), (300, 20)])
def test_the_order_is_that_of_the_authors(length: int, symbols: int) -> None:
    tokens = np.random.default_rng(length).integers(0, symbols, (200, length))
    assert by_frequency(tokens, symbols).tolist() == [by_hand(row, symbols) for row in tokens.tolist()]


def test_equal_and_absent_symbols() -> None:
    tokens = np.array([[3, 1, 1, 3, 5], [0, 2, 4, 4, 2]])
    assert by_frequency(tokens, 6).tolist() == [[3, 1, 5, 0, 2, 4], [2, 4, 0, 1, 3, 5]]
    assert by_frequency(tokens[:0], 6).shape == (0, 6)


@pytest.mark.parametrize("length", [3, 50])
def test_an_example_is_tokens_a_separator_and_answers(length: int) -> None:
    result = SortingData(4, length=length, symbols=7).examples("train", np.arange(60), 0)
    assert (result.inputs.dtype, result.targets.dtype) == (torch.int64, torch.int64)
    assert result.inputs.shape == result.targets.shape == (60, length + 7)
    for tokens, targets in zip(result.inputs.tolist(), result.targets.tolist(), strict=True):
        answers = by_hand(tokens[:length], 7)
        assert tokens[length:] == [7, *answers[:-1]]
        assert targets == [-1] * length + answers
        assert max(tokens[:length]) < 7


def test_the_distribution_drifts_from_one_to_another() -> None:
    """Means and covariances over examples of the frequency of one of two symbols, at three places."""
    module = SortingData(4, length=2_000, symbols=2)
    ones = np.stack([module.tokens("val", i, None) for i in range(800)]).astype(float)
    spread = float(np.var([a / (a + b) for a in range(1, 10) for b in range(1, 10)]))  # of a probability
    assert ones.mean() == pytest.approx(0.5, abs=0.012)
    begin, middle, end = ones[:, :100].mean(1), ones[:, 950:1050].mean(1), ones[:, -100:].mean(1)
    assert np.cov(begin, end)[0, 1] == pytest.approx(0, abs=0.1 * spread + 0.003)
    noise = (0.25 - spread) / 100
    assert begin.var() == pytest.approx(spread * (0.975**2 + 0.025**2) + noise, rel=0.1)
    assert end.var() == pytest.approx(spread * (0.975**2 + 0.025**2) + noise, rel=0.1)
    assert middle.var() == pytest.approx(spread / 2 + noise, rel=0.1)
    assert np.cov(begin, middle)[0, 1] == pytest.approx(spread / 2, rel=0.15)


def test_training_is_fixed_as_published_or_fresh() -> None:
    indices = np.array([4, 0])
    for fixed in (True, False):
        module = SortingData(4, length=30, fixed=fixed)
        first, second = (module.examples("train", indices, epoch).inputs for epoch in (0, 3))
        assert torch.equal(first, second) == fixed
    one, other = (
        SortingData(4, length=30).examples(split, indices, None).inputs for split in ("val", "test")
    )
    assert not torch.equal(one, other)
    alone = SortingData(4, length=30).examples("val", np.array([0]), None)
    assert torch.equal(alone.inputs[0], one[1]), "an example does not depend on its batch"
    assert len(SortingData(4, length=30).examples("val", np.arange(0), None).inputs) == 0


def test_the_published_data() -> None:
    module = SortingData(8)
    assert (module.vocab_size, module.input_size, module.n_classes) == (22, 22, 22)
    assert (module.seq_len, module.n_targets, module.steps_per_epoch) == (4_020, 20, 1_000)
    assert {split: counts["examples"] for split, counts in module.counts.items()} == {
        "train": 8_000,
        "val": 800,
        "test": 800,
    }
    batch = next(iter(module.train_dataloader()))
    assert batch.examples.inputs.shape == (8, 4_020)
    assert int(batch.examples.inputs.max()) == 20
    assert batch.examples.scored is not None
    assert len(batch.examples.scored) == batch.step_targets == 8 * 20


def test_the_generator_cannot_change_unnoticed() -> None:
    """A record says what was trained on by the generator's version: raise it before this digest changes."""
    result = SortingData(4, length=100).examples("test", np.array([0, 1, 799]), None)
    digest = hashlib.sha256(result.inputs.numpy().tobytes() + result.targets.numpy().tobytes()).hexdigest()
    assert digest == "9de5d27873e44e9e39e84feff58b8ad42d218b995bdc16727d2126381f174191"


def test_what_tells_data_apart() -> None:
    different: list[dict[str, Any]] = [
        {},
        {"length": 50},
        {"symbols": 9},
        {"fixed": False},
        {"train_examples": 7},
    ]
    hashes = [SortingData(4, **settings).manifest_sha256 for settings in different]
    assert len(set(hashes)) == len(hashes)
    assert SortingData(8, seed=3).manifest_sha256 == hashes[0]


def read_by_hand(tokens: list[int], answers: list[int], symbols: int) -> float:
    """One answer at a time: the most frequent of the symbols that were not the right answer before."""
    order, right = by_hand(tokens, symbols), 0
    for k, answer in enumerate(answers):
        right += next(symbol for symbol in order if symbol not in answers[:k]) == answer
    return right / symbols


@pytest.mark.parametrize("window", [1, 5, 20, 40])
def test_the_oracle_counts_a_window(window: int) -> None:
    examples = SortingData(4, length=40, symbols=6).examples("test", np.arange(50), None)
    inputs, targets = examples.inputs.tolist(), examples.targets.tolist()
    expected = [read_by_hand(i[40 - window : 40], t[40:], 6) for i, t in zip(inputs, targets, strict=True)]
    assert counting_oracle(examples, window) == pytest.approx(float(np.mean(expected)))
    assert (counting_oracle(examples, window) == 1) == (window == 40)


def test_the_oracle_at_small_scale() -> None:
    """Compares with an independent prototype: the continuous memory of the paper has to beat these."""
    examples = SortingData(4, length=246, symbols=10).examples("test", np.arange(256), None)
    result = [counting_oracle(examples, window) for window in (22, 54, 86, 118, 246, 1_000)]
    assert result == pytest.approx([0.41, 0.46, 0.51, 0.55, 1, 1], abs=0.02)
    with pytest.raises(UserError, match="not 0"):
        counting_oracle(examples, 0)


RECIPE = PROJECT / "configs" / "infinity-former" / "sorting.yaml"
LENGTHS = (236, 460, 908)  # of the three bars


def test_the_oracle_beside_the_rows_of_the_small_scale() -> None:
    """The table in the comment of the recipe's scale, recomputed."""
    text = RECIPE.read_text(encoding="utf-8")
    rows = [line.split() for line in text.splitlines() if re.match(r" +#   \d+:", line)]
    table = {int(words[1][:-1]): [float(word) for word in words[-3:]] for words in rows}
    assert sorted(table) == [12, 44, 108, 204, 320, 908]
    for place, (row, length) in enumerate(zip((4000, 8000, 16000), LENGTHS, strict=True)):
        recipe = load_recipe(f"infinity-former/sorting@infinity-former-{row}", "cpu")
        module = SortingData(**recipe.config["data"]["init_args"])
        segment = recipe.config["model"]["init_args"]["segment"]
        assert module.seq_len - module.n_targets == length
        assert length - last_segment(module.seq_len, segment) == 12
        examples = module.examples("test", np.arange(module.size("test")), None)
        for window, output in table.items():
            assert round(100 * counting_oracle(examples, window), 1) == output[place], (length, window)
    guess = 100 * sum(1 / left for left in range(1, 11)) / 10
    assert f"a guess has {guess:.1f}" in text


ROWS = [(e, s) for e in experiments() if e.startswith("infinity-former/sorting@") for s in scales_of(e)]


@pytest.mark.parametrize(("experiment", "scale"), ROWS)
def test_the_last_segment_of_every_row_holds_its_answers(experiment: str, scale: str) -> None:
    recipe = load_recipe(experiment, scale)
    examples = SortingData(**recipe.config["data"]["init_args"]).examples("test", np.arange(1), None)
    require_scored_last(examples, recipe.config["model"]["init_args"]["segment"])


@pytest.mark.parametrize("settings", [{"length": 0}, {"symbols": 1}, {"train_examples": 0}])
def test_sequences_that_cannot_be(settings: dict[str, int]) -> None:
    name, value = next(iter(settings.items()))
    with pytest.raises(UserError, match=f"{name} .*{value}"):
        SortingData(4, **settings)
