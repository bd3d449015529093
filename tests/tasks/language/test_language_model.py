"""Memory carried over batches, and likelihoods that are exactly what the protocol says."""

import math
from functools import partial
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from repro.batches import Evaluation
from repro.errors import UserError
from repro.models import DecoderLM
from repro.nn import (
    Added,
    Blocks,
    FeedForward,
    FullAttention,
    Hashing,
    LearnedPositions,
    LSHAttention,
    NoPositions,
    PreNorm,
    SplitSinusoids,
    Vocabulary,
)
from repro.nn.mixer import detach
from repro.nn.settings import AS_BUILT, CallSettings
from repro.tasks import LanguageModel, Protocol
from tests.tasks.streams import SYMBOLS, data, network, task, trainer

WITH_MEMORY = Protocol(seq_len=4, rows=3, mem_len=4)


def fit(mem_len: int, steps: int, micro_batches: int = 1, **settings: Any) -> LanguageModel:
    made = task(network(mem_len), WITH_MEMORY)
    trainer(steps, micro_batches, **({"limit_val_batches": 0} | settings)).fit(made, datamodule=data())
    return made


def by_hand(mem_len: int, steps: int) -> DecoderLM:
    """Trains in a plain loop: every update's loss is the mean over its answers."""
    net = network(mem_len)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.005)
    loader, state = data().train_dataloader(), None
    batches = iter(loader)
    for _ in range(steps):
        if loader.batch == len(loader):
            batches = iter(loader)
        batch = next(batches)
        if batch.reset_memory:
            state = net.init_state(len(batch.ids)) if mem_len else None
        y, state, *_ = net(batch.ids, state)
        state = detach(state)
        answers = batch.targets >= 0
        log_probs = net.vocabulary.log_probs(y)
        loss = -log_probs[answers].gather(1, batch.targets[answers][:, None]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net


def distance(a: DecoderLM, b: DecoderLM) -> float:
    pairs = zip(a.parameters(), b.parameters(), strict=True)
    return max(float((p - q).detach().abs().max()) for p, q in pairs)


@pytest.mark.parametrize("mem_len", [0, 4])
def test_training_is_the_plain_loop_over_two_epochs(mem_len: int) -> None:
    steps = 2 * len(data().train_dataloader()) - 3
    assert distance(fit(mem_len, steps).net, by_hand(mem_len, steps)) < 1e-12
    assert distance(by_hand(0, steps), by_hand(4, steps)) > 1e-3, "else memory is not seen"


def test_micro_batches_keep_memories_of_their_own() -> None:
    assert distance(fit(4, 12).net, fit(4, 12, micro_batches=2).net) < 1e-12
    assert distance(fit(4, 12).net, fit(4, 12, micro_batches=3).net) < 1e-12


def test_what_is_carried_has_a_row_for_each_stream_in_global_order() -> None:
    whole, accumulated = fit(4, 5), fit(4, 5, micro_batches=3)
    memories = [made.carried["memory"]["stream"]["mix"][0]["past"]["x"] for made in (whole, accumulated)]
    assert memories[0].shape[0] == 6
    assert torch.allclose(memories[0], memories[1], atol=1e-12)
    assert not memories[0].requires_grad


def test_validation_leaves_the_memory_of_training_alone() -> None:
    validating = fit(4, 12, limit_val_batches=None, val_check_interval=2)
    assert distance(validating.net, fit(4, 12).net) < 1e-12
    assert math.isfinite(float(validating.trainer.callback_metrics["val/ppl"]))


def test_memories_as_long_as_the_rows_of_a_stage() -> None:
    made = task(network(9), WITH_MEMORY, memory_as_input=True)
    trainer(3, limit_val_batches=0).fit(made, datamodule=data())
    assert distance(made.net, fit(4, 3).net) < 1e-12, "rows of 4 targets"
    assert distance(made.net, fit(9, 3).net) > 1e-6


def test_a_stream_that_goes_on_without_its_memory_is_refused() -> None:
    made, loader = task(network(4), WITH_MEMORY), iter(data().train_dataloader())
    made.training_step(next(loader), 0)
    made.carried = {}
    with pytest.raises(RuntimeError, match="was not carried"):
        made.training_step(next(loader), 1)


def tokens(split: str) -> Tensor:
    return torch.from_numpy(data().tokens(split).astype(np.int64))


def answers(found: dict[int, float], split: str) -> tuple[float, int]:
    """Sum over the answers among targets, and their number."""
    counted = data().scored(split)
    kept = [value for at, value in found.items() if counted[at + 1]]
    return math.fsum(kept), len(kept)


def nll_of(
    net: DecoderLM, ids: Tensor, state: Any = None, settings: CallSettings = AS_BUILT
) -> tuple[Tensor, Any]:
    """``-log p`` of ``ids[1:]`` given all before, one row, and the state behind."""
    y, state, *_ = net(ids[None, :-1], state, None, settings)
    return -net.vocabulary.log_probs(y)[0].gather(1, ids[1:, None]).squeeze(1), state


def naive(net: DecoderLM, split: str, protocol: Protocol) -> dict[int, float]:
    """``-log p`` of each target under a protocol, one stream or window at a time, without decoding states."""
    ids, result = tokens(split), {}
    n = min(len(ids) - 1, protocol.tokens or len(ids))
    if protocol.stride is not None:
        for begin in range(0, n, protocol.stride):
            end = min(begin + protocol.seq_len, n)
            values, _ = nll_of(net, ids[begin : end + 1], None, protocol.settings)
            for at in range(begin, end):
                if at not in result:
                    result[at] = float(values[at - begin])
            if end == n:
                break
        return result
    length = n // protocol.rows
    for row in range(protocol.rows):
        state = net.init_state(1, settings=protocol.settings) if protocol.mem_len else None
        for begin in range(row * length, (row + 1) * length, protocol.seq_len):
            end = min(begin + protocol.seq_len, (row + 1) * length)
            values, state = nll_of(net, ids[begin : end + 1], state, protocol.settings)
            result |= {begin + i: float(value) for i, value in enumerate(values)}
    return result


PROTOCOLS = {
    "streams": Protocol(seq_len=5, rows=3, mem_len=4),
    "one stream, token by token": Protocol(seq_len=1, rows=1, mem_len=4),
    "longer memory than in training": Protocol(seq_len=4, rows=2, mem_len=9),
    "no memory": Protocol(seq_len=6, rows=2),
    "non-overlapping": Protocol(seq_len=7, rows=4, stride=7),
    "sliding": Protocol(seq_len=7, rows=4, stride=3),
    "the beginning": Protocol(seq_len=7, rows=4, stride=7, tokens=30),
    "every token anew": Protocol(seq_len=7, rows=16, stride=1),
}


def score(net: DecoderLM, **settings: Any) -> LanguageModel:
    made = task(net, settings.pop("protocol", WITH_MEMORY), **settings)
    trainer(1).test(made, datamodule=data(), verbose=False)
    return made


@pytest.fixture(scope="module")
def tested() -> LanguageModel:
    net = network(4)
    return score(net, protocols=PROTOCOLS, accuracy=True)


@pytest.mark.parametrize("name", PROTOCOLS)
@torch.no_grad()
def test_likelihoods_are_those_of_the_naive_loop(tested: LanguageModel, name: str) -> None:
    protocol, net = PROTOCOLS[name], network(4).eval()
    by_name = {m.name: m for m in tested.measurements()}
    for split in ("test", "val"):
        total, count = answers(naive(net, split, protocol), split)
        measured = by_name[f"{split}/loss_{name}"]
        assert measured.count == count
        assert measured.value == pytest.approx(total / count, rel=1e-9)
        assert measured.protocol == protocol.describe()
        assert by_name[f"{split}/ppl_{name}"].value == pytest.approx(math.exp(total / count), rel=1e-9)
        assert by_name[f"{split}/accuracy_{name}"].value <= 100.0
    assert by_name[f"test/loss_{name}"].validation == by_name[f"val/loss_{name}"].value


def test_protocols_differ_where_they_should(tested: LanguageModel) -> None:
    values = [m.value for m in tested.measurements() if m.name.startswith("test/loss_")]
    assert len({round(value, 6) for value in values}) == len(PROTOCOLS), "each sees another past"


def test_accuracy_counts_the_likeliest(tested: LanguageModel) -> None:
    net = network(4).eval()
    protocol = PROTOCOLS["non-overlapping"]
    ids, counted = tokens("test"), data().scored("test")
    hits = total = 0
    for begin in range(0, len(ids) - 1, 7):
        part = ids[begin : begin + 8]
        best = net.vocabulary.logits(net(part[None, :-1]).y)[0].argmax(-1)
        mask = torch.from_numpy(counted[begin + 1 : begin + 8])
        hits, total = hits + int((best == part[1:])[mask].sum()), total + int(mask.sum())
    (result,) = (m for m in tested.measurements() if m.name == "test/accuracy_non-overlapping")
    assert (result.value, result.count) == (pytest.approx(100 * hits / total), total)
    assert result.unit == "percent of symbols"
    assert protocol.stride == 7


@pytest.mark.parametrize(("unit", "name"), [("character", "bpc"), ("byte", "bpb"), ("word", "ppl")])
def test_bits_for_characters_and_perplexity_for_words(unit: Any, name: str) -> None:
    made = task(network(4), WITH_MEMORY)
    made.token_unit = unit
    trainer(1).test(made, datamodule=data(), verbose=False)
    loss, other = (next(m for m in made.measurements() if m.name == f"test/{n}") for n in ("loss", name))
    assert other.value == pytest.approx(loss.value / math.log(2) if name != "ppl" else math.exp(loss.value))
    assert unit in other.unit


def test_a_protocol_that_the_network_cannot_follow_is_refused_before_training() -> None:
    net = network(0)
    net.stack.layers[0]["mix"].body.extra = LearnedPositions(8, 5)
    with pytest.raises(ValueError, match=r"seq_len 6,.*5 positions"):
        task(net, Protocol(seq_len=6))
    task(net, Protocol(seq_len=5))
    carried = network(4)
    carried.stack.layers[0]["mix"].body.table = LearnedPositions(8, 9)
    remedies = (
        r"repro\.nn\.Added with restart: true, .*the table of InfusedAttention repro\.nn\.SplitSinusoids"
    )
    with pytest.raises(ValueError, match=f"learned positions end .*{remedies}"):
        task(carried, Protocol(seq_len=4))
    carried.stack.layers[0]["mix"].body.table = SplitSinusoids(8)
    carried.positions = Added(8, partial(LearnedPositions, max_length=4), restart=True)
    task(carried, Protocol(seq_len=4))
    for settings in ({"same_length": True, "mem_len": 4}, {"clamp_len": 3, "mem_len": 4}, {"clamp_len": 3}):
        with pytest.raises(ValueError, match="settings of relative positions; this mixer has none"):
            task(network(4), Protocol(seq_len=4), protocols={"clamped": Protocol(4, **settings)})


def test_a_mixer_that_keeps_everything_beside_a_memory_is_refused() -> None:
    net = network(4)
    net.stack.layers[1]["mix"].body = FullAttention(8, 2).double()
    with pytest.raises(ValueError, match="FullAttention keeps every earlier token"):
        task(net, Protocol(seq_len=4))
    mixed = network(0)
    mixed.stack.layers[1]["mix"].body = FullAttention(8, 2).double()
    with pytest.raises(ValueError, match="FullAttention keeps every earlier token"):
        task(mixed, Protocol(seq_len=4, mem_len=4))
    net.stack.layers[0]["mix"].body = FullAttention(8, 2).double()
    task(net, Protocol(seq_len=4))


def test_a_protocol_that_the_data_cannot_follow_is_refused_before_training() -> None:
    protocols = {"documents": Protocol(4, documents=True)}
    made = task(network(4), WITH_MEMORY, protocols=protocols)
    with pytest.raises(UserError, match="no documents"):
        trainer(1, limit_val_batches=0).fit(made, datamodule=data())


class Few(pl.Callback):
    """Cuts an evaluation short."""

    def on_test_batch_end(self, *arguments: Any) -> None:
        arguments[1]._evaluations[0].metrics["likelihood"].count -= 1


def test_a_token_too_few_is_noticed() -> None:
    made = task(network(4), WITH_MEMORY)
    with pytest.raises(RuntimeError, match="tokens were scored, not"):
        trainer(1, callbacks=[Few()]).test(made, datamodule=data(), verbose=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seq_len": 0}, "seq_len must be at least 1, not 0"),
        ({"seq_len": 4, "rows": 0}, "rows must be at least 1, not 0"),
        ({"seq_len": 4, "tokens": 0}, "tokens must be at least 1, not 0"),
        ({"seq_len": 4, "stride": 5}, "stride must be between 1 and seq_len 4, not 5"),
        ({"seq_len": 4, "stride": 4, "mem_len": 3}, "windows stand alone: leave out mem_len 3"),
        ({"seq_len": 4, "batches": 2, "mem_len": 3}, "leave out mem_len 3, or leave out batches 2"),
        ({"seq_len": 4, "batches": 2, "stride": 4}, "batches 2 are drawn at random"),
        ({"seq_len": 4, "mem_len": -1}, "mem_len must be at least 0, not -1"),
        ({"seq_len": 4, "same_length": True}, "mem_len must be at least 1"),
        ({"seq_len": 4, "mem_len": 4, "clamp_len": 0}, "clamp_len must be at least 1, not 0"),
    ],
)
def test_protocols_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Protocol(**settings)


