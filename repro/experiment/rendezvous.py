"""What each rank of ``repro doctor`` does: it meets the others, and looks for the files that they leave.

Usage: ``python -m repro.experiment.rendezvous MARK``, started by srun or torchrun. The paths of the files begin with
``MARK``.
"""

import os
import platform
import socket
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from repro.errors import ReproError

LIMIT_S = 60.0


def main() -> None:
    """Prints a line about this machine, and another one if something is wrong."""
    host, gpus = socket.gethostname(), torch.cuda.device_count()
    print(f"{host}: torch {torch.__version__}, {gpus} GPUs, Python {platform.python_version()}", flush=True)
    try:
        meet(sys.argv[1])
    except (OSError, RuntimeError, ReproError) as error:
        print(f"{host}: {str(error).partition(chr(10))[0]}", flush=True)
        sys.exit(1)


def meet(mark: str) -> None:
    """Joins the ranks, sums a number over them, and compares the files that they see.

    Raises:
        ReproError: the sum is wrong, or a file of another rank is not seen.
    """
    names = ("RANK", "WORLD_SIZE") if "RANK" in os.environ else ("SLURM_PROCID", "SLURM_NTASKS")
    rank, world = (int(os.environ[name]) for name in names)
    dist.init_process_group("gloo", rank=rank, world_size=world, timeout=timedelta(seconds=LIMIT_S))
    files = [Path(f"{mark}-{r}") for r in range(world)]
    files[rank].parent.mkdir(parents=True, exist_ok=True)
    files[rank].touch()
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    seen = all(file.exists() for file in files)
    dist.barrier()
    files[rank].unlink()
    dist.destroy_process_group()
    if not seen:
        raise ReproError(f"it does not see what other nodes write to {files[0].parent}")
    if total.item() != world * (world + 1) / 2:
        raise ReproError("the sum over the ranks is wrong")


if __name__ == "__main__":
    main()
