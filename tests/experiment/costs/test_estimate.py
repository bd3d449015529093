"""From a counted step to hours and numbers of GPUs: arithmetic on costs that are known."""

from dataclasses import replace

import pytest

from repro.data.core.stream_data import Stage
from repro.data.sets.puzzles.echo import EchoData
from repro.data.sets.puzzles.sorting import SortingData
from repro.data.sets.text.text_data import TextData
from repro.errors import UserError
from repro.experiment.costs import estimate
from repro.experiment.costs.batches import FIELDS, BatchSize
from repro.experiment.costs.estimate import Cost, Phase, cost, stages
from repro.experiment.costs.roofline import (
    GIB,
    GPUS,
    LAUNCH_S,
    USABLE,
    Arithmetic,
    gpu_named,
    gpu_of,
    peak,
    update_seconds,
)
from repro.experiment.costs.show import flops, number
from repro.experiment.costs.step import StepCost
from repro.recipe import Recipe, load_recipe
from repro.tasks.costs.operations import Operation
from tests.workshop import PROJECT

GPU = gpu_named("H100")
BASE = "attention-is-all-you-need/base"


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))


def known(precision: str = "32-true") -> Cost:
    """A batch of nine rows takes 10 GiB, a row 2 GiB."""
    operations = {Operation("product", 10**12, 0): 1.0}
    step, row = StepCost(10**12, GIB, GIB, 2 * GIB, 0, 10 * GIB, operations), StepCost(1, 0, 0, 0, 0, 2 * GIB)
    config = {"trainer": {"precision": precision}, "model": {"class_path": "M", "init_args": {}}, "data": {}}
    recipe = Recipe("p/r", "paper", config)
    return Cost(recipe, (Phase(1000, BatchSize(9, 8), step),), row, ())


def test_gpu_hours_are_those_of_all_updates_in_the_recipes_arithmetic_or_another() -> None:
    assert known().flops == 10**15
    for precision, arithmetic in (("32-true", Arithmetic.FLOAT32), ("bf16-mixed", Arithmetic.HALF)):
        seconds = update_seconds(known().step.operations, GPU, arithmetic)
        assert seconds is not None
        assert known(precision).gpu_hours(GPU) == pytest.approx(1000 * seconds / 3600)
        assert known().gpu_hours(GPU, arithmetic) == known(precision).gpu_hours(GPU)
    assert known("bf16-mixed").gpu_hours(gpu_named("P40")) is None, "which has no unit for 16 bits"


def test_compiled_hours_are_those_of_joined_operations_where_a_network_can_be_compiled() -> None:
    assert known().gpu_hours(GPU, compiled=True) is None
    joined = {Operation("product", 10**12, 0): 1.0, Operation("memory", 0, 10**9): 1.0}
    step = replace(known().step, compiled=joined)
    run = replace(known(), phases=(replace(known().phases[0], step=step),))
    seconds = update_seconds(joined, GPU, Arithmetic.HALF)
    assert seconds is not None
    assert run.gpu_hours(GPU, Arithmetic.HALF, compiled=True) == pytest.approx(1000 * seconds / 3600)


def test_passes_are_joined_and_the_optimiser_is_not() -> None:
    step = cost(load_recipe("linear-transformer/copy@linear", "cpu")).step
    assert 0.5 < sum(step.compiled.values()) / sum(step.operations.values()) < 0.95
    moved, joined = (
        sum(n * one.bytes for one, n in operations.items() if one.kind == "memory")
        for operations in (step.operations, step.compiled)
    )
    assert 0.3 < joined / moved < 0.9
    flops_of = [{one: n for one, n in some.items() if one.flops} for some in (step.operations, step.compiled)]
    assert flops_of[0] == flops_of[1], "products stay as they are"
    assert not cost(load_recipe("reformer/duplication@lsh-2", "cpu")).step.compiled, "which is refused"


