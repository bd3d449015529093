"""Interrupted anywhere, in any way, a run ends as if nothing had happened: weights, optimiser, schedule, random
states, order of examples, curves and test outputs are those of the uninterrupted run, bit for bit. Dropout is on.

``pytest -m matrix`` runs every combination; by default four of them run, which cover every pair of settings.
"""

from itertools import product
from pathlib import Path

import pytest
import torch

from tests.experiment.interruptions import POINTS
from tests.experiment.runner import Runner, differences, outcome, said

pytestmark = [pytest.mark.ddp, pytest.mark.slow]
HOWS = ("SIGKILL", "SIGUSR1")


def check(runner: Runner, tmp_path: Path, ranks: int, workers: int, stops: list[tuple[str, str]]) -> None:
    """Interrupts a run at each stop in turn, lets it end, and compares it with the uninterrupted one."""
    target = runner.whole(ranks)
    workshop = runner.project(tmp_path / "interrupted")
    for point, how in stops:
        codes = runner.attempt(workshop, ranks, workers, point, (how,))
        expected = (
            {-9, 1} if how == "SIGKILL" else {75}
        )  # a rank whose peer was killed first may say so and fail
        assert set(codes) <= expected, (point, codes, said(workshop))
        assert (-9 in codes) == (how == "SIGKILL"), (point, codes, said(workshop))
    assert runner.attempt(workshop, ranks, workers) == [0] * ranks, said(workshop)
    result = outcome(workshop)
    for part in ("order", "checkpoint", "record", "outputs"):
        wrong = differences(getattr(result, part), getattr(target, part), part)
        assert not wrong, wrong[:5]


# Every pair of (ranks, workers), (ranks, how) and (workers, how) comes up; the other points are in the tests below.
PAIRS = [
    (POINTS[0], 1, 0, "SIGUSR1"),
    (POINTS[1], 2, 0, "SIGKILL"),
    (POINTS[4], 2, 2, "SIGUSR1"),
    (POINTS[7], 1, 2, "SIGKILL"),
]
ALL = [(p, r, w, h) for p, r, w, h in product(POINTS, (1, 2), (0, 2), HOWS)]


@pytest.mark.parametrize(("point", "ranks", "workers", "how"), PAIRS)
def test_an_interrupted_run_ends_as_the_uninterrupted_one(
    runner: Runner, tmp_path: Path, point: str, ranks: int, workers: int, how: str
) -> None:
    check(runner, tmp_path, ranks, workers, [(point, how)])


@pytest.mark.matrix
@pytest.mark.parametrize(("point", "ranks", "workers", "how"), [c for c in ALL if c not in PAIRS])
def test_the_whole_matrix(
    runner: Runner, tmp_path: Path, point: str, ranks: int, workers: int, how: str
) -> None:
    check(runner, tmp_path, ranks, workers, [(point, how)])


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.matrix), 2])
def test_three_interruptions_within_one_epoch(runner: Runner, tmp_path: Path, ranks: int) -> None:
    stops = [("step 8", "SIGUSR1"), ("step 10", "SIGKILL"), ("step 12", "SIGUSR1")]
    check(runner, tmp_path, ranks, 0, stops)


# A language model with a memory: it has to be there again, and to go on where it was.
STREAMS = [
    (POINTS[2], 2, 0, "SIGKILL"),
    pytest.param(POINTS[4], 1, 0, "SIGUSR1", marks=pytest.mark.matrix),
    pytest.param(POINTS[5], 1, 0, "SIGKILL", marks=pytest.mark.matrix),
    pytest.param(POINTS[5], 2, 0, "SIGUSR1", marks=pytest.mark.matrix),
    (POINTS[6], 1, 2, "SIGUSR1"),
]


