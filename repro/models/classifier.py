"""A body with a task's own input and output layer; the trained part is a declared set of modules."""

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from repro.models.body import Body
from repro.nn.bidirectional import BidirectionalLSTM
from repro.nn.layers.sublayer import WeightedShortcut
from repro.nn.recurrent import NormedLSTM
from repro.nn.settings import AS_BUILT, CallSettings
from repro.nn.vocabularies.embeddings import InputLayer
from repro.nn.vocabularies.perceptron import PerceptronHead

Group = Literal["input", "output", "norms", "positions", "attention", "feed_forward", "last_attention"]


class Classifier(nn.Module):
    """Puts vectors or ids through a body and reads classes from its last tokens.

    Args:
        input: maker of the input layer from ``d_model``: :class:`~repro.nn.VectorEmbedding`,
            :class:`~repro.nn.PerceptronEmbedding` or :class:`~repro.nn.TokenEmbedding` with their ``size``.
        body: what stands between.
        n_classes: classes of a target.
        n_read: tokens that are read, the last ones.
        per_token: targets that each of them gives.
        trained: the groups of modules that are trained, the others are frozen; None trains all.
        output_layers: widths of hidden layers between the body and the classes
            (:class:`~repro.nn.PerceptronHead`); they belong to the group ``output``.
        output_dropout: behind each of these layers, in [0, 1).

    Raises:
        ValueError: a group that the body does not have, or a width below 1.

    Source: Lu et al. 2021, section 2.2.
    """

    def __init__(
        self,
        input: Callable[[int], InputLayer],
        body: Body,
        n_classes: int,
        n_read: int = 1,
        per_token: int = 1,
        trained: list[Group] | None = None,
        output_layers: list[int] | None = None,
        output_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.input = input(body.positions.token_width)
        self.body = body
        self.head = PerceptronHead(body.d_out, per_token * n_classes, output_layers or [], output_dropout)
        self.n_classes = n_classes
        self.n_read = n_read
        self.n_targets = n_read * per_token
        if trained is not None:
            train_only(self, groups(self), trained)

    def forward(
        self, inputs: Tensor, lengths: Tensor | None = None, settings: CallSettings = AS_BUILT
    ) -> Tensor:
        """Logits ``(B, N, classes)`` of vectors ``(B, T, C)`` or ids ``(B, T)``; ``lengths (B,)`` are valid."""
        if lengths is None:
            read = self.body(self.input(inputs), None, self.n_read, settings)
        else:
            hidden = self.body(self.input(inputs), lengths, settings=settings)
            back = torch.arange(-self.n_read, 0, device=lengths.device)
            read = hidden.gather(1, (lengths[:, None] + back)[..., None].expand(-1, -1, hidden.shape[-1]))
        return self.head.logits(read).view(len(inputs), self.n_targets, self.n_classes)


def groups(net: Classifier) -> dict[str, list[nn.Module]]:
    """The modules of a classifier by purpose; every parameter of a body without recurrence is in one.

    Weights of shortcuts are with the norms.
    """
    layers = net.body.stack.each()
    mixers = [
        layer["mix"].body
        for layer in layers
        if not isinstance(layer["mix"].body, NormedLSTM | BidirectionalLSTM)
    ]
    parts: dict[str, list[nn.Module]] = {
        "input": [net.input],
        "output": [net.head],
        "positions": [net.body.positions, *(layer["positions"] for layer in layers if "positions" in layer)],
        "norms": [m for m in net.body.modules() if isinstance(m, nn.LayerNorm | WeightedShortcut)],
        "attention": mixers,
        "last_attention": mixers[-1:],
        "feed_forward": [layer["feed_forward"].body for layer in layers if "feed_forward" in layer],
    }
    return {name: modules for name, modules in parts.items() if any(list(m.parameters()) for m in modules)}


def train_only(net: nn.Module, parts: dict[str, list[nn.Module]], names: list[Group]) -> None:
    """Freezes all parameters but those of the named groups.

    Raises:
        ValueError: a group that is not there, or one named twice.
    """
    for name in names:
        if name not in parts or names.count(name) > 1:
            known = ", ".join(n for n in get_args(Group) if n in parts)
            raise ValueError(
                f"trained: {name!r} is not a group of this network, or is repeated; it has {known}"
            )
    net.requires_grad_(False)
    for name in names:
        for module in parts[name]:
            module.requires_grad_(True)
