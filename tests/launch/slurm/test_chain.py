"""Dependencies of runs; nothing is submitted without need."""

from pathlib import Path

import pytest

from repro.errors import UserError
from repro.launch.slurm.chain import PlannedJob, arrange, dependency, needed
from repro.launch.targets import RunSpec, prerequisite, resolve_targets
from repro.recipe import forget_files
from tests.launch.conftest import World, named


@pytest.fixture
def staged(world: World) -> World:
    """alpha/base, then gamma/tuned, then gamma/last; gamma/other begins from alpha/base too."""
    world.write("configs/gamma/tuned.yaml", "title: t\nstart_from: alpha/base\n")
    world.write("configs/gamma/last.yaml", "title: l\nstart_from: gamma/tuned\n")
    world.write("configs/gamma/other.yaml", "title: o\nstart_from: alpha/base\ntrainer: {max_steps: 4}\n")
    return world


def plan(
    targets: list[str], seeds: list[int], queued: dict[str, str] | None = None
) -> tuple[PlannedJob, ...]:
    specs = resolve_targets(targets, "paper", named(*seeds))
    return arrange(*needed(specs, queued or {}), queued or {}, "x")


def shape(jobs: tuple[PlannedJob, ...]) -> list[tuple[str, list[tuple[int, str, int]], str | None]]:
    return [(j.name, [(i, s.recipe.experiment, s.seed) for i, s in j.tasks.items()], j.follows) for j in jobs]


def finish(spec: RunSpec) -> None:
    """Writes the files of a finished run."""
    folder = spec.recipe.run_dir(spec.seed)
    folder.mkdir(parents=True)
    (folder / "record.json").write_text("{}")


def test_runs_that_need_nothing_are_one_array(staged: World) -> None:
    (job,) = plan(["alpha/base", "beta"], [1, 2])
    assert shape((job,)) == [
        ("x", [(0, "alpha/base", 1), (1, "alpha/base", 2), (2, "beta/only", 1), (3, "beta/only", 2)], None)
    ]
    assert dependency(job, {}) is None


def test_a_prerequisite_is_added_before_task_by_task(staged: World) -> None:
    jobs = plan(["gamma/tuned"], [1, 2])
    assert shape(jobs) == [
        ("x.1", [(0, "alpha/base", 1), (1, "alpha/base", 2)], None),
        ("x.2", [(0, "gamma/tuned", 1), (1, "gamma/tuned", 2)], "x.1"),
    ]
    assert dependency(jobs[1], {"x.1": "12"}) == "aftercorr:12"
    (first, second), needs = needed(resolve_targets(["gamma/tuned"], "paper", named(1)), {})
    assert [s.recipe.experiment for s in (first, second)] == ["alpha/base", "gamma/tuned"]
    assert needs == {second.run_id: first.run_id}


def test_a_run_waits_for_its_cancelled_task_alone(staged: World) -> None:
    specs = resolve_targets(["alpha/base"], "paper", named(1, 2))
    jobs = arrange(specs, {}, {}, "x", leaving={specs[1].run_id: "7_1"})
    assert shape(jobs) == [("x.1", [(0, "alpha/base", 1)], None), ("x.2", [(0, "alpha/base", 2)], None)]
    assert [dependency(job, {}) for job in jobs] == [None, "afterany:7_1"]


def test_the_order_named_does_not_matter(staged: World) -> None:
    assert shape(plan(["gamma/tuned", "alpha/base"], [1])) == shape(plan(["alpha/base", "gamma/tuned"], [1]))


def test_three_stages_and_two_behind_one(staged: World) -> None:
    jobs = plan(["beta", "gamma"], [1, 2])
    assert shape(jobs) == [
        ("x.1", [(0, "beta/only", 1), (1, "beta/only", 2)], None),
        ("x.2", [(0, "alpha/base", 1), (1, "alpha/base", 2)], None),
        ("x.3", [(0, "gamma/tuned", 1), (1, "gamma/tuned", 2)], "x.2"),
        ("x.4", [(0, "gamma/last", 1), (1, "gamma/last", 2)], "x.3"),
        ("x.5", [(0, "gamma/other", 1), (1, "gamma/other", 2)], "x.2"),
    ]


