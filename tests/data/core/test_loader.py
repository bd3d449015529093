"""Positions of the training loader; under a real Trainer: test_datamodule.py."""

import multiprocessing
import os
import pickle
import subprocess
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.data.core.loader import FixedLoader, PlannedLoader
from repro.errors import ReproError, UserError

LENGTH = 6


def plan(epoch: int) -> list[int]:
    return [100 * epoch + i for i in range(LENGTH)]


def build(item: int) -> Tensor:
    return torch.tensor([float(item)])


def planned(micro_batches: int = 1, num_workers: int = 0) -> PlannedLoader[int, Tensor]:
    return PlannedLoader(plan, build, micro_batches, num_workers)


def numbers(batches: Any) -> list[int]:
    return [int(batch) for batch in batches]


def test_each_pass_is_the_next_epoch() -> None:
    loader = planned()
    assert numbers(loader) == plan(0)
    assert numbers(loader) == plan(1)
    loader.set_epoch(7)
    assert numbers(loader) == plan(7)
    assert len(loader) == LENGTH


def test_asking_for_an_iterator_moves_nothing() -> None:
    loader = planned()
    iter(loader)
    next(iter(loader))
    assert loader.state_dict() == {"epoch": 0, "batch": 1, "parts": 1}
    assert numbers(iter(loader)) == plan(0)[1:]


@pytest.mark.parametrize("taken", range(LENGTH + 1))
@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_restored_loader_continues_with_the_next_batch(taken: int, num_workers: int) -> None:
    if num_workers and taken not in (0, 4):
        pytest.skip("worker processes are slow to start")
    first = planned()
    first.set_epoch(2)
    source = iter(first)
    seen = [int(next(source)) for _ in range(taken)]
    second = planned(num_workers=num_workers)
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    if taken < LENGTH:
        seen += numbers(second)
    assert seen == plan(2)
    assert numbers(second) == plan(3)


def test_workers_leave_the_global_generator_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    assert numbers(planned(num_workers=2)) == plan(0)
    assert torch.equal(torch.rand(3), expected)


def test_a_position_is_bound_to_its_micro_batches() -> None:
    loader = PlannedLoader(lambda epoch: list(range(12)), build, micro_batches=2)
    for batch in (3, 6):  # also behind a whole epoch of 6 updates: validations would come at others
        with pytest.raises(UserError, match=r"accumulate_grad_batches 1.*2"):
            loader.load_state_dict({"epoch": 3, "batch": batch, "parts": 1})
    loader.load_state_dict({"epoch": 3, "batch": 12, "parts": 2})
    assert loader.state_dict() == {"epoch": 3, "batch": 12, "parts": 2}
    with pytest.raises(UserError, match="batch 13 of 12"):
        loader.load_state_dict({"epoch": 0, "batch": 13, "parts": 2})


def test_epochs_of_unequal_length_are_refused() -> None:
    loader = PlannedLoader(lambda epoch: list(range(3 + epoch)), build)
    assert numbers(loader) == [0, 1, 2]
    with pytest.raises(ReproError, match=r"epoch 1 has 4 batches, but epoch 0 has 3"):
        list(loader)


def test_a_fixed_loader_starts_afresh_each_time() -> None:
    loader = FixedLoader(plan(0), build)
    next(iter(loader))
    assert numbers(loader) == numbers(loader) == plan(0)
    assert numbers(FixedLoader(plan(1), build, num_workers=1)) == plan(1)


def own_pid(item: int) -> int:
    return os.getpid()


def test_a_worker_lives_on_after_term_of_anybody_but_its_parent() -> None:
    source = iter(FixedLoader(range(LENGTH), own_pid, num_workers=1))
    pid = next(source)
    subprocess.run(f"kill -TERM {pid}", shell=True, check=True)
    assert list(source) == [pid] * (LENGTH - 1)


def test_a_worker_ends_by_term_of_its_parent() -> None:
    source = iter(FixedLoader(range(LENGTH), own_pid, num_workers=1))
    pid = next(source)
    (worker,) = [child for child in multiprocessing.active_children() if child.pid == pid]
    worker.terminate()
    worker.join(60)
    assert worker.exitcode == 0
