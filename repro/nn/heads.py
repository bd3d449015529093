"""Output heads: from hidden states to the log-likelihood of targets. Full logits exist only where asked for."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class TokenScores(NamedTuple):
    """What a loss needs to know of each target, in nats.

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
        Deviation: none from there; PyTorch and older fairseq spread ε over all V tokens, the target included.
        """
        others = epsilon / (size - 1)
        return (1.0 - epsilon - others) * self.nll + others * size * self.uniform


class _TokenScores(torch.autograd.Function):
    """Both scores from one pass over the logits, with one pass and one buffer for their gradient."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        norm = logits.logsumexp(-1)
        gold = logits.gather(-1, targets[..., None]).squeeze(-1)
        ctx.save_for_backward(logits, norm, targets)
        return norm - gold, norm - logits.mean(-1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        grad_nll, grad_uniform = grads
        logits, norm, targets = ctx.saved_tensors
        grad = (logits - norm[..., None]).exp_()
        grad.mul_((grad_nll + grad_uniform)[..., None])
        grad.sub_((grad_uniform / logits.shape[-1])[..., None])
        grad.scatter_add_(-1, targets[..., None], -grad_nll[..., None])
        return grad, None


def token_scores(logits: Tensor, targets: Tensor) -> TokenScores:
    """Scores targets ``(...)`` under logits ``(..., V)``, in float32 or better."""
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return TokenScores(*_TokenScores.apply(exact, targets))


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
