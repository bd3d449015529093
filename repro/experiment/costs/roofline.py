"""GPUs, and the time of an update on one by a roofline: an operation takes as long as its products or its bytes need.

A model, not a measurement. The shares of a data sheet's peak are those that one H100 reached in each kind of operation.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from repro.errors import UserError, nearest
from repro.recipe import Recipe
from repro.tasks.costs.operations import Operation

GIB = 1 << 30
USABLE = 0.92  # of its memory: the driver, the context and gaps between blocks take the rest


class Gpu(NamedTuple):
    """A GPU.

    Attributes:
        name: as in a recipe's ``hardware`` and in the name that CUDA reports.
        teraflops: TFLOP/s without sparsity of products in each of :class:`Arithmetic`; None where there is no such
            unit.
        memory: GiB; 0 where only the peak is known.
        bandwidth: bytes a second between memory and processors; 0 where only the peak is known.
    """

    name: str
    teraflops: tuple[float, float | None, float | None]
    memory: float = 0.0
    bandwidth: float = 0.0

    @property
    def usable(self) -> float:
        """Bytes that a run can take."""
        return USABLE * self.memory * GIB


# Source: NVIDIA's data sheets. Of two names that a device's name has, the first one counts.
CARDS = (
    Gpu("H200", (67.0, 494.7, 989.4), 141, 4.8e12),
    Gpu("GH200", (67.0, 494.7, 989.4)),
    Gpu("H100 PCIe", (51.2, 378.0, 756.0)),
    Gpu("H100 NVL", (60.0, 417.5, 835.0)),
    Gpu("H100", (66.9, 494.7, 989.4), 80, 3.35e12),  # SXM
    Gpu("A100", (19.5, 156.0, 312.0), 80, 2.04e12),  # SXM, 80 GB
    Gpu("V100", (15.7, None, 125.0), 32, 0.9e12),  # SXM2, 32 GB
    Gpu("P100", (10.6, None, 21.2), 16, 0.732e12),  # SXM2
    Gpu("P40", (12.0, None, None), 24, 0.346e12),  # PCIe
    Gpu("1080 Ti", (11.3, None, None), 11, 0.484e12),  # PCIe
    Gpu("T4", (8.1, None, 65.0)),
    Gpu("L4", (30.3, 60.5, 121.0)),
    Gpu("L40S", (91.6, 183.0, 362.0)),
    Gpu("A6000", (38.7, 77.4, 154.8)),
    Gpu("4090", (82.6, 82.6, 165.2)),
)
GPUS = tuple(card for card in CARDS if card.bandwidth)
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


def gpu_of(hardware: str, cards: Sequence[Gpu] = GPUS) -> Gpu | None:
    """The GPU that a recipe's ``hardware`` or a device's name names first; None for a TPU, a CPU or an unknown one."""
    found = ((re.search(rf"\b{card.name}(?!\d)", hardware), card) for card in cards)
    places = [(match.start(), card) for match, card in found if match]
    return min(places, key=lambda place: place[0])[1] if places else None


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
    most = dict(zip(Arithmetic, gpu.teraflops, strict=True))[arithmetic]
    return None if most is None else most * 1e12


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
