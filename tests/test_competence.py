"""Baselines of competence: n-grams against their definition, guesses against sums, and the committed levels."""

import json
import math
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from benchmarks import competence, levels
from benchmarks.ngrams import KneserNey, discounts_of, windows
from repro.batches import Evaluation, TextCut
from repro.data import (
    BitMemoryData,
    BitXorData,
    CopyData,
    DuplicationData,
    EchoData,
    GeneratedDialogueData,
    SortingData,
    StreamData,
)

FILE = Path(__file__).parents[1] / "results" / competence.FILE
KEYS = {
    "data", "setting", "split", "measured", "metric", "better", "method", "value", "items", "data_sha256", "source",
}  # fmt: skip


# --- n-grams --------------------------------------------------------------------------------------------------------


def discount(counts: Counter[tuple[int, ...]], count: int) -> float:
    """Equation 26 of Chen and Goodman, or 0.5."""
    n = [sum(c == expected for c in counts.values()) for expected in (1, 2, 3, 4)]
    if not all(n):
        return 0.5
    y = n[0] / (n[0] + 2 * n[1])
    result = [k - (k + 1) * y * n[k] / n[k - 1] for k in (1, 2, 3)]
    return result[min(count, 3) - 1] if min(result) > 0 else 0.5


def probability(rows: list[tuple[int, ...]], context: tuple[int, ...], symbol: int, size: int) -> float:
    """The definition, as a recursion over rows, without any table kept."""
    longest = len(rows[0]) - 1

    def at(length: int) -> float:
        if length < 0:
            return 1 / size
        if length == longest:
            counts = Counter(rows)
        else:
            counts = Counter(gram[1:] for gram in {row[longest - length - 1 :] for row in rows})
        behind = {g: c for g, c in counts.items() if g[:-1] == context[longest - length :]}
        if not behind:
            return at(length - 1)
        total, freed = sum(behind.values()), sum(discount(counts, c) for c in behind.values())
        count = behind.get((*context[longest - length :], symbol), 0)
        kept = count - discount(counts, count) if count else 0.0
        return (kept + freed * at(length - 1)) / total

    return at(longest)


@pytest.mark.parametrize(("size", "length", "n"), [(3, 40, 3), (5, 300, 2), (12, 400, 4), (2, 9, 1)])
def test_ngrams_agree_with_the_definition_and_sum_to_one(size: int, length: int, n: int) -> None:
    random = np.random.default_rng(size)
    weights = random.dirichlet(np.full(size, 0.5))
    train, test = (random.choice(size, m, p=weights) for m in (length, 15))
    rows = windows(train, n, size)
    model = KneserNey(rows, size)
    known = [tuple(map(int, row)) for row in rows]
    for row in windows(test, n, size):
        context = tuple(map(int, row[:-1]))
        all_symbols = np.array([(*context, symbol) for symbol in range(size)])
        expected = [probability(known, context, symbol, size) for symbol in range(size)]
        np.testing.assert_allclose(2.0 ** -model.bits(all_symbols), expected, rtol=1e-12)
        assert sum(expected) == pytest.approx(1)


def test_discounts_follow_the_formula_or_are_a_half() -> None:
    assert discounts_of(np.array([1, 2, 2])).tolist() == [0, 0.5, 0.5, 0.5]
    counts = np.repeat([1, 2, 3, 4, 9], [5, 3, 2, 1, 1])
    y = 5 / (5 + 2 * 3)
    expected = [0, 1 - 2 * y * 3 / 5, 2 - 3 * y * 2 / 3, 3 - 4 * y * 1 / 2]
    np.testing.assert_allclose(discounts_of(counts), expected)


def test_windows_are_padded_in_front() -> None:
    assert windows(np.array([3, 4, 5]), 3, 9).tolist() == [[9, 9, 3], [9, 3, 4], [3, 4, 5]]


# --- what is scored -------------------------------------------------------------------------------------------------


class Numbers(StreamData):
    """A text whose tokens are their own places."""

    store_name, vocab_size, manifest_sha256 = "numbers", 50, ""

    def tokens(self, split: str) -> Any:
        return np.arange(50)

    def documents(self, split: str) -> Any:
        return np.array([0, 20, 50])


