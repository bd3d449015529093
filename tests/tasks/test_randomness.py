"""Random states are kept whole, and ranks draw different numbers."""

import random

import numpy as np
import torch

from repro.checkpoints import read, write
from repro.tasks.randomness import random_state, seed_rank, set_random_state

CPU = torch.device("cpu")


def draw() -> tuple[float, float, float, float]:
    return (random.gauss(0, 1), float(np.random.normal()), float(torch.rand(())), float(torch.randn(5)[4]))  # noqa: NPY002


def test_a_state_that_went_through_a_file_draws_the_same(tmp_path) -> None:  # type: ignore[no-untyped-def]
    draw()  # leaves half of a pair of Gaussians behind, which is part of the state
    write(tmp_path / "x.ckpt", {"state_dict": {}, "random": random_state(CPU)})
    wanted = [draw() for _ in range(3)]
    draw()
    set_random_state(read(tmp_path / "x.ckpt")["random"], CPU)
    assert [draw() for _ in range(3)] == wanted


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
