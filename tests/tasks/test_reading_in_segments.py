"""Sequences read in segments with carried memory, and auxiliary losses of networks."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from repro.data.sets.puzzles.sorting import SortingData
from repro.errors import UserError
from repro.models import DecoderLM
from repro.nn import (
    Blocks,
    ContinuousMemory,
    ContinuousSignal,
    FeedForward,
    FullAttention,
    InfusedAttention,
    NoPositions,
    PostNorm,
    Vocabulary,
)
from repro.nn.attention.continuous import memory
from repro.nn.attention.continuous.gaussian import draw_bins
from repro.tasks import Constant, LanguageModel, Protocol, SequenceModel
from tests.tasks.streams import data as echo
from tests.tasks.streams import trainer

SYMBOLS, LENGTH = 4, 17  # rows of 21 tokens, the last 4 scored
SIGNAL = ContinuousSignal(basis=8, widths=(0.05, 0.1), samples=6, ridge=0.3, kl_weight=0.7)
STICKY = replace(SIGNAL, bins=7)


def short(mem_len: int) -> Any:
    return partial(InfusedAttention, n_heads=2, mem_len=mem_len)


def network(mixer: Any, symbols: int = SYMBOLS + 2, seed: int = 0) -> DecoderLM:
    torch.manual_seed(seed)
    blocks = Blocks([mixer], partial(FeedForward, d_ff=12), partial(PostNorm, dropout=0.0))
    return DecoderLM(8, 2, partial(Vocabulary, size=symbols), blocks, NoPositions, dropout=0.0).double()


def continuous(mem_len: int = 4, signal: ContinuousSignal = SIGNAL) -> Any:
    return partial(ContinuousMemory, short_term=short(mem_len), block=4, signal=signal)


def data() -> SortingData:
    return SortingData(6, LENGTH, SYMBOLS, train_examples=12, eval_examples=9)


def task(net: nn.Module, segment: int | None) -> SequenceModel:
    return SequenceModel(net, partial(torch.optim.SGD, lr=0.1), Constant, segment=segment)


@pytest.mark.parametrize("segment", [7, 8, 21])
def test_a_memory_that_covers_all_scores_as_if_it_were_read_whole(segment: int) -> None:
    net = network(short(LENGTH + SYMBOLS))
    result = []
    for one in (None, segment):
        made = task(net, one)
        trainer(1).test(made, datamodule=data(), verbose=False)
        result.append({m.name: m.value for m in made.measurements()})
    assert result[1] == pytest.approx(result[0], rel=1e-9)


def test_a_segment_of_the_whole_length_is_the_whole() -> None:
    net = network(partial(FullAttention, n_heads=2)).eval()
    examples = data().examples("train", np.arange(3), 0)
    whole, one = (task(net, segment).hidden(examples)[0] for segment in (None, LENGTH + SYMBOLS))
    assert torch.equal(whole, one)


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
    result = made.training_step(batch, 0)
    plain = float(result["sums"]["loss"]) / batch.step_targets
    assert float(result["loss"]) == pytest.approx(plain + float(aux.detach().mean()))


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


def test_segments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"segment.*1, not 0"):
        task(network(short(4)), 0)
    with pytest.raises(UserError, match=r"segment 22.*21 tokens"):
        trainer(1).test(task(network(short(4)), 22), datamodule=data(), verbose=False)


@pytest.mark.parametrize(("segment", "fits"), [(1, 7), (5, 7), (6, 7), (9, 11), (10, 11), (18, 21), (20, 21)])
def test_targets_before_the_last_segment_are_refused(segment: int, fits: int) -> None:
    """The last 4 of 21 tokens are scored, from token 17 on."""
    for run in (trainer(1).fit, trainer(1).test):
        with pytest.raises(UserError, match=rf"segment {segment}:.*token 17.*to {fits}$"):
            run(task(network(short(4)), segment), datamodule=data())
    trainer(1).test(task(network(short(4)), fits), datamodule=data(), verbose=False)


@pytest.mark.parametrize(("segment", "kept", "used"), [(7, 4, True), (7, 14, True), (7, 15, False), (None, 16, True),
                                                       (None, 17, False)])  # fmt: skip
def test_a_memory_that_is_never_used_is_said(
    segment: int | None, kept: int, used: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """With blocks of 4, 21 tokens are read in pieces: the last one begins with token 18 (segments of 7), or 20."""
    made = task(network(continuous(kept)), segment)
    trainer(1, limit_val_batches=0).fit(made, datamodule=data())
    mixer = next(m for m in made.net.modules() if isinstance(m, ContinuousMemory))
    state = made.net.init_state(1)
    batch = next(iter(data().train_dataloader())).examples.inputs[:1]
    for part in batch.split(segment or 21, dim=1):
        state = made.net(part, state).state
    assert (int(state["stream"]["mix"][0]["updates"]) > 0) == used
    output = capsys.readouterr().err
    assert (f" {kept + mixer.block} tokens" in output) == (not used)
    assert output.count("never used") == int(not used)


def test_every_sequence_begins_with_an_empty_memory() -> None:
    made = task(network(continuous(signal=STICKY)), 7)
    examples = next(iter(data().train_dataloader())).examples
    first, again = (made.hidden(examples)[0].detach() for _ in range(2))
    assert torch.equal(first, again)
    alone = made.hidden(examples._replace(inputs=examples.inputs[2:3], targets=examples.targets[2:3],
                                          scored=examples.scored[:SYMBOLS]))[0]  # fmt: skip
    assert float((alone - first[2 * SYMBOLS : 3 * SYMBOLS]).abs().max()) < 1e-12


@pytest.mark.parametrize("segment", [7, None])
def test_every_layer_run_and_update_draws_other_numbers(
    monkeypatch: pytest.MonkeyPatch, segment: int | None
) -> None:
    """Else the same places of the past would be lost in every sequence, whatever the seed."""
    used: list[tuple[int, int]] = []

    def noted(mass: Tensor, counter: Tensor, samples: int, seed: Tensor) -> Tensor:
        used.append((int(seed), int(counter[0])))
        return draw_bins(mass, counter, samples, seed)

    monkeypatch.setattr(memory, "draw_bins", noted)
    for run in range(2):
        made = task(network(continuous(signal=STICKY), seed=run), segment)
        trainer(3, limit_val_batches=0).fit(made, datamodule=data())
    drawn = {pair: used.count(pair) for pair in used}
    assert set(drawn.values()) == {1}
    assert len({seed for seed, _ in used}) == 4, "two layers in each of two runs"
    used.clear()
    for _ in range(2):
        trainer(1).test(made, datamodule=data(), verbose=False)
    half = len(used) // 2
    assert used[:half] == used[half:], "a test is the same again"


def test_sticky_memories_of_a_text_begin_anew_for_every_split() -> None:
    def fitted(**settings: Any) -> LanguageModel:
        net = network(continuous(signal=STICKY), 5)
        protocol = Protocol(4, rows=3, mem_len=4)
        made = LanguageModel(net, partial(torch.optim.SGD, lr=0.1), Constant, protocol, "symbol")
        trainer(9, **settings).fit(made, datamodule=echo())
        return made

    made, validated = fitted(limit_val_batches=0), fitted(val_check_interval=2)
    for a, b in zip(made.net.parameters(), validated.net.parameters(), strict=True):
        assert torch.equal(a, b), "a validation changed the memory of training"
    assert made.carried["memory"]["stream"]["mix"][0]["draws"].min() > 2
    result = []
    for one in (made, made, validated):
        trainer(1).test(one, datamodule=echo(), verbose=False)
        result.append({m.name: m.value for m in one.measurements() if "per_s" not in m.name})
    assert result[0] == result[1] == result[2]
