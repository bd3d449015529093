"""Builds the objects of a resolved recipe: the constructors' signatures are the schema."""

import contextlib
import copy
import functools
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Literal

import torch
from jsonargparse import ArgumentParser, Namespace, set_parsing_settings
from lightning.pytorch import Trainer

from repro.code.plugins import load_plugins, located, resolve
from repro.data.core.datamodule import DataModule
from repro.data.core.examples import ExampleData
from repro.data.core.stream_data import StreamData
from repro.errors import UserError
from repro.experiment.compiling import require_compilable
from repro.experiment.error_messages import one_line
from repro.models import Classifier, Transcriber
from repro.nn.laws import Finding, check
from repro.nn.positions.positions import longest_window
from repro.recipe import HEADER, SECTIONS, Config, Recipe
from repro.tasks import Task
from repro.tasks.metrics.bleu import require_tokeniser
from repro.training.early_stop import StopRule
from repro.training.saving import Checkpoints
from repro.yamls import flatten

AnyTask = Task[Any]
MatmulPrecision = Literal["highest", "high", "medium"]  # of torch.set_float32_matmul_precision
# What a YAML file may name besides plugins. Everything else is refused before it is imported.
IMPORTABLE = (
    "repro.batches", "repro.nn", "repro.models", "repro.tasks", "repro.data", "torch.nn", "torch.optim",
    "lightning.pytorch",
)  # fmt: skip


@dataclass
class Parts:
    """The objects of a recipe; ``trainer`` are arguments for :class:`lightning.pytorch.Trainer`.

    ``compile``: whether training is to be compiled (:func:`repro.experiment.compiling.compile_training`);
    ``matmul_precision``: of products in float32, ``high`` is TF32 on a GPU.
    """

    task: AnyTask
    data: DataModule
    trainer: dict[str, Any] = field(default_factory=dict)
    checkpoints: Checkpoints | None = None
    stop: StopRule | None = None
    compile: bool = False
    matmul_precision: MatmulPrecision = "highest"


def importable() -> tuple[str, ...]:
    """Packages that a YAML file may name: :data:`IMPORTABLE`, and the plugins of the project, which are imported."""
    return *IMPORTABLE, *load_plugins()


def restrict_imports() -> None:
    """Limits what configurations may name: this package, plugins, and the parts of torch and lightning it needs."""
    set_parsing_settings(import_path_denylist=["*"], import_path_allowlist=list(importable()))


def build(recipe: Recipe, meta: bool = False) -> Parts:
    """Checks a recipe against the constructors' signatures and builds its objects.

    Args:
        recipe: resolved.
        meta: build the network on the meta device, without memory or initialisation.

    Raises:
        UserError: a key that no constructor has, a value of the wrong type or out of range.
    """
    if lacking := [name for name in ("model", "data") if name not in recipe.sections]:
        raise UserError(f"{recipe.experiment} has no section {', '.join(lacking)}; a recipe needs it")
    built = _instantiate(recipe, recipe.sections, meta).as_dict()
    present = {key: value for key, value in built.items() if value is not None}
    return Parts(present.pop("model"), **present)


def build_task(recipe: Recipe, meta: bool = False) -> AnyTask:
    """The task of a recipe alone, without its data; see :func:`build` for arguments and errors."""
    sections: Config = {k: v for k, v in recipe.sections.items() if k in ("model", "trainer")}
    task: AnyTask = _instantiate(recipe, sections, meta)["model"]
    return task


def _instantiate(recipe: Recipe, sections: Config, meta: bool) -> Namespace:
    restrict_imports()
    sections = resolve(sections, load_plugins())
    parser = _parser(frozenset(sections))
    try:
        config = _parse(parser, sections)
        if "trainer" in sections:  # before a schedule misses its updates
            count = config.trainer.get("max_steps")
            if count is None or count < 1:
                raise ValueError(f"trainer.max_steps must be at least 1 update, not {count}")
        with torch.device("meta") if meta else contextlib.nullcontext():
            built = parser.instantiate(config)
        check_makers(built["model"])
        if built.get("compile"):
            require_compilable(built["model"])
        if "data" in built:
            check_together(built["model"], built["data"])
    except (ValueError, TypeError) as error:
        nulls = [key for key, value in flatten(sections).items() if value is None]
        hint = f"; null: {', '.join(nulls)}" if nulls and "NoneType" in str(error) else ""
        raise UserError(f"{recipe.experiment} ({recipe.scale}): {explain(str(error))}{hint}") from error
    return built


def check_makers(task: AnyTask) -> None:
    """Calls the makers that would run later, so that their errors are raised now.

    Raises:
        ValueError: their own errors, a learning rate of the first updates that is not finite or below 0, or a share of
            dropout that is none.
    """
    task.trained_parameters()
    for name, module in task.named_modules():
        for key in ("dropout", "position_dropout"):
            share = getattr(module, key, 0.0)
            if isinstance(share, int | float) and not 0 <= share < 1:
                raise ValueError(f"{key} of {name} must be at least 0 and below 1, not {share}")
    try:
        optimizer = task.optimizer_maker([torch.nn.Parameter(torch.zeros(1))])
    except ValueError as error:
        raise ValueError(f"model.optimizer: {error}") from None
    try:
        schedule = task.schedule_maker(optimizer)
        rates = schedule.get_last_lr()
        optimizer.step()
        schedule.step()
    except ZeroDivisionError:
        raise ValueError("model.schedule divides by one of its settings, which is 0") from None
    rates += schedule.get_last_lr()
    if not all(0 <= rate < math.inf for rate in rates):
        raise ValueError(
            f"learning rates of the first updates are {rates}; set model.optimizer.lr and model.schedule so that they "
            "are finite and at least 0"
        )