def test_a_network_without_memory_is_scored_without_and_says_so() -> None:
    blocks = Blocks([partial(FullAttention, n_heads=2)], None, final_norm=nn.LayerNorm)
    net = DecoderLM(8, 1, partial(Vocabulary, size=SYMBOLS), blocks, NoPositions).double()
    made = score(net, protocol=WITH_MEMORY, validation=WITH_MEMORY)
    assert [note for note in made.notes if f"mem_len {WITH_MEMORY.mem_len}" in note]
    assert "mem_len" not in made.measurements()[0].protocol
    assert not task(network(4), WITH_MEMORY, memory_as_input=True).notes
    (clamped, unused) = task(net, Protocol(4, clamp_len=8), memory_as_input=True).notes
    assert "clamp_len 8 of its protocols is ignored" in clamped
    assert "memory_as_input has no effect" in unused


def test_a_protocol_may_be_called_validation() -> None:
    made = task(network(4), WITH_MEMORY, protocols={"validation": Protocol(seq_len=6, rows=2)})
    assert made.protocols["validation"].seq_len == 6
    assert made.validation_protocol == WITH_MEMORY


def test_a_sample_is_scored_beside_the_whole_split() -> None:
    exact, sampled = Protocol(seq_len=6, stride=6), Protocol(seq_len=6, rows=3, batches=4)
    made = score(network(0), protocol=exact, protocols={"sampled": sampled})
    result = {m.name: m for m in made.measurements()}
    assert result["val/loss_sampled"].protocol == {"seq_len": 6, "rows": 3, "batches": 4}
    assert result["val/loss"].protocol == {"seq_len": 6, "rows": 1, "stride": 6}
    losses = []
    for batch in data().evaluation_loader(Evaluation("val", "sampled", sampled)):
        counts = batch.targets >= 0
        with torch.no_grad():
            nll = made.net.vocabulary.nll(made.net(batch.ids).y, batch.targets.clamp(min=0))
        losses += nll[counts].tolist()
    assert result["val/loss_sampled"].count == len(losses)
    assert result["val/loss_sampled"].value == pytest.approx(np.mean(losses), rel=1e-9)