@pytest.mark.parametrize(
    "cut",
    [TextCut(8), TextCut(8, rows=4), TextCut(8, stride=3, rows=2), TextCut(8, rows=2, tokens=21),
     TextCut(8, rows=3, documents=True)],
)  # fmt: skip
def test_the_scored_places_are_those_of_the_batches(cut: TextCut) -> None:
    data, evaluation = Numbers(16, 8), Evaluation("test", selection=cut)
    targets = [
        int(t) for batch in data.evaluation_loader(evaluation) for t in batch.targets.flatten() if t >= 0
    ]
    assert levels.scored(data, evaluation).tolist() == sorted(targets)


def test_a_context_of_a_sentence_begins_with_it() -> None:
    table = SimpleNamespace(columns=[None, (np.array([5, 6, 7]), np.array([0, 2, 3]))])
    data = SimpleNamespace(
        table=lambda split: table, split=str, vocab_size=8, tokenizer=SimpleNamespace(eos_id=2)
    )
    rows = levels.sentences(data, "test", 3)
    assert rows.tolist() == [[8, 8, 5], [8, 5, 6], [5, 6, 2], [8, 8, 7], [8, 7, 2]]


def test_neighbours_of_pixels() -> None:
    rows = levels.neighbours(np.arange(1, 7).reshape(1, 2, 3))
    above_left, above_right, above, left, pixel = range(5)
    assert rows[:, pixel].tolist() == [2, 3, 4, 5, 6]
    assert rows[:, left].tolist() == [1, 2, 0, 4, 5]
    assert rows[:, above].tolist() == [0, 0, 1, 2, 3]
    assert rows[:, above_left].tolist() == [0, 0, 0, 1, 2]
    assert rows[:, above_right].tolist() == [0, 0, 2, 3, 0]


def test_turns_are_scored_behind_their_inputs() -> None:
    data = GeneratedDialogueData(2, eval_examples=3)
    result = levels.examples(data, "test")
    rows = levels.turns(data, "test", 2)
    places = (result.targets >= 0).nonzero()
    assert rows[:, 1].tolist() == result.targets[result.targets >= 0].tolist()
    assert rows[:, 0].tolist() == [int(result.inputs[i, j]) for i, j in places]


def test_compressors_count_bits_of_each_symbol() -> None:
    random = np.random.default_rng(1).integers(0, 4, 20_000)
    result = {
        level.method: level for level in levels.compressors("bpb", [65, 66, 67, 68], random, random, 5000)
    }
    alone, behind = result[f"xz -9e, {levels.ALONE}"], result["xz -9e, after the training text"]
    assert alone.items == 20_000
    assert 2 < alone.value < 2.6  # random symbols of 2 bits
    assert behind.items == 5_000
    assert behind.value < 0.1  # seen before


# --- classes and guesses --------------------------------------------------------------------------------------------


def values(found: Sequence[levels.Level] | Any) -> dict[tuple[str, str], float]:
    return {(level.metric, level.method): level.value for level in found}


def test_classes_of_pictures() -> None:
    images = np.array([[0, 0], [2, 0], [9, 9], [0, 1], [9, 8]], np.uint8).reshape(5, 1, 2, 1)
    labels = np.array([0, 0, 1, 1, 1], np.uint8)
    data = SimpleNamespace(
        split=str,
        size=lambda split: 5,
        n_classes=2,
        pictures=lambda split: lambda which, epoch: (images[which], labels[which]),
    )
    result = values(levels.picture_classes(None, data))
    assert result == {("accuracy", "majority class"): 60.0, ("accuracy", "nearest mean of a class"): 80.0}


