"""From a resolved recipe to objects: the constructors' signatures are the schema."""

import contextlib
import copy
import io
import os
import re
from dataclasses import dataclass
from typing import Any

import torch
from jsonargparse import ArgumentParser, Namespace, set_parsing_settings
from lightning.pytorch import LightningDataModule, Trainer

from repro.errors import UserError, nearest
from repro.recipe import Config, Recipe
from repro.tasks import Task

# What a YAML file may name. Everything else is refused before it is imported.
IMPORTABLE = ("repro.nn", "repro.models", "repro.tasks", "repro.data", "torch.nn", "torch.optim", "lightning.pytorch")


@dataclass
class Checkpoints:
    """The recipe's ``checkpoints`` section.

    Args:
        every_steps: optimiser updates between two checkpoints.
        average_last: how many of the last checkpoints are averaged into the model that is tested.
        keep: how many are kept on disk; at least ``average_last``.
    """

    every_steps: int
    average_last: int = 1
    keep: int = 2


@dataclass
class Parts:
    """What a recipe resolves to; ``trainer`` are arguments for :class:`lightning.pytorch.Trainer`."""

    task: Task
    data: LightningDataModule | None
    trainer: dict[str, Any]
    checkpoints: Checkpoints | None


def restrict_imports() -> None:
    """Limits what configuration values may name to this package and the parts of torch and lightning it needs."""
    set_parsing_settings(import_path_denylist=["*"], import_path_allowlist=list(IMPORTABLE))


def build(recipe: Recipe, with_data: bool = True, meta: bool = False) -> Parts:
    """Checks a recipe against the constructors' signatures and builds its objects.

    Args:
        recipe: resolved.
        with_data: build the datamodule too (it reads nothing yet).
        meta: build the network on the meta device, without memory or initialisation.

    Raises:
        UserError: a key that no constructor knows, a value of the wrong type or out of range.
    """
    restrict_imports()
    sections = {k: v for k, v in recipe.sections.items() if with_data or k in ("model", "trainer")}
    parser = _parser(sections)
    try:
        config = _parse(parser, sections)
        device = torch.device("meta") if meta else contextlib.nullcontext()
        with device:
            built = parser.instantiate(config)
    except (ValueError, TypeError) as error:
        raise UserError(f"{recipe.experiment} ({recipe.scale}): {error}") from error
    except _BadConfig as error:
        raise UserError(f"{recipe.experiment} ({recipe.scale}): {error}") from None
    trainer = built.get("trainer") or Namespace()
    return Parts(built["model"], built.get("data"), trainer.as_dict(), built.get("checkpoints"))


def _parser(sections: Config) -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(Task, "model", required=True)
    if "trainer" in sections:
        parser.add_class_arguments(Trainer, "trainer", instantiate=False)
    if "data" in sections:
        parser.add_subclass_arguments(LightningDataModule, "data", required=True)
    if "checkpoints" in sections:
        parser.add_class_arguments(Checkpoints, "checkpoints")
    return parser


class _BadConfig(Exception):
    pass


def _parse(parser: ArgumentParser, sections: Config) -> Namespace:
    noise = io.StringIO()
    try:
        with contextlib.redirect_stderr(noise):
            return parser.parse_object(copy.deepcopy(sections))  # the parser writes into what it is given
    except Exception as error:  # jsonargparse raises several kinds; each is bad input
        raise _BadConfig(one_line(str(error), parser)) from error


def one_line(message: str, parser: ArgumentParser | None = None) -> str:
    """The part of jsonargparse's report that says what is wrong: the innermost cause, on one line."""
    lines = [line.strip(" -") for line in message.splitlines() if line.strip(" -")]
    telling = re.compile(r"not accepted|does not accept|Unexpected|not a valid|No action|is required|Expected|not allowed|denied|not found|Unable to import|nrecognized")
    found = [line for line in lines if telling.search(line)] or lines
    text = found[-1] if found else message
    match = re.search(r"(?:No action for key|Key) [\"']([\w.]+)[\"']", text)
    if match and parser is not None:
        known = [action.dest for action in parser._actions if action.dest]
        text += nearest(match.group(1), known)
    return text[:400]


def threads() -> int:
    """CPU threads torch computes with."""
    return int(os.environ.get("OMP_NUM_THREADS") or torch.get_num_threads())
