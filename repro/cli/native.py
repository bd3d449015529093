"""``fit | validate | test | predict --config FILE``: plain LightningCLI over the same recipes."""

import sys
from typing import Any

from repro.errors import EXIT_BAD_INPUT, UserError
from repro.recipe import HEADER

VERBS = ("fit", "validate", "test", "predict")


def register(verbs: Any) -> None:
    """Adds this family's verbs to the help; :func:`call` serves them."""
    for verb in VERBS:
        verbs.add_parser(verb, help=f"plain LightningCLI: repro {verb} --config FILE", add_help=False)


def call(arguments: list[str]) -> int | None:
    """Runs LightningCLI with the arguments as given.

    Raises:
        UserError: arguments or a recipe that do not parse; one line.
    """
    import contextlib
    import io

    from lightning.pytorch import LightningDataModule
    from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

    from repro.experiment.build import Checkpoints, one_line, restrict_imports
    from repro.experiment.run import quiet
    from repro.tasks import Task

    class Cli(LightningCLI):
        def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
            for key in HEADER:  # recipes say what they reproduce; that is not for the Trainer
                parser.add_argument(f"--{key}", type=Any, default=None)
            parser.add_class_arguments(Checkpoints, "checkpoints", default=Checkpoints(every_steps=1000))

    quiet()
    restrict_imports()
    if "--help" in arguments or "-h" in arguments:
        Cli(Task, LightningDataModule, subclass_mode_model=True, subclass_mode_data=True, args=arguments)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(_Tee(said)):
            Cli(
                Task,
                LightningDataModule,
                subclass_mode_model=True,
                subclass_mode_data=True,
                save_config_kwargs={"overwrite": True},
                auto_configure_optimizers=False,
                load_from_checkpoint_support=False,
                args=arguments,
            )
    except SystemExit as stop:
        if stop.code == EXIT_BAD_INPUT:
            raise UserError(one_line(said.getvalue())) from None
        raise
    return None


class _Tee:
    """Keeps what is written, and passes it on once it is clear that it is no usage error."""

    def __init__(self, kept: Any) -> None:
        self.kept = kept
        self.out = sys.stderr

    def write(self, text: str) -> int:
        self.kept.write(text)
        if not self.kept.getvalue().startswith("usage:"):
            self.out.write(text)
        return len(text)

    def flush(self) -> None:
        self.out.flush()

    def isatty(self) -> bool:
        return self.out.isatty()
