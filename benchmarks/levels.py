"""Scores of simple methods for each kind of data: what :mod:`benchmarks.competence` writes."""

import bz2
import lzma
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.ngrams import Ints, KneserNey, windows
from repro.batches import Evaluation, Examples
from repro.data.core.stream_data import StreamData
from repro.data.sets.puzzles.sorting import by_frequency
from repro.errors import at_least
from repro.tasks.language.language_model import IN_BITS
from repro.tasks.metrics.bleu import bleu
from repro.tasks.metrics.brackets import compare, score
from repro.tasks.metrics.rebuilding import rebuild
from repro.tasks.sequence_model import last_segment
from repro.trees import read_parses

BYTES, WORDS = 6, 5  # length of n-grams
PICTURES = 10_000  # to learn from, for the model of a pixel behind its neighbours
NEIGHBOURS = ((1, 1), (1, -1), (1, 0), (0, 1))  # rows up and columns left of a pixel, the nearest last
ALONE, GUESS, SMOOTHED = "the whole split alone", "guess", "interpolated modified Kneser-Ney"


class Level(NamedTuple):
    """The score of a simple method.

    Attributes:
        metric: as the task calls it, ``bpb``.
        method: in words.
        value: the score.
        items: how many were scored; None where a publication does not say.
        source: of a published value; of a BLEU its signature.
    """

    metric: str
    method: str
    value: float
    items: int | None
    source: str | None = None


# --- text -----------------------------------------------------------------------------------------------------------


def text(task: Any, data: Any) -> Iterator[Level]:
    """n-gram models of the training text; compressors, too, for bytes and characters."""
    train, test = (np.asarray(data.tokens(data.split(kind))) for kind in ("train", "test"))
    places, metric = scored(data, task.tests()[0]), IN_BITS.get(task.token_unit, "ppl")
    for n in (1, WORDS if metric == "ppl" else BYTES):
        model = KneserNey(windows(train, n, data.vocab_size), data.vocab_size)
        yield ngrams(metric, model, windows(test, n, data.vocab_size)[places])
    if metric != "ppl":
        yield from compressors(metric, data.tokenizer.symbols, train, test, int(places[-1]) + 1)


def scored(data: StreamData, evaluation: Evaluation) -> Ints:
    """The places of the tokens that an evaluation scores, in the order of the text."""
    planned = data.plan_evaluation(evaluation)
    found = [segment.targets[segment.counting(None)] + 1 for segment in planned]
    places = np.sort(np.concatenate(found))
    if len(places) != data.expected(evaluation)["tokens"]:
        raise RuntimeError(f"{len(places)} tokens of {data.store_name} found, which is not what is scored")
    return places


def ngrams(metric: str, model: KneserNey, rows: Ints) -> Level:
    """The score of an n-gram model, in bits or as a perplexity."""
    bits, n = float(model.bits(rows).mean()), rows.shape[1]
    method = "unigram" if n == 1 else f"{n}-gram, {SMOOTHED}"
    return Level(metric, method, 2**bits if metric == "ppl" else bits, len(rows))


def compressors(metric: str, symbols: list[Any], train: Ints, test: Ints, end: int) -> Iterator[Level]:
    """Compressed sizes in bits for each symbol: of the test split alone, and of its beginning after the training text.

    Args:
        metric: its name.
        symbols: the byte or character of each id.
        train: ids to learn from.
        test: ids of the whole split.
        end: the beginning has so many ids; the last of them is the last that is scored.
    """
    table = np.array([s if isinstance(s, int) else ord(s) for s in symbols], np.uint8)
    known, tested = (table[ids].tobytes() for ids in (train, test))
    yield Level(metric, f"xz -9e, {ALONE}", 8 * xz(tested) / len(tested), len(tested))
    yield Level(metric, f"bz2 -9, {ALONE}", 8 * len(bz2.compress(tested)) / len(tested), len(tested))
    added = xz(known + tested[:end]) - xz(known)
    yield Level(metric, "xz -9e, after the training text", 8 * added / end, end)


