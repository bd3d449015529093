"""Accuracies and losses are exactly those of a plain loop over the split; updates do not depend on micro-batches."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch

from repro.batches import Evaluation, FirstExamples, RandomBatches
from repro.data import BitMemoryData, BitXorData, ExampleData
from repro.data.core.loader import FixedLoader
from repro.models import Classifier, Gpt2
from repro.nn import VectorEmbedding
from repro.tasks import Classification, Constant
from repro.training.callbacks import Curves

BITS, STRINGS, PATCH = 6, 2, 3
TRAIN, EVAL = 24, 19


def network(size: int = PATCH, n_read: int = 2, per_token: int = PATCH, **settings: Any) -> Classifier:
    torch.manual_seed(0)
    body = Gpt2(8, 1, 2, 16, dropout=0.0, std=0.3)
    net = Classifier(partial(VectorEmbedding, size=size, dropout=0.0), body, 2, n_read, per_token, **settings)
    torch.nn.init.normal_(net.head.proj.weight)  # far from uniform, so that what is seen shows
    return net


def task(net: Classifier | None = None, **settings: Any) -> Classification:
    return Classification(net or network(), partial(torch.optim.SGD, lr=0.1), Constant, **settings)


def data(**changes: Any) -> BitMemoryData:
    return BitMemoryData(
        12,
        BITS,
        STRINGS,
        PATCH,
        train_examples=TRAIN,
        **({"eval_examples": EVAL, "eval_batch_size": 4} | changes),
    )


def trainer(steps: int = 1, micro_batches: int = 1, **settings: Any) -> pl.Trainer:
    return pl.Trainer(
        max_steps=steps, accumulate_grad_batches=micro_batches, accelerator="cpu", logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0, check_val_every_n_epoch=None,
        **settings,
    )  # fmt: skip


@torch.no_grad()
def by_hand(net: Classifier, module: ExampleData, split: str, which: list[int]) -> dict[str, Any]:
    """Sums over examples one at a time: nll, right ones of all and of the hidden, and how many there are."""
    net = net.eval()
    result: dict[str, Any] = {"nll": [], "right": [], "hidden": []}
    for i in which:
        one = module.examples(split, np.array([i]), None)
        for target, logits in enumerate(net(one.inputs)[0].double().tolist()):
            label = int(one.targets[0, target])
            result["nll"].append(math.log(sum(math.exp(v) for v in logits)) - logits[label])
            right = logits[label] == max(logits)
            result["right"].append(right)
            if one.hidden is not None and bool(one.hidden[0, target]):
                result["hidden"].append(right)
    return result


def evaluated(made: Classification, module: ExampleData | None = None, **settings: Any) -> Classification:
    trainer(**settings).test(made, datamodule=module or data(), verbose=False)
    return made


def measured(made: Classification) -> dict[str, Any]:
    result = {m.name: m for m in made.measurements()}
    assert len(result) == len(made.measurements()), "no name twice"
    return result


@pytest.fixture(scope="module")
def tested() -> Classification:
    return evaluated(task(sampled=RandomBatches(3, 4), train_limit=7))


def share(values: list[bool]) -> float:
    return 100.0 * sum(values) / len(values)


@pytest.mark.parametrize(
    ("kind", "split", "which"),
    [("test", "test", range(EVAL)), ("val", "val", range(EVAL)), ("train", "train", range(7))],
)
def test_scores_are_those_of_the_plain_loop(
    tested: Classification, kind: str, split: str, which: range
) -> None:
    expected, result = by_hand(tested.net, data(), split, list(which)), measured(tested)
    loss, accuracy, hidden = (result[f"{kind}/{m}"] for m in ("loss", "accuracy", "accuracy_hidden"))
    assert len(expected["nll"]) == len(which) * BITS
    assert loss.value == pytest.approx(sum(expected["nll"]) / len(expected["nll"]), rel=1e-6)
    assert accuracy.value == pytest.approx(share(expected["right"]), rel=1e-12)
    assert hidden.value == pytest.approx(share(expected["hidden"]), rel=1e-12)
    assert 0 < len(expected["hidden"]) < len(expected["right"])
    assert (loss.count, accuracy.count, hidden.count) == (
        len(expected["nll"]), len(expected["right"]), len(expected["hidden"]),
    )  # fmt: skip
    for one in (loss, accuracy, hidden):
        assert (one.split, one.protocol) == (split, {"examples": len(which)})
    assert [one.unit for one in (loss, accuracy, hidden)] == ["nats per target", "percent", "percent"]
    assert 0 < accuracy.value < 100


def test_a_sample_is_scored_as_it_was_drawn(tested: Classification) -> None:
    drawn = [
        i
        for b in data().evaluation_loader(Evaluation("test", selection=RandomBatches(3, 4)))
        for i in b.indices.tolist()
    ]
    assert len(set(drawn)) == 12
    expected, result = by_hand(tested.net, data(), "test", drawn), measured(tested)
    for metric, values in (("accuracy", "right"), ("accuracy_hidden", "hidden")):
        one = result[f"test/{metric}_sampled"]
        assert one.value == pytest.approx(share(expected[values]), rel=1e-12)
        assert (one.count, one.split) == (len(expected[values]), "test")
        assert one.protocol == {"batches": 3, "rows": 4}
        assert one.validation is None
    assert result["test/loss_sampled"].value == pytest.approx(sum(expected["nll"]) / 72, rel=1e-6)
    assert result["test/loss_sampled"].value != result["test/loss"].value


def test_a_test_score_has_the_validation_score_beside_it(tested: Classification) -> None:
    result = measured(tested)
    for metric in ("loss", "accuracy", "accuracy_hidden"):
        assert result[f"test/{metric}"].validation == result[f"val/{metric}"].value
        assert result[f"val/{metric}"].validation is None
        assert result[f"train/{metric}"].validation is None
    assert result["test/loss"].value != result["val/loss"].value


def test_what_was_not_asked_for_is_not_measured() -> None:
    def names(*metrics: str) -> set[str]:
        scores = {f"{kind}/{metric}" for kind in ("test", "val") for metric in metrics}
        return scores | {"parameters/trained", "parameters/reached"}

    assert set(measured(evaluated(task()))) == names("loss", "accuracy", "accuracy_hidden")
    displayed = measured(evaluated(task(network(1, 5, 1)), BitXorData(16)))
    assert set(displayed) == names("loss", "accuracy")
    assert displayed["test/accuracy"].count == 1024 * 5


def test_what_is_trained_is_counted() -> None:
    result = measured(evaluated(task(network(trained=["output", "positions"]))))
    trained, reached = (result[f"parameters/{name}"] for name in ("trained", "reached"))
    assert (trained.value, trained.unit) == (8 * 6 + 6 + 16 * 8, "parameters")
    assert (reached.value, reached.unit) == (8 * 6 + 6 + 6 * 8, "parameters"), "an input has 6 tokens"
    result = measured(evaluated(task(network(trained=["output"]))))
    assert {result[f"parameters/{name}"].value for name in ("trained", "reached")} == {8 * 6 + 6}


@pytest.mark.parametrize("size", [1, 5, 19, 100])
def test_the_size_of_evaluation_batches_changes_nothing(tested: Classification, size: int) -> None:
    result, expected = measured(evaluated(task(), data(eval_batch_size=size))), measured(tested)
    for kind in ("test", "val"):
        for metric in ("accuracy", "accuracy_hidden"):
            assert result[f"{kind}/{metric}"].value == expected[f"{kind}/{metric}"].value
        assert result[f"{kind}/loss"].value == pytest.approx(expected[f"{kind}/loss"].value, rel=1e-6)


class Short(BitMemoryData):
    """Loses an example of one split."""

    short = "test"

    def evaluation_loader(self, evaluation: Evaluation) -> FixedLoader[Any, Any]:
        few = FirstExamples(EVAL - 1) if evaluation.kind == self.short else evaluation.selection
        return super().evaluation_loader(replace(evaluation, selection=few))


@pytest.mark.parametrize("short", ["test", "val"])
def test_an_example_too_few_is_noticed(short: str) -> None:
    module = Short(12, BITS, STRINGS, PATCH, TRAIN, EVAL)
    module.short = short
    with pytest.raises(RuntimeError, match=rf"{short}: 18.*19"):
        evaluated(task(), module)
    if short == "val":
        with pytest.raises(RuntimeError, match="18 examples were scored"):
            trainer(2, val_check_interval=1).fit(task(), datamodule=module)


def test_a_sample_too_small_is_noticed() -> None:
    class Few(BitMemoryData):
        def evaluation_loader(self, evaluation: Evaluation) -> FixedLoader[Any, Any]:
            drawn = evaluation.selection
            if isinstance(drawn, RandomBatches):
                drawn = RandomBatches(drawn.batches, drawn.rows - 1)
            return super().evaluation_loader(replace(evaluation, selection=drawn))

    with pytest.raises(RuntimeError, match=r"test: 9.*12"):
        evaluated(task(sampled=RandomBatches(3, 4)), Few(12, BITS, STRINGS, PATCH, TRAIN, EVAL))


@pytest.mark.parametrize("numbers", [(0, 4), (25, 0), (-1, 4)])
def test_samples_that_cannot_be(numbers: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=rf"batches {numbers[0]}.*{numbers[1]}.*1"):
        RandomBatches(*numbers)


def test_fewer_examples_than_none_are_refused() -> None:
    for make in (lambda: task(train_limit=-1), lambda: FirstExamples(-1)):
        with pytest.raises(ValueError, match=r"at least 0, not -1"):
            make()
    assert task(train_limit=0).tests()[-1].selection == FirstExamples(0)


def test_validation_in_training_scores_the_whole_split() -> None:
    made = task()
    run = trainer(4, val_check_interval=2)
    run.fit(made, datamodule=data())
    expected = by_hand(made.net, data(), "val", list(range(EVAL)))
    result = {name: float(value) for name, value in run.callback_metrics.items()}
    assert result["val/accuracy"] == pytest.approx(share(expected["right"]), rel=1e-6)
    assert result["val/accuracy_hidden"] == pytest.approx(share(expected["hidden"]), rel=1e-6)
    assert result["val/loss"] == pytest.approx(sum(expected["nll"]) / len(expected["nll"]), rel=1e-5)


def trained_by_hand(steps: int) -> tuple[Classifier, list[tuple[float, float]]]:
    """The plain loop: the mean over all targets of the global batch; loss and accuracy of each step."""
    net, points = network(), []
    optimizer, loader = torch.optim.SGD(net.parameters(), lr=0.1), data().train_dataloader()
    batches = [batch for _ in range(steps) for batch in loader][:steps]
    for batch in batches:
        logits = net(batch.examples.inputs)
        loss = -logits.log_softmax(-1).gather(-1, batch.examples.targets[..., None]).mean()
        right = (logits.argmax(-1) == batch.examples.targets).double().mean()
        points.append((float(loss.detach()), 100.0 * float(right)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net, points


@pytest.mark.parametrize("micro_batches", [1, 2, 3])
def test_updates_are_those_of_the_plain_loop_for_any_micro_batches(micro_batches: int) -> None:
    made, curves = task(), Curves(every_steps=1)
    trainer(5, micro_batches, limit_val_batches=0, callbacks=[curves]).fit(made, datamodule=data())
    expected, points = trained_by_hand(5)
    pairs = [
        (a.detach(), b.detach()) for a, b in zip(made.net.parameters(), expected.parameters(), strict=True)
    ]
    assert max(float((a - b).abs().max()) for a, b in pairs) < 1e-5
    begun = [p.detach() for p in network().parameters()]
    assert max(float((a - b).abs().max()) for (a, _), b in zip(pairs, begun, strict=True)) > 1e-2, "it learns"
    losses, accuracies = zip(*points, strict=True)
    assert [value for _, value in curves.curves["train/loss"]] == pytest.approx(losses, rel=1e-5)
    assert [value for _, value in curves.curves["train/accuracy"]] == pytest.approx(accuracies)
    assert curves.tokens == 5 * 12 * BITS


@pytest.mark.parametrize(
    ("points", "step", "best"),
    [
        ([(100, 50.0), (200, 98.7), (300, 99.0), (400, 99.9)], 300, 99.9),
        ([(100, 50.0), (200, 99.0), (300, 80.0), (400, 100.0)], 200, 100.0),
        ([(100, 50.0), (200, 49.5)], 100, 50.0),
    ],
)
def test_convergence_is_the_first_step_near_the_best(points: list[Any], step: int, best: float) -> None:
    curves = Curves()
    curves.curves["val/accuracy"] = [list(point) for point in points]
    one = measured(evaluated(task(), callbacks=[curves]))["val/converged_at"]
    assert (one.value, one.unit, one.split) == (step, "gradient steps", "val")
    assert one.protocol == {"within": 1.0, "of": "the best validated accuracy", "best": best}


def test_a_run_tells_when_it_converged() -> None:
    made, curves = task(network(1, 5, 1)), Curves()
    run = trainer(6, val_check_interval=2, callbacks=[curves])
    run.fit(made, datamodule=BitXorData(64))
    run.test(made, datamodule=BitXorData(64), verbose=False)
    points = curves.curves["val/accuracy"]
    assert [step for step, _ in points] == [2, 4, 6]
    one = measured(made)["val/converged_at"]
    assert one.value in (2, 4, 6)
    assert one.protocol["best"] == max(value for _, value in points)
