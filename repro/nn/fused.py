"""Several linear maps of one input, computed as one product."""

from collections.abc import Sequence

from torch import nn


class FusedLinear(nn.Linear):
    """Linear maps of the same input with their matrices stacked in one weight.

    It computes what ``nn.Linear`` of the sum of the widths computes, and has its parameters. Its class and ``widths``
    record that each part is a matrix of its own, for what treats matrices one by one (:func:`parts_of`).

    Args:
        d_in: channels of the input.
        widths: channels out of each map, in the order of the rows.
        bias: a bias for each map; they are one vector, too.
    """

    def __init__(self, d_in: int, widths: Sequence[int], bias: bool = True) -> None:
        super().__init__(d_in, sum(widths), bias=bias)
        self.widths = list(widths)


def parts_of(net: nn.Module) -> dict[nn.Parameter, list[int]]:
    """The rows of each map, for every weight and bias of the fused layers of a network."""
    fused = (module for module in net.modules() if isinstance(module, FusedLinear))
    return {parameter: layer.widths for layer in fused for parameter in layer.parameters(recurse=False)}
