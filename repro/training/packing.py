"""Validation on a CPU with the weights in the layout that multiplies fastest."""

from contextlib import ExitStack

from lightning.pytorch import Callback, LightningModule, Trainer

from repro.nn.packed import packed


class PackedValidation(Callback):
    """Packs large weights again for each validation of enough batches; see :func:`repro.nn.packed.packed`.

    Weights do not change meanwhile. Tests are unchanged, since their durations are recorded.
    """

    def __init__(self) -> None:
        self._layouts = ExitStack()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._layouts.enter_context(packed(pl_module.modules(), sum(trainer.num_val_batches)))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._layouts.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._layouts.close()
