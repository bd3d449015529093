"""The time of an update: products by the peak, other operations by the bandwidth, small ones by launches."""

import pytest

from repro.experiment.costs.roofline import (
    BANDWIDTH,
    CARDS,
    KERNEL_S,
    LAUNCH_S,
    UPDATE_S,
    Arithmetic,
    arithmetic_of,
    gpu_named,
    gpu_of,
    peak,
    update_seconds,
)
from repro.recipe import Recipe
from repro.tasks.costs.operations import Operation

H100 = gpu_named("H100")
PRODUCT, ATTENTION = Operation("product", 10**13, 10**6), Operation("attention", 10**13, 10**6)
COPY, TINY = Operation("memory", 0, 10**10), Operation("memory", 0, 8)


def seconds(arithmetic: Arithmetic, counts: dict[Operation, float], parts: int = 1) -> float:
    result = update_seconds(counts, H100, arithmetic, parts)
    assert result is not None
    return result - UPDATE_S


@pytest.mark.parametrize(
    ("arithmetic", "products", "attention"),
    [
        (Arithmetic.FLOAT32, 66.9e12 * 0.8, 66.9e12 * 0.45),
        (Arithmetic.TF32, 494.7e12 * 0.6, 494.7e12 * 0.3),
        (Arithmetic.HALF, 989.4e12 * 0.6, 989.4e12 * 0.3),
    ],
)
def test_products_take_a_share_of_the_peak(arithmetic: Arithmetic, products: float, attention: float) -> None:
    assert seconds(arithmetic, {PRODUCT: 3}) == pytest.approx(3 * 10**13 / products)
    assert seconds(arithmetic, {ATTENTION: 1}) == pytest.approx(10**13 / attention)


def test_other_operations_move_bytes_in_every_arithmetic() -> None:
    for arithmetic in Arithmetic:
        assert seconds(arithmetic, {COPY: 2}) == pytest.approx(2 * 10**10 / (3.35e12 * BANDWIDTH))


def test_small_operations_wait_for_the_host_once_for_each_part() -> None:
    assert LAUNCH_S > KERNEL_S
    assert seconds(Arithmetic.FLOAT32, {TINY: 1000}) == pytest.approx(1000 * LAUNCH_S)
    assert seconds(Arithmetic.FLOAT32, {TINY: 1000}, parts=4) == pytest.approx(4000 * LAUNCH_S)
    assert seconds(Arithmetic.FLOAT32, {TINY: 1000, COPY: 100}) == pytest.approx(
        100 * 10**10 / (3.35e12 * BANDWIDTH) + 1000 * KERNEL_S
    ), "the GPU is slower than the host"


def test_a_gpu_without_a_unit_has_no_time() -> None:
    assert peak(gpu_named("V100"), Arithmetic.TF32) is None
    assert peak(gpu_named("V100"), Arithmetic.HALF) == 125e12
    assert peak(gpu_named("P40"), Arithmetic.HALF) is None
    assert update_seconds({PRODUCT: 1}, gpu_named("1080 Ti"), Arithmetic.HALF) is None


@pytest.mark.parametrize(
    ("device", "name", "teraflops"),
    [
        ("NVIDIA H200", "H200", 989.4),
        ("NVIDIA GH200 480GB", "GH200", 989.4),
        ("NVIDIA H100 80GB HBM3", "H100", 989.4),
        ("NVIDIA H100 PCIe", "H100 PCIe", 756),
        ("NVIDIA A100-SXM4-40GB", "A100", 312),
        ("Tesla V100-SXM2-16GB", "V100", 125),
        ("NVIDIA GeForce GTX 1080 Ti", "1080 Ti", None),
        ("NVIDIA L4", "L4", 121),
        ("NVIDIA L40S", "L40S", 362),
    ],
)
def test_devices_have_the_peaks_of_their_names(device: str, name: str, teraflops: float | None) -> None:
    card = gpu_of(device, CARDS)
    assert card is not None
    assert card.name == name
    assert peak(card, Arithmetic.HALF) == (None if teraflops is None else teraflops * 1e12)


@pytest.mark.parametrize("device", ["NVIDIA A1000", "Some other GPU", "cpu"])
def test_other_devices_have_no_peak(device: str) -> None:
    assert gpu_of(device, CARDS) is None


@pytest.mark.parametrize(
    ("config", "arithmetic"),
    [
        ({}, Arithmetic.FLOAT32),
        ({"trainer": {"precision": "32-true"}}, Arithmetic.FLOAT32),
        ({"trainer": {"precision": "32-true"}, "matmul_precision": "high"}, Arithmetic.TF32),
        ({"trainer": {"precision": "bf16-mixed"}}, Arithmetic.HALF),
        ({"trainer": {"precision": "16-mixed"}, "matmul_precision": "high"}, Arithmetic.HALF),
    ],
)
def test_the_arithmetic_of_a_recipe(config: dict[str, object], arithmetic: Arithmetic) -> None:
    assert arithmetic_of(Recipe("p/r", "paper", config)) is arithmetic
