"""Random states are kept whole, and ranks draw different numbers."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from repro.tasks.ranks import random_state, set_random_state
from repro.training.checkpoints import read, write
from repro.training.randomness import Randomness, seed_rank

CPU = torch.device("cpu")


def draw() -> tuple[float, float, float, float]:
    return (random.gauss(0, 1), float(np.random.normal()), float(torch.rand(())), float(torch.randn(5)[4]))  # noqa: NPY002


def test_a_state_that_went_through_a_file_draws_the_same(tmp_path) -> None:  # type: ignore[no-untyped-def]
    draw()  # leaves half of a pair of Gaussians behind, which is part of the state
    write(tmp_path / "x.ckpt", {"state_dict": {}, "random": random_state(CPU)})
    expected = [draw() for _ in range(3)]
    draw()
    set_random_state(read(tmp_path / "x.ckpt")["random"], CPU)
    assert [draw() for _ in range(3)] == expected


def test_ranks_and_steps_draw_different_numbers() -> None:
    state = random_state(CPU)
    seen = set()
    for rank, step in [(0, 5), (1, 5), (2, 5), (1, 6)]:
        set_random_state(state, CPU)
        seed_rank(rank, step)
        seen.add(draw())
    assert len(seen) == 4
    set_random_state(state, CPU)
    seed_rank(1, 6)
    assert draw() in seen, "the same rank and step draw the same"


def started(rank: int, saved: list[dict[str, Any]]) -> tuple[float, float, float, float]:
    """Returns the first draws of a rank of two, from a common state, after the beginning of training."""
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    callback = Randomness()
    task: Any = SimpleNamespace(device=CPU)
    trainer: Any = SimpleNamespace(global_rank=rank, world_size=2, global_step=0)
    if saved:
        callback.on_load_checkpoint(trainer, task, {"random_states": saved})
    callback.on_train_start(trainer, task)
    return draw()


def test_at_the_beginning_rank_0_goes_on_and_others_are_their_own() -> None:
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    plain = draw()
    assert started(0, []) == plain
    assert started(1, []) != plain


def test_each_rank_gets_its_own_state_back() -> None:
    states, expected = [], []
    for seed in (1, 2):
        torch.manual_seed(seed)
        states.append(random_state(CPU))
        expected.append(draw()[2:])
    assert [started(rank, states)[2:] for rank in (0, 1)] == expected


def test_on_another_number_of_ranks_they_are_seeded_anew() -> None:
    alone = [random_state(CPU)]
    first, second = started(0, alone), started(1, alone)
    assert first != second
    assert (started(0, alone), started(1, alone)) == (first, second)
