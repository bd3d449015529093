"""Base of the tasks that measure a single layer. Almost nothing is trained, and the data are noise."""

import statistics
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from repro.batches import Evaluation, ExampleBatch, FirstExamples
from repro.record import Measurement
from repro.tasks.task import Net, StepResult, Task


class Measuring(Task[Net]):
    """A base of tasks that make one update on random vectors and measure in the single, empty batch of the test.

    Subclasses implement ``measure``, and ``output``, which selects the output of a layer.
    """

    batch = ExampleBatch

    def training_step(self, batch: ExampleBatch, batch_idx: int) -> StepResult:
        """An update on random vectors."""
        y = self.output(batch.examples.inputs)
        loss = y.square().mean()
        return {"loss": loss, "sums": {"loss": loss.detach(), "tokens": 1}}

    def tests(self) -> list[Evaluation]:
        """Returns one batch without rows, at which the measuring is done."""
        return [Evaluation("test", selection=FirstExamples(0))]

    def test_step(self, batch: ExampleBatch, batch_idx: int) -> None:
        """Measures, with gradients."""
        with torch.enable_grad(), torch.inference_mode(False):
            self.measure()

    def output(self, x: torch.Tensor) -> torch.Tensor:
        """The network's outputs for random vectors ``(B, T, D)``."""
        return self.module(x)

    @abstractmethod
    def measure(self) -> None:
        """Measures."""


def measurement(name: str, value: float, unit: str, protocol: dict[str, Any]) -> Measurement:
    """Makes a measurement that involves no split."""
    return Measurement(name, value, unit, "none", protocol)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Slope of the logarithm of y over that of x, by least squares."""
    logs = [torch.tensor(values, dtype=torch.float64).log().tolist() for values in (x, y)]
    return statistics.linear_regression(*logs).slope
