"""Speed on a CPU: memory that is kept from update to update, and weights in the layout that multiplies fastest."""

import ctypes
import os
from contextlib import ExitStack

from lightning.pytorch import Callback, LightningModule, Trainer

from repro.nn.packed import packed

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX of malloc.h


def keep_freed_memory() -> None:
    """Lets glibc's allocator keep the memory of freed tensors for the next update.

    By default it returns blocks above 32 MiB to the system and maps them anew, page by page, in every update. The
    process then holds its peak memory to its end. Nothing is changed where a variable ``MALLOC_...`` of the environment
    chooses otherwise, and with another C library.
    """
    allocator = ctypes.CDLL(None)
    if hasattr(allocator, "mallopt") and not any(name.startswith("MALLOC_") for name in os.environ):
        allocator.mallopt(_MMAP_MAX, 0)
        allocator.mallopt(_TRIM_THRESHOLD, -1)


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