def xz(content: bytes) -> int:
    """The size that `xz -9e` leaves."""
    return len(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


# --- pairs ----------------------------------------------------------------------------------------------------------


def translation(task: Any, data: Any) -> Iterator[Level]:
    """BLEU of the source itself, and n-gram models of the target text, which do not see the source."""
    metric = "bleu_given" if data.variant == "given" else "bleu"
    sources, references = (lines(data.split("test")) for lines in (data.sources, data.references))
    value, signature = bleu(sources, references, metric, data.target_language)
    yield Level(metric, "copy the source", value, len(sources), f"sacreBLEU {signature}")
    for n in (1, WORDS):
        train, test = (sentences(data, kind, n) for kind in ("train", "test"))
        yield ngrams("ppl", KneserNey(train, data.vocab_size), test)


def sentences(data: Any, kind: str, n: int) -> Ints:
    """Rows of all target sentences, each with its end symbol; a context begins with the sentence."""
    tokens, offsets = data.table(data.split(kind)).columns[1]
    pad, end = data.vocab_size, data.tokenizer.eos_id
    ids = np.insert(np.asarray(tokens, np.int64), offsets[1:], end)
    ends = np.flatnonzero(ids == end) + 1
    padded = np.insert(ids, np.repeat(ends, n - 1), pad)
    return windows(padded, n, pad)[padded != pad]


def trees(task: Any, data: Any) -> Iterator[Level]:
    """The most frequent brackets of training sentences with as many words; no brackets where there are none."""
    seen: defaultdict[int, Counter[str]] = defaultdict(Counter)
    words = data.store.lines(data.split("train"), data.source_language)
    for line, row in zip(words, data.targets(data.split("train")), strict=True):
        seen[len(line.split())][row] += 1
    agreements = []
    for gold in read_parses(data.references(data.split("test")), "the test split"):
        usual = [row for row, _ in seen[len(gold.words)].most_common(1)]
        brackets = rebuild(" ".join(usual).split(), len(gold.words)).brackets
        agreements.append(compare(gold, gold._replace(brackets=brackets)))
    yield Level("f1", "most frequent tree for the length", score(agreements).f1, len(agreements))


# --- classes and pictures -------------------------------------------------------------------------------------------


def counting_oracle(examples: Examples, window: int) -> float:
    """Accuracy of counting the last tokens before the separator exactly, and nothing before them.

    As a model does, it reads the right answers so far: each of its own is the most frequent of the other symbols. Of
    equally frequent ones the first to occur among those tokens is said first, absent ones come last, by number.

    Args:
        examples: of :class:`Sorting`.
        window: how many tokens are counted; all where there are fewer.

    Returns:
        The share of right answers: 1 where all tokens are counted, and ``(1 + 1/2 + ... + 1/symbols) / symbols`` for a
        guess.

    Raises:
        UserError: a window below 1.
    """
    at_least(1, window=window)
    inputs, targets = examples.inputs.numpy(), examples.targets.numpy()
    symbols = int((targets >= 0).sum(1).max(initial=0))
    n = targets.shape[1] - symbols
    answers, ranks = targets[:, n:], np.argsort(by_frequency(inputs[:, max(0, n - window) : n], symbols))
    places = np.take_along_axis(ranks, answers, 1)  # where the reader would say each answer
    # right where none of the answers still to come would be said before
    ahead = np.minimum.accumulate(places[:, ::-1], 1)[:, ::-1]
    return float((places == ahead).mean())


def examples(data: Any, kind: str) -> Examples:
    """All examples of a split."""
    split = data.split(kind)
    return data.examples(split, np.arange(data.size(split)), None)


def right(method: str, said: Any, answers: Ints) -> Level:
    """The accuracy of some answers."""
    return Level("accuracy", method, 100 * float((answers == said).mean()), answers.size)


def usual(labels: Ints) -> int:
    """The most frequent class."""
    return int(np.bincount(labels.ravel()).argmax())


def picture_classes(task: Any, data: Any) -> Iterator[Level]:
    """The most frequent class of training pictures, and the class with the nearest mean of them."""
    (images, labels), (tested, answers) = (_labelled(data, kind) for kind in ("train", "test"))
    yield right("majority class", usual(labels), answers)
    means = np.stack([images[labels == label].mean(0) for label in range(data.n_classes)])
    distances = np.square(means).sum(1) - 2 * tested @ means.T
    yield right("nearest mean of a class", distances.argmin(1), answers)


def _labelled(data: Any, kind: str) -> tuple[Ints, Ints]:
    split = data.split(kind)
    images, labels = data.pictures(split)(np.arange(data.size(split)), None)
    return images.reshape(len(images), -1).astype(np.float32), labels.astype(np.int64)


def pixels(task: Any, data: Any) -> Iterator[Level]:
    """Models of a grey pixel alone and behind its neighbours, and a compressor; the first pixel is not counted.

    Raises:
        ValueError: pictures with colours, or whose first pixel is counted.
    """
    if data.whole or data.shape[-1] != 1:
        raise ValueError("levels of pixels are those of grey pictures without their first pixel")
    train, test = (data.pictures(data.split(kind)) for kind in ("train", "test"))
    count = min(PICTURES, len(train))
    known, tested = (some(np.arange(n)).images[..., 0] for some, n in ((train, count), (test, len(test))))
    rows, tested_rows = neighbours(known), neighbours(tested)
    for n, method in ((1, "histogram"), (1 + len(NEIGHBOURS), f"{len(NEIGHBOURS)} neighbours, {SMOOTHED}")):
        level = ngrams("bits_per_dim", KneserNey(rows[:, -n:], data.vocab_size), tested_rows[:, -n:])
        yield level._replace(method=f"{method}, {count} training pictures")
    values = len(tested_rows)
    yield Level("bits_per_dim", f"xz -9e, {ALONE}", 8 * xz(tested.tobytes()) / values, values)


def neighbours(images: Ints) -> Ints:
    """Rows of all pixels but the first of pictures ``(B, H, W)``, each behind its NEIGHBOURS; 0 outside."""
    _, height, width = images.shape
    padded = np.pad(images, ((0, 0), (1, 0), (1, 1)))
    shifted = [padded[:, 1 - up :, 1 - left :][:, :height, :width] for up, left in NEIGHBOURS]
    return np.stack([part.reshape(len(images), -1)[:, 1:].ravel() for part in (*shifted, images)], 1)


def list_operations(task: Any, data: Any) -> Iterator[Level]:
    """The most frequent value of training trees: of all, and of those with the same first operator."""
    (known, labels), (tested, answers) = (
        (found.inputs[:, 0].numpy(), found.targets[:, 0].numpy())
        for found in (examples(data, kind) for kind in ("train", "test"))
    )
    yield right("majority class", usual(labels), answers)
    said = {first: usual(labels[known == first]) for first in np.unique(known)}
    yield right("majority class for the first operator", np.array([said[first] for first in tested]), answers)


# --- generated tasks ------------------------------------------------------------------------------------------------


def bit_memory(task: Any, data: Any) -> Iterator[Level]:
    """The bits that are shown, and a guess of the others."""
    found = examples(data, "test")
    assert found.hidden is not None
    hidden, bits = int(found.hidden.sum()), found.targets.numel()
    yield Level("accuracy", "copy what is shown, guess the rest", 100 * (1 - hidden / bits / 2), bits)
    yield Level("accuracy_hidden", GUESS, 100 / 2, hidden)


def bit_xor(task: Any, data: Any) -> Iterator[Level]:
    """The most frequent bit."""
    targets = examples(data, "test").targets.numpy()
    yield right("majority class", usual(targets), targets)


def guesses(sizes: Ints) -> tuple[float, float]:
    """The expected accuracy in percent and the loss in nats of uniform guesses.

    Args:
        sizes: for each target, how many answers there are to guess from.
    """
    return float(100 * (1 / sizes).mean()), float(np.log(sizes).mean())


def guessed(sizes: Ints, likelihood: str = "loss") -> Iterator[Level]:
    """The two levels of uniform guesses; see :func:`guesses`."""
    accuracy, nats = guesses(sizes)
    yield Level("accuracy", GUESS, accuracy, sizes.size)
    yield Level(likelihood, GUESS, math.exp(nats) if likelihood == "ppl" else nats, sizes.size)


def copying(task: Any, data: Any) -> Iterator[Level]:
    """A guess of each symbol; the separator is known, since nothing else is scored in front of it."""
    targets = data.targets_of("test", np.arange(data.size("test")), None)
    sizes = np.full(targets.sum(), data.settings["symbols"])
    sizes[: len(targets)] = 1
    yield from guessed(sizes)


def duplication(task: Any, data: Any) -> Iterator[Level]:
    """A guess of each symbol."""
    yield from guessed(np.full(data.size("test") * data.n_targets, data.settings["symbols"]))


def sorting(task: Any, data: Any) -> Iterator[Level]:
    """A guess among the symbols that are left, and an exact count of the last segment's tokens."""
    n, symbols = data.settings["length"], data.settings["symbols"]
    yield from guessed(np.tile(np.arange(1, symbols + 1), data.size("test")))
    seen = n - last_segment(data.seq_len, task.segment)
    accuracy = 100 * counting_oracle(examples(data, "test"), seen)
    method = f"count the {seen} tokens of the last segment exactly"
    yield Level("accuracy", method, accuracy, data.size("test") * symbols)


def echo(task: Any, data: Any) -> Iterator[Level]:
    """A guess of each answer."""
    count = data.expected(task.tests()[0])["tokens"]
    yield from guessed(np.full(count, data.vocab_size), "ppl")


def dialogue(task: Any, data: Any) -> Iterator[Level]:
    """n-gram models of the words that are said."""
    for n in (1, WORDS):
        train, test = (turns(data, kind, n) for kind in ("train", "test"))
        yield ngrams("ppl", KneserNey(train, data.vocab_size), test)


def turns(data: Any, kind: str, n: int) -> Ints:
    """Rows of all targets that are scored in evaluation."""
    found = examples(data, kind)
    inputs, targets = found.inputs.numpy(), found.targets.numpy()
    whole = np.concatenate([inputs, targets[:, -1:]], 1)  # -1 at its end is not scored
    rows = [windows(np.maximum(row, 0), n, data.vocab_size)[1:] for row in whole]
    return np.concatenate(rows)[targets.ravel() >= 0]


def alignment(task: Any, data: Any) -> Iterator[Level]:
    """No phoneme at all: each is an error."""
    targets = examples(data, "test").targets
    yield Level("per", "say nothing", 100.0, int((targets >= 0).sum()))