def test_guesses_of_puzzles() -> None:
    symbols = 4
    copied = CopyData(2, length=20, shortest=3, longest=9, symbols=symbols, eval_examples=50)
    lengths = copied.lengths("test", np.arange(50), None)
    result = values(levels.copying(None, copied))
    assert result["accuracy", "guess"] == pytest.approx(
        100 * (50 + lengths.sum() / symbols) / (lengths + 1).sum()
    )
    assert result["loss", "guess"] == pytest.approx(math.log(symbols) * lengths.sum() / (lengths + 1).sum())

    result = values(levels.duplication(None, DuplicationData(2, length=10, symbols=5, eval_examples=3)))
    assert result == {("accuracy", "guess"): pytest.approx(20), ("loss", "guess"): pytest.approx(math.log(5))}

    task = SimpleNamespace(tests=lambda: [Evaluation("test", selection=TextCut(8))])
    result = values(levels.echo(task, EchoData(16, 32, 8)))
    assert result == {("accuracy", "guess"): pytest.approx(6.25), ("ppl", "guess"): pytest.approx(16)}


def test_guesses_of_bits() -> None:
    result = values(levels.bit_memory(None, BitMemoryData(2, bits=40, patch=10, eval_examples=500)))
    assert result["accuracy", "copy what is shown, guess the rest"] == pytest.approx(75, abs=0.5)
    assert result["accuracy_hidden", "guess"] == 50
    assert values(levels.bit_xor(None, BitXorData(2))) == {("accuracy", "majority class"): 50.0}


def test_sorting_without_its_order() -> None:
    data = SortingData(2, length=20, symbols=4, eval_examples=300)
    result = values(levels.sorting(SimpleNamespace(segment=16), data))
    assert result["accuracy", "guess"] == pytest.approx(100 * (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert result["loss", "guess"] == pytest.approx(math.log(math.factorial(4)) / 4)
    # by the symbols that are left and their numbers alone
    targets = levels.examples(data, "test").targets.numpy()[:, 20:]
    least = np.array([row[k:].min() == row[k] for row in targets for k in range(4)])
    assert 100 * least.mean() == pytest.approx(result["accuracy", "guess"], abs=5)
    assert (
        result["accuracy", "guess"] + 5 < result["accuracy", "count the 4 tokens of the last segment exactly"]
    )


# --- the committed file ---------------------------------------------------------------------------------------------


def rows() -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return result


def test_committed_levels_are_whole() -> None:
    for row in rows():
        assert row.keys() == KEYS
        assert row["better"] in ("lower", "higher")
        assert math.isfinite(row["value"])
        assert row["items"] is None or row["items"] > 0
        assert len(row["data_sha256"]) == 64
        assert (row["items"] is None) == row["method"].startswith("published: ")
    named = [(row["data"], row["setting"], row["measured"], row["method"]) for row in rows()]
    assert len(set(named)) == len(named)


@pytest.mark.slow
def test_committed_levels_cover_every_reduced_recipe() -> None:
    cases = competence.cases()
    assert {"multi30k/bpe4000", "wikitext-2/bytes", "ptb/words", "mnist", "copy", "sorting"} <= {
        case.key[0] for case in cases
    }
    covered = {(row["data"], row["setting"]) for row in rows()}
    missing = {case.key[:2] for case in cases} - covered
    assert not missing, "run `python -m benchmarks.competence`"


def test_only_what_the_file_lacks_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = {"data": "a", "setting": "", "metric": "percent", "method": "guess", "value": 1.0, "items": 3}
    new = {**old, "data": "b"}

    class Stub(NamedTuple):
        key: tuple[str, str, str]
        result: dict[str, object] | None

        def rows(self) -> list[dict[str, object]]:
            assert self.result is not None, "not computed again"
            return [self.result]

    (tmp_path / competence.FILE).write_text(json.dumps([old, {**old, "data": "gone"}]))
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["competence"])
    monkeypatch.setattr(competence, "cases", lambda: [Stub(("b", "", "B"), new), Stub(("a", "", "A"), None)])
    competence.main()
    assert json.loads((tmp_path / competence.FILE).read_text()) == [old, new]
    monkeypatch.setattr(sys, "argv", ["competence", "--again"])
    monkeypatch.setattr(competence, "cases", lambda: [Stub(("a", "", "A"), {**old, "value": 2.0})])
    competence.main()
    assert json.loads((tmp_path / competence.FILE).read_text()) == [{**old, "value": 2.0}]