@pytest.mark.parametrize(("point", "ranks", "workers", "how"), STREAMS)
def test_memories_survive_an_interruption(
    streams: Runner, tmp_path: Path, point: str, ranks: int, workers: int, how: str
) -> None:
    check(streams, tmp_path, ranks, workers, [(point, how)])
    memory = streams.whole(ranks).checkpoint["carried"]["memory"]["stream"]["mix"][0]["memory"]
    assert memory.shape == (8, 4, 8), "all streams, in one order for any number of ranks"
    assert float(memory.abs().max()) > 0.1


def test_compiled_training_goes_on(compiled: Runner, streams: Runner, tmp_path: Path) -> None:
    check(compiled, tmp_path, 1, 0, [(POINTS[5], "SIGUSR1")])
    names = [run.whole(1).checkpoint["state_dict"].keys() for run in (compiled, streams)]
    assert names[0] == names[1]


# A sticky continuous memory: what it draws follows from a counter that is carried, too.
STICKY = [
    (POINTS[5], 2, 0, "SIGUSR1"),
    pytest.param(POINTS[3], 1, 0, "SIGKILL", marks=pytest.mark.matrix),
    pytest.param("step 12", 1, 2, "SIGUSR1", marks=pytest.mark.matrix),
]


@pytest.mark.parametrize(("point", "ranks", "workers", "how"), STICKY)
def test_sticky_memories_and_their_draws_survive_an_interruption(
    sticky: Runner, tmp_path: Path, point: str, ranks: int, workers: int, how: str
) -> None:
    check(sticky, tmp_path, ranks, workers, [(point, how)])
    state = sticky.whole(ranks).checkpoint["carried"]["memory"]["stream"]["mix"][0]
    assert state["coefficients"].shape == (8, 8, 8), "all streams, in one order for any number of ranks"
    assert state["updates"].tolist() == [1] * 8, "17 updates end 3 batches into an epoch"
    assert state["draws"].tolist() == [1] * 8, "the epoch began behind 14 of them"
    assert float(state["attended"].min()) >= 0
    assert float(state["attended"].max()) > 0.1


# Conversations: nothing is carried from one update to the next, and replies are drawn from the seed alone.
TALKS = [pytest.param(POINTS[3], 2, 0, "SIGUSR1", marks=pytest.mark.matrix), (POINTS[5], 1, 2, "SIGKILL")]


@pytest.mark.parametrize(("point", "ranks", "workers", "how"), TALKS)
def test_conversations_go_on(
    talk: Runner, tmp_path: Path, point: str, ranks: int, workers: int, how: str
) -> None:
    check(talk, tmp_path, ranks, workers, [(point, how)])
    whole = talk.whole(ranks)
    assert whole.checkpoint["carried"] == {}
    assert len(whole.outputs.splitlines()) == 10


# A classifier: its examples are drawn anew in every epoch, and most of its network never changes.
CLASSIFIERS = [
    (POINTS[2], 2, 0, "SIGKILL"),
    pytest.param(POINTS[5], 1, 2, "SIGUSR1", marks=pytest.mark.matrix),
]


@pytest.mark.parametrize(("point", "ranks", "workers", "how"), CLASSIFIERS)
def test_a_classifier_over_a_frozen_body_goes_on(
    bits: Runner, tmp_path: Path, point: str, ranks: int, workers: int, how: str
) -> None:
    check(bits, tmp_path, ranks, workers, [(point, how)])
    whole = bits.whole(ranks).checkpoint
    assert whole["position"] == [{"train": {"epoch": 2, "batch": 3 * 2, "parts": 2}}]
    held = whole["optimizer_states"][0]["state"]
    assert 0 < len(held) < len(whole["state_dict"]), "what is frozen has no state"


def test_a_difference_would_be_seen(runner: Runner) -> None:
    whole = runner.whole(1)
    assert len(whole.order) == 17 * 2
    name = next(iter(whole.checkpoint["state_dict"]))
    other = {**whole.checkpoint, "state_dict": {**whole.checkpoint["state_dict"]}}
    other["state_dict"][name] = torch.nextafter(other["state_dict"][name], torch.tensor(9.0))
    assert differences(other, whole.checkpoint) == [f".state_dict.{name}"]
