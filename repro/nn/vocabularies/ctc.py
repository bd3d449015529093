"""Transcription without an alignment of frames: connectionist temporal classification."""

import torch
from torch import Tensor, nn

from repro.nn.device import host_ints

BLANK = 0


class CtcHead(nn.Module):
    """A linear output layer whose likelihood is that of all ways of stretching the targets over the frames.

    A way has a class at every frame, the blank (class 0) or one of the targets in their order; repeats of a class count
    once unless a blank stands between.

    Args:
        d_model: D.
        n_classes: V, the blank counted.

    Raises:
        ValueError: fewer than two classes.

    Source: Graves et al. 2006.
    """

    def __init__(self, d_model: int, n_classes: int) -> None:
        super().__init__()
        if n_classes < 2:
            raise ValueError(f"n_classes must be at least 2, a blank and one symbol, not {n_classes}")
        self.proj = nn.Linear(d_model, n_classes)
        self.n_classes = n_classes

    def logits(self, hidden: Tensor) -> Tensor:
        """``(..., D)`` to ``(..., V)``."""
        return self.proj(hidden)

    def nll(self, hidden: Tensor, lengths: Tensor, targets: Tensor) -> Tensor:
        """``-log p`` of each row's targets, in nats, ``(B,)``, in float32 or better.

        Infinite, with gradients that are no numbers, for a row with fewer frames than it needs: one for each target and
        one more between equal neighbours. Data leave such rows out.

        Args:
            hidden: ``(B, T, D)``.
            lengths: valid frames of each row, ``(B,)``.
            targets: ``(B, N)`` classes from 1, behind the last -1.
        """
        logits = self.logits(hidden)
        exact = torch.promote_types(logits.dtype, torch.float32)
        log_probs = logits.log_softmax(-1, dtype=exact).transpose(0, 1)
        # torch's CTC works with lengths on the host and would fetch them itself, one tensor after the other.
        (rows, steps), most = hidden.shape[:2], targets.shape[1]
        known = torch.cat([lengths, (targets >= 0).sum(1)])
        sizes = host_ints(known, lambda: [steps] * rows + [most] * rows)
        frames, counts = sizes[: len(lengths)], sizes[len(lengths) :]
        return torch.ctc_loss(log_probs, targets.clamp(min=0), frames, counts, BLANK, reduction=0)

    def decode(self, hidden: Tensor, lengths: Tensor) -> list[list[int]]:
        """The likeliest class of each frame, repeats once and without blanks: the classes of each row.

        Args:
            hidden: ``(B, T, D)``.
            lengths: valid frames of each row, ``(B,)``.

        Source: Graves et al. 2006, section 3.2, "best path decoding".
        """
        best = self.logits(hidden).argmax(-1)
        before = torch.cat([torch.full_like(best[:, :1], BLANK), best[:, :-1]], dim=1)
        valid = torch.arange(best.shape[1], device=best.device) < lengths[:, None]
        outputs = valid & (best != BLANK) & (best != before)
        return [row[is_output].tolist() for row, is_output in zip(best.cpu(), outputs.cpu(), strict=True)]
