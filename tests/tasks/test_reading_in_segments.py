"""Sequences read in segments with carried memory, and auxiliary losses of networks."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from repro.data.sorting import SortingData
from repro.models import DecoderLM
from repro.nn import (
    Blocks,
    ContinuousMemory,
    ContinuousSignal,
    FeedForward,
    InfusedAttention,
    NoPositions,
    PostNorm,
    Vocabulary,
)
from repro.tasks import Constant, LanguageModel, Protocol, SequenceModel
from tests.tasks.streams import data as echo
from tests.tasks.streams import trainer

SYMBOLS, LENGTH = 4, 17  # rows of 21 tokens, the last 4 scored
SIGNAL = ContinuousSignal(basis=8, widths=(0.05, 0.1), samples=6, ridge=0.3, kl_weight=0.7)


def short(mem_len: int) -> Any:
    return partial(InfusedAttention, n_heads=2, mem_len=mem_len)


def network(mixer: Any, symbols: int = SYMBOLS + 1) -> DecoderLM:
    torch.manual_seed(0)
    blocks = Blocks([mixer], partial(FeedForward, d_ff=12), partial(PostNorm, dropout=0.0))
    return DecoderLM(8, 2, partial(Vocabulary, size=symbols), blocks, NoPositions, dropout=0.0).double()


def continuous(mem_len: int = 4) -> Any:
    return partial(ContinuousMemory, short_term=short(mem_len), block=4, signal=SIGNAL)


def data() -> SortingData:
    return SortingData(6, LENGTH, SYMBOLS, train_examples=12, eval_examples=9)


def task(net: nn.Module, segment: int | None) -> SequenceModel:
    return SequenceModel(net, partial(torch.optim.SGD, lr=0.1), Constant, segment=segment)


@pytest.mark.parametrize("segment", [7, 8, 21, 40])
def test_a_memory_that_covers_all_scores_as_if_it_were_read_whole(segment: int) -> None:
    net = network(short(LENGTH + SYMBOLS))
    found = []
    for one in (None, segment):
        made = task(net, one)
        trainer(1).test(made, datamodule=data(), verbose=False)
        found.append({m.name: m.value for m in made.measurements()})
    assert found[1] == pytest.approx(found[0], rel=1e-9)


def test_only_the_last_segment_has_a_gradient() -> None:
    net, batch = network(short(40)), next(iter(data().train_dataloader()))
    seen = []
    net.positions.register_forward_hook(lambda _, given, y: seen.append((given[0].shape[1], y.requires_grad)))
    task(net, 8).training_step(batch, 0)["loss"].backward()
    assert seen == [(8, False), (8, False), (5, True)]


def test_the_loss_has_the_mean_auxiliary_loss_of_the_rows() -> None:
    net, batch = network(continuous()), next(iter(data().train_dataloader()))
    made = task(net, 8)
    _, _, aux = made.hidden(batch.examples)
    assert aux is not None
    assert aux.shape == (6,)
    assert float(aux.detach().mean()) > 1e-3
    found = made.training_step(batch, 0)
    plain = float(found["sums"]["loss"]) / batch.step_targets
    assert float(found["loss"]) == pytest.approx(plain + float(aux.detach().mean()))


def test_a_language_model_learns_from_the_auxiliary_loss_too() -> None:
    moved = []
    for weight in (0.0, 0.7):
        signal = ContinuousSignal(basis=8, widths=(0.05, 0.1), samples=6, ridge=0.3, kl_weight=weight)
        mixer = partial(ContinuousMemory, short_term=short(4), block=4, signal=signal)
        made = LanguageModel(
            network(mixer, 5),
            partial(torch.optim.SGD, lr=0.1),
            Constant,
            Protocol(4, rows=3, mem_len=4),
            "symbol",
        )
        trainer(6, limit_val_batches=0).fit(made, datamodule=echo())
        moved.append([p.detach().clone() for p in made.net.parameters()])
    assert max(float((a - b).abs().max()) for a, b in zip(*moved, strict=True)) > 1e-6


def test_a_segment_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="segment must be at least 1, not 0"):
        task(network(short(4)), 0)
