"""A small language model over generated streams, with and without a memory, under a real Trainer."""

from functools import partial
from typing import Any

import lightning.pytorch as pl
import torch
from torch import nn

from repro.data.sets.puzzles.echo import EchoData
from repro.models import DecoderLM
from repro.nn import Blocks, FeedForward, InfusedAttention, NoPositions, PreNorm, Vocabulary
from repro.tasks import Constant, LanguageModel, Protocol

SYMBOLS = 5
TOKENS = {"train_tokens": 400, "eval_tokens": 83}


def network(mem_len: int = 4, dropout: float = 0.0, seed: int = 0) -> DecoderLM:
    torch.manual_seed(seed)
    blocks = Blocks(
        mixers=[partial(InfusedAttention, n_heads=2, mem_len=mem_len)],
        feed_forward=partial(FeedForward, d_ff=12),
        sublayer=partial(PreNorm, dropout=dropout),
    )
    net = DecoderLM(8, 2, partial(Vocabulary, size=SYMBOLS), blocks, NoPositions, dropout=dropout)
    for parameter in net.parameters():  # far from uniform, so that what is seen shows in every likelihood
        parameter.data.mul_(2.0)
    return net.double()


def task(net: nn.Module, protocol: Protocol, **settings: Any) -> LanguageModel:
    return LanguageModel(net, partial(torch.optim.SGD, lr=0.005), Constant, protocol, "symbol", **settings)


def data(seq_len: int = 4, rows: int = 6) -> EchoData:
    return EchoData(SYMBOLS, batch_tokens=seq_len * rows, seq_len=seq_len, lag=5, **TOKENS)


def trainer(steps: int, micro_batches: int = 1, **settings: Any) -> pl.Trainer:
    return pl.Trainer(
        max_steps=steps, accumulate_grad_batches=micro_batches, accelerator="cpu", logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0, check_val_every_n_epoch=None,
        **settings,
    )  # fmt: skip