def check_together(task: AnyTask, data: DataModule) -> None:
    """Checks that task and data fit each other, which constructors cannot check.

    Raises:
        ValueError: they do not fit; the message gives the reason.
    """
    if task.batch is not data.batch:
        raise ValueError(
            f"{type(task).__name__} trains on a {task.batch.__name__}, {type(data).__name__} gives a "
            f"{data.batch.__name__}; set data.class_path to a datamodule that fits"
        )
    require_tokeniser(getattr(data, "target_language", ""))
    if isinstance(data, ExampleData):
        check_examples(task.module, data)
    longest = longest_window(task.module)
    rows = max(data.lengths) if isinstance(data, StreamData) else 0
    for name, tokens, key in (
        ("pairs", getattr(data, "max_length", 0), "data.max_length"),
        ("rows", rows, "data.seq_len and data.stages"),
    ):
        if longest is not None and tokens > longest:
            raise ValueError(
                f"{name} have up to {tokens} tokens, the network learns {longest} positions only; set {key} to at most "
                f"{longest}"
            )
    known, stored = task.vocabulary_size, data.vocab_size
    if known is not None and stored is not None and known != stored:
        # of examples it follows from other settings
        both = f"to {stored}" if isinstance(data, ExampleData) else "and data.init_args.vocab_size to one"
        raise ValueError(
            f"the network's vocabulary has {known} entries and the data's {stored}; "
            f"set model.init_args.net.init_args.vocabulary.init_args.size {both}"
        )


def check_examples(net: torch.nn.Module, data: ExampleData) -> None:
    """Checks that a network and its examples agree in shared sizes, and that it can read a whole example.

    Raises:
        ValueError: names the settings that disagree.
    """
    shared = []  # setting below the network's init_args, the network's number, the data's, the unit
    if isinstance(net, Classifier | Transcriber):
        shared.append(("input.init_args.size", net.input.size, data.input_size, "values of an input token"))
        shared.append(("n_classes", net.n_classes, data.n_classes, "classes"))
    if isinstance(net, Classifier):
        shared.append(("n_read x per_token", net.n_targets, data.n_targets, "targets of an example"))
    for setting, own, other, unit in shared:
        if own != other:
            raise ValueError(f"model.init_args.net.init_args.{setting} is {own}, the data has {other} {unit}")
    if isinstance(net, Classifier) and net.n_read > data.seq_len:
        raise ValueError(f"n_read {net.n_read} is more than the {data.seq_len} tokens of an example")
    longest = longest_window(net)
    if longest is not None and data.seq_len > longest:
        raise ValueError(f"examples have {data.seq_len} tokens, the network learns {longest} positions only")


def check_mixer(word: str, init: Config, d_model: int, loop: str | None = None) -> Iterator[Finding]:
    """Checks the laws of a mixer; see :func:`repro.nn.laws.check`.

    Args:
        word: its class path, or the bare name of a plugin's class.
        init: arguments of the class besides the width.
        d_model: the width.
        loop: the path of a naive form.

    Raises:
        UserError: no such class or function, or a class that breaks the contract of mixers.
    """
    plugins, allowed = load_plugins(), importable()
    maker = located(word, plugins, allowed)
    naive = located(loop, plugins, allowed) if loop else None
    try:
        yield from check(maker(d_model, **init), d_model, naive)
    except (TypeError, ValueError, RuntimeError, AttributeError, LookupError, ArithmeticError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{word} breaks the contract of a mixer: {reason}") from error


def explain(message: str) -> str:
    """Returns an error of the configuration parser about a recipe in one line."""
    keys = [key for section in (Trainer, Checkpoints, StopRule) for key in signature(section).parameters]
    return one_line(message, (*HEADER, *SECTIONS, *keys), importable())


@functools.cache
def _parser(sections: frozenset[str]) -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(Task, "model", required=True)
    parser.add_class_arguments(Trainer, "trainer", instantiate=False)
    parser.add_argument("--compile", type=bool)
    parser.add_argument("--matmul_precision", type=MatmulPrecision)
    if "data" in sections:
        parser.add_subclass_arguments(DataModule, "data", required=True)
    if "checkpoints" in sections:
        parser.add_class_arguments(Checkpoints, "checkpoints")
    if "stop" in sections:
        parser.add_class_arguments(StopRule, "stop")
    return parser


def _parse(parser: ArgumentParser, sections: Config) -> Namespace:
    """Parses the given keys only. Constructors fill in their defaults themselves, in less than half the time."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            # a copy, since the parser writes into what it is given
            return parser.parse_object(copy.deepcopy(sections), defaults=False)
    except Exception as error:  # jsonargparse raises several kinds; each is bad input
        raise ValueError(str(error)) from error
