"""``repro submit --dry-run``: a script on stdout, what it costs on stderr, nothing submitted."""

import pytest

from repro.errors import UserError
from repro.launch.submit import default_name, dry_run, plan_submission
from repro.launch.targets import resolve_targets
from tests.launch.conftest import World


def test_script_and_summary(world: World) -> None:
    script, summary = dry_run(["alpha:table2"], "site", "paper", [1, 2])
    assert script.startswith("#!/bin/bash\n")
    assert script.endswith('exit "$rc"\n')
    assert "#SBATCH --array=0-3%3" in script
    assert "GPU hours" in summary
    assert "4 to submit, 0 already recorded" in summary
    assert not set(summary.splitlines()) & set(script.splitlines())


def test_the_folder_of_the_logs_is_there_before_the_job(world: World) -> None:
    script, _ = dry_run(["alpha/base"], "site", "paper", [1])
    logs = world.root / "runs" / "slurm"
    assert logs.is_dir()
    assert f"#SBATCH --output={logs}/" in script


def test_planning_writes_nothing(world: World) -> None:
    before = sorted(world.root.rglob("*"))
    assert plan_submission(["alpha"], "site", "paper", [1]).script
    assert sorted(world.root.rglob("*")) == before


def test_recorded_runs_are_left_out(world: World) -> None:
    first, _ = resolve_targets(["alpha/base"], "paper", [1, 2])
    world.record(first)
    planned = plan_submission(["alpha/base"], "site", "paper", [1, 2])
    assert [run.seed for run in planned.runs] == [2]
    assert "--seed 1" not in planned.script
    assert "1 to submit, 1 already recorded" in planned.summary[0]


def test_nothing_left_to_submit(world: World) -> None:
    (only,) = resolve_targets(["alpha/base"], "paper", [1])
    world.record(only)
    script, summary = dry_run(["alpha/base"], "site", "paper", [1])
    assert script == ""
    assert "nothing to submit" in summary
    assert not (world.root / "runs").exists()


def test_what_a_group_leaves_out_is_said(world: World) -> None:
    _, summary = dry_run(["alpha"], "cpu", "cpu", [1])
    assert "left out, no scale 'cpu': alpha/grid@a, alpha/grid@b" in summary


def test_the_job_sees_the_folders_of_the_user(world: World) -> None:
    script, _ = dry_run(["alpha/base"], "site", "paper", [1])
    for name in ("configs", "data", "results", "runs"):
        assert f"export REPRO_{name.upper()}={world.root / name}\n" in script
    assert f"#SBATCH --chdir={world.root}\n" in script


@pytest.mark.parametrize(
    ("targets", "cluster", "said"),
    [
        ([], "site", "no target"),
        (["alhpa"], "site", "nearest: alpha"),
        (["alpha"], "sit", "nearest: site"),
    ],
)
def test_bad_input(world: World, targets: list[str], cluster: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        dry_run(targets, cluster, "paper", [1])


def test_an_unwritable_folder_for_logs(world: World) -> None:
    world.write("runs", "a file where the folder should be")
    with pytest.raises(UserError, match="set REPRO_RUNS"):
        dry_run(["alpha/base"], "site", "paper", [1])


def test_the_default_name_can_be_a_job_name(world: World) -> None:
    assert default_name("alpha:table2:small-row", "cpu") == "alpha.table2.small-row.cpu"
    script, _ = dry_run(["alpha:table2:small-row"], "site", "paper", [1])
    assert "#SBATCH --job-name=alpha.table2.small-row.paper\n" in script
