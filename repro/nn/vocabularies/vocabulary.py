"""A vocabulary: the input vectors of tokens, their output scores, and the tying of the two."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from repro.nn.vocabularies.embeddings import TokenEmbedding
from repro.nn.vocabularies.heads import LinearHead, PaddedScores, TokenScores, padded_scores, token_scores

_Loss = Callable[[Tensor, Tensor], tuple[Tensor, ...]]


class Vocabulary(nn.Module):
    """Embedding and output layer over one vocabulary.

    Args:
        token_width: channels of a token vector going in.
        d_model: D, channels coming out, twice the model's behind two streams side by side; also the scale ``sqrt(D)``
            of the embedding.
        size: V.
        tied: one matrix for both; needs ``token_width == d_model``.
        scaled: multiply embeddings by ``sqrt(D)``.
        loss_chunk: tokens whose logits exist at a time in :meth:`nll` and :meth:`score`; with a gradient, they are
            computed again in the backward pass. None takes all at once.
        bias: a number for each token that is added to its score; tied, it begins at 0, else as ``nn.Linear`` draws it.

    Raises:
        ValueError: tied, and the widths differ, or a loss_chunk below 1.

    Source: Vaswani et al. 2017, section 3.4; chunks: Kitaev et al. 2020, section 3.
    """

    def __init__(
        self,
        token_width: int,
        d_model: int,
        size: int,
        tied: bool = True,
        scaled: bool = True,
        loss_chunk: int | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        if loss_chunk is not None and loss_chunk < 1:
            raise ValueError(f"loss_chunk must be at least 1, not {loss_chunk}")
        self.loss_chunk = loss_chunk
        if tied and token_width != d_model:
            raise ValueError(f"a tied vocabulary needs equal widths, not {token_width} in and {d_model} out")
        self.size = size
        self.embedding = TokenEmbedding(token_width, size, math.sqrt(d_model) if scaled else 1.0)
        self.head = None if tied else LinearHead(d_model, size, bias)
        self.bias = nn.Parameter(torch.zeros(size)) if tied and bias else None

    def embed(self, ids: Tensor) -> Tensor:
        """Vectors ``(..., token_width)`` of token ids ``(...)``."""
        return self.embedding(ids)

    def logits(self, hidden: Tensor) -> Tensor:
        """``(..., D)`` to ``(..., V)``."""
        if self.head is None:
            scores = self.embedding.scores(hidden)
            return scores if self.bias is None else scores + self.bias
        return self.head.logits(hidden)

    def score(self, hidden: Tensor, targets: Tensor) -> TokenScores:
        """Scores of targets ``(...)`` given hidden states ``(..., D)``."""
        return TokenScores(*self._by_chunk(self._score, hidden, targets))

    def padded_score(self, hidden: Tensor, targets: Tensor, padding: int) -> PaddedScores:
        """Scores of targets ``(...)`` given hidden states ``(..., D)``, with that of the token ``padding``."""
        return PaddedScores(*self._by_chunk(partial(self._padded_score, padding=padding), hidden, targets))

    def nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """``-log p`` of targets ``(...)`` in nats given hidden states ``(..., D)``, in float32 or better."""
        return self._by_chunk(self._nll, hidden, targets)[0]

    def _score(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        return token_scores(self.logits(hidden), targets)

    def _padded_score(self, hidden: Tensor, targets: Tensor, padding: int) -> tuple[Tensor, ...]:
        return padded_scores(self.logits(hidden), targets, padding)

    def _nll(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        logits = self.logits(hidden)
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        losses = cross_entropy(exact.flatten(0, -2), targets.flatten(), reduction="none")
        return (losses.view(targets.shape),)

    def _by_chunk(self, function: _Loss, hidden: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        """A loss of every token ``(...)``, computed for a limited number of tokens at a time."""
        size, count = self.loss_chunk, targets.numel()
        if size is None or count <= size:
            return function(hidden, targets)
        if torch.is_grad_enabled():  # nothing in there is random
            function = partial(checkpoint, function, use_reentrant=False, preserve_rng_state=False)
        parts = zip(hidden.flatten(0, -2).split(size), targets.flatten().split(size), strict=True)
        columns = zip(*(function(h, t) for h, t in parts), strict=True)
        return tuple(torch.cat(column).view(targets.shape) for column in columns)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """Log-probabilities ``(..., V)`` given hidden states ``(..., D)``, in float32 or better."""
        logits = self.logits(hidden)
        return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
