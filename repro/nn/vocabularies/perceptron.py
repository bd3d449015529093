"""Layers with a ReLU between: before a body, and between a body and its classes."""

from collections.abc import Sequence

from torch import Tensor, nn

from repro.nn.vocabularies.embeddings import InputLayer, VectorEmbedding
from repro.nn.vocabularies.heads import LinearHead


class HiddenLayers(nn.Sequential):
    """``Dropout(ReLU(x W + b))`` for each width in turn.

    Args:
        d_in: channels going in.
        widths: of the layers; none changes nothing.
        dropout: behind each ReLU, in [0, 1).
        gain: of orthogonal matrices with biases of 0; None begins as torch does.

    Raises:
        ValueError: a width below 1.
    """

    def __init__(self, d_in: int, widths: Sequence[int], dropout: float, gain: float | None = None) -> None:
        if any(width < 1 for width in widths):
            raise ValueError(f"layers must be at least 1 wide, not {list(widths)}")
        layers: list[nn.Module] = []
        for width in widths:
            linear = nn.Linear(d_in, width)
            if gain is not None and not linear.weight.is_meta:
                nn.init.orthogonal_(linear.weight, gain)
            if gain is not None:
                nn.init.zeros_(linear.bias)
            layers += [linear, nn.ReLU(), nn.Dropout(dropout)]
            d_in = width
        super().__init__(*layers)


class PerceptronEmbedding(InputLayer):
    """Hidden layers and a projection of real vectors, all of them begun as orthogonal matrices.

    Args:
        width: channels coming out.
        size: width of a vector going in, C.
        hidden: widths of the layers between; none is :class:`~repro.nn.VectorEmbedding`.
        gain: of the orthogonal matrices.
        dropout: behind each ReLU and on the output, in [0, 1).

    Raises:
        ValueError: a width below 1.

    Source: kzl/universal-computation, fpt.py, ``in_layer_sizes``; not in the paper (Lu et al. 2021).
    """

    def __init__(
        self, width: int, size: int, hidden: list[int], gain: float = 1.41, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.size = size
        self.hidden = HiddenLayers(size, hidden, dropout, gain)
        self.last = VectorEmbedding(width, hidden[-1] if hidden else size, gain, dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Vectors ``(..., width)`` of vectors ``(..., C)``."""
        return self.last(self.hidden(x))


class PerceptronHead(LinearHead):
    """Hidden layers and a linear output layer with a bias.

    Args:
        d_model: D.
        size: V, classes.
        hidden: widths of the layers between.
        dropout: behind each ReLU, in [0, 1).

    Raises:
        ValueError: a width below 1.

    Source: kzl/universal-computation, fpt.py, ``out_layer_sizes``; not in the paper (Lu et al. 2021).
    """

    def __init__(self, d_model: int, size: int, hidden: list[int], dropout: float = 0.1) -> None:
        super().__init__(hidden[-1] if hidden else d_model, size, bias=True)
        self.hidden = HiddenLayers(d_model, hidden, dropout)

    def logits(self, hidden: Tensor) -> Tensor:
        """``(..., D)`` to ``(..., V)``."""
        return super().logits(self.hidden(hidden))
