"""A target names exactly the runs it should, and a typo names the nearest."""

import pytest

from repro.errors import UserError
from repro.launch.targets import few_seeds, named_experiments, not_judged, resolve_targets, without_scale
from repro.recipe import load_recipe
from repro.seeds import SeedChoice
from tests.launch.conftest import World, named


def names(targets: list[str], scale: str = "paper") -> list[str]:
    return [s.recipe.experiment for s in resolve_targets(targets, scale, named(1))]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("alpha", ["alpha/base", "alpha/grid@a", "alpha/grid@b"]),
        ("alpha/base", ["alpha/base"]),
        ("alpha/grid", ["alpha/grid@a", "alpha/grid@b"]),
        ("alpha/grid@b", ["alpha/grid@b"]),
        ("alpha:table2", ["alpha/base", "alpha/grid@a"]),
        ("alpha:table3", ["alpha/base", "alpha/grid@b"]),
        ("alpha:table2:big-row", ["alpha/grid@a"]),
        ("alpha:table3:b-row", ["alpha/grid@b"]),
    ],
)
def test_what_a_target_means(world: World, target: str, expected: list[str]) -> None:
    assert names([target]) == expected


def test_no_target_means_everything(world: World) -> None:
    assert names([]) == ["alpha/base", "alpha/grid@a", "alpha/grid@b", "beta/only"]


def test_each_run_once_in_the_order_named(world: World) -> None:
    specs = resolve_targets(["beta/only", "alpha:table2", "alpha/base"], "paper", named(3, 1))
    assert [(s.recipe.experiment, s.seed) for s in specs] == [
        (e, seed) for e in ("beta/only", "alpha/base", "alpha/grid@a") for seed in (3, 1)
    ]


def test_a_run_knows_its_folder(world: World) -> None:
    (result,) = resolve_targets(["alpha/base"], "cpu", named(2))
    assert result.run_id == f"alpha/base/cpu/s2-{load_recipe('alpha/base', 'cpu').hash8}"
    assert result.recipe.run_dir(result.seed) == world.root / "runs" / result.run_id
    (other,) = resolve_targets(["alpha/base"], "paper", named(2))
    assert other.run_id[-8:] != result.run_id[-8:]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("alhpa", "nearest: alpha"),
        ("alpha/bsae", "nearest: alpha/base"),
        ("alpha/base@x", "nearest: alpha/base"),
        ("alpha/grid@c", "nearest: alpha/grid@"),
        ("alpha:tabel2", "nearest: alpha:table2"),
        ("alpha:table2:smal-row", "nearest: alpha:table2:small-row"),
        ("alpha:table2:unbuilt-row", "no recipe reproduces it"),
        ("alpha:table9", "no recipe reproduces it"),
        ("alhpa:table2", "unknown target 'alhpa'"),
        ("alpha/base:table2", "write alpha:table2"),
        ("", "unknown target ''"),
        ("../alpha", "unknown target"),
        ("alp", "unknown target"),
    ],
)
def test_an_unknown_target_is_one_clear_line(world: World, target: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve_targets([target], "paper", named(1))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_group_leaves_out_what_lacks_the_scale(world: World) -> None:
    assert names(["alpha"], "cpu") == ["alpha/base"]
    assert without_scale(["alpha"], "cpu") == ["alpha/grid@a", "alpha/grid@b"]


def test_an_experiment_named_outright_must_have_the_scale(world: World) -> None:
    with pytest.raises(UserError, match=r"alpha/grid.*'cpu'"):
        resolve_targets(["alpha/base", "alpha/grid@a"], "cpu", named(1))
    with pytest.raises(UserError, match=r"'cpu'"):
        resolve_targets(["beta"], "cpu", named(1))
    with pytest.raises(UserError, match=r"'cpuu'; nearest: cpu"):
        resolve_targets(["alpha"], "cpuu", named(1))


def test_a_signature_is_hashed_once_for_all_seeds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[object] = []
    monkeypatch.setattr("repro.recipe.signature_hash", lambda signature: hashed.append(signature) or "f" * 64)
    assert len(resolve_targets(["alpha/base", "beta/only"], "paper", named(*range(50)))) == 100
    assert len(hashed) == 2


def test_a_count_of_seeds_is_of_each_recipes_judged_ones(world: World) -> None:
    world.write("configs/beta/only.yaml", "title: only\nseeds: 11-12\ntrainer: {max_steps: 3}\n")
    specs = resolve_targets(["alpha/base", "beta/only"], "paper", SeedChoice(3))
    assert [(s.recipe.experiment, s.seed) for s in specs] == [
        *(("alpha/base", seed) for seed in (1, 2, 3)),
        *(("beta/only", seed) for seed in (11, 12)),
    ]
    (line,) = few_seeds(specs, SeedChoice(3))
    assert "beta/only has 11-12" in line
    assert "alpha/base" not in line
    assert few_seeds(specs, SeedChoice(2)) == few_seeds(specs, named(1)) == []


def test_runs_that_are_not_judged_are_named(world: World) -> None:
    world.write("configs/beta/only.yaml", "title: only\nseeds: 11-12\ntrainer: {max_steps: 3}\n")
    assert not_judged(resolve_targets(["alpha/base", "beta/only"], "paper", SeedChoice(3))) == []
    lines = not_judged(resolve_targets(["alpha/base", "beta/only"], "paper", named(5, 11, 101, 102)))
    assert [line.partition(":")[0] for line in lines] == [
        "alpha/base, seed 11", "alpha/base, seed 101-102", "beta/only, seed 5", "beta/only, seed 101-102",
    ]  # fmt: skip


def test_recorded_runs_are_done(world: World) -> None:
    first, _, third = resolve_targets(["alpha/base"], "cpu", named(1, 2, 3))
    world.record(first)
    world.record(third, config_hash="f" * 64)  # an older configuration does not count
    again = resolve_targets(["alpha/base"], "cpu", named(1, 2, 3))
    assert [s.done for s in again] == [True, False, False]
    assert not resolve_targets(["alpha/base"], "paper", named(1))[0].done


def test_a_record_of_another_device_saves_no_run_that_names_one(world: World) -> None:
    (first,) = resolve_targets(["alpha/base"], "cpu", named(1))
    world.record(first)  # on a GPU: it names no threads
    for accelerator, done in (("gpu", True), ("cpu", False)):
        (spec,) = resolve_targets(["alpha/base"], "cpu", named(1), [("trainer.accelerator", accelerator)])
        assert (spec.run_id, spec.done) == (first.run_id, done)


def test_named_experiments_needs_no_scale(world: World) -> None:
    assert named_experiments(["beta", "alpha/base", "beta/only"]) == ["beta/only", "alpha/base"]


def test_a_run_reads_its_data_and_its_pretrained_weights(world: World) -> None:
    text = f"{(world.root / 'configs/beta/only.yaml').read_text()}data: {{init_args: {{store: pairs}}}}\n"
    world.write("configs/beta/stored.yaml", text)
    world.write("configs/beta/begun.yaml", f"pretrained: gpt2\n{text}")
    stored, begun, bare = resolve_targets(["beta/stored", "beta/begun", "beta/only"], "paper", named(1))
    assert (stored.stores, begun.stores, bare.stores) == (["pairs"], ["pairs", "gpt2"], [])
