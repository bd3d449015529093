"""The script: golden for one profile, parseable for all, nothing hostile in it. It is never executed."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from repro.errors import UserError
from repro.launch.slurm.chain import PlannedJob
from repro.launch.slurm.profile import Profile, load_profile, parse_profile
from repro.launch.slurm.render import Places, check_syntax, render_script
from repro.launch.targets import RunSpec
from repro.paths import PROJECT
from tests.launch.conftest import PROFILE, World, spec

GOLDEN = Path(__file__).parent / "golden.sbatch"
SHIPPED = Path(__file__).parents[3] / "slurm" / "clusters"


def profile(**changes: Any) -> Profile:
    return parse_profile("site", {**yaml.safe_load(PROFILE), **changes})


def render(
    runs: list[RunSpec], profile: Profile, places: Places, name: str = "x", dependency: str | None = None
) -> str:
    return render_script(PlannedJob(name, dict(enumerate(runs))), profile, places, dependency)


def bash_parses(script: str) -> bool:
    bash = shutil.which("bash")
    assert bash, "the tests of batch scripts need bash"
    return (
        subprocess.run([bash, "-n"], input=script, text=True, capture_output=True, check=False).returncode
        == 0
    )


def directives(script: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH")]


def code(script: str) -> str:
    """The script without comment lines."""
    return "\n".join(line for line in script.splitlines() if not line.lstrip().startswith("#"))


def test_golden(world: World, places: Places) -> None:
    runs = [spec(seed=1), spec(seed=2), spec("alpha/grid@a")]
    assert render(runs, profile(), places, "alpha.paper") == GOLDEN.read_text(encoding="utf-8")


def test_what_slurm_is_asked_for(world: World, places: Places) -> None:
    result = directives(render([spec(seed=s) for s in range(5)], profile(), places, "alpha.paper"))
    assert {
        "--array=0-4%3", "--nodes=2", "--gpus-per-node=4", "--ntasks-per-node=4", "--cpus-per-task=6",
        "--open-mode=append", "--requeue", "--signal=USR1@120", "--time=1-00:00:00", "--partition=gpu,long",
        "--constraint=a100|h100", "--mem=64G", "--chdir=/home/me/suite", "--job-name=alpha.paper",
        "--output=/scratch/me/runs/slurm/20260102T030405Z-abcdef/logs/%A_%a.log",
        "--comment=repro:20260102T030405Z-abcdef:alpha.paper",
        "--account=proj", "--qos=normal", "--reservation=course",
    } == set(result)  # fmt: skip


def test_a_bare_profile_asks_for_nothing_more(world: World, places: Places) -> None:
    script = render([spec()], parse_profile("bare", {"gpus_per_node": 0}), places)
    assert not [
        d for d in directives(script) if d.startswith(("--account", "--partition", "--mem", "--gpus"))
    ]
    assert "--array=0" in directives(script)
    assert "unstage" not in script
    assert "--trainer.accelerator cpu --trainer.strategy auto" in script


def test_trainer_values_follow_from_slurm(world: World, places: Places) -> None:
    gpu = render([spec()], profile(), places)
    cpu = render([spec()], load_profile("cpu"), places)
    for script in (gpu, cpu):
        assert (
            '--trainer.num_nodes "$SLURM_JOB_NUM_NODES" --trainer.devices "$SLURM_NTASKS_PER_NODE"' in script
        )
        assert 'srun --kill-on-bad-exit=1 --label python3 -P -m repro run "${run[@]}"' in script
        assert 'export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"' in script
    assert "--trainer.accelerator gpu --trainer.strategy ddp" in gpu
    assert "--trainer.accelerator cpu --trainer.strategy ddp" in cpu


def test_one_array_task_for_each_run(world: World, places: Places) -> None:
    script = render([spec(seed=7), spec("alpha/grid@b", seed=9)], profile(), places)
    assert (
        "0) run=(alpha/base --scale paper --seed 7) run_dir=/scratch/me/runs/alpha/base/paper/s7-01234567"
        in script
    )
    assert "1) run=(alpha/grid@b --scale paper --seed 9)" in script
    assert "  2) " not in script


def test_requeue_is_bounded_and_names_one_array_task(world: World, places: Places) -> None:
    script = render([spec()], profile(max_requeues=7), places)
    assert '[ "${SLURM_RESTART_COUNT:-0}" -lt 7 ]' in script
    assert 'scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"' in script
    assert 'scontrol requeue "$SLURM_JOB_ID"' not in script


@pytest.mark.parametrize("name", ["example", "hgx-8gpu", "cpu"])
@pytest.mark.parametrize("count", [1, 3])
def test_bash_parses_the_script_of_every_profile(
    world: World, places: Places, monkeypatch: pytest.MonkeyPatch, name: str, count: int
) -> None:
    monkeypatch.setenv("REPRO_CLUSTERS", str(SHIPPED))
    script = render([spec(seed=s) for s in range(count)], load_profile(name), places)
    assert bash_parses(script)
    check_syntax(script)
    assert "HF_HUB_OFFLINE=1" in script


def test_secrets_of_this_shell_are_not_in_the_script(
    world: World, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {
        "WANDB_API_KEY": "0123456789abcdef" * 2,
        "HF_TOKEN": "hf_sesame_open",
        "DB_PASSWORD": "correct horse",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    script = render([spec()], profile(), places)
    assert not [name for name, value in secrets.items() if value in script or name in code(script)]
    with pytest.raises(UserError, match=r"\$HF_TOKEN") as caught:  # by whatever way it came in
        render([spec()], profile(setup=["huggingface-cli login hf_sesame_open"]), places)
    assert "sesame" not in str(caught.value)


def test_further_options(world: World, places: Places) -> None:
    """Each is a line of its own, or a word of srun; GPUs may have a type."""
    more = profile(
        sbatch=["--exclude=cn7", "--mail-type=FAIL", "--exclusive", "--nice=100"], srun=["--cpu-bind=map_cpu:0,1"],
        gpu_type="a100", warning_s=600, mail_user="me@example.org",
    )  # fmt: skip
    script = render([spec()], more, places)
    assert {
        "--exclude=cn7", "--mail-type=FAIL", "--mail-user=me@example.org", "--exclusive", "--nice=100",
        "--gpus-per-node=a100:4", "--signal=USR1@600",
    } <= set(directives(script))  # fmt: skip
    assert "srun --kill-on-bad-exit=1 --label --cpu-bind=map_cpu:0,1 python3" in script
    assert bash_parses(script)
    tables = render_script(PlannedJob("x.tables", {}), more, places)
    assert {"--exclude=cn7", "--exclusive"} <= set(directives(tables))
    assert "--gpus" not in tables


def test_ranks_of_several_nodes_meet_at_the_first_as_slurm_lists_them(world: World, places: Places) -> None:
    assert 'scontrol show hostnames "$SLURM_JOB_NODELIST"' in render([spec()], profile(nodes=2), places)
    assert "MASTER_ADDR" not in code(render([spec()], profile(nodes=1), places))


def test_indices_may_have_gaps(world: World, places: Places) -> None:
    job = PlannedJob("x", {0: spec(seed=1), 2: spec(seed=3), 3: spec(seed=4)})
    script = render_script(job, profile(max_parallel=None), places)
    assert "--array=0,2-3" in directives(script)
    assert "  2) run=(alpha/base --scale paper --seed 3)" in script
    assert "  1) " not in script


@pytest.mark.parametrize(
    "value", ["aftercorr:12", "afterok:12_0:13_4", "afterany:12", "aftercorr:<id of job 1>,afterany:7_1:8"]
)
def test_a_job_waits(world: World, places: Places, value: str) -> None:
    result = directives(render([spec()], profile(), places, dependency=value))
    assert f"--dependency={value}" in result
    assert "--kill-on-invalid-dep=yes" in result
    assert bash_parses(render([spec()], profile(), places, dependency=value))
    assert not [d for d in directives(render([spec()], profile(), places)) if "dep" in d]


def test_settings_are_arguments_of_each_run(world: World, places: Places) -> None:
    run = spec("alpha/base", "paper", 1, "pairs", "--trainer.max_steps=10", '--model.x="it\'s; $(touch x)"')
    script = render([run], profile(), places)
    assert """--seed 1 --trainer.max_steps=10 '--model.x="it'"'"'s; $(touch x)"')""" in script
    assert bash_parses(script)


@pytest.mark.parametrize(
    "key", ["trainer.devices", "trainer.num_nodes", "trainer.accelerator", "trainer.strategy.x"]
)
def test_what_the_profile_decides_cannot_be_set(world: World, places: Places, key: str) -> None:
    with pytest.raises(UserError, match=f"--{key}:"):
        render([spec("alpha/base", "paper", 1, "pairs", f"--{key}=2")], profile(), places)


def test_the_snapshot_comes_first(world: World, places: Places) -> None:
    """Sources module and setup lines, which may set these too."""
    script = render([spec()], profile(), places)
    code_at = "/scratch/me/runs/slurm/20260102T030405Z-abcdef/code"
    line = f"export PYTHONPATH={code_at}${{PYTHONPATH:+:$PYTHONPATH}}\n"
    assert script.index("source .venv/bin/activate") < script.index(line) < script.index("srun --kill")
    assert f"export REPRO_CONFIGS={code_at}/configs\n" in script
    assert "repro run" not in code(script).replace("python3 -P -m repro run", "")


def test_the_limit_of_the_watchdog(world: World, places: Places) -> None:
    assert "export REPRO_STALL_S=900\n" in render([spec()], profile(), places)
    assert "REPRO_STALL_S" not in render([spec()], profile(stall_s=None), places)


CONTAINER = {"image": "hub.example#suite/torch:1.0", "mounts": ["/lustre:/lustre", "/opt/x:/y:ro"]}


def test_ranks_run_in_the_container(world: World, places: Places) -> None:
    script = render([spec()], profile(container=CONTAINER), places)
    assert 'srun --kill-on-bad-exit=1 --label "${container[@]}" python3 -P -m repro run' in script
    assert "--container-image='hub.example#suite/torch:1.0'" in script
    assert "mounts=/lustre:/lustre,/opt/x:/y:ro,\n" in script
    assert "export PYTHONPATH=/scratch/me/runs/slurm/20260102T030405Z-abcdef/code\n" in script
    assert "lightning" not in script  # the node's own python need not be the suite's
    assert bash_parses(script)
    assert "container" not in code(render([spec()], profile(), places))


def test_a_folder_that_cannot_be_mounted_is_refused(world: World, places: Places) -> None:
    variables = {**places.variables, "REPRO_DATA": Path("/data,old")}
    with pytest.raises(UserError, match="'/data,old'"):
        render([spec()], profile(container=CONTAINER), replace(places, variables=variables))
    assert render([spec()], profile(), replace(places, variables=variables))


def test_the_tables_are_a_small_job(world: World, places: Places) -> None:
    job = PlannedJob("x.tables", {}, ends=("x",))
    script = render_script(job, profile(), places, "afterany:12")
    result = directives(script)
    assert {"--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=1", "--dependency=afterany:12"} <= set(
        result
    )
    assert not [d for d in result if d.startswith(("--array", "--gpus", "--signal"))]
    assert "--output=/scratch/me/runs/slurm/20260102T030405Z-abcdef/logs/%j.log" in result
    assert script.endswith("\nsrun --ntasks=1 python3 -P -m repro tables\n")
    assert bash_parses(script)


@pytest.mark.parametrize(("time", "asked"), [("1-00:00:00", "00:30:00"), ("00:20:00", "00:20:00")])
def test_the_tables_ask_for_no_more_time_than_a_run(places: Places, time: str, asked: str) -> None:
    script = render_script(PlannedJob("x.tables", {}), profile(time=time), places)
    assert f"--time={asked}" in directives(script)


def test_the_tables_are_those_of_the_checkout_not_of_the_submission(world: World, places: Places) -> None:
    script = render_script(PlannedJob("x.tables", {}), profile(container=CONTAINER), places)
    assert f"export PYTHONPATH={PROJECT}\n" in script
    assert f"export REPRO_CONFIGS={world.root / 'configs'}\n" in script
    assert '"$PWD" "$PYTHONPATH" "$REPRO_CONFIGS"; do' in script
