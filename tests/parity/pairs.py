"""Encoder-decoders of fairseq: how a recipe is shrunk to a file's settings, and sentence pairs as batches."""

from typing import Any

import torch
from torch import Tensor

from repro.batches import PairBatch


def overrides(settings: dict[str, Any]) -> dict[str, Any]:
    """The overrides that shrink a recipe of an encoder-decoder to a file's settings and take all dropouts out."""
    net = "model.net"
    mixer, cross, hidden = (f"{net}.blocks.{part}" for part in ("mixers.0", "cross", "feed_forward"))
    return {
        "model.optimizer.lr": settings["lr"],
        "model.label_smoothing": settings["eps"],
        f"{net}.d_model": settings["d_model"],
        f"{net}.encoder_layers": settings["layers"],
        f"{net}.decoder_layers": settings["layers"],
        f"{net}.dropout": 0.0,
        f"{net}.vocabulary.size": settings["V"],
        f"{mixer}.n_heads": settings["heads"],
        f"{mixer}.dropout": 0.0,
        f"{cross}.n_heads": settings["heads"],
        f"{cross}.dropout": 0.0,
        f"{hidden}.d_ff": settings["ff"],
        f"{hidden}.dropout": 0.0,
        f"{net}.blocks.sublayer.dropout": 0.0,
    }


def pairs(
    source: Tensor, before: Tensor, target: Tensor, lengths: tuple[Tensor, Tensor], total: int
) -> PairBatch:
    """One micro-batch.

    Args:
        source: ``(B, S)``, padded on the right.
        before: ``(B, T)``, the decoder's inputs.
        target: ``(B, T)``.
        lengths: of sources and of targets, ``(B,)`` each.
        total: targets of the whole update.
    """
    return PairBatch(source, lengths[0], before, target, lengths[1], torch.arange(len(source)), total)
