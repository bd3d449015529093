"""Recipes as tiny tasks with batches of any device: one of every shape, and no data store is read."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from repro.batches import Batch, ExampleBatch, Examples, PairBatch, StreamBatch
from repro.experiment.build import Parts
from repro.recipe import Config, Recipe, flatten, load_recipe
from tests.shrunk import BYTES, SENTENCES, shrunk

ROWS, STEPS, SOURCE, SYMBOLS = 3, 8, 9, 60
CPU = torch.device("cpu")


class Look(NamedTuple):
    """What the examples of a datamodule have; ids or vectors as inputs."""

    ids: bool = False
    lengths: bool = False
    hidden: bool = False
    scored: bool = False


LOOKS = {
    "AlignmentData": Look(lengths=True, scored=True),
    "BitMemoryData": Look(hidden=True),
    "BitXorData": Look(),
    "CopyData": Look(ids=True, scored=True),
    "DialogueData": Look(ids=True, lengths=True, scored=True),
    "DuplicationData": Look(ids=True, scored=True),
    "GeneratedDialogueData": Look(ids=True, lengths=True),
    "HomologyData": Look(ids=True, lengths=True),
    "ListOpsData": Look(ids=True, lengths=True),
    "NoiseData": Look(),
    "NoisePixelData": Look(ids=True),
    "PatchData": Look(),
    "PixelData": Look(ids=True),
    "SortingData": Look(ids=True, scored=True),
    "SpeechData": Look(lengths=True, scored=True),
}

# Settings of a model that decide no more than sizes, probabilities, updates and what follows the training.
_NUMBERS = re.compile(
    r".*init_args\.(optimizer|schedule|timings|sampled|generation)\b.*"
    r"|.*\.(unit|label_smoothing|beam|length_penalty|max_extra|train_limit|drawn|rows|lr|std|eps)"
    r"|.*\.(tokens|repeats|longest|shortest|memory|fitted_from|draws)"
    r"|.*\.(\w*dropout|d_model|d_head|d_value|d_ff|n_heads|\w+_layers|size|shape|widths|n_classes|n_read)"
)
_PROTOCOL = re.compile(r"protocols\.\w+\.")  # with the name that a recipe gives it


def look_of(class_path: str, settings: Config) -> Look:
    """What the examples of a datamodule have."""
    look = LOOKS[class_path.removeprefix("repro.data.")]
    return look._replace(lengths=look.lengths and settings.get("tokens") != "truncated")


def shape_of(recipe: Recipe) -> str:
    """What decides which code runs: classes, switches, which numbers are 0, and what a batch holds."""
    model, data = recipe.config["model"], recipe.config["data"]
    said = {
        (_PROTOCOL.sub("protocols.", key), str(signs(value)))
        for key, value in flatten(model).items()
        if not _NUMBERS.fullmatch(key)
    }
    given = data["init_args"]
    holds = (
        look_of(data["class_path"], given)
        if data["class_path"].removeprefix("repro.data.") in LOOKS
        else _scored(data["class_path"], given)
    )
    return json.dumps([sorted(said), holds])


def signs(value: Any) -> Any:
    """Whether numbers are above 0, those of a list once; everything else as it is."""
    if isinstance(value, list):
        return list(dict.fromkeys(map(signs, value)))
    return value > 0 if isinstance(value, int | float) and not isinstance(value, bool) else value


def one_of_each(every: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Experiments, each with a scale of its own, in groups of one shape."""
    found: dict[str, list[tuple[str, str]]] = {}
    for experiment, scale in every:
        found.setdefault(shape_of(load_recipe(experiment, scale)), []).append((experiment, scale))
    return list(found.values())


def write_sizes(folder: Path) -> None:
    """What :func:`tests.shrunk.shrunk` reads of a data folder: how many symbols the texts have. No data."""
    for store in (BYTES, SENTENCES):
        (folder / store).mkdir(parents=True)
        (folder / store / "manifest.json").write_text(json.dumps({"tokenizer": {"size": SYMBOLS}}))


