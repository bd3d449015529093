"""Tasks that measure a layer by itself: what they share. Next to nothing is trained, and the data is noise."""

import statistics
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from lightning.pytorch.utilities.types import STEP_OUTPUT

from repro.record import Measurement
from repro.tasks.task import Task


class Measuring(Task):
    """One update on random vectors, which a run must have; all else happens at the one, empty, batch of the test.

    Subclasses say in ``measure`` what is done there, and in ``output`` what of a layer is its output.
    """

    def training_step(self, batch: Any, batch_idx: int) -> STEP_OUTPUT:
        """An update on random vectors."""
        y = self.output(batch.examples.inputs)
        loss = y.square().mean()
        sums = {"loss": loss.detach().double(), "tokens": torch.tensor(1, device=loss.device)}
        return {"loss": loss, "sums": sums}

    def test_batches(self) -> Any:
        """Nothing of the data: one batch without rows, at which the measuring is done."""
        return self.trainer.datamodule.eval_loader("test", 0)  # type: ignore[attr-defined]

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """Measures, with gradients."""
        with torch.enable_grad(), torch.inference_mode(False):
            self.measure()

    def output(self, x: torch.Tensor) -> torch.Tensor:
        """What the network makes of random vectors ``(B, T, D)``."""
        return self.net(x)

    @abstractmethod
    def measure(self) -> None:
        """Measures."""

    def now(self) -> float:
        """Seconds on the clock, once the device has done all it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def taken(name: str, value: float, unit: str, protocol: dict[str, Any]) -> Measurement:
    """A measurement that no split has a part in."""
    return Measurement(name, value, unit, "none", protocol)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the logarithm of y over that of x, by least squares."""
    logs = [torch.tensor(values, dtype=torch.float64).log().tolist() for values in (x, y)]
    return statistics.linear_regression(*logs).slope