# --- random numbers ---------------------------------------------------------------------------------------------


def hashing_network() -> DecoderLM:
    torch.manual_seed(0)
    hashing = Hashing(rounds=1, chunk=4, buckets=8)
    blocks = Blocks(
        mixers=[partial(LSHAttention, n_heads=2, hashing=hashing)],
        feed_forward=partial(FeedForward, d_ff=16),
        sublayer=partial(PreNorm, dropout=0.1),
    )
    net = DecoderLM(8, 2, partial(Vocabulary, size=SYMBOLS), blocks, NoPositions, dropout=0.1)
    for parameter in net.parameters():
        parameter.data.mul_(2.0)
    return net.double()


def test_hashing_is_drawn_anew_for_each_evaluation_and_training_goes_on_as_if_nothing_was_scored() -> None:
    cut, texts = Protocol(seq_len=16, rows=2, stride=16), partial(data, seq_len=16, rows=2)
    scored = task(hashing_network(), cut)
    first, again = (trainer(1).validate(scored, datamodule=texts(), verbose=False) for _ in range(2))
    assert first == again
    fitted = []
    for every in (None, 2):
        made = task(hashing_network(), cut)
        torch.manual_seed(7)
        settings = {"val_check_interval": every} if every else {"limit_val_batches": 0}
        trainer(4, **settings).fit(made, datamodule=texts())
        fitted.append(made.net)
    assert distance(*fitted) == 0.0
