"""Scores are those of a plain loop over single sequences; hashings change how keys are looked up, and nothing else."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from repro.data import CopyData, DuplicationData, ExampleData
from repro.models import DecoderLM
from repro.nn import (
    Blocks,
    FeedForward,
    FullAttention,
    Hashing,
    LearnedPositions,
    LSHAttention,
    MixerOutput,
    PreNorm,
    ReversibleStack,
    Vocabulary,
)
from repro.nn.positions.positions import Added
from repro.nn.settings import AS_BUILT, CallSettings
from repro.tasks import Constant, SequenceModel
from repro.tasks.evaluated import EVALUATION_SEED
from repro.training.callbacks import Curves
from tests.tasks.streams import trainer

LENGTH, SYMBOLS, BATCH, TRAIN, EVAL = 24, 3, 6, 26, 9
OWN = Hashing(rounds=1, chunk=4)
HASHINGS = {"exact": Hashing(0), "lsh8": Hashing(8, 4), "lsh1": Hashing(1, 8)}


def data(**changes: Any) -> CopyData:
    sizes = {"train_examples": TRAIN, "eval_examples": EVAL, "eval_batch_size": 4}
    return CopyData(BATCH, LENGTH, 2, 11, SYMBOLS, **(sizes | changes))


def network(mixer: Any = FullAttention, dropout: float = 0.0) -> DecoderLM:
    torch.manual_seed(0)
    blocks = Blocks(
        [partial(mixer, n_heads=2)], partial(FeedForward, d_ff=16), partial(PreNorm, dropout=dropout),
        final_norm=nn.LayerNorm, stack=ReversibleStack,
    )  # fmt: skip
    positions = partial(Added, table=partial(LearnedPositions, max_length=LENGTH))
    vocabulary = partial(Vocabulary, size=SYMBOLS + 1, tied=False)
    net = DecoderLM(8, 2, vocabulary, blocks, positions, dropout=dropout)
    for parameter in net.parameters():  # far from uniform, so that what is seen shows
        parameter.data.mul_(2.0)
    return net


def hashing(dropout: float = 0.0) -> DecoderLM:
    return network(partial(LSHAttention, hashing=OWN), dropout)


def task(net: DecoderLM | None = None, **settings: Any) -> SequenceModel:
    return SequenceModel(net or network(), partial(torch.optim.SGD, lr=0.1), Constant, **settings)


def evaluated(made: SequenceModel, module: ExampleData | None = None) -> dict[str, Any]:
    trainer(1).test(made, datamodule=module or data(), verbose=False)
    result = {m.name: m for m in made.measurements()}
    assert len(result) == len(made.measurements()), "no name twice"
    return result


@torch.no_grad()
def by_hand(
    net: DecoderLM, module: ExampleData, split: str, settings: CallSettings = AS_BUILT
) -> dict[str, Any]:
    """One example and one target at a time."""
    sums: dict[str, Any] = {"nll": 0.0, "right": 0, "targets": 0, "each": []}
    for i in range(EVAL):
        one = module.examples(split, np.array([i]), None)
        logits = net.eval().vocabulary.logits(net(one.inputs, settings=settings).y)[0].double()
        places = [t for t, target in enumerate(one.targets[0].tolist()) if target >= 0]
        for t in places:
            target = int(one.targets[0, t])
            sums["nll"] += float(logits[t].exp().sum().log() - logits[t, target])
            sums["right"] += bool(logits[t, target] == logits[t].max())
        sums["targets"] += len(places)
        sums["each"].append(len(places))
    return sums


@pytest.fixture(scope="module")
def tested() -> tuple[SequenceModel, dict[str, Any]]:
    made = task(hashing(), hashings=HASHINGS)
    return made, evaluated(made)


# --- scores ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["test", "val"])
def test_scores_are_those_of_the_plain_loop(split: str) -> None:
    made = task()
    result, expected = evaluated(made), by_hand(made.net, data(), split)
    assert set(result) == {f"{kind}/{metric}" for kind in ("test", "val") for metric in ("loss", "accuracy")}
    loss, accuracy = result[f"{split}/loss"], result[f"{split}/accuracy"]
    assert loss.value == pytest.approx(expected["nll"] / expected["targets"], rel=1e-5)
    assert accuracy.value == pytest.approx(100 * expected["right"] / expected["targets"], rel=1e-12)
    assert 0 < expected["right"] < expected["targets"]
    assert (loss.count, accuracy.count) == (expected["targets"],) * 2
    assert (loss.unit, accuracy.unit, loss.split) == ("nats per target", "percent", split)
    assert accuracy.protocol == {"examples": EVAL}
    assert loss.validation == (result["val/loss"].value if split == "test" else None)
    assert len(set(expected["each"])) > 3, "numbers of targets vary, so that means of means would show"
    assert expected["each"] == (data().targets_of(split, np.arange(EVAL), None)).tolist()


def test_only_the_second_word_of_a_duplication_is_scored() -> None:
    module, made = DuplicationData(4, LENGTH, SYMBOLS, TRAIN, EVAL, 4), task()
    result, expected = evaluated(made, module), by_hand(made.net, module, "test")
    assert result["test/accuracy"].count == EVAL * (LENGTH // 2 - 1) == expected["targets"]
    assert result["test/accuracy"].value == pytest.approx(
        100 * expected["right"] / expected["targets"], rel=1e-12
    )
    assert result["test/loss"].value == pytest.approx(expected["nll"] / expected["targets"], rel=1e-5)


@pytest.mark.parametrize("size", [1, 5, 100])
def test_the_size_of_evaluation_batches_changes_nothing_that_is_not_drawn(size: int) -> None:
    """Hash functions are drawn batch by batch: only for them is the size part of the measurement."""
    exact = {"exact": HASHINGS["exact"]}
    expected, result = (
        evaluated(task(hashing(), hashings=exact), data(eval_batch_size=n)) for n in (4, size)
    )
    assert result["test/accuracy_exact"].value == expected["test/accuracy_exact"].value
    assert result["test/loss_exact"].value == pytest.approx(expected["test/loss_exact"].value, rel=1e-5)
    assert result["test/loss"].value != pytest.approx(expected["test/loss"].value, rel=1e-5)


# --- training -------------------------------------------------------------------------------------------------------


def trained_by_hand(steps: int) -> tuple[DecoderLM, list[tuple[float, float]], int]:
    """The plain loop: the mean over all targets of the global batch; loss and accuracy of each step; all targets."""
    net, points, tokens = network(), [], 0
    optimizer, loader = torch.optim.SGD(net.parameters(), lr=0.1), data().train_dataloader()
    for batch in [batch for _ in range(steps) for batch in loader][:steps]:
        logits, targets = net.vocabulary.logits(net(batch.examples.inputs).y), batch.examples.targets
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        counts = targets >= 0
        right = (logits.argmax(-1) == targets)[counts].double().mean()
        points.append((float(loss.detach()), 100.0 * float(right)))
        tokens += int(counts.sum())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net, points, tokens


@pytest.mark.parametrize("micro_batches", [1, 2, 3])
def test_updates_are_those_of_the_plain_loop_for_any_micro_batches(micro_batches: int) -> None:
    made, curves = task(), Curves(every_steps=1)
    trainer(5, micro_batches, limit_val_batches=0, callbacks=[curves]).fit(made, datamodule=data())
    expected, points, tokens = trained_by_hand(5)
    ours = dict(made.net.named_parameters())
    for name, parameter in expected.named_parameters():
        torch.testing.assert_close(ours[name], parameter, rtol=0.0, atol=1e-5)
    begun = dict(network().named_parameters())
    moved = max(float((ours[name] - begun[name]).detach().abs().max()) for name in ours)
    assert moved > 1e-2, "it learns"
    losses, accuracies = zip(*points, strict=True)
    assert [value for _, value in curves.curves["train/loss"]] == pytest.approx(losses, rel=1e-5)
    assert [value for _, value in curves.curves["train/accuracy"]] == pytest.approx(accuracies)
    assert curves.tokens == tokens


def test_gradient_comes_from_targets_that_count_alone() -> None:
    made, seen = task(), []

    def keep(module: nn.Module, args: Any, mixed: Any) -> None:
        mixed.y.retain_grad()
        seen.append(mixed.y)

    made.net.register_forward_hook(keep)
    batch = next(iter(data().train_dataloader()))
    made.training_step(batch, 0)["loss"].backward()  # type: ignore[index, call-overload, union-attr]
    grad: Tensor = seen[0].grad.abs().sum(-1)
    counts = batch.examples.targets >= 0
    assert not grad[~counts].any()
    assert (grad[counts] > 0).all()
    assert 0 < int(counts.sum()) < counts.numel()


# --- hashings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["test", "val"])
@pytest.mark.parametrize("name", ["", *HASHINGS])
def test_a_hashing_is_scored_with_what_is_drawn_for_each_batch(tested: Any, name: str, kind: str) -> None:
    """Batches of 4 from examples 0, 4 and 8 on: each draws its own hash functions."""
    made, result = tested
    sums = torch.zeros(3, dtype=torch.float64)
    for start in (0, 4, 8):
        batch = data().examples(kind, np.arange(start, min(start + 4, EVAL)), None)
        torch.manual_seed(EVALUATION_SEED + start)
        settings = CallSettings(hashing=HASHINGS.get(name, OWN))
        with torch.no_grad():
            hidden = made.net.eval()(batch.inputs, settings=settings).y
            logits = made.net.vocabulary.logits(hidden).log_softmax(-1)
        counts = batch.targets >= 0
        picked = logits.gather(-1, batch.targets.clamp(min=0)[..., None])[..., 0]
        right = (logits.argmax(-1) == batch.targets)[counts].sum()
        sums += torch.stack([-picked[counts].double().sum(), right.double(), counts.sum().double()])
    loss, accuracy = float(sums[0] / sums[2]), float(100 * sums[1] / sums[2])
    called = f"_{name}" if name else ""
    if kind == "test" or not name:
        assert result[f"{kind}/loss{called}"].value == pytest.approx(loss, rel=1e-5)
        assert result[f"{kind}/accuracy{called}"].value == pytest.approx(accuracy, rel=1e-12)
    else:
        assert result[f"test/loss{called}"].validation == pytest.approx(loss, rel=1e-5)
        assert result[f"test/accuracy{called}"].validation == pytest.approx(accuracy, rel=1e-12)


def test_hashings_are_told_apart(tested: Any) -> None:
    _, result = tested
    losses = [result[f"test/loss{name}"].value for name in ("", "_exact", "_lsh8", "_lsh1")]
    assert len({round(loss, 4) for loss in losses}) == 4


def test_exact_is_exact(tested: Any) -> None:
    made, result = tested
    expected = by_hand(made.net, data(), "test", CallSettings(hashing=HASHINGS["exact"]))
    assert result["test/loss_exact"].value == pytest.approx(expected["nll"] / expected["targets"], rel=1e-5)


def test_names_of_hashings(tested: Any) -> None:
    """What validated a further setting stands beside it and is not listed."""
    _, result = tested
    names = ["test/{}", "val/{}", *(f"test/{{}}_{name}" for name in HASHINGS)]
    assert set(result) == {name.format(metric) for name in names for metric in ("loss", "accuracy")}
    assert "test/accuracy_lsh8" in result
    assert result["test/loss_lsh8"].validation != result["test/loss"].validation
    assert result["test/accuracy_lsh8"].unit == "percent"
    assert result["test/accuracy_lsh8"].count == result["test/accuracy"].count


def test_a_hashing_is_a_point_of_a_sweep_over_rounds(tested: Any) -> None:
    _, result = tested
    assert result["test/accuracy"].protocol == {"examples": EVAL}
    for metric in ("accuracy", "loss"):
        output = result[f"test/{metric}_lsh8"].protocol
        swept = {"examples": EVAL, "sweep": "rounds", "of": f"test/{metric}", "rounds": 8}
        assert output == HASHINGS["lsh8"].describe() | swept
    assert result["test/accuracy_exact"].protocol["rounds"] == "exact", "without rounds its name stands there"


def test_weights_and_own_hashing_stay_as_they_were() -> None:
    made = task(hashing(), hashings=HASHINGS)
    begun = {name: value.clone() for name, value in made.net.state_dict().items()}
    evaluated(made)
    for name, value in made.net.state_dict().items():
        assert torch.equal(value, begun[name])
    mixers = [module for module in made.net.modules() if isinstance(module, LSHAttention)]
    assert [mixer.hashing for mixer in mixers] == [OWN, OWN]


def test_the_same_numbers_twice(tested: Any) -> None:
    _, expected = tested
    torch.manual_seed(99)
    torch.rand(7)
    result = evaluated(task(hashing(), hashings=HASHINGS))
    assert {name: m.value for name, m in result.items()} == {name: m.value for name, m in expected.items()}


def test_training_goes_on_as_if_nothing_was_scored() -> None:
    """Dropout and hash functions of training are those of a run that never validated."""
    made = []
    for settings in ({"val_check_interval": 1}, {"limit_val_batches": 0}):
        one = task(hashing(dropout=0.3), hashings=HASHINGS)
        torch.manual_seed(8)
        trainer(3, **settings).fit(one, datamodule=data())
        made.append(one.net.state_dict())
    for name, value in made[0].items():
        assert torch.equal(value, made[1][name]), name


def test_hashings_for_a_network_without_hashing_are_refused() -> None:
    with pytest.raises(ValueError, match=r"exact, lsh8, lsh1"):
        task(network(), hashings=HASHINGS)


def test_a_network_of_another_class_with_the_same_methods_works() -> None:
    class Own(nn.Module):
        def __init__(self, net: DecoderLM) -> None:
            super().__init__()
            self.inner = net
            self.vocabulary = net.vocabulary

        def forward(self, *inputs: Any, **settings: Any) -> MixerOutput:
            return self.inner(*inputs, **settings)

    results = [
        {name: m.value for name, m in evaluated(task(net)).items()} for net in (network(), Own(network()))
    ]
    assert results[0] == results[1]
