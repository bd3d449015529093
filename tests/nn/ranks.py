"""Gradients on several ranks: each a process of its own that runs a module's ``gradients``, joined by gloo."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from repro.paths import PROJECT

Gradients = dict[str, torch.Tensor]


def of_two_ranks(module: ModuleType, folder: Path) -> list[dict[str, Gradients]]:
    """Returns the results of each of two ranks, by name; the module ends with a call of :func:`be_a_rank`."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(PROJECT)}
    words = [sys.executable, str(module.__file__), "2"]
    ranks = [
        subprocess.Popen([*words, str(r), str(folder)], env=env, stderr=subprocess.PIPE, text=True)
        for r in (0, 1)
    ]
    try:
        for rank in ranks:
            error = rank.communicate(timeout=100)[1]
            assert rank.returncode == 0, error[-3000:]
    finally:
        for rank in ranks:
            rank.kill()
    return [torch.load(folder / f"2-{r}.pt") for r in (0, 1)]


def be_a_rank(gradients: Callable[[Any, int, int], Gradients], names: Iterable[Any]) -> None:
    """The rest of a process that the command line makes rank ``argv[2]`` of ``argv[1]``."""
    world, rank, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", world_size=world, rank=rank)
    result = {name: gradients(name, world, rank) for name in names}
    torch.save(result, folder / f"{world}-{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
