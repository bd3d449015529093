"""Recipes made so small that a test can train them: widths, depths, lengths, vocabularies, corpora, updates."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from repro.data.prepare import prepare
from repro.recipe import Config, Recipe, load_recipe
from tests.data.dialogue_folder import write_folder as write_dialogues
from tests.data.picture_files import small_store
from tests.data.speech_folder import write_folder
from tests.data.treebank_folder import write_lines
from tests.workshop import STORE

SIZES: dict[str, Any] = {
    "d_model": 8,
    "d_head": 4,
    "d_ff": 16,
    "n_heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "n_layers": 1,
    "chunk": 4,
    "loss_chunk": 4,
    "buckets": 4,
    "n_mixtures": 2,
    "shape": [2, 4],
    "widths": [2, 6],
    "batches": 2,
}
LENGTHS = (
    "seq_len", "stride", "mem_len", "clamp_len", "context", "max_distance", "max_length", "block", "forget_after",
)  # fmt: skip
SEQ_LEN = 8
BATCH_TOKENS = 840  # a multiple of every length up to 8
BYTES, SENTENCES = "books/bytes", "lm1b/words-min3"


def make_texts(folder: Path) -> None:
    """Writes a data folder with a text in bytes, one in sentences of words, pictures, proteins and recordings."""
    chance = random.Random(0)
    words = [chance.choice("bdklmnprst") + chance.choice("aeiou") for _ in range(60)]

    def lines(n: int) -> str:
        return "".join(f"{' '.join(chance.choices(words, k=chance.randint(3, 9)))}\n" for _ in range(n))

    books, news = folder / "raw" / "books", folder / "raw" / "lm1b"
    train, held = "training-monolingual.tokenized.shuffled", "heldout-monolingual.tokenized.shuffled"
    for path in (books, news / train, news / held):
        path.mkdir(parents=True)
    for name, n in (("train", 700), ("val", 24), ("test", 24)):
        (books / f"{name}.txt").write_text(lines(n))
    for shard in range(1, 100):
        (news / train / f"news.en-{shard:05}-of-00100").write_text(lines(4))
    for shard in range(2):
        (news / held / f"news.en.heldout-{shard:05}-of-00050").write_text(lines(30))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_DATA", str(folder))
        for store, raw in ((BYTES, books), (SENTENCES, news)):
            name, level = store.split("/")
            prepare(name, from_dir=raw, level=level, report=lambda line: None)
        for name in ("mnist", "cifar10"):
            small_store(patch, name, folder / "raw" / name)
        _make_proteins(folder / "raw" / "tape")
        prepare("wsj", from_dir=write_folder(folder / "raw" / "wsj"), report=lambda line: None)
        trees = write_lines(folder / "raw" / "trees")
        prepare("wsj-trees", from_dir=trees, vocab_size=300, report=lambda line: None)
        talks = write_dialogues(patch, folder / "raw" / "dialogues")
        prepare("cmu-dog", from_dir=talks, vocab_size=270, report=lambda line: None)


def _make_proteins(folder: Path) -> None:
    folder.mkdir()
    for split in ("train", "valid", "test_fold_holdout"):
        records = [{"primary": "GCTVEDRCLIG"[: 3 + n], "fold_label": n} for n in range(8)]
        (folder / f"remote_homology_{split}.json").write_text(json.dumps(records))
    prepare("remote-homology", from_dir=folder, report=lambda line: None)


def shrunk(experiment: str, scale: str, data_folder: Path) -> Recipe:
    """A recipe with its widths, depths, lengths, corpus and updates made tiny; everything else stays.

    Args:
        experiment: its name.
        scale: one of its scales.
        data_folder: made by :func:`make_texts`.
    """
    recipe = load_recipe(experiment, scale)
    config = recipe.config
    config["trainer"] |= {"max_steps": 1, "val_check_interval": 1, "accelerator": "cpu"}
    config["checkpoints"] |= {"every_steps": 1, "average_last": 1}
    task = config["model"]["class_path"].removeprefix("repro.tasks.")
    if task == "LanguageModel":
        _language_model(config, data_folder)
    else:
        SHRINKERS[task](config)
    return recipe


def _translation(config: Config) -> None:
    _resize(config, SIZES | {"size": 300})
    config["model"]["init_args"] |= {"max_extra": 2}
    config["data"]["init_args"] |= {
        "store": STORE, "vocab_size": 300, "batch_tokens": 200, "val_split": "val", "test_split": "test",
        "source_language": "en", "target_language": "de",
    }  # fmt: skip


def _parsing(config: Config) -> None:
    """A few sentences with their trees."""
    _resize(config, SIZES | {"size": 300})
    config["model"]["init_args"] |= {"max_extra": 2, "beam": 3}
    config["data"]["init_args"] |= {"store": "wsj-trees", "vocab_size": 300, "batch_tokens": 200}


def _classification(config: Config) -> None:
    """A narrow body without weights from elsewhere, a handful of examples."""
    for origin in ("pretrained", "start_from", "start_with"):
        config.pop(origin, None)
    net = config["model"]["init_args"]["net"]["init_args"]
    depth = 2 if net["body"]["class_path"] == "repro.models.Recurrent" else 1
    heads = {} if depth == 2 else {"n_heads": 2}
    given = net["body"].get("init_args", {})
    net["body"]["init_args"] = {**given, "d_model": 8, "n_layers": depth, **heads}
    data = config["data"]["init_args"]
    data |= {"batch_size": 4}
    kind = config["data"]["class_path"].removeprefix("repro.data.")
    if kind == "BitXorData":
        data |= {"bits": 2}
        net["n_read"] = 2
    if kind == "BitMemoryData":
        data |= {"bits": 8, "patch": 4, "train_examples": 8, "eval_examples": 6}
        net["n_read"], net["per_token"] = 2, 4
        net["input"]["init_args"]["size"] = 4
    if kind == "PatchData":
        data |= {"val_examples": 3}
    if kind == "ListOpsData":
        rules = {"max_depth": 3, "max_args": 3, "min_length": 4, "max_length": 40}
        data |= {"store": {"train": 20, "held_out": 4, "rules": rules}, "max_length": 40}
    config["model"]["init_args"]["sampled"] = {"batches": 2, "rows": 3}
    if "train_limit" in config["model"]["init_args"]:
        config["model"]["init_args"]["train_limit"] = 5


def _sequence_model(config: Config) -> None:
    """Puzzles of a few symbols."""
    symbols, length = 5, 16
    data = {"batch_size": 4, "length": length, "symbols": symbols, "train_examples": 8, "eval_examples": 6}
    copying = config["data"]["class_path"] == "repro.data.CopyData"
    config["data"]["init_args"] = data | ({"shortest": 3, "longest": 6} if copying else {})
    size = symbols + (2 if config["data"]["class_path"] == "repro.data.SortingData" else 1)
    segments = {"segment": 8, "mem_len": 8, "compressed_len": 4, "block": 8}
    _resize(config["model"], SIZES | segments | {"size": size, "max_length": length, "width": 4})


def _picture_model(config: Config) -> None:
    """Small pictures, few of them, of which a few values are drawn."""
    _resize(config["model"], SIZES | {"width": 4, "images": 2, "shape": [28, 28]})
    if config["model"]["init_args"]["drawn"]:
        config["model"]["init_args"]["drawn"] = 1
    for timing in config["model"]["init_args"]["timings"].values():
        timing["values"] = 8
    data = config["data"]["init_args"] | {"batch_size": 2}
    noise = config["data"]["class_path"] == "repro.data.NoisePixelData"
    own = {"shape": [4, 4, 1], "examples": 2} if noise else {"store": "mnist", "val_examples": 3}
    config["data"]["init_args"] = data | own


def _transcription(config: Config) -> None:
    """Recordings of a second, of 3 phonemes."""
    _resize(config["model"], SIZES | {"n_classes": 4})
    data = {"batch_size": 2, "phonemes": 3}
    if config["data"]["class_path"] == "repro.data.AlignmentData":
        data |= {"shortest": 1, "longest": 3, "train_examples": 4, "eval_examples": 3}
    config["data"]["init_args"] = data


def _scaling(config: Config) -> None:
    """Short lengths in place of long ones; others stay, since they are in the names of what is measured."""
    _resize(config, SIZES | {"width": 8})
    settings = config["model"]["init_args"]
    if settings.get("longest", 65536) > 4096:
        settings |= {"shortest": 4, "longest": 16}
    settings |= {"tokens": settings["longest"], "repeats": 1}


def _slowdown(config: Config) -> None:
    """One layer, a token of each turn. The lengths stay: they are in the names of what is measured."""
    settings = config["model"]["init_args"]
    models = [settings[side]["init_args"] for side in ("net", "against")]
    width = max(_shrink_vocabulary(model["vocabulary"], 5) for model in models)
    _resize(config["model"], SIZES | {"d_model": width})
    settings |= {"tokens": 1, "windows": 1, "repeats": 1}


def _layer_costs(config: Config) -> None:
    sizes = [4, 8, 16, 32]
    config["model"]["init_args"] |= {
        "width": 8,
        "length": 8,
        "lengths": sizes,
        "widths": sizes,
        "depths": sizes,
    }
    config["data"]["init_args"] |= {"width": 8}


def _output_change(config: Config) -> None:
    """Three layers, one draw."""
    _resize(config, SIZES | {"n_layers": 3, "width": 8})
    config["model"]["init_args"] |= {"depths": [1, 2, 3], "fitted_from": 1, "draws": 1, "length": 4}


def _language_model(config: Config, data_folder: Path) -> None:
    config.pop("pretrained", None)
    data, vocabulary = (
        config["data"]["init_args"],
        config["model"]["init_args"]["net"]["init_args"]["vocabulary"],
    )
    if config["data"]["class_path"] == "repro.data.EchoData":
        data |= {"train_tokens": 4000, "eval_tokens": 400}
    else:
        store = SENTENCES if data.get("order") == "sentences" else BYTES
        manifest = json.loads((data_folder / store / "manifest.json").read_text())
        data |= {"store": store, "vocab_size": manifest["tokenizer"]["size"]}
    width = _shrink_vocabulary(vocabulary, data["vocab_size"])
    _shorten(config, data["seq_len"] / SEQ_LEN)
    _resize(config, SIZES | {"d_model": width})
    data["batch_tokens"] = BATCH_TOKENS


def _shrink_vocabulary(vocabulary: Any, size: int) -> int:
    """Sets the number of symbols and its parts; returns a width of the model that the narrowest part divides."""
    made = vocabulary["init_args"]
    made["size"] = size
    if "cutoffs" in made:
        parts = len(made["cutoffs"]) + 1
        made["cutoffs"] = [size * part // parts for part in range(1, parts)]
    return max(SIZES["d_model"], made.get("div_value", 1) ** len(made.get("cutoffs", [])))


def _shorten(node: Any, ratio: float) -> None:
    """Divides every length, so that their proportions stay; 0 stays 0."""
    for key, value in _items(node):
        if key in LENGTHS and isinstance(value, int):
            node[key] = -int(-value // ratio)
        else:
            _shorten(value, ratio)


def _resize(node: Any, sizes: dict[str, Any]) -> None:
    for key, value in _items(node):
        if key == "signal":  # of a continuous memory: its widths are shares of 1
            node[key] = value | {"basis": 8, "samples": 6}
        elif key in sizes and type(value) is type(sizes[key]):
            node[key] = sizes[key]
        else:
            _resize(value, sizes)


def _items(node: Any) -> list[tuple[Any, Any]]:
    if isinstance(node, dict):
        return list(node.items())
    return list(enumerate(node)) if isinstance(node, list) else []


def _dialogue_model(config: Config) -> None:
    """Conversations of a few words about short documents, from a small store or generated."""
    config.pop("pretrained", None)
    generated = config["data"]["class_path"] == "repro.data.GeneratedDialogueData"
    names = ("sections", "section_words", "topics", "topic_words", "questions", "answer_words")
    talk = dict(zip(names, (2, 5, 3, 2, 2, 2), strict=True))
    own = {"talk": talk, "train_examples": 8, "eval_examples": 3}
    if not generated:
        own = {"store": "cmu-dog/bpe270", "vocab_size": 273}
    config["data"]["init_args"] |= {"batch_size": 2, "window": 8, **own}
    size = {"size": 15 if generated else 273, "max_length": 16, "block": 8, "compressed_len": 4}
    _resize(config["model"], SIZES | size)
    config["model"]["init_args"]["generation"] |= {"max_new": 3, "history": 1, "synonyms": False}


SHRINKERS = {
    "Translation": _translation,
    "Parsing": _parsing,
    "Classification": _classification,
    "SequenceModel": _sequence_model,
    "DialogueModel": _dialogue_model,
    "PictureModel": _picture_model,
    "Transcription": _transcription,
    "Scaling": _scaling,
    "OutputChange": _output_change,
    "LayerCosts": _layer_costs,
    "Slowdown": _slowdown,
}
