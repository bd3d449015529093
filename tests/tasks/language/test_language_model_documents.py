"""The law of documents: what a model makes of a document does not depend on the documents before it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from repro.data import StreamData
from repro.models import DecoderLM
from repro.nn import (
    Blocks,
    CompressiveAttention,
    ContinuousMemory,
    ContinuousSignal,
    FeedForward,
    InfusedAttention,
    MeanCompression,
    NoPositions,
    PreNorm,
    RelativeAttention,
    Vocabulary,
)
from repro.nn.settings import CallSettings
from repro.tasks import Protocol
from tests.tasks import streams

SEQ_LEN, ROWS = 4, 2
LENGTHS = [18, 23, 14, 21, 19, 13, 27, 16]
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
SETTINGS = CallSettings(first_draw=7 << 20)
SIGNAL = ContinuousSignal(8, samples=6, tau=0.5, bins=5)
INFUSED = partial(InfusedAttention, n_heads=2, mem_len=SEQ_LEN)
MIXERS: dict[str, Callable[[int], nn.Module]] = {
    "infused": INFUSED,
    "relative": partial(RelativeAttention, n_heads=2, mem_len=6),
    "compressive": partial(
        CompressiveAttention, n_heads=2, mem_len=SEQ_LEN, compressed_len=4, compression=partial(MeanCompression, rate=2)
    ),
    "sticky": partial(ContinuousMemory, short_term=INFUSED, block=SEQ_LEN, signal=SIGNAL),
}  # fmt: skip


class Documents(StreamData):
    """Random tokens; those of the documents with even numbers may be changed."""

    store_name = "documents"
    vocab_size = streams.SYMBOLS

    def __init__(self, order: Any, changed: bool) -> None:
        super().__init__(ROWS * SEQ_LEN, SEQ_LEN, order)
        self.text = np.random.default_rng(3).integers(streams.SYMBOLS, size=OFFSETS[-1])
        even = np.searchsorted(OFFSETS, np.arange(OFFSETS[-1]), side="right") % 2 == 1
        self.text[even] += changed
        self.text %= streams.SYMBOLS

    def tokens(self, split: str) -> Any:
        return self.text

    def documents(self, split: str) -> Any:
        return OFFSETS

    @property
    def manifest_sha256(self) -> str:
        return "0"


def network(mixer: str) -> DecoderLM:
    torch.manual_seed(2)
    blocks = Blocks(
        mixers=[MIXERS[mixer]],
        feed_forward=partial(FeedForward, d_ff=12),
        sublayer=partial(PreNorm, dropout=0.0),
    )
    vocabulary = partial(Vocabulary, size=streams.SYMBOLS)
    net = DecoderLM(8, 2, vocabulary, blocks, NoPositions, dropout=0.0)
    for parameter in net.parameters():
        parameter.data.mul_(2.0)
    return net.double()


def in_training(mixer: str, data: Documents) -> dict[int, Tensor]:
    """Hidden states by target, as training computes them, with the memory that training carries."""
    task, result = streams.task(network(mixer), Protocol(SEQ_LEN, ROWS, mem_len=SEQ_LEN)), {}
    for segment in data.plan_epoch(0):
        batch = data.column("train").build(segment)
        mixed = task.net(batch.ids, task._recall(batch, SETTINGS), batch.lengths, SETTINGS)
        task._keep(mixed.state, batch)
        result |= by_target(segment, mixed.y)
    return result


def in_evaluation(mixer: str, data: Documents) -> dict[int, Tensor]:
    """Hidden states by target, as evaluation computes them."""
    protocol = Protocol(SEQ_LEN, ROWS, mem_len=SEQ_LEN, documents=data.order == "documents")
    task, result = streams.task(network(mixer), protocol).eval(), {}
    for segment in data.plan_evaluation(task.validation()):
        result |= by_target(segment, task._read(data.column("val").build(segment), protocol))
    return result


def by_target(segment: Any, hidden: Tensor) -> dict[int, Tensor]:
    lengths = (
        [segment.targets.shape[1]] * len(segment.targets) if segment.lengths is None else segment.lengths
    )
    rows = zip(segment.targets, lengths, hidden.detach(), strict=True)
    return {int(t): y for targets, n, ys in rows for t, y in zip(targets[:n], ys[:n], strict=True)}


@pytest.mark.parametrize("read", [in_training, in_evaluation])
@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("order", ["documents", "stream"])
def test_a_document_knows_nothing_of_those_before_it(mixer: str, order: str, read: Any) -> None:
    one, other = (read(mixer, Documents(order, changed)) for changed in (False, True))
    odd = [
        t
        for t in one
        if t in other and np.searchsorted(OFFSETS, t, side="right") % 2 == 0 and t + 1 not in OFFSETS
    ]
    assert len(odd) > 40
    equal = [torch.equal(one[t], other[t]) for t in odd]
    assert all(equal) if order == "documents" else not all(equal)


@pytest.mark.parametrize("read", [in_training, in_evaluation])
@pytest.mark.parametrize("mixer", MIXERS)
def test_within_a_document_the_memory_is_carried(mixer: str, read: Any) -> None:
    """The first block of a document is as if it were read alone, the later ones are not."""
    data = Documents("documents", False)
    result, net = read(mixer, data), network(mixer).eval()
    begin = int(OFFSETS[1])
    ids = torch.from_numpy(data.text[begin : begin + 4 * SEQ_LEN].astype(np.int64))[None]
    with torch.no_grad():
        alone = torch.cat([net(block, net.init_state(1)).y[0] for block in ids.split(SEQ_LEN, dim=1)])
    gaps = [float((result[begin + i] - alone[i]).abs().max()) for i in range(4 * SEQ_LEN)]
    assert max(gaps[:SEQ_LEN]) < 1e-9 < 1e-6 < min(gaps[SEQ_LEN:])


@pytest.mark.parametrize("mixer", ["infused", "sticky"])
def test_training_by_document_does_not_depend_on_micro_batches(mixer: str) -> None:
    """Rows of a step have other numbers of targets; each target counts alike."""
    whole, parts = (fitted(mixer, micro_batches) for micro_batches in (1, 2))
    gaps = [(a - b).abs().max() for a, b in zip(whole.parameters(), parts.parameters(), strict=True)]
    assert float(max(gaps)) < 1e-12


def fitted(mixer: str, micro_batches: int) -> nn.Module:
    data = Documents("documents", False)
    task = streams.task(network(mixer), Protocol(SEQ_LEN, ROWS, mem_len=SEQ_LEN, documents=True))
    streams.trainer(12, micro_batches, limit_val_batches=0).fit(task, datamodule=data)
    return task.net
