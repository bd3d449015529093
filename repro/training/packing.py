"""Evaluation on a CPU with the weights in the layout that multiplies fastest."""

from contextlib import ExitStack

from lightning.pytorch import Callback, LightningModule, Trainer

from repro.nn.packed import packed


class PackedEvaluation(Callback):
    """Packs large weights again for each validation, test and prediction; see :func:`repro.nn.packed.packed`.

    Weights do not change meanwhile. Few batches are not worth it.
    """

    def __init__(self) -> None:
        self._layouts = ExitStack()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._pack(pl_module, trainer.num_val_batches)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._pack(pl_module, trainer.num_test_batches)

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._pack(pl_module, trainer.num_predict_batches)

    def _pack(self, module: LightningModule, batches: list[int | float]) -> None:
        self._layouts.enter_context(packed(module.modules(), sum(batches)))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._layouts.close()

    on_test_end = on_predict_end = on_validation_end

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._layouts.close()
