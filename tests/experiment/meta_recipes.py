"""Recipes as tiny tasks with batches of any device: one of every shape, and no data store is read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from repro.batches import Batch, StreamBatch
from repro.experiment.build import Parts
from repro.experiment.costs.batches import BatchSize, batches, fields_of, stream
from repro.recipe import Config, Recipe, flatten, load_recipe
from tests.shrunk import BYTES, SENTENCES, shrunk

ROWS, STEPS, SOURCE, SYMBOLS = 3, 8, 9, 60
CPU = torch.device("cpu")


# Settings of a model that decide no more than sizes, probabilities, updates and what follows the training.
_NUMBERS = re.compile(
    r".*init_args\.(optimizer|schedule|timings|sampled|generation)\b.*"
    r"|.*\.(unit|label_smoothing|beam|length_penalty|max_extra|max_ratio|min_length|length_form|train_limit|drawn|rows|lr|std|eps)"
    r"|.*\.(tokens|repeats|longest|shortest|memory|fitted_from|draws)"
    r"|.*\.(\w*dropout|d_model|d_head|d_value|d_ff|n_heads|\w+_layers|size|shape|widths|n_classes|n_read)"
)
_PROTOCOL = re.compile(r"protocols\.\w+\.")  # with the name that a recipe gives it


def shape_of(recipe: Recipe) -> str:
    """Returns the facts that decide which code runs: classes, switches, which numbers are 0, and what a batch holds."""
    model, data = recipe.config["model"], recipe.config["data"]
    output = {
        (_PROTOCOL.sub("protocols.", key), str(signs(value)))
        for key, value in flatten(model).items()
        if not _NUMBERS.fullmatch(key)
    }
    holds = fields_of(data)
    return json.dumps([sorted(output), holds])


def signs(value: Any) -> Any:
    """Whether numbers are above 0, those of a list once; everything else as it is."""
    if isinstance(value, list):
        return list(dict.fromkeys(map(signs, value)))
    return value > 0 if isinstance(value, int | float) and not isinstance(value, bool) else value


def one_of_each(every: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Experiments, each with a scale of its own, in groups of one shape."""
    result: dict[str, list[tuple[str, str]]] = {}
    for experiment, scale in every:
        result.setdefault(shape_of(load_recipe(experiment, scale)), []).append((experiment, scale))
    return list(result.values())


def one_of_each_set(groups: list[list[tuple[str, str]]]) -> list[Any]:
    """Parameters of a test: groups with a class that none before has with this task; others wait for ``-m matrix``."""
    result, known = [], set()
    for alike in groups:
        flat = flatten(load_recipe(*alike[0]).sections)
        pairs = {
            (flat["model.class_path"], value) for key, value in flat.items() if key.endswith("class_path")
        }
        marks = [pytest.mark.matrix] if pairs <= known else []
        result.append(pytest.param(alike, id=f"{'-'.join(alike[0])}-{len(alike)}", marks=marks))
        known |= pairs
    return result


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


def training_batches(parts: Parts, recipe: Recipe, device: torch.device = CPU) -> list[Batch]:
    """Two batches of a stream, of which the second goes on; one of all else. Ids are 0."""
    steps = parts.data.seq_len if parts.data.batch is StreamBatch else STEPS  # type: ignore[attr-defined]
    return batches(parts.data, recipe.config["data"], BatchSize(ROWS, steps, SOURCE), device)


def stream_of(steps: int, scored: bool, reset_memory: bool, device: torch.device) -> StreamBatch:
    """A batch of an evaluation."""
    return stream(BatchSize(ROWS, steps), scored, reset_memory, device)
