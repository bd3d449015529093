"""Parts of a recipe that are each right and do not fit each other."""

import contextlib
from functools import partial
from typing import Any

import pytest
import torch

from repro.data import (
    AlignmentData,
    BitMemoryData,
    BitXorData,
    DuplicationData,
    ExampleData,
    PixelData,
    Stage,
    TextData,
)
from repro.errors import UserError
from repro.experiment.build import build, build_task, check_examples, check_together
from repro.models import Body, Classifier, DecoderLM, Gpt2, Transcriber
from repro.nn import (
    Added,
    AxialPositions,
    BidirectionalLSTM,
    Blocks,
    FeedForward,
    FullAttention,
    LearnedPositions,
    PixelVocabulary,
    Plain,
    PreNorm,
    VectorEmbedding,
    Vocabulary,
)
from repro.recipe import Recipe, load_recipe
from repro.tasks import Constant, LanguageModel, Protocol, SequenceModel, Task
from tests.workshop import RECIPE, TINY, Workshop

DATA: dict[str, Any] = {"batch_size": 2, "bits": 8, "patch": 4}


def classifier(
    size: int = 4, n_classes: int = 2, n_read: int = 2, per_token: int = 4, longest: int = 12
) -> Classifier:
    body = Gpt2(d_model=8, n_layers=1, n_heads=2, max_length=longest)
    return Classifier(lambda width: VectorEmbedding(width, size), body, n_classes, n_read, per_token)


def test_parts_that_fit() -> None:
    check_examples(classifier(), BitMemoryData(**DATA))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": 3}, "input.init_args.size is 3, the data has 4 values of an input token"),
        ({"n_classes": 3}, "n_classes is 3, the data has 2 classes"),
        ({"n_read": 1}, "n_read x per_token is 4, the data has 8 targets of an example"),
        ({"longest": 11}, "examples have 12 tokens, the network learns 11 positions only"),
    ],
)
def test_parts_that_do_not_fit_are_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_examples(classifier(**wrong), BitMemoryData(**DATA))


def test_more_tokens_read_than_there_are() -> None:
    with pytest.raises(ValueError, match=r"n_read 5.*2"):
        check_examples(classifier(size=1, n_read=5, per_token=1), _Short(batch_size=2, bits=1))


class _Short(BitXorData):
    def __init__(self, batch_size: int, bits: int) -> None:
        super().__init__(batch_size, bits)
        self.n_targets = 5


def transcriber(size: int = 40, n_classes: int = 4, longest: int = 40) -> Transcriber:
    blocks = Blocks([BidirectionalLSTM], feed_forward=None, sublayer=partial(Plain, dropout=0.0))
    learned = partial(Added, table=partial(LearnedPositions, max_length=longest))
    body = Body(8, 1, blocks, learned, causal=False, dropout=0.0)
    return Transcriber(partial(VectorEmbedding, size=size), body, n_classes)


def test_a_transcriber_and_recordings() -> None:
    """The recordings have at most 4 phonemes of at most 8 frames, each after 2 frames of silence."""
    data = AlignmentData(2, phonemes=3, shortest=2, longest=4)
    check_examples(transcriber(), data)
    for wrong, output in (
        ({"size": 39}, "input.init_args.size is 39, the data has 40 values of an input token"),
        ({"n_classes": 3}, "n_classes is 3, the data has 4 classes"),
        ({"longest": 39}, "examples have 40 tokens, the network learns 39 positions only"),
    ):
        with pytest.raises(ValueError, match=output):
            check_examples(transcriber(**wrong), data)


def decoder(table: Any, vocabulary: Any) -> Task:
    blocks = Blocks(
        [partial(FullAttention, n_heads=2)], partial(FeedForward, d_ff=8), partial(PreNorm, dropout=0.0)
    )
    net = DecoderLM(4, 1, vocabulary, blocks, partial(Added, table=table))
    return SequenceModel(net, partial(torch.optim.SGD, lr=0.1), Constant)