def test_a_finished_prerequisite_is_not_run_again(staged: World) -> None:
    """Only one seed of it: that seed's run waits for nothing, the other's does, at its index."""
    first, second = resolve_targets(["gamma/tuned"], "paper", named(1, 2))
    before = prerequisite(first)
    assert before is not None
    assert not before.done
    finish(before)
    jobs = plan(["gamma/tuned"], [1, 2])
    assert shape(jobs) == [
        ("x.1", [(0, "gamma/tuned", 1)], None),
        ("x.2", [(0, "alpha/base", 2)], None),
        ("x.3", [(0, "gamma/tuned", 2)], "x.2"),
    ]
    assert (first.seed, second.seed) == (1, 2)


def test_a_record_without_weights_is_no_start(staged: World) -> None:
    """A record made elsewhere spares the run in the table, but nothing can begin from it here."""
    (base,) = resolve_targets(["alpha/base"], "paper", named(1))
    staged.record(base)
    assert plan(["alpha/base"], [1]) == ()
    assert [s.recipe.experiment for j in plan(["gamma/tuned"], [1]) for s in j.tasks.values()] == [
        "alpha/base",
        "gamma/tuned",
    ]


def test_a_prerequisite_in_the_queue_is_waited_for(staged: World) -> None:
    base = resolve_targets(["alpha/base"], "paper", named(1, 2))
    queued = {base[0].run_id: "7_0", base[1].run_id: "9_4"}
    jobs = plan(["gamma/tuned"], [1, 2], queued)
    assert shape(jobs) == [("x.1", [(0, "gamma/tuned", 1)], None), ("x.2", [(0, "gamma/tuned", 2)], None)]
    # Each waits for its own alone: one that fails leaves the other.
    assert [dependency(job, {}) for job in jobs] == ["afterok:7_0", "afterok:9_4"]
    assert plan(["alpha/base"], [1, 2], queued) == ()


def test_a_gap_keeps_tasks_in_step(staged: World) -> None:
    """Both seeds' prerequisites are to run, but one of the runs behind them is recorded."""
    tuned = resolve_targets(["gamma/tuned"], "paper", named(1, 2, 3))
    staged.record(tuned[1])
    jobs = plan(["alpha/base", "gamma/tuned"], [1, 2, 3])
    assert shape(jobs)[1] == ("x.2", [(0, "gamma/tuned", 1), (2, "gamma/tuned", 3)], "x.1")


def test_a_prerequisite_has_no_settings(staged: World) -> None:
    """``repro run`` looks for the plain run to begin from."""
    (spec,) = resolve_targets(["gamma/tuned"], "paper", named(1), [("trainer.max_steps", 5)])
    before = prerequisite(spec)
    assert spec.recipe.overrides == ("--trainer.max_steps=5",)
    assert before == resolve_targets(["alpha/base"], "paper", named(1))[0]


def test_circles_and_unknown_beginnings(staged: World) -> None:
    staged.write("configs/gamma/a.yaml", "title: a\nstart_from: gamma/b\n")
    staged.write("configs/gamma/b.yaml", "title: b\nstart_from: gamma/a\n")
    with pytest.raises(UserError, match="gamma/a, gamma/b, gamma/a:"):
        plan(["gamma/a"], [1])
    staged.write("configs/gamma/c.yaml", "title: c\nstart_from: alpha/bsae\n")
    staged.write("configs/gamma/d.yaml", "title: d\nstart_from: [alpha/base]\n")
    forget_files()
    for experiment, output in (
        ("gamma/c", "nearest: alpha/base"),
        ("gamma/d", "start_from: .* is not a text"),
    ):
        with pytest.raises(UserError, match=output):
            needed(resolve_targets([experiment], "paper", named(1)), {})


def test_nothing_to_do(staged: World) -> None:
    assert needed([], {}) == ((), {})
    assert arrange((), {}, {}, "x") == ()
    assert not Path("runs").exists()
