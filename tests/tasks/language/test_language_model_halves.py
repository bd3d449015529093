"""Half losses with a memory: windows overlap, and the memory ends where the next window begins."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.data.sets.puzzles.echo import EchoData
from repro.errors import UserError
from repro.models import DecoderLM
from repro.nn import (
    Blocks,
    FeedForward,
    LinearAttention,
    NoPositions,
    PreNorm,
    RelativeAttention,
    ShawAttention,
    Vocabulary,
)
from repro.tasks import Constant, LanguageModel, Protocol
from tests.tasks.streams import SYMBOLS, TOKENS, network, task, trainer

MIXERS = {
    "relative": partial(RelativeAttention, n_heads=2, mem_len=5),
    "shaw": partial(ShawAttention, n_heads=2, mem_len=5, max_distance=9),
}


def data(context: int) -> EchoData:
    return EchoData(SYMBOLS, batch_tokens=24, seq_len=6, lag=5, context=context, **TOKENS)


def made(mixer: str) -> LanguageModel:
    torch.manual_seed(0)
    blocks = Blocks(
        mixers=[MIXERS[mixer]],
        feed_forward=partial(FeedForward, d_ff=12),
        sublayer=partial(PreNorm, dropout=0.0),
    )
    net = DecoderLM(8, 2, partial(Vocabulary, size=SYMBOLS), blocks, NoPositions, dropout=0.0)
    return LanguageModel(
        net.double(), partial(torch.optim.SGD, lr=0.005), Constant, Protocol(6, rows=2, mem_len=5), "symbol"
    )


@pytest.mark.parametrize("context", [1, 3, 4])
@pytest.mark.parametrize("mixer", list(MIXERS))
def test_the_memory_ends_where_the_next_window_begins(mixer: str, context: int) -> None:
    language, plan = made(mixer), data(context)
    tokens = torch.from_numpy(plan.tokens("train")).long()
    segments = plan.plan_epoch(0)
    for segment, batch, following in zip(segments, plan.train_dataloader(), segments[1:], strict=False):
        language.training_step(batch, 0)
        state: Any = language.carried["memory"]["stream"]
        for row, (begin, end) in enumerate(zip(segment.targets[:, 0], following.targets[:, 0], strict=True)):
            kept, length = state["mix"][0]["memory"][row], int(state["mix"][0]["length"][row])
            first = int(segments[0].targets[row, 0])
            assert length == min(5, int(end) - first), (begin, end)
            expected: Tensor = language.net.vocabulary.embed(tokens[int(end) - length : int(end)][None])[0]
            assert torch.equal(kept[len(kept) - length :], expected)
            assert int(state["start"][row]) == int(end) - first


@pytest.mark.parametrize("mixer", list(MIXERS))
def test_micro_batches_and_epochs(mixer: str) -> None:
    weights = []
    for micro_batches in (1, 2):
        language = made(mixer)
        trainer(40, micro_batches, limit_val_batches=0).fit(language, datamodule=data(3))
        assert language.trainer.current_epoch >= 1
        weights.append(torch.cat([p.detach().flatten() for p in language.net.parameters()]))
    assert float((weights[0] - weights[1]).abs().max()) < 1e-12


def test_a_memory_that_would_hold_what_is_read_again_is_refused() -> None:
    language = task(network(4), Protocol(seq_len=4, rows=3, mem_len=4))
    with pytest.raises(UserError, match=r"context 3.*mem_len"):
        trainer(1, limit_val_batches=0).fit(language, datamodule=data(3))
    trainer(1, limit_val_batches=0).fit(task(network(0), Protocol(seq_len=4)), datamodule=data(3))


def test_a_state_beside_the_memory_is_refused_too() -> None:
    language = made("relative")
    net: Any = language.net
    net.stack.layers[1]["mix"].body = LinearAttention(8, 2)
    with pytest.raises(UserError, match=r"context 3.*state of a mixer"):
        trainer(1, limit_val_batches=0).fit(language.double(), datamodule=data(3))
