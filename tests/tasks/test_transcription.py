"""Error rates and losses are those of a plain loop over the split; updates do not depend on micro-batches."""

from functools import cache, partial
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch

from repro.data import AlignmentData
from repro.models import Body, Transcriber
from repro.nn import BidirectionalLSTM, Blocks, NoPositions, Plain, VectorEmbedding
from repro.tasks import Constant, Transcription
from repro.tasks.metrics.errors import SymbolErrorRate
from repro.tasks.transcription import references, spaced
from repro.training.callbacks import Curves

EVAL, TRAIN, BATCH = 9, 26, 6


def data(**changes: Any) -> AlignmentData:
    sizes = {"train_examples": TRAIN, "eval_examples": EVAL, "eval_batch_size": 4}
    return AlignmentData(BATCH, phonemes=3, shortest=1, longest=4, noise=0.3, **(sizes | changes))


def network() -> Transcriber:
    torch.manual_seed(0)
    blocks = Blocks([BidirectionalLSTM], feed_forward=None, sublayer=partial(Plain, dropout=0.0))
    body = Body(8, 1, blocks, NoPositions, causal=False, dropout=0.0)
    net = Transcriber(partial(VectorEmbedding, size=40, gain=1.0, dropout=0.0), body, 4)
    torch.nn.init.normal_(net.head.proj.weight)  # far from uniform, so that something is heard
    return net


def task(**settings: Any) -> Transcription:
    return Transcription(network(), partial(torch.optim.SGD, lr=0.05), Constant, **settings)


def trainer(steps: int = 1, micro_batches: int = 1, **settings: Any) -> pl.Trainer:
    return pl.Trainer(
        max_steps=steps, accumulate_grad_batches=micro_batches, accelerator="cpu", logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0, check_val_every_n_epoch=None,
        **settings,
    )  # fmt: skip


