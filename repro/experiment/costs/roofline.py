"""GPUs, and the time of an update on one by a roofline: an operation takes as long as its products or its bytes need.

A model, not a measurement. The shares of a data sheet's peak are those that one H100 reached in each kind of operation.
The peaks are in :mod:`repro.tasks.costs.flops`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from repro.errors import UserError, nearest
from repro.recipe import Recipe
from repro.tasks.costs.flops import peak_flops
from repro.tasks.costs.operations import Operation

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


class Arithmetic(StrEnum):
    """How products are computed; everything else is in float32, whose bytes casts to 16 bits do not lessen."""

    FLOAT32 = "float32"
    TF32 = "TF32"
    HALF = "16 bits"


# What hours are stated for: an arithmetic, and whether training is compiled.
VARIANTS = {**{one.value: (one, False) for one in Arithmetic}, "16 bits, compiled": (Arithmetic.HALF, True)}

# Reached share of the peak in products and in fused attention.
REACHED = {
    Arithmetic.FLOAT32: {"product": 0.8, "attention": 0.45},
    Arithmetic.TF32: {"product": 0.6, "attention": 0.3},
    Arithmetic.HALF: {"product": 0.6, "attention": 0.3},
}
BANDWIDTH = 0.83  # reached share
KERNEL_S = 2.2e-6  # of the shortest kernel
LAUNCH_S = 6e-6  # of the host, for each kernel
UPDATE_S = 1.2e-3  # of the host, for each update: Lightning, callbacks, the next batch


def arithmetic_of(recipe: Recipe) -> Arithmetic:
    """The arithmetic of a recipe, from its precision and that of its float32 products."""
    precision = str((recipe.config.get("trainer") or {}).get("precision") or "32-true")
    if "16" in precision:
        return Arithmetic.HALF
    rounds = recipe.config.get("matmul_precision") in ("high", "medium")
    return Arithmetic.TF32 if rounds else Arithmetic.FLOAT32


def peak(gpu: Gpu, arithmetic: Arithmetic) -> float | None:
    """FLOP/s of products at most; None where the GPU has no such unit."""
    if arithmetic is Arithmetic.HALF:
        return peak_flops(gpu.name, "16-mixed")
    single = peak_flops(gpu.name, "32-true")
    if arithmetic is Arithmetic.FLOAT32:
        return single
    rounded = peak_flops(gpu.name, "32-true", tf32=True)
    return None if rounded == single else rounded


def update_seconds(
    operations: Mapping[Operation, float], gpu: Gpu, arithmetic: Arithmetic, parts: int = 1
) -> float | None:
    """Seconds of an update.

    Args:
        operations: how often each occurs in an update with the whole batch at once.
        gpu: that runs them.
        arithmetic: of products.
        parts: micro-batches, each of which launches every kernel.

    Returns:
        The longer of the GPU's and the host's time; None where the GPU has no such arithmetic.
    """
    most = peak(gpu, arithmetic)
    if most is None:
        return None
    reached = REACHED[arithmetic]
    busy = 0.0
    for (kind, flops, size), count in operations.items():
        products = flops / (most * reached[kind]) if flops else 0.0
        busy += count * max(products, size / (gpu.bandwidth * BANDWIDTH), parts * KERNEL_S)
    return UPDATE_S + max(busy, parts * LAUNCH_S * sum(operations.values()))
