"""Finished runs that were never trained: folders with a model of random weights."""

from functools import cache
from pathlib import Path

import torch

from repro.errors import UserError
from repro.experiment import checkpoint
from repro.experiment.build import build
from repro.experiment.trainer import vocabulary_hash
from repro.recipe import Recipe
from repro.yamls import parse_yaml
from tests.workshop import STREAM_RECIPE

PAPER = "transformer-xl"


def finished(name: str, text: str = STREAM_RECIPE, vocabulary: str | None = None) -> Path:
    """Makes a run of a recipe, which has no file; returns the run's folder. Equal names have equal weights.

    Args:
        name: of the recipe.
        text: of the recipe.
        vocabulary: hash that the run is stamped with; None for that of its data.
    """
    recipe, weights, own = _made(name, text)
    folder = recipe.run_dir(1)
    folder.mkdir(parents=True)
    mark = checkpoint.stamp(recipe.signature, vocabulary or own)
    checkpoint.write_model(folder / "model.pt", weights, recipe.config, mark)
    return folder


@cache
def _made(name: str, text: str) -> tuple[Recipe, dict[str, torch.Tensor], str | None]:
    """Recipe, weights and hash of the vocabulary; where there is no data, no hash."""
    recipe = Recipe(f"{PAPER}/{name}", "paper", parse_yaml(text, name))
    torch.manual_seed(sum(name.encode()))
    parts = build(recipe)
    for (
        parameter
    ) in parts.task.net.parameters():  # far from uniform, so that context shows in every likelihood
        parameter.data.mul_(3.0)
    try:
        return recipe, parts.task.state_dict(), vocabulary_hash(parts.data)
    except UserError:
        return recipe, parts.task.state_dict(), None


def with_learned_positions(longest: int) -> str:
    """The recipe of a language model without a memory that learns so many positions."""
    made = STREAM_RECIPE.replace(
        "positions: repro.nn.NoPositions",
        "positions: {class_path: repro.nn.Added, init_args: {table: {class_path: repro.nn.LearnedPositions, "
        f"init_args: {{max_length: {longest}}}}}}}}}",
    )
    made = made.replace(
        "RelativeAttention, init_args: {n_heads: 2, mem_len: 4,", "FullAttention, init_args: {n_heads: 2,"
    )
    return made.replace("{seq_len: 3, rows: 4, mem_len: 6, same_length: true}", "{seq_len: 3, rows: 4}")
