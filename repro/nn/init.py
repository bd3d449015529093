"""Published initialisations, each with its source. A model takes one as ``init`` and applies it once."""

import math

from torch import nn


def glorot(model: nn.Module) -> None:
    """Glorot-uniform linear weights, zero biases, ``N(0, 1/width)`` embeddings, unit norms.

    Fused projections count as one matrix: a fused q, k, v of width 3D has the bound ``sqrt(6 / 4D)``.

    Source: tensor2tensor of August 2017 (the code of Vaswani et al. 2017).
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=1.0 / math.sqrt(module.embedding_dim))
    _neutral(model)


def normal_002(model: nn.Module) -> None:
    """``N(0, 0.02)`` linear and embedding weights, zero biases, unit norms.

    Source: Radford et al. 2019 (GPT-2), without its scaling by depth.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
    _neutral(model)


def _neutral(model: nn.Module) -> None:
    """Zero biases and unit norms."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.LayerNorm) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.LayerNorm) and module.weight is not None:
            nn.init.ones_(module.weight)
