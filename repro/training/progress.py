"""The progress bar."""

import sys
import time
from typing import NoReturn

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from tqdm import tqdm

from repro.training.callbacks import Curves
from repro.training.loops import at_update


class Progress(ProgressBar):
    """A bar over all updates of the run with loss, tokens/s and time left; plain lines without a terminal.

    Args:
        curves: source of loss and speed.
        plain_every_s: seconds between two plain lines.
    """

    def __init__(self, curves: Curves, plain_every_s: float = 20.0) -> None:
        super().__init__()
        self.curves = curves
        self.plain_every_s = plain_every_s
        self._enabled = True
        self._bar: tqdm[NoReturn] | None = None
        self._began = (0.0, 0)
        self._printed_at = 0.0

    def enable(self) -> None:
        """Shows the bar from the next start of training on."""
        self._enabled = True

    def disable(self) -> None:
        """Shows nothing."""
        self._enabled = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.is_global_zero or not self._enabled:
            return
        self._began = (time.monotonic(), trainer.global_step)
        self._bar = tqdm(
            total=trainer.max_steps,
            initial=trainer.global_step,
            unit=" steps",
            disable=None,
            dynamic_ncols=True,
        )

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        if self._bar is None or not at_update(trainer, batch_idx):
            return
        if not self._bar.disable:
            self._bar.update(trainer.global_step - self._bar.n)
            self._bar.set_postfix_str(self._text(), refresh=False)
        elif time.monotonic() - self._printed_at > self.plain_every_s:
            self._printed_at = time.monotonic()
            step, total = trainer.global_step, trainer.max_steps
            left = tqdm.format_interval(self.seconds_left(step, total))
            print(f"step {step}/{total}  {self._text()}  {left} left", file=sys.stderr, flush=True)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._bar is None or trainer.sanity_checking or trainer.state.fn != "fit":
            return
        scores = {k: float(v) for k, v in trainer.callback_metrics.items() if k.startswith("val/")}
        text = "  ".join(f"{name} {value:.4g}" for name, value in sorted(scores.items()))
        self._bar.write(f"step {trainer.global_step}/{trainer.max_steps}  {text}", file=sys.stderr)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _text(self) -> str:
        latest = self.curves.latest
        if not latest:
            return ""
        return f"loss {latest['train/loss']:.3f}, {latest['train/tokens_per_s']:,.0f} tokens/s"

    def seconds_left(self, step: int, total: int) -> float:
        """Seconds to the last update at the pace since this process began."""
        began, first = self._began
        return (time.monotonic() - began) / max(step - first, 1) * (total - step)
