"""Output heads: from hidden states to the log-likelihood of targets. Full logits exist only on request."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from repro.nn.autograd import Context


class TokenScores(NamedTuple):
    """The scores of each target that losses need, in nats.

    Attributes:
        nll: ``-log p(target)``, ``(...)``.
        uniform: mean of ``-log p`` over the whole vocabulary, ``(...)``; what label smoothing adds.
    """

    nll: Tensor
    uniform: Tensor

    def smoothed(self, epsilon: float, size: int) -> Tensor:
        """Cross-entropy with ``1 - ε`` on the target and ``ε / (V - 1)`` on each other token, ``(...)``.

        Args:
            epsilon: ε in [0, 1).
            size: V.

        Source: Szegedy et al. 2016 as in tensor2tensor, which the Transformer's authors used.
        Deviation: none from there; PyTorch and older fairseq spread ε over all V tokens, the target included, which is
        this with ``ε (V - 1) / V``.
        """
        others = epsilon / (size - 1)
        return (1.0 - epsilon - others) * self.nll + others * size * self.uniform


class PaddedScores(NamedTuple):
    """Scores whose smoothing gives padding no share, in nats.

    Attributes:
        nll: ``-log p(target)``, ``(...)``.
        uniform: mean of ``-log p`` over the whole vocabulary, ``(...)``.
        padding: ``-log p(padding)``, ``(...)``.
    """

    nll: Tensor
    uniform: Tensor
    padding: Tensor

    def smoothed(self, epsilon: float, size: int) -> Tensor:
        """Kullback-Leibler divergence from the target distribution to the model's, ``(...)``.

        Wanted is ``1 - ε`` on the target, 0 on padding and ``ε / (V - 2)`` on each other token. Where the target is
        padding the number means nothing.

        Args:
            epsilon: ε in [0, 1).
            size: V, above 2.

        Source: ``LabelSmoothing`` of the Annotated Transformer (harvardnlp/annotated-transformer).
        """
        others = epsilon / (size - 2)
        crossed = (1.0 - epsilon - others) * self.nll + others * (size * self.uniform - self.padding)
        entropy = -(1.0 - epsilon) * math.log(1.0 - epsilon)
        if epsilon > 0.0:
            entropy -= epsilon * math.log(others)
        return crossed - entropy


class _Context(Context):
    dtype: torch.dtype
    padding: int | None


class _TokenScores(torch.autograd.Function):
    """All scores from one table of log-probabilities, with one buffer for their gradient.

    The logits are not kept: the table alone gives the gradient, so they are freed before the backward pass.
    """

    @staticmethod
    def forward(ctx: _Context, logits: Tensor, targets: Tensor, padding: int | None) -> tuple[Tensor, ...]:
        exact = torch.promote_types(logits.dtype, torch.float32)
        log_probs = logits.log_softmax(-1, dtype=exact)
        ctx.save_for_backward(log_probs, targets)
        ctx.dtype, ctx.padding = logits.dtype, padding
        losses = -log_probs.gather(-1, targets[..., None]).squeeze(-1), -log_probs.mean(-1)
        return losses if padding is None else (*losses, -log_probs[..., padding])

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, *grads: Tensor) -> tuple[Tensor, None, None]:
        grad_nll, grad_uniform = grads[:2]
        log_probs, targets = ctx.saved_tensors
        grad = log_probs.exp()
        grad.mul_(sum(grads[2:], grad_nll + grad_uniform)[..., None])
        grad.sub_((grad_uniform / log_probs.shape[-1])[..., None])
        grad.scatter_add_(-1, targets[..., None], -grad_nll[..., None])
        if ctx.padding is not None:
            grad[..., ctx.padding] -= grads[2]
        return grad.to(ctx.dtype), None, None


def token_scores(logits: Tensor, targets: Tensor) -> TokenScores:
    """Scores targets ``(...)`` under logits ``(..., V)``, in float32 or better."""
    return TokenScores(*_TokenScores.apply(logits, targets, None))


def padded_scores(logits: Tensor, targets: Tensor, padding: int) -> PaddedScores:
    """Scores targets ``(...)`` under logits ``(..., V)``, with the score of the token ``padding``."""
    return PaddedScores(*_TokenScores.apply(logits, targets, padding))


class LinearHead(nn.Module):
    """A linear output layer.

    Args:
        d_model: D.
        size: V, classes or tokens.
        bias: whether it has one.
    """

    def __init__(self, d_model: int, size: int, bias: bool = False) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, size, bias=bias)

    def logits(self, hidden: Tensor) -> Tensor:
        """``(..., D)`` to ``(..., V)``."""
        return self.proj(hidden)

    def score(self, hidden: Tensor, targets: Tensor) -> TokenScores:
        """Scores of targets ``(...)`` given hidden states ``(..., D)``."""
        return token_scores(self.logits(hidden), targets)