def small(experiment: str, scale: str, folder: Path) -> Recipe:
    """A recipe with tiny widths, as many layers as it has kinds of mixers (two at least), and dropout everywhere.

    Args:
        experiment: its name.
        scale: one of its scales.
        folder: made by :func:`write_sizes`.
    """
    recipe = shrunk(experiment, scale, folder)
    for section in ("trainer", "checkpoints", "stop"):
        recipe.config.pop(section, None)
    _drop(recipe.config["model"])
    net = recipe.config["model"]["init_args"].get("net", {}).get("init_args", {})
    _deepen(net)
    _deepen(net.get("body", {}).get("init_args", {}))
    return recipe


def _deepen(given: Config) -> None:
    for blocks in ("blocks", "decoder_blocks"):
        kinds = len((given.get(blocks) or {}).get("mixers", []))
        for name in ("n_layers", "encoder_layers", "decoder_layers"):
            if name in given:
                given[name] = max(given[name], kinds, 2)


def _drop(node: Any) -> None:
    if isinstance(node, dict):
        node.update({key: 0.1 for key in node if key.endswith("dropout")})
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else []:
        _drop(value)


# --- batches --------------------------------------------------------------------------------------------------------


def training_batches(parts: Parts, recipe: Recipe, device: torch.device = CPU) -> list[Batch]:
    """Two batches of a stream, of which the second goes on; one of all else. Ids are 0."""
    data, config = parts.data, recipe.config["data"]
    if data.batch is PairBatch:
        return [pairs(device)]
    if data.batch is StreamBatch:
        scored = _scored(config["class_path"], config["init_args"])
        made = [
            stream(config["init_args"]["seq_len"], scored, reset_memory, device)
            for reset_memory in (True, False)
        ]
        by_document = config["init_args"].get("order") == "documents"
        return [documents(batch, device) for batch in made] if by_document else list(made)
    return [examples(parts, look_of(config["class_path"], config["init_args"]), device)]


def pairs(device: torch.device) -> PairBatch:
    """Sentence pairs of different lengths."""
    target, lengths = ids(device, ROWS, STEPS), torch.ones(ROWS, dtype=torch.long, device=device)
    return PairBatch(
        ids(device, ROWS, SOURCE), lengths, target, target.clone(), lengths, ids(device, ROWS), ROWS * STEPS
    )


def stream(steps: int, scored: bool, reset_memory: bool, device: torch.device) -> StreamBatch:
    """Rows of streams, of which the first half is scored, or all."""
    read = ids(device, ROWS, steps)
    places = torch.arange((ROWS * steps + 1) // 2, device=device) if scored else None
    return StreamBatch(read, read.clone(), places, ids(device, ROWS), reset_memory, 0, ROWS * steps)


def documents(batch: StreamBatch, device: torch.device) -> StreamBatch:
    """The same as blocks of documents, of which the first begins here."""
    steps = batch.ids.shape[1]
    lengths = torch.full((ROWS,), steps, device=device)
    places = torch.arange(ROWS * steps, device=device)
    return batch._replace(scored=places, lengths=lengths, begins=torch.arange(ROWS, device=device) == 0)


def examples(parts: Parts, look: Look, device: torch.device) -> ExampleBatch:
    """Examples as the datamodule describes them, but not longer than :data:`STEPS`."""
    data: Any = parts.data
    steps = min(data.seq_len, STEPS)
    read = ids(device, ROWS, steps) if look.ids else torch.zeros(ROWS, steps, data.input_size, device=device)
    follows = data.vocab_size is not None  # every token has a target, what follows it
    targets = ids(device, ROWS, steps if follows else data.n_targets)
    found = Examples(
        read,
        targets,
        torch.zeros_like(targets, dtype=torch.bool) if look.hidden else None,
        torch.full((ROWS,), steps, device=device) if look.lengths else None,
        steps - 1 + steps * torch.arange(ROWS, device=device)
        if look.scored
        else None,  # the last of each row
    )
    return ExampleBatch(found, torch.arange(ROWS), targets.numel())


def ids(device: torch.device, *shape: int) -> Tensor:
    """Zeros."""
    return torch.zeros(*shape, dtype=torch.long, device=device)


def _scored(class_path: str, settings: Config) -> bool:
    """Whether a stream has targets that do not count."""
    context, order = settings.get("context", 0), settings.get("order")
    return bool(context) or order == "sentences" or class_path == "repro.data.EchoData"
