"""From a resolved recipe to objects: the constructors' signatures are the schema."""

import contextlib
import copy
import io
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import torch
from jsonargparse import ArgumentParser, Namespace, set_parsing_settings
from lightning.pytorch import LightningDataModule, Trainer

from repro.data.examples import ExampleData
from repro.errors import UserError
from repro.experiment.complaints import one_line
from repro.models import Classifier, Transcriber
from repro.nn.positions import longest_window
from repro.recipe import HEADER, SECTIONS, Config, Recipe
from repro.tasks import Task
from repro.tasks.saving import Checkpoints

# What a YAML file may name. Everything else is refused before it is imported.
IMPORTABLE = (
    "repro.nn",
    "repro.models",
    "repro.tasks",
    "repro.data",
    "torch.nn",
    "torch.optim",
    "lightning.pytorch",
)


@dataclass
class Parts:
    """What a recipe resolves to; ``trainer`` are arguments for :class:`lightning.pytorch.Trainer`."""

    task: Task
    data: LightningDataModule | None
    trainer: dict[str, Any]
    checkpoints: Checkpoints | None


def restrict_imports() -> None:
    """Limits what configurations may name to this package and the parts of torch and lightning it needs."""
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
        check_together(built["model"], built.get("data"))
    except (ValueError, TypeError) as error:
        raise UserError(f"{recipe.experiment} ({recipe.scale}): {explain(str(error))}") from error
    trainer = built.get("trainer") or Namespace()
    return Parts(built["model"], built.get("data"), trainer.as_dict(), built.get("checkpoints"))


def check_together(task: Task, data: LightningDataModule | None) -> None:
    """What constructors cannot see: makers that run later, and parts that must fit each other.

    Raises:
        ValueError: says what does not fit.
    """
    task.schedule_maker(task.optimizer_maker([torch.nn.Parameter(torch.zeros(1))]))
    if isinstance(data, ExampleData):
        check_examples(task.net, data)
    vocabulary = getattr(task.net, "vocabulary", None)
    stored = getattr(data, "vocab_size", None)
    if vocabulary is not None and stored is not None and vocabulary.size != stored:
        # of examples it follows from other settings
        both = f"to {stored}" if isinstance(data, ExampleData) else "and data.init_args.vocab_size to one"
        raise ValueError(
            f"the network's vocabulary has {vocabulary.size} entries and the data's {stored}; "
            f"set model.init_args.net.init_args.vocabulary.init_args.size {both}"
        )


class Shared(NamedTuple):
    """Something of which network and data both know the number.

    Attributes:
        setting: of the network, below its ``init_args``.
        ours: attribute of the network.
        theirs: attribute of the data.
        what: the data has so many of.
    """

    setting: str
    ours: str
    theirs: str
    what: str


_INPUT = Shared("input.init_args.size", "input.size", "input_size", "values of an input token")
_TARGETS = Shared("n_read x per_token", "n_targets", "n_targets", "targets of an example")
_CLASSES = Shared("n_classes", "n_classes", "n_classes", "classes")
SHARED = {Classifier: (_INPUT, _TARGETS, _CLASSES), Transcriber: (_INPUT, _CLASSES)}


def check_examples(net: torch.nn.Module, data: ExampleData) -> None:
    """What a network and its examples say of the same things must agree, and it must be able to read one whole.

    Raises:
        ValueError: says what does not, and which settings are concerned.
    """
    for fact in next((facts for kind, facts in SHARED.items() if isinstance(net, kind)), ()):
        ours, theirs = attrgetter(fact.ours)(net), getattr(data, fact.theirs)
        if ours != theirs:
            raise ValueError(
                f"model.init_args.net.init_args.{fact.setting} is {ours}, the data has {theirs} {fact.what}"
            )
    if isinstance(net, Classifier) and net.n_read > data.seq_len:
        raise ValueError(f"n_read {net.n_read} is more than the {data.seq_len} tokens of an example")
    longest = longest_window(net)
    if longest is not None and data.seq_len > longest:
        raise ValueError(f"examples have {data.seq_len} tokens, the network learns {longest} positions only")


def explain(message: str) -> str:
    """A complaint of the configuration parser about a recipe, in one line."""
    return one_line(
        message, IMPORTABLE, {"trainer": Trainer, "checkpoints": Checkpoints}, (*HEADER, *SECTIONS)
    )


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


def _parse(parser: ArgumentParser, sections: Config) -> Namespace:
    noise = io.StringIO()
    try:
        with contextlib.redirect_stderr(noise):
            return parser.parse_object(copy.deepcopy(sections))  # the parser writes into what it is given
    except Exception as error:  # jsonargparse raises several kinds; each is bad input
        raise ValueError(str(error)) from error