def changes(found: list[int], wanted: list[int]) -> int:
    """The definition of the edit distance, without a table."""

    @cache
    def least(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(
            least(i - 1, j) + 1, least(i, j - 1) + 1, least(i - 1, j - 1) + (found[i - 1] != wanted[j - 1])
        )

    return least(len(found), len(wanted))


def test_error_rates_are_over_all_sequences() -> None:
    chance, metric, errors, symbols = np.random.default_rng(0), SymbolErrorRate(), 0, 0
    for _ in range(50):
        rows = [[chance.integers(1, 14, chance.integers(0, 8)).tolist() for _ in range(3)] for _ in "fw"]
        metric.update(*map(spaced, rows))
        errors += sum(changes(result, expected) for result, expected in zip(*rows, strict=True))
        symbols += sum(map(len, rows[1]))
    assert int(metric.count) == symbols
    assert float(metric.compute()) == pytest.approx(100 * errors / symbols, rel=1e-12)


def test_references_end_where_padding_begins() -> None:
    assert references(torch.tensor([[1, 2, -1], [3, 3, 3], [-1, -1, -1]])) == [[1, 2], [3, 3, 3], []]


@torch.no_grad()
def by_hand(net: Transcriber, split: str) -> dict[str, Any]:
    """One utterance at a time."""
    sums: dict[str, Any] = {"nll": 0.0, "errors": 0, "targets": 0, "heard": [], "said": []}
    for i in range(EVAL):
        one = data().examples(split, np.array([i]), None)
        hidden = net.eval()(one.inputs)
        output = one.targets[0].tolist()
        sums["nll"] += float(net.head.nll(hidden, one.lengths, one.targets)[0])  # type: ignore[arg-type]
        best = net.head.logits(hidden)[0].argmax(-1).tolist()
        decoded = [a for t, a in enumerate(best) if a and (t == 0 or a != best[t - 1])]
        sums["errors"] += changes(decoded, output)
        sums["targets"] += len(output)
        sums["heard"].append(decoded)
        sums["said"].append(output)
    return sums


@pytest.fixture(scope="module")
def tested() -> tuple[Transcription, dict[str, Any]]:
    made, curves = task(), Curves(every_steps=1)
    run = trainer(4, limit_val_batches=0, callbacks=[curves])
    run.fit(made, datamodule=data())
    run.test(made, datamodule=data(), verbose=False)
    return made, {m.name: m for m in made.measurements()}


@pytest.mark.parametrize("split", ["test", "val"])
def test_scores_are_those_of_the_plain_loop(tested: Any, split: str) -> None:
    made, measured = tested
    expected = by_hand(made.net, split)
    loss, per = measured[f"{split}/loss"], measured[f"{split}/per"]
    assert loss.value == pytest.approx(expected["nll"] / expected["targets"], rel=1e-5)
    assert per.value == pytest.approx(100 * expected["errors"] / expected["targets"], rel=1e-12)
    assert 0 < expected["errors"] != expected["targets"], "something is heard, and not all of it is wrong"
    assert (loss.unit, per.unit, per.count, per.split) == (
        "nats per phoneme",
        "percent",
        expected["targets"],
        split,
    )
    assert per.protocol == {"examples": EVAL}
    assert per.validation == (measured["val/per"].value if split == "test" else None)


def test_what_was_heard_is_shown_in_order(tested: Any) -> None:
    made, _ = tested
    expected = by_hand(made.net, "test")

    def spelt(ids: list[int]) -> str:
        return " ".join(f"p{i}" for i in ids)

    columns, rows = made.samples(5)
    assert columns == ["reference", "hypothesis"]
    pairs = [[spelt(a), spelt(b)] for a, b in zip(expected["said"], expected["heard"], strict=True)]
    assert rows == pairs[:5]
    assert made.outputs() == "".join(f"{decoded}\n" for _, decoded in pairs)
    assert any(decoded for _, decoded in pairs)


def test_what_is_not_public_stays_out_of_records() -> None:
    class Licensed(AlignmentData):
        public = False

    made = task()
    trainer().test(made, datamodule=Licensed(BATCH, phonemes=3, eval_examples=2), verbose=False)
    assert made.tested[0].counts["examples"] == 2
    assert made.shown == []
    assert made.samples() == ([], [])
    assert made.outputs() is None


def test_the_time_of_an_epoch_follows_from_the_speed(tested: Any) -> None:
    made, measured = tested
    curves = next(c for c in made.trainer.callbacks if isinstance(c, Curves))
    one = measured["train/seconds_per_epoch"]
    assert (one.unit, one.protocol["steps"]) == ("s", 4)
    curves.curves["train/tokens_per_s"] = [[1, 3.0], [2, 50.0], [3, 20.0], [4, 10.0], [5, 1000.0]]
    again = {m.name: m for m in made.measurements()}["train/seconds_per_epoch"].value
    assert curves.tokens == sum(row.step_targets for row in data().plan_epoch(0))
    assert again == pytest.approx(curves.tokens / 20.0)


def test_a_run_resumed_behind_its_last_step_has_a_pace() -> None:
    made, curves = task(), Curves()
    curves.curves, curves.tokens = {"train/tokens_per_s": [[2, 20.0]]}, 30
    trainer(2, callbacks=[curves]).test(made, datamodule=data(), verbose=False)
    pace = {m.name: m.value for m in made.measurements()}["train/seconds_per_epoch"]
    assert pace == pytest.approx(30 / 2 * 4 / 20.0)


def test_an_evaluation_alone_has_no_pace() -> None:
    made = task()
    trainer(callbacks=[Curves()]).test(made, datamodule=data(), verbose=False)
    assert {m.name for m in made.measurements()} == {"test/loss", "test/per", "val/loss", "val/per"}


@pytest.mark.parametrize("size", [1, 9])
def test_the_size_of_evaluation_batches_changes_nothing(size: int) -> None:
    result = []
    for one in (4, size):
        made = task()
        trainer().test(made, datamodule=data(eval_batch_size=one), verbose=False)
        result.append({m.name: m.value for m in made.measurements()})
    assert result[0] == pytest.approx(result[1], rel=1e-6)
    assert result[0]["test/per"] == result[1]["test/per"]


def trained_by_hand(steps: int) -> tuple[Transcriber, list[float]]:
    """The plain loop: the sum over the global batch, per phoneme of it."""
    net, points = network(), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for batch in list(data().train_dataloader())[:steps]:
        inputs, targets, _, lengths, _ = batch.examples
        loss = net.head.nll(net(inputs, lengths), lengths, targets).sum() / int((targets >= 0).sum())
        points.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net, points


@pytest.mark.parametrize("micro_batches", [1, 2, 3])
def test_updates_are_those_of_the_plain_loop_for_any_micro_batches(micro_batches: int) -> None:
    made, curves = task(), Curves(every_steps=1)
    trainer(4, micro_batches, limit_val_batches=0, callbacks=[curves]).fit(made, datamodule=data())
    expected, points = trained_by_hand(4)
    begun = network()
    for mine, official, first in zip(
        made.net.parameters(), expected.parameters(), begun.parameters(), strict=True
    ):
        assert float((mine - official).abs().max()) < 1e-5
        assert float((mine - first).abs().max()) > 1e-5, "it learns"
    assert [value for _, value in curves.curves["train/loss"]] == pytest.approx(points, rel=1e-5)


def test_validation_in_training_scores_the_whole_split() -> None:
    made = task()
    run = trainer(4, val_check_interval=4)
    run.fit(made, datamodule=data())
    expected = by_hand(made.net, "val")
    assert float(run.callback_metrics["val/per"]) == pytest.approx(
        100 * expected["errors"] / expected["targets"]
    )
