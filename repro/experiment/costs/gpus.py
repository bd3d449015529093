"""GPUs by name, memory and bandwidth. What they compute at most is in :mod:`repro.tasks.costs.flops`."""

from typing import NamedTuple

from repro.errors import UserError, nearest

GIB = 1 << 30
USABLE = 0.92  # of its memory: the driver, the context and gaps between blocks take the rest


class Gpu(NamedTuple):
    """A GPU.

    Attributes:
        name: as in the table of peaks.
        memory: GiB.
        bandwidth: bytes a second between memory and processors.
    """

    name: str
    memory: float
    bandwidth: float

    @property
    def usable(self) -> float:
        """Bytes that a run can take."""
        return USABLE * self.memory * GIB


# Source: NVIDIA's data sheets.
GPUS = (
    Gpu("H200", 141, 4.8e12),
    Gpu("H100", 80, 3.35e12),  # SXM
    Gpu("A100", 80, 2.04e12),  # SXM, 80 GB
    Gpu("V100", 32, 0.9e12),  # SXM2, 32 GB
    Gpu("P100", 16, 0.732e12),  # SXM2
    Gpu("P40", 24, 0.346e12),  # PCIe
    Gpu("1080 Ti", 11, 0.484e12),  # PCIe
)
MODERN = tuple(gpu for gpu in GPUS if gpu.name in ("H100", "A100", "V100"))


def gpu_named(name: str) -> Gpu:
    """The GPU of a name in the table.

    Raises:
        UserError: there is none.
    """
    by_name = {gpu.name.lower(): gpu for gpu in GPUS}
    if name.lower() not in by_name:
        names = [gpu.name for gpu in GPUS]
        raise UserError(f"--gpu {name!r} is not known{nearest(name, names)}; choose from {', '.join(names)}")
    return by_name[name.lower()]


def gpu_of(hardware: str) -> Gpu | None:
    """The GPU that a recipe's ``hardware`` names first; None for a TPU, a CPU or an unknown one."""
    named = [gpu for gpu in GPUS if gpu.name in hardware]
    return min(named, key=lambda gpu: hardware.index(gpu.name), default=None)
