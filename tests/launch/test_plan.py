"""The plan of a submission: scripts and costs; nothing is written."""

import re
from typing import Any

import pytest

from repro.errors import UserError
from repro.launch.plan import Request, job_name, make_plan, submission_name, summarise
from repro.launch.targets import resolve_targets
from tests.launch.conftest import World, named


def request(*targets: str, **changes: Any) -> Request:
    given = {"cluster": "site", "scale": "paper", "seeds": named(1, 2), **changes}
    return Request(targets=targets, **given)


def test_a_script_for_each_job(world: World) -> None:
    plan = make_plan(request("alpha:table2"), {})
    (job,) = plan.jobs
    script = plan.script(job)
    assert script.startswith("#!/bin/bash\n")
    assert "#SBATCH --array=0-3%3\n" in script
    assert "#SBATCH --job-name=alpha.table2.paper\n" in script
    assert f"#SBATCH --comment=repro:{plan.places.submission.name}:alpha.table2.paper\n" in script
    assert script.endswith('exit "$rc"\n')


def test_planning_writes_nothing(world: World) -> None:
    before = sorted(world.root.rglob("*"))
    assert make_plan(request("alpha", tables=True), {}).jobs
    assert sorted(world.root.rglob("*")) == before


def test_the_job_sees_the_folders_of_the_user(world: World) -> None:
    plan = make_plan(request("alpha/base"), {})
    script = plan.script(plan.jobs[0])
    for name in ("data", "results", "runs"):
        assert f"export REPRO_{name.upper()}={world.root / name}\n" in script
    assert f"export REPRO_CONFIGS={plan.places.submission}/code/configs\n" in script
    assert f"#SBATCH --chdir={world.root}\n" in script
    assert plan.places.submission.parent == world.root / "runs" / "slurm"


def test_recorded_and_queued_runs_are_left_out(world: World) -> None:
    first, second, third = resolve_targets(["alpha/base"], "paper", named(1, 2, 3))
    world.record(first)
    plan = make_plan(request("alpha/base", seeds=named(1, 2, 3)), {second.run_id: "12_1"})
    assert plan.runs == [third]
    lines = summarise(plan)
    assert lines[0] == "runs: 1 to submit, 1 already recorded, 1 already queued"
    assert f"queued: {second.run_id} is task 12_1" in lines


def test_nothing_left_to_submit(world: World) -> None:
    (only,) = resolve_targets(["alpha/base"], "paper", named(1))
    queued = make_plan(request("alpha/base", seeds=named(1), tables=True), {only.run_id: "12_0"})
    assert queued.jobs == ()
    assert "is in the queue" in summarise(queued)[-1]
    world.record(only)
    plan = make_plan(request("alpha/base", seeds=named(1), tables=True), {})
    assert plan.jobs == ()
    assert summarise(plan)[-1].startswith("nothing to submit: every run has its record")


def test_what_a_group_leaves_out_is_said(world: World) -> None:
    plan = make_plan(request("alpha", cluster="cpu", scale="cpu"), {})
    assert "left out, no scale 'cpu': alpha/grid@a, alpha/grid@b" in summarise(plan)


def test_seeds_that_are_not_judged_are_said(world: World) -> None:
    plan = make_plan(request("alpha/base", seeds=named(1, 7, 101)), {})
    assert [run.seed for run in plan.runs] == [1, 7, 101]
    assert [line.partition(":")[0] for line in summarise(plan) if "not judged" in line] == [
        "alpha/base, seed 7",
        "alpha/base, seed 101",
    ]


def test_settings_reach_every_run_and_change_its_identity(world: World) -> None:
    plain = make_plan(request("alpha/base"), {})
    plan = make_plan(request("alpha/base", grid=[[("trainer.max_steps", 5)]]), {})
    script = plan.script(plan.jobs[0])
    assert script.count("--trainer.max_steps=5)") == 2
    assert {r.run_id for r in plan.runs} & {r.run_id for r in plain.runs} == set()
    assert all(f"run_dir={run.recipe.run_dir(run.seed)}" in script for run in plan.runs)


def test_a_grid_is_one_array_with_a_task_for_each_value_and_seed(world: World) -> None:
    grid = [[("trainer.max_steps", steps)] for steps in (5, 6, 5)]
    (first, _) = resolve_targets(["alpha/base"], "paper", named(1, 2), grid[0])
    plan = make_plan(request("alpha/base", grid=grid), {first.run_id: "12_0"})
    (job,) = plan.jobs
    assert [(run.recipe.overrides, run.seed) for run in job.tasks.values()] == [
        (("--trainer.max_steps=5",), 2),
        (("--trainer.max_steps=6",), 1),
        (("--trainer.max_steps=6",), 2),
    ]
    assert len({run.run_id for run in plan.requested}) == len(plan.requested) == 4
    lines = summarise(plan)
    assert lines[0] == "runs: 3 to submit, 0 already recorded, 1 already queued"
    assert f"grid: {plan.runs[1].run_id} --trainer.max_steps=6" in lines


