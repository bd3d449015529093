"""Several real processes (gloo) compute what one computes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from repro.paths import PROJECT
from tests.experiment.runner import Forks, said
from tests.workshop import BITS, COMPILED, STICKY, STREAM, TALK, TINY, Workshop, make_workshop

pytestmark = [pytest.mark.ddp, pytest.mark.slow]
SHARES = [pytest.param(2, 1, marks=pytest.mark.matrix), pytest.param(1, 2, marks=pytest.mark.matrix), (2, 2)]
SCRIPT = Path(__file__).with_name("ranks.py")


class Launcher:
    """Launches ranks.py, once for each question, and returns what rank 0 wrote."""

    def __init__(self, forks: Forks, workshop: Workshop) -> None:
        self.forks = forks
        self.workshop = workshop

    def __call__(
        self, what: str, world: int, micro_batches: int = 1, budget: int = 80, experiment: str = TINY
    ) -> Any:
        name = f"{experiment.rpartition('/')[2]}-{what}-{world}-{micro_batches}-{budget}"
        out = self.workshop.root / f"{name}.json"
        if not out.exists():
            codes = self.forks.ask(
                "compared", self.workshop, world, {"REPRO_RUNS": str(self.workshop.root / f"runs-{name}")},
                experiment=experiment, what=what, micro_batches=micro_batches, budget=budget, out=str(out),
            )  # fmt: skip
            assert codes == [0] * world, said(self.workshop)
        return json.loads(out.read_text())

    def scored(self, experiment: str = TINY) -> list[Any]:
        """The untrained network tested by 1, 2 and 3 ranks; the first two then train it, for :meth:`trained`."""
        return [self(what, n, experiment=experiment) for n, what in enumerate(("both", "both", "test"), 1)]

    def trained(self, world: int, micro_batches: int = 1, experiment: str = TINY) -> Any:
        """The network trained by some ranks."""
        what = "both" if micro_batches == 1 else "train"
        return self(what, world, micro_batches, experiment=experiment)


@pytest.fixture(scope="module")
def launch(forks: Forks, tmp_path_factory: pytest.TempPathFactory, small_store: Path) -> Launcher:
    workshop = make_workshop(tmp_path_factory.mktemp("ranks") / "workshop", small_store)
    assert (workshop.stream(), workshop.sticky(), workshop.bits()) == (STREAM, STICKY, BITS)
    assert workshop.talk() == TALK
    return Launcher(forks, workshop)


def test_ranks_that_lightning_starts_find_the_same(launch: Launcher, workshop: Workshop) -> None:
    """The other tests fork theirs, which saves the imports; under Slurm and torchrun they are started, too."""
    out = workshop.root / "out.json"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(PROJECT)}
    words = [sys.executable, str(SCRIPT), TINY, "both", "2", "1", "80", str(out)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(out.read_text()) == launch("both", 2)


def test_evaluation_is_exact_at_any_world_size(launch: Launcher) -> None:
    one, two, three = launch.scored()
    assert any(one["outputs"].split()), "nothing was decoded, so nothing was compared"
    for many in (two, three):
        assert many["outputs"] == one["outputs"]
        assert many["test/bleu"] == one["test/bleu"]
        assert many["test/exact_match"] == one["test/exact_match"]
        assert many["test/nll"][1] == one["test/nll"][1], "token counts differ"
        for name in ("test/nll", "test/loss"):
            assert many[name][0] == pytest.approx(one[name][0], rel=1e-6)
            assert many[name][2] == pytest.approx(one[name][2], rel=1e-6)


def test_more_ranks_than_batches_of_an_evaluation_wait_for_each_other(launch: Launcher) -> None:
    one = launch("test", 1, budget=4000)  # one batch holds the split
    two = launch("test", 2, budget=4000)
    assert two["outputs"] == one["outputs"]
    assert two["test/bleu"] == one["test/bleu"]


@pytest.mark.parametrize(("world", "micro_batches"), [(2, 1), (1, 2)])
def test_shares_of_a_batch_follow_the_whole_batch(launch: Launcher, world: int, micro_batches: int) -> None:
    whole, shares = launch.trained(1), launch.trained(world, micro_batches)
    assert shares["tokens"] == whole["tokens"]
    assert len(whole["loss"]) == len(shares["loss"]) == 20
    for (step, expected), (same, result) in zip(whole["loss"], shares["loss"], strict=True):
        assert same == step
        assert result == pytest.approx(expected, rel=1e-5), f"step {step}"
    assert whole["loss"][-1][1] < whole["loss"][0][1], "nothing was learnt, so nothing was compared"


@pytest.mark.parametrize("experiment", [STREAM, STICKY])
def test_every_token_counts_once_at_any_world_size(launch: Launcher, experiment: str) -> None:
    one, two, three = launch.scored(experiment)
    kinds = [
        f"{split}/{name}" for split in ("test", "val") for name in ("loss", "loss_alone", "accuracy", "ppl")
    ]
    for many in (two, three):
        for kind in kinds:
            assert many[kind][0] == pytest.approx(one[kind][0], rel=1e-6), kind
            assert many[kind][1] == one[kind][1], "token counts differ"
    assert one["test/loss"][1] < one["test/loss_alone"][1], "82 targets in 4 streams leave two over"


@pytest.mark.parametrize("experiment", [STREAM, STICKY])
@pytest.mark.parametrize(("world", "micro_batches"), SHARES)
def test_memories_of_ranks_and_micro_batches_follow_those_of_the_whole_batch(
    launch: Launcher, world: int, micro_batches: int, experiment: str
) -> None:
    whole = launch.trained(1, experiment=experiment)
    shares = launch.trained(world, micro_batches, experiment)
    assert shares["tokens"] == whole["tokens"]
    assert len(whole["loss"]) == 20, "more than two epochs"
    for (step, expected), (_, result) in zip(whole["loss"], shares["loss"], strict=True):
        assert result == pytest.approx(expected, rel=1e-5), f"step {step}"
    assert whole["loss"][-1][1] < whole["loss"][0][1], "nothing was learnt, so nothing was compared"


def test_compiled_ranks_follow_an_eager_process(launch: Launcher) -> None:
    whole, compiled = launch.trained(1, experiment=STREAM), launch("train", 2, experiment=COMPILED)
    assert [value for _, value in compiled["loss"]] == pytest.approx(
        [value for _, value in whole["loss"]], rel=1e-5
    )


def test_classifiers_score_alike_and_train_alike_at_any_world_size(launch: Launcher) -> None:
    one = launch("both", 1, experiment=BITS)
    shares = launch("both", 2, micro_batches=2, experiment=BITS)
    three = launch("test", 3, experiment=BITS)
    kinds = ["test/{}", "val/{}", "train/{}", "test/{}_sampled"]
    for many in (shares, three):
        for kind in kinds:
            for metric in ("accuracy", "accuracy_hidden"):
                assert many[kind.format(metric)] == one[kind.format(metric)], kind
            loss = kind.format("loss")
            assert many[loss][0] == pytest.approx(one[loss][0], rel=1e-6), kind
            assert many[loss][1] == one[loss][1], "counts differ"
    assert [one[kind.format("loss")][1] for kind in kinds] == [66, 66, 30, 36]
    assert shares["tokens"] == one["tokens"] == 20 * 8 * 6
    assert len(one["loss"]) == 20, "more than two epochs"
    for (step, expected), (_, result) in zip(one["loss"], shares["loss"], strict=True):
        assert result == pytest.approx(expected, rel=1e-5), f"step {step}"
    losses = [value for _, value in one["loss"]]
    assert sum(losses[-5:]) < sum(losses[:5]), "nothing was learnt, so nothing was compared"


def test_replies_and_their_scores_are_the_same_at_any_world_size(launch: Launcher) -> None:
    one, two, three = launch.scored(TALK)
    assert len(one["outputs"].splitlines()) == 5 * 2
    assert one["test/f1"][0] > 0
    for many in (two, three):
        assert many["outputs"] == one["outputs"]
        for name in set(three) - {"outputs"}:
            (value, count, beside), (ours, counted, ours_beside) = one[name], many[name]
            assert (ours, counted) == (pytest.approx(value, rel=1e-6), count), name
            assert ours_beside == (None if beside is None else pytest.approx(beside, rel=1e-6)), name


@pytest.mark.parametrize(("world", "micro_batches"), SHARES)
def test_conversations_of_ranks_and_micro_batches_follow_the_whole_batch(
    launch: Launcher, world: int, micro_batches: int
) -> None:
    whole = launch.trained(1, experiment=TALK)
    shares = launch.trained(world, micro_batches, TALK)
    assert shares["tokens"] == whole["tokens"]
    for (step, expected), (_, result) in zip(whole["loss"], shares["loss"], strict=True):
        assert result == pytest.approx(expected, rel=1e-4), step
