"""Shares of correct answers: torchmetrics' counts, in percent, divided in float64."""

from torch import Tensor
from torchmetrics.classification import MulticlassAccuracy
from torchmetrics.text import WordErrorRate


class Accuracy(MulticlassAccuracy):
    """Percent of the targets that are predicted, over everything that was scored.

    Args:
        n_classes: classes there are.
    """

    def __init__(self, n_classes: int) -> None:
        super().__init__(n_classes, average="micro", validate_args=False)

    tp: Tensor
    fn: Tensor

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Adds predicted classes and targets of the same shape."""
        if target.numel():  # torchmetrics takes no empty batch
            super().update(preds, target)

    @property
    def count(self) -> Tensor:
        """Targets so far."""
        return self.tp + self.fn

    def compute(self) -> Tensor:
        """The rate in percent."""
        return 100.0 * self.tp.double() / self.count


class SymbolErrorRate(WordErrorRate):
    """Insertions, deletions and substitutions that turn hypotheses into references, in percent of the latter.

    Over the whole split: sequences are not averaged. ``update`` takes lists of texts, symbols between spaces.
    """

    @property
    def count(self) -> Tensor:
        """Symbols of references so far."""
        return self.total

    def compute(self) -> Tensor:
        """The rate in percent."""
        return 100.0 * self.errors.double() / self.total
