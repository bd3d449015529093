"""A language model that reads blocks, each of which knows the earlier ones by a memory alone."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.models import DecoderLM
from repro.models.body import gpt2_blocks
from repro.nn import Added, ContinuousMemory, ContinuousSignal, FullAttention, LearnedPositions, Vocabulary
from repro.nn.mixer import detach
from repro.tasks import Protocol
from repro.tasks.language.language_model import scored_hidden
from tests.tasks import streams

BLOCK, D = 4, 8
PROTOCOL = Protocol(BLOCK, rows=3, mem_len=BLOCK)


def network(forget_after: int = 3 * BLOCK, bins: int | None = None, n_layers: int = 2) -> DecoderLM:
    """Positions exist for one block only: they have to begin anew in each."""
    torch.manual_seed(2)
    signal = ContinuousSignal(8, samples=6, tau=0.5, bins=bins, forget_after=forget_after)
    blocks = gpt2_blocks(2, 16, 0.0)
    short = partial(FullAttention, n_heads=2)
    blocks.mixers = [partial(ContinuousMemory, short_term=short, block=BLOCK, signal=signal)]
    positions = partial(Added, table=partial(LearnedPositions, max_length=BLOCK), restart=True)
    vocabulary = partial(Vocabulary, size=streams.SYMBOLS, scaled=False)
    net = DecoderLM(D, n_layers, vocabulary, blocks, positions, dropout=0.0)
    for parameter in net.parameters():
        parameter.data.mul_(2.0)
    return net.double()


def one_by_one(net: DecoderLM, ids: Tensor) -> Tensor:
    """Hidden states of blocks whose memory is carried by hand."""
    state: Any = net.init_state(len(ids))
    result = []
    for block in ids.split(BLOCK, dim=1):
        mixed = net(block, state)
        state = detach(mixed.state)
        result.append(mixed.y)
    return torch.cat(result, dim=1)


@pytest.mark.parametrize("bins", [None, 6])
@torch.no_grad()
def test_evaluation_carries_the_memory_and_positions_begin_anew(bins: int | None) -> None:
    task = streams.task(network(bins=bins), PROTOCOL).eval()
    data, evaluation = streams.data(BLOCK, 3), task.validation()
    data.setup("fit")
    batches = list(data.evaluation_loader(evaluation))
    assert len(batches) > 5
    ids = torch.cat([batch.ids for batch in batches[:-1]], dim=1)
    expected = one_by_one(task.net, ids)  # type: ignore[arg-type]
    read = torch.cat([task._read(batch, PROTOCOL) for batch in batches], dim=1)
    assert torch.allclose(read[:, : ids.shape[1]], expected, atol=1e-12)
    alone = torch.cat([task.net(block).y for block in ids.split(BLOCK, dim=1)], dim=1)
    blocks = (alone - expected).abs().amax((0, 2)).split(BLOCK)
    assert float(blocks[0].max()) < 1e-12
    assert all(float(block.min()) > 1e-6 for block in blocks[1:]), "every later block has a memory"
    again = torch.cat([task._read(batch, PROTOCOL) for batch in batches], dim=1)
    assert torch.equal(again, read), "an evaluation begins with an empty memory"


@pytest.mark.parametrize("forget_after", [3 * BLOCK, 4 * BLOCK])
@torch.no_grad()
def test_a_memory_is_forgotten_when_it_is_full(forget_after: int) -> None:
    """Where it holds three blocks at most, the fifth block knows the fourth only, in a single layer."""
    net = network(forget_after, n_layers=1).eval()
    ids = torch.randint(streams.SYMBOLS, (1, 5 * BLOCK))
    other = torch.cat([(ids[:, : 3 * BLOCK] + 1) % streams.SYMBOLS, ids[:, 3 * BLOCK :]], dim=1)
    gap = (one_by_one(net, ids) - one_by_one(net, other)).abs().amax((0, 2)).split(BLOCK)
    assert float(gap[3].min()) > 1e-6
    assert (float(gap[4].max()) == 0.0) == (forget_after == 3 * BLOCK)


def test_training_carries_the_memory() -> None:
    """The losses of the first batches are those of blocks that are read in a row."""
    data, task = streams.data(BLOCK, 3), streams.task(network(), PROTOCOL)
    data.setup("fit")
    batches = [batch for batch, _ in zip(data.train_dataloader(), range(5), strict=False)]
    hidden = one_by_one(task.net, torch.cat([batch.ids for batch in batches], dim=1)).split(BLOCK, dim=1)  # type: ignore[arg-type]
    for i, (y, batch) in enumerate(zip(hidden, batches, strict=True)):
        expected = task.net.vocabulary.nll(*scored_hidden(y, batch)).sum()
        result = task.training_step(batch, i)["sums"]["loss"]
        assert torch.allclose(torch.as_tensor(result), expected.detach(), atol=1e-10)
    assert not batches[-1].reset_memory
