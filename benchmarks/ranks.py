"""A step of two processes beside what `repro cost` estimates for two ranks.

    python -m benchmarks.ranks [--turns 7]

Two processes of one thread train the base Transformer (forward, loss, backward) with DistributedDataParallel over gloo.
Three things take turns: the first process alone with the whole batch, an exchange of the gradients alone, and a step of
both. The first two are what the estimate knows: computing is shared evenly, and the exchange has the measured rate of
the link. Nothing is hidden behind the backward pass, since the exchange takes the cores that compute. Needs a quiet
machine with two cores. Prints a line of JSON; exits with 1 where estimate and step are more than 15 % apart.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from benchmarks import translators
from benchmarks.training import batch, our_loss
from repro.experiment.costs.estimate import step_seconds

WORLD, TOLERANCE = 2, 0.15


class Loss(nn.Module):
    """The loss of a network as a module, as DistributedDataParallel needs it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = translators.ours(0.1)

    def forward(self, *given: Tensor) -> Tensor:
        return our_loss(self.net, *given)


def work(rank: int, folder: str, turns: int) -> None:
    """One process; the first writes the result."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=WORLD
    )
    alone = Loss().train()
    together, whole = DistributedDataParallel(alone), batch()
    gradients = torch.zeros(sum(p.numel() for p in alone.parameters()))

    def seconds(run: Callable[[], Any]) -> float:
        alone.zero_grad()
        distributed.barrier()
        began = time.perf_counter()
        run()
        return time.perf_counter() - began

    def turn() -> list[float]:
        return [
            seconds(lambda: alone(*whole).backward() if rank == 0 else None),
            seconds(lambda: distributed.all_reduce(gradients)),
            seconds(lambda: together(*(part[rank::WORLD] for part in whole)).backward()),
        ]

    found = [turn() for _ in range(turns + 1)][1:]
    if rank == 0:
        (Path(folder) / "seconds.json").write_text(json.dumps([gradients.nbytes, found]))
    distributed.destroy_process_group()


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks.ranks", description=__doc__, formatter_class=raw)
    parser.add_argument("--turns", type=int, default=7)
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        spawn(work, (folder, parser.parse_args().turns), nprocs=WORLD)
        size, found = json.loads((Path(folder) / "seconds.json").read_text())
    one, exchange, two = (statistics.median(column) for column in zip(*found, strict=True))
    # A ring of two sends the gradients once.
    estimate = step_seconds(one / WORLD, size, WORLD, size / exchange, overlap=0.0)
    said = {"one process": one, "exchange": exchange, "two processes": two, "estimate": estimate}
    print(json.dumps({**said, "estimate over two processes": estimate / two}))
    raise SystemExit(abs(estimate / two - 1) > TOLERANCE)


if __name__ == "__main__":
    main()
