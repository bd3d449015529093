import json
from pathlib import Path

import pytest
import torch

from benchmarks import __main__ as main
from benchmarks import crossover, harness
from benchmarks.__main__ import MODULES, PRODUCTS, table, workloads
from repro.recipe import experiments

HERE = Path(harness.__file__).parent


def test_every_workload_has_ours_first_and_a_name_of_its_own() -> None:
    result = workloads([])
    assert len({w.name for _, w in result}) == len(result)
    assert {module for module, _ in result} == set(MODULES)
    for _, w in result:
        assert next(iter(w.sides)) in ("ours", "with"), w.name
        assert w.per >= 1
        assert w.turns >= 3
        assert set(w.alike or ()) <= set(w.sides)


def test_workloads_are_chosen_by_module_or_name() -> None:
    assert {m for m, _ in workloads(["decoding"])} == {"decoding"}
    assert [w.name for _, w in workloads(["linear generation, batch 16"])] == ["linear generation, batch 16"]
    with pytest.raises(SystemExit) as stop:
        workloads(["nothing of the kind"])
    assert stop.value.code == 2


def test_other_shapes_are_drawn_by_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [harness.size(n, 128) for n in (4096, 1024)] == [4096, 1024]
    drawn = {}
    for seed in "12":
        monkeypatch.setenv("BENCH_SHAPES", seed)
        drawn[seed] = [harness.size(4096, 128), harness.size(4096), harness.size(8)]
        assert drawn[seed] == [harness.size(4096, 128), harness.size(4096), harness.size(8)]
        assert drawn[seed][0] % 128 == 0
        assert all(n / 2 <= got <= 3 * n / 2 for n, got in zip((4096, 4096, 8), drawn[seed], strict=True))
    assert drawn["1"] != drawn["2"]


def test_results_of_other_shapes_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "--shapes", "1", "--write"])
    with pytest.raises(SystemExit) as stop:
        main.main()
    assert stop.value.code == 2


def test_outputs_that_differ_stop_the_run(tmp_path: Path) -> None:
    what = harness.Workload("w", {"ours": list, "a": list, "b": list}, tolerance=1e-3, alike=("a",))
    paths = {name: tmp_path / name for name in what.sides}
    for name, value in (("ours", 1.0), ("a", 1.0001), ("b", 2.0)):
        torch.save([torch.tensor([value])], paths[name])
    harness.agree(what, paths)  # b computes something else
    torch.save([torch.tensor([1.1])], paths["a"])
    with pytest.raises(SystemExit, match="ours and a differ"):
        harness.agree(what, paths)
    torch.save([torch.tensor([float("nan")])], paths["a"])
    with pytest.raises(SystemExit, match="ours and a differ"):
        harness.agree(what, paths)


def test_products_are_noted_with_their_shapes() -> None:
    weight, x = torch.randn(5, 3), torch.randn(2, 4, 3)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode(), harness.Products() as noted:
            torch.nn.functional.linear(x, weight, torch.randn(5))
            torch.bmm(torch.randn(2, 3, 4), torch.randn(2, 4, 6))
        shapes = sorted(tuple(shape for shape, _ in pair) for pair in noted.shapes)
        assert shapes == [((2, 3, 4), (2, 4, 6)), ((8, 3), (3, 5))]


def test_products_of_expanded_operands_are_repeated() -> None:
    turn = harness.products_alone(
        lambda: None, lambda _: torch.bmm(torch.ones(1, 3, 4).expand(2, 3, 4), torch.ones(2, 4, 5))
    )
    with harness.Products() as noted:
        turn()
    assert list(noted.shapes) == [(((2, 3, 4), (0, 4, 1)), ((2, 4, 5), (20, 5, 1)))]


def test_the_table_shows_the_newest_line_of_each_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [{"workload": name, "commit": commit} for name, commit in (("a", "1"), ("b", "1"), ("a", "2"))]
    (tmp_path / "HISTORY.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(main, "HERE", tmp_path)
    assert main.newest(["b", "c", "a"]) == [lines[1], lines[2]]


@pytest.mark.parametrize("experiment", [e for e in experiments() if e.startswith(f"{crossover.GRID}@")])
def test_every_mixer_of_the_study_trains_and_generates_at_a_context(experiment: str) -> None:
    mixer = experiment.partition("@")[2]
    torch.manual_seed(0)
    net = crossover.network(mixer, 64)
    turn, count = crossover.training(net, mixer, 64)
    turn()
    assert count == (32 if mixer in crossover.REMEMBERING else 64)
    turn, count = crossover.generation(net, mixer, 64)
    first, again = (crossover.nbytes(turn()) for _ in range(2))
    assert (count, first) == (crossover.GENERATED, again)


def test_a_code_that_is_nowhere_is_missing() -> None:
    with pytest.raises(ImportError):
        harness.official("a code that is nowhere")


def test_summaries_and_the_table() -> None:
    result = harness.summary([0.1, 0.2, 0.3], 10, 2**20)
    assert result["median"] == pytest.approx(20.0)
    assert result["peak_mib"] == 1.0
    side = result | {"over_ours": 1.25}
    line = {"workload": "first", "unit": "ms", "quiet": False, "sides": {"ours": side, PRODUCTS: side}}
    assert "first, ms *" in table([line])
    assert "1.25" in table([line])
    assert "first, ms *" not in table([line | {"quiet": True}])


def test_sides_take_turns_in_processes_of_their_own() -> None:
    what = harness.Workload("tracking", {"without": list}, "ms", 200, None, products=False)
    result = harness.measure("running", what, threads=1, turns=3, seconds=0.0)
    assert result["turns"] == 3
    assert result["sides"]["without"]["median"] > 0
    assert result["missing"] == {}


def test_history_is_lines_of_results() -> None:
    path = HERE / "HISTORY.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        assert {"date", "commit", "workload", "sides", "quiet", "versions"} <= json.loads(line).keys()
