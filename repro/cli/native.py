"""``fit | validate | test | predict --config FILE``: plain LightningCLI over the same recipes."""

import sys
from argparse import ArgumentError
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from repro.cli.arguments import Verbs
from repro.errors import UserError
from repro.paths import runs_dir
from repro.recipe import CHANGES, HEADER
from repro.yamls import read_yaml

VERBS = ("fit", "validate", "test", "predict")


def register(verbs: Verbs) -> None:
    """Adds this family's verbs to the help; :func:`call` serves them."""
    for verb in VERBS:
        verbs.add_parser(verb, help=f"plain LightningCLI: repro {verb} --config FILE", add_help=False)


def call(arguments: list[str]) -> None:
    """Runs LightningCLI with the arguments as given.

    Raises:
        UserError: arguments or a recipe that do not parse; one line.
    """
    from repro.experiment.build import explain, restrict_imports
    from repro.experiment.trainer import quiet

    quiet()
    restrict_imports()
    if not {"--help", "-h"} & set(arguments):
        _check_files(arguments)
        # a checkpoint holds tensors and plain values, or is refused
        arguments = [*arguments, "--weights_only=true"]
    try:
        _run(arguments)
    except ArgumentError as error:
        raise UserError(explain(str(error))) from None


def _check_files(arguments: list[str]) -> None:
    """Refuses missing files, damaged checkpoints, and YAML that LightningCLI would read leniently."""
    for path in _values(arguments, "--config", "-c"):
        content = read_yaml(Path(path))
        if not content:
            raise UserError(f"{path} is empty; `repro config EXPERIMENT` prints a recipe")
        if isinstance(content, dict) and (points := content.get("points")):
            raise UserError(
                f"{path} is a grid; `repro config` prints the recipe of one of its points: {', '.join(points)}"
            )
    for path in _values(arguments, "--ckpt_path"):
        if Path(path).suffix:  # Lightning also accepts words like `last`
            from repro.training.checkpoints import read

            read(Path(path))


def _values(arguments: list[str], *names: str) -> Iterator[str]:
    """Values given as ``--name VALUE`` or ``--name=VALUE``."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in names and (equals or following):
            yield value if equals else following


def _run(arguments: list[str]) -> None:
    import torch
    from lightning.pytorch import Trainer
    from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

    from repro.data.core.datamodule import DataModule
    from repro.evidence.text import number
    from repro.experiment.build import Checkpoints, MatmulPrecision, check_makers, check_together, explain
    from repro.experiment.compiling import compile_training, require_compilable
    from repro.experiment.trainer import ALWAYS, interval_in_updates, refuse_unsupported
    from repro.report.formats.terminal import text_table
    from repro.tasks import Task
    from repro.tasks.lightning_private import callbacks_of
    from repro.training.callbacks import Curves
    from repro.training.cpu import PackedEvaluation
    from repro.training.early_stop import EarlyStop, StopRule
    from repro.training.progress import Progress

    class Cli(LightningCLI):
        def init_parser(self, **settings: Any) -> LightningArgumentParser:
            return super().init_parser(exit_on_error=False, **settings)

        def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
            for key in (*HEADER, *CHANGES, "reproduces"):  # of a recipe, which are not for the Trainer
                parser.add_argument(f"--{key}", type=Any, default=None)
            parser.add_argument("--stop", type=dict[str, Any] | None, default=None)
            parser.add_argument("--compile", type=bool, default=False)
            parser.add_argument("--matmul_precision", type=MatmulPrecision, default="highest")
            parser.add_class_arguments(Checkpoints, "checkpoints", default=Checkpoints(every_steps=1000))

        def instantiate_classes(self) -> None:
            given = self.config[self.subcommand]
            for key in ("start_from", "pretrained") if self.subcommand == "fit" else ():
                if given[key]:
                    raise UserError(
                        f"fit begins with new weights, not with {key} {given[key]}; use `repro run`"
                    )
            try:
                super().instantiate_classes()
                if self.subcommand == "predict" and type(self.model).predict_step is Task.predict_step:
                    raise ValueError(
                        f"a {type(self.model).__name__} has no predict_step; `repro generate` continues a text"
                    )
                if self.subcommand == "test":
                    self.config_init["test"].verbose = False  # its table shows one score in every column
                check_makers(self.model)
                check_together(self.model, self.datamodule)
                torch.set_float32_matmul_precision(self.config[self.subcommand].matmul_precision)
                if self.config[self.subcommand].compile:
                    require_compilable(self.model)
                    compile_training(self.model)
            except (ValueError, TypeError) as error:
                raise UserError(explain(str(error))) from error

        def instantiate_trainer(self, **settings: object) -> Trainer:
            given = self.config_init[self.subcommand]
            checked = {name: given.trainer[name] for name in ALWAYS}
            if isinstance(given.trainer.val_check_interval, int):  # else a share of an epoch
                checked["val_check_interval"] = given.trainer.val_check_interval
                settings |= interval_in_updates(given.trainer)
            refuse_unsupported(checked)
            trainer: Trainer = super().instantiate_trainer(**settings)
            bar, curves, callbacks = trainer.progress_bar_callback, Curves(), callbacks_of(trainer)
            if self.subcommand == "fit" and trainer.max_steps > 0:
                if bar is not None:
                    callbacks[callbacks.index(bar)] = Progress(curves)  # Lightning's own counts epochs
                try:
                    rule = StopRule(**given.stop) if given.stop else None
                except TypeError as error:
                    raise UserError(f"stop: {error}") from None
                callbacks[:0] = [curves, EarlyStop(rule, curves)]
            callbacks.insert(0, PackedEvaluation())
            return trainer

    # LightningCLI and the launcher of further ranks both read these
    sys.argv = [sys.argv[0], *arguments]
    cli = Cli(
        Task,
        DataModule,
        subclass_mode_model=True,
        subclass_mode_data=True,
        trainer_defaults={"default_root_dir": str(runs_dir())},
        save_config_kwargs={"overwrite": True},
        auto_configure_optimizers=False,
        load_from_checkpoint_support=False,
    )
    if cli.subcommand == "test" and cli.trainer.is_global_zero:
        rows = [(m.name, number(m.value), m.unit, m.split) for m in cli.model.measurements()]
        print(text_table(rows, ("metric", "value", "unit", "split")))
    if cli.subcommand == "fit" and cli.trainer.is_global_zero:
        place = cli.trainer.log_dir or cli.trainer.default_root_dir
        print(f"fit: done, {cli.trainer.global_step} updates; files in {place}")
