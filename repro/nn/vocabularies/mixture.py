"""A vocabulary of levels of brightness: a mixture of logistics over ordered numbers."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, logsigmoid

from repro.nn.device import without_autocast
from repro.nn.vocabularies.embeddings import TokenEmbedding

LEAST_LOG_SCALE = -7.0
LEAST_MASS = 1e-5  # at or below it, a level's probability is reckoned from the density at its middle


class Logistics(NamedTuple):
    """Mixtures of K logistic distributions on the real line, all ``(K, ...)``, in float32 or better.

    Attributes:
        logits: of the components, not normalised.
        means: in units in which the levels lie evenly in ``[-1, 1]``.
        log_scales: logarithms of the scales.
    """

    logits: Tensor
    means: Tensor
    log_scales: Tensor


class PixelVocabulary(nn.Module):
    """Embedding of levels, and an output layer that gives each its share of a mixture of logistics.

    Level ``y`` lies at ``2 y / (size - 1) - 1`` and owns everything that is nearer to it than to any other level, the
    lowest and the highest everything beyond themselves too. Where a component gives a level between them ``1e-5`` or
    less, its density at the level's middle times the width stands in: with narrow components that is less than the
    true share, so that all levels together may fall short of 1 by some ``1e-3`` at worst. Where levels are drawn,
    probabilities are normalised.

    Args:
        token_width: channels of a token vector going in.
        d_model: D, channels coming out.
        n_mixtures: K, components of the mixture.
        size: V, levels.

    Raises:
        ValueError: ``n_mixtures`` is below 1, or ``size`` below 2.

    Source: Salimans et al. 2017 (PixelCNN++), section 2.1, without its conditioning between colours; the threshold is
    that of its code and of the image code of Katharopoulos et al. 2020.
    Deviation: differences of sigmoids are taken as logarithms, which loses no digits; the output layer and all behind
    it run in float32 under mixed precision, whose means would be coarser than the levels. Drawing uses the scales of
    the loss, ``exp(s)``; the code of Katharopoulos et al. draws with ``elu(s) + 1.0001``.
    """

    def __init__(self, token_width: int, d_model: int, n_mixtures: int = 10, size: int = 256) -> None:
        super().__init__()
        if n_mixtures < 1 or size < 2:
            raise ValueError(
                f"a mixture needs 1 component and 2 levels at least, not {n_mixtures} and {size}"
            )
        self.size = size
        self.n_mixtures = n_mixtures
        self.embedding = TokenEmbedding(token_width, size)
        self.proj = nn.Linear(d_model, 3 * n_mixtures)

    def embed(self, ids: Tensor) -> Tensor:
        """Vectors ``(..., token_width)`` of levels ``(...)``."""
        return self.embedding(ids)

    def mixture(self, hidden: Tensor) -> Logistics:
        """The distributions of hidden states ``(..., D)``."""
        exact = torch.promote_types(torch.promote_types(hidden.dtype, self.proj.weight.dtype), torch.float32)
        with without_autocast(hidden.device):
            numbers = linear(hidden.to(exact), self.proj.weight.to(exact), self.proj.bias.to(exact))
        # components first: sums over a short last axis are slow
        logits, means, log_scales = numbers.movedim(-1, 0).contiguous().chunk(3)
        return Logistics(logits, means, log_scales.clamp(min=LEAST_LOG_SCALE))

    def nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """``-log p`` of levels ``(...)`` in nats given hidden states ``(..., D)``, in float32 or better.

        A target of -1 gives some finite number that means nothing.
        """
        return -self._log_mass(self.mixture(hidden), targets)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """``log p`` of every level, ``(..., V)``, as :meth:`nll` has it: not normalised."""
        mixture = Logistics(*(part[..., None] for part in self.mixture(hidden)))
        return self._log_mass(mixture, torch.arange(self.size, device=hidden.device))

    def _log_mass(self, mixture: Logistics, levels: Tensor) -> Tensor:
        """Logarithms of what levels ``(...)`` own of mixtures ``(K, ...)``."""
        logits, means, log_scales = mixture
        half = 1.0 / (self.size - 1)  # of a level's width
        narrow = torch.exp(-log_scales)
        middle = (2 * half * levels.to(means.dtype) - 1 - means) * narrow
        # with endless scales the width is zero, whose logarithm has no gradient
        reach = (half * narrow).clamp(min=torch.finfo(means.dtype).tiny)
        below = logsigmoid(middle + reach)
        above = logsigmoid(reach - middle)
        # σ(a) - σ(b) = σ(a) σ(-b) (1 - exp(b - a)), and the density is σ'(x) = σ(x) σ(-x) = σ(x)² exp(-x)
        between = below + above + torch.log(-torch.expm1(-2 * reach))
        density = 2 * logsigmoid(middle) - middle + (math.log(2 * half) - log_scales)
        mass = torch.where(between > math.log(LEAST_MASS), between, density)
        mass = torch.where(levels <= 0, below, mass)
        mass = torch.where(levels >= self.size - 1, above, mass)
        return torch.logsumexp(logits + mass, dim=0) - torch.logsumexp(logits, dim=0)