def test_a_setting_that_names_another_store_is_staged(world: World) -> None:
    plan = make_plan(request("alpha/base", grid=[[("data.store", "other")]]), {})
    assert " stores=(other) ;;" in plan.script(plan.jobs[0])


def test_the_dry_scripts_show_what_waits_for_what(world: World) -> None:
    world.write("configs/gamma/tuned.yaml", "title: t\nstart_from: alpha/base\n")
    plan = make_plan(request("gamma/tuned", tables=True), {})
    scripts = [plan.script(job) for job in plan.jobs]
    assert "--dependency" not in scripts[0]
    assert "#SBATCH --dependency=aftercorr:<id of job 1>\n#SBATCH --kill-on-invalid-dep=yes\n" in scripts[1]
    assert "#SBATCH --dependency=afterany:<id of job 1>:<id of job 2>\n" in scripts[2]
    known = plan.script(plan.jobs[1], {"gamma.tuned.paper.1": 12})
    assert known == scripts[1].replace("<id of job 1>", "12")
    lines = summarise(plan)
    assert "added, since others start from them: alpha/base" in lines
    (first, second), (third, fourth) = ([spec.run_id for spec in job.tasks.values()] for job in plan.jobs[:2])
    assert [line for line in lines if line.startswith("waits: ")] == [
        f"waits: {third} for {first}",
        f"waits: {fourth} for {second}",
        "waits: the tables for the end of every run above",
    ]


def test_what_waits_for_queued_runs_says_for_which(world: World) -> None:
    world.write("configs/gamma/tuned.yaml", "title: t\nstart_from: alpha/base\n")
    specs = resolve_targets(["alpha/base"], "paper", named(*range(1, 6)))
    queued = {spec.run_id: f"7_{i}" for i, spec in enumerate(specs)}
    plan = make_plan(request("gamma/tuned", seeds=named(*range(1, 6))), queued)
    run = plan.runs[0].run_id
    assert plan.waits[run] == [f"{specs[0].run_id} (task 7_0)"]
    (line,) = [line for line in summarise(plan) if line.startswith(f"waits: {run} ")]
    assert line.endswith(f"{specs[0].run_id} (task 7_0)")


def test_the_tables_wait_for_what_is_queued_too(world: World) -> None:
    first, _ = resolve_targets(["alpha/base"], "paper", named(1, 2))
    plan = make_plan(request("alpha/base", tables=True), {first.run_id: "7_3"})
    assert "--dependency=afterany:<id of job 1>:7_3\n" in plan.script(plan.jobs[-1])


@pytest.mark.parametrize(
    ("targets", "changes", "message"),
    [
        (["alhpa"], {}, "nearest: alpha"),
        (["alpha"], {"cluster": "sit"}, "nearest: site"),
        (["alpha"], {"scale": "papre"}, "nearest: paper"),
        (["alpha"], {"grid": [[("trainer.devices", 2)]]}, "cluster profile"),
        (["alpha"], {"grid": [[("optim.lr", 2)]]}, "trainer, model, data"),
        (["alpha"], {"sbatch": ["--array=1"]}, "'--array=1' is set by repro"),
        (["alpha"], {"sbatch": ["--nodes"]}, "is set by repro"),
    ],
)
def test_bad_input(world: World, targets: list[str], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_plan(request(*targets, **changes), {})


def test_an_environment_that_is_not_there_is_named(world: World) -> None:
    world.write("clusters/odd.yaml", 'gpus_per_node: 0\nsetup: ["source .venv/bin/activate"]\n')
    (world.root / ".venv" / "bin" / "activate").unlink()
    with pytest.raises(UserError, match=r"no \.venv/bin/activate in"):
        make_plan(request("alpha/base", cluster="odd"), {})


@pytest.mark.parametrize(
    "line",
    [
        "source /opt/node/env.sh",
        "source activate mine",
        ". $HOME/env/bin/activate",
        "source env-$USER/bin/activate",
    ],
)
def test_an_environment_that_only_a_node_may_have_is_not_looked_for(world: World, line: str) -> None:
    world.write("clusters/odd.yaml", f"gpus_per_node: 0\nsetup: ['{line}']\n")
    assert make_plan(request("alpha/base", cluster="odd"), {}).jobs


def test_a_setup_line_that_does_not_parse_is_named(world: World) -> None:
    world.write("clusters/odd.yaml", 'gpus_per_node: 0\nsetup: ["if true"]\n')
    with pytest.raises(UserError, match="setup"):
        make_plan(request("alpha", cluster="odd"), {})


def test_names(world: World) -> None:
    assert job_name("alpha:table2:small-row", "cpu") == "alpha.table2.small-row.cpu"
    assert re.fullmatch(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{6}", submission_name())
    assert len({submission_name() for _ in range(50)}) == 50