def test_a_batch_in_parts_launches_its_kernels_more_often() -> None:
    assert known().parts(small := GPU._replace(memory=6 / USABLE)) == 2
    assert known().gpu_hours(small) == known().gpu_hours(GPU), "one long kernel does not notice"
    tiny = {Operation("memory", 0, 8): 100.0}
    run = replace(known(), phases=(replace(known().phases[0], step=replace(known().step, operations=tiny)),))
    assert run.gpu_hours(small) == pytest.approx(run.gpu_hours(GPU) + 1000 * 100 * LAUNCH_S / 3600)


@pytest.mark.parametrize(
    ("memory", "parts"), [(20, 1), (10, 1), (9.5, 2), (6, 2), (4.5, 3), (2.5, 9), (1.9, None)]
)
def test_how_a_batch_fits(memory: float, parts: int | None) -> None:
    # 2, 3, ... 10 GiB for 1, 2, ... 9 rows
    assert known().parts(GPU._replace(memory=memory / USABLE)) == parts


def test_stages_end_where_their_epochs_do() -> None:
    staged = [Stage(epochs=3, seq_len=16)]
    echo = EchoData(8, 96, 32, train_tokens=1921, stages=staged)
    assert stages(echo, 1000, "") == [(60, 16), (940, None)]
    assert stages(echo, 20, "") == [(20, 16), (0, None)]
    text = TextData("wikitext-2/bytes", 256, 96, 32, stages=staged, shards=2)
    assert stages(text, 1000, "unheard-of") is None
    assert stages(text, 10**9, "wikitext-2/bytes")[0] == (3 * (10_797_147 // 2 // 96), 16)
    assert stages(EchoData(8, 96, 32), 1000, "") == [(1000, None)]
    assert stages(SortingData(8), 1000, "") == [(1000, None)]


def test_a_staged_run_costs_less_than_one_at_full_length() -> None:
    staged = cost(load_recipe("shortformer/shortformer@stage1-l64", "small"))
    assert staged.phases[0].size.steps < staged.phases[-1].size.steps
    assert staged.updates == 5280
    assert staged.flops < 5280 * staged.step.flops


def test_a_recipe_without_updates_is_refused() -> None:
    with pytest.raises(UserError, match="max_steps"):
        cost(load_recipe(BASE, "cpu", [("trainer.max_steps", 0)]))


def test_examples_of_an_unknown_kind_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "_steps", {})  # nothing was counted yet
    monkeypatch.delitem(FIELDS, "BitXorData")
    with pytest.raises(UserError, match=r"repro\.data\.BitXorData"):
        cost(load_recipe("frozen-pretrained-transformer/bit-xor@random", "paper"))


def test_what_changes_no_cost_is_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = cost(load_recipe(BASE, "cpu"))
    calls: list[object] = []
    monkeypatch.setattr(estimate, "step_cost", lambda *given: calls.append(given) or first.step)
    cost(load_recipe(BASE, "cpu", [("model.optimizer.lr", 0.5), ("trainer.max_steps", 7)]))
    assert not calls
    cost(load_recipe(BASE, "cpu", [("model.net.decoder_layers", 3)]))
    assert calls


def test_every_gpu_has_a_peak_and_is_found_by_its_name() -> None:
    assert all(peak(gpu, Arithmetic.FLOAT32) and gpu.memory for gpu in GPUS)
    assert gpu_named("h100").name == "H100"
    assert gpu_of("8 NVIDIA V100 or TPU v3 cores") == gpu_named("V100")
    assert gpu_of("8 V100s") == gpu_named("V100")
    assert gpu_of("TPU core") is None
    assert gpu_of("NVIDIA L4") is None, "of which only the peak is known"
    with pytest.raises(UserError, match=r"H10.*H100"):
        gpu_named("H10")


def test_numbers_are_shown_with_two_or_three_digits() -> None:
    displayed = ["9.53e+17 FLOP", "2.5 TFLOP", "3 GFLOP", "12 FLOP"]
    assert [flops(n) for n in (9.53e17, 2.5e12, 3e9, 12.0)] == displayed
    assert [number(n) for n in (None, 0.034, 7.0, 13.2, 1615.4)] == ["-", "0.034", "7", "13.2", "1,615"]
