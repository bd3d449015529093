"""A vocabulary: one place for token vectors going in, scores coming out, and for tying the two."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from repro.nn.embeddings import TokenEmbedding
from repro.nn.heads import LinearHead, TokenScores, token_scores


class Vocabulary(nn.Module):
    """Embedding and output layer over one vocabulary.

    Args:
        token_width: channels of a token vector going in.
        d_model: D, channels coming out; also the scale ``sqrt(D)`` of the embedding.
        size: V.
        tied: one matrix for both; needs ``token_width == d_model``.
        scaled: multiply embeddings by ``sqrt(D)``.

    Raises:
        ValueError: tied, and the widths differ.

    Source: Vaswani et al. 2017, section 3.4.
    """

    def __init__(
        self, token_width: int, d_model: int, size: int, tied: bool = True, scaled: bool = True
    ) -> None:
        super().__init__()
        if tied and token_width != d_model:
            raise ValueError(f"a tied vocabulary needs equal widths, not {token_width} in and {d_model} out")
        self.size = size
        self.embedding = TokenEmbedding(token_width, size, math.sqrt(d_model) if scaled else 1.0)
        self.head = None if tied else LinearHead(d_model, size)

    def embed(self, ids: Tensor) -> Tensor:
        """Vectors ``(..., token_width)`` of token ids ``(...)``."""
        return self.embedding(ids)

    def logits(self, hidden: Tensor) -> Tensor:
        """``(..., D)`` to ``(..., V)``."""
        if self.head is None:
            return linear(hidden, self.embedding.table.weight)
        return self.head.logits(hidden)

    def score(self, hidden: Tensor, targets: Tensor) -> TokenScores:
        """Scores of targets ``(...)`` given hidden states ``(..., D)``."""
        return token_scores(self.logits(hidden), targets)

    def nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """``-log p`` of targets ``(...)`` in nats given hidden states ``(..., D)``, in float32 or better."""
        logits = self.logits(hidden)
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return cross_entropy(exact.flatten(0, -2), targets.flatten(), reduction="none").view(targets.shape)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """Log-probabilities ``(..., V)`` given hidden states ``(..., D)``, in float32 or better."""
        logits = self.logits(hidden)
        return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