def axial(length: int) -> Any:
    return partial(AxialPositions, shape=[length // 4, 4], widths=[2, 2])


PUZZLES, PICTURES = DuplicationData(2, length=12, symbols=4), PixelData("mnist", 2)
SYMBOLS, LEVELS = partial(Vocabulary, size=5), PixelVocabulary


@pytest.mark.parametrize(("data", "vocabulary", "longest"), [(PUZZLES, SYMBOLS, 12), (PICTURES, LEVELS, 784)])
def test_positions_of_whole_examples(data: ExampleData, vocabulary: Any, longest: int) -> None:
    for fits in (axial(longest), partial(LearnedPositions, max_length=data.seq_len)):
        check_together(decoder(fits, vocabulary), data)
    short = data.seq_len - 1
    for table, there in (
        (axial(longest - 4), longest - 4),
        (partial(LearnedPositions, max_length=short), short),
    ):
        with pytest.raises(ValueError, match=rf"{data.seq_len} tokens,.*learns {there} positions"):
            check_together(decoder(table, vocabulary), data)


def test_positions_of_rows_in_training() -> None:
    for lengths in ({"seq_len": 9}, {"seq_len": 4, "stages": [Stage(1, 9)]}):
        data = TextData("wikitext-2", 5, 36, **lengths)
        made = decoder(partial(LearnedPositions, max_length=8), SYMBOLS)
        task = LanguageModel(made.net, made.optimizer_maker, made.schedule_maker, Protocol(seq_len=8))
        with pytest.raises(
            ValueError,
            match=r"rows have up to 9 tokens, the network learns 8 positions only; set data\.seq_len",
        ):
            check_together(task, data)


@pytest.mark.parametrize(("data", "stored"), [(PUZZLES, 5), (PICTURES, 256)])
def test_a_vocabulary_of_another_size_than_that_of_examples(data: ExampleData, stored: int) -> None:
    task = decoder(partial(LearnedPositions, max_length=784), partial(Vocabulary, size=6))
    with pytest.raises(ValueError, match=rf"has 6.*{stored};.*vocabulary.init_args.size to {stored}$"):
        check_together(task, data)


def test_a_language_that_cannot_be_scored_is_refused_before_training(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    workshop.recipe(RECIPE)
    for language in ("ja", "de"):
        recipe = load_recipe(TINY, "cpu", [("data.target_language", language)])
        refused = pytest.raises(UserError, match=r"target_language ja: .* pip install sacrebleu\[ja\]$")
        with refused if language == "ja" else contextlib.nullcontext():
            build(recipe, meta=True)


def test_a_recipe_says_it_in_one_line() -> None:
    net = {
        "class_path": "repro.models.Classifier",
        "init_args": {
            "input": {"class_path": "repro.nn.VectorEmbedding", "init_args": {"size": 1}},
            "body": {
                "class_path": "repro.models.Gpt2",
                "init_args": {"d_model": 8, "n_layers": 1, "n_heads": 2},
            },
            "n_classes": 2,
            "n_read": 4,
        },
    }
    model = {
        "class_path": "repro.tasks.Classification",
        "init_args": {"net": net, "optimizer": "torch.optim.Adam", "schedule": "repro.tasks.Constant"},
    }
    data = {"class_path": "repro.data.BitXorData", "init_args": {"batch_size": 2}}
    config = {"trainer": {"max_steps": 1}, "model": model, "data": data}
    with pytest.raises(UserError, match=r"^p/r \(paper\):.*n_read x per_token is 4,.*5 targets"):
        build(Recipe("p/r", "paper", config), meta=True)


@pytest.mark.parametrize("section", ["model", "data"])
def test_a_recipe_without_a_section_is_refused_in_one_line(workshop: Workshop, section: str) -> None:
    recipe = load_recipe(TINY, "cpu")
    del recipe.config[section]
    with pytest.raises(UserError, match=f"{TINY} has no section {section}; a recipe needs it"):
        build(recipe, meta=True)


def test_hashings_without_hashing_are_said_in_one_line() -> None:
    net = {
        "class_path": "repro.models.DecoderLM",
        "init_args": {
            "d_model": 8,
            "n_layers": 1,
            "vocabulary": {"class_path": "repro.nn.Vocabulary", "init_args": {"size": 5}},
            "blocks": {
                "mixers": [{"class_path": "repro.nn.FullAttention", "init_args": {"n_heads": 2}}],
                "feed_forward": {"class_path": "repro.nn.FeedForward", "init_args": {"d_ff": 8}},
                "sublayer": {"class_path": "repro.nn.PreNorm", "init_args": {"dropout": 0.0}},
            },
        },
    }
    model = {
        "class_path": "repro.tasks.SequenceModel",
        "init_args": {
            "net": net, "optimizer": "torch.optim.Adam", "schedule": "repro.tasks.Constant",
            "hashings": {"lsh1": {"rounds": 1}},
        },
    }  # fmt: skip
    data = {"class_path": "repro.data.DuplicationData", "init_args": {"batch_size": 2, "symbols": 4}}
    config = {"trainer": {"max_steps": 1}, "model": model, "data": data}
    with pytest.raises(UserError, match=r"^p/r \(paper\)") as caught:
        build(Recipe("p/r", "paper", config), meta=True)
    assert "\n" not in str(caught.value)


def test_a_schedule_of_as_many_updates_as_there_are_is_built(workshop: Workshop) -> None:
    """Some of torch's refuse a step behind their last."""
    cycle = {
        "class_path": "torch.optim.lr_scheduler.OneCycleLR",
        "init_args": {"max_lr": 0.1, "total_steps": 1},
    }
    assert build_task(load_recipe(TINY, "cpu", [("model.schedule", cycle)]))
