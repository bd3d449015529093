"""The script: golden for one profile, parseable for all, nothing hostile in it. It is never executed."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from repro.errors import UserError
from repro.launch.profile import Profile, load_profile, parse_profile
from repro.launch.render import Places, check_syntax, refuse_secrets, render_script
from repro.launch.targets import RunSpec
from tests.launch.conftest import PROFILE, World, spec

GOLDEN = Path(__file__).parent / "golden.sbatch"
SHIPPED = Path(__file__).parents[2] / "slurm" / "clusters"
HOSTILE = [
    "a;b", "$(touch x)", "`touch x`", "a b", "a\nb", "a\n#SBATCH --uid=0", "'", '"', "a'b\"c", "a\\b", "*",
    "a|b", "a>b", "~root", "-x", "--wrap=id", "été", "a\0b", "a\rb", "%j", "#", "", "a" * 300, "a\u202eb",
    "$HOME", "!!", "a&b", "a\tb",
]  # fmt: skip


def profile(**changes: Any) -> Profile:
    return parse_profile("site", {**yaml.safe_load(PROFILE), **changes})


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
    assert render_script(runs, profile(), "alpha.paper", places) == GOLDEN.read_text(encoding="utf-8")


def test_what_slurm_is_asked_for(world: World, places: Places) -> None:
    found = directives(render_script([spec(seed=s) for s in range(5)], profile(), "alpha.paper", places))
    assert {
        "--array=0-4%3", "--nodes=2", "--gpus-per-node=4", "--ntasks-per-node=4", "--cpus-per-task=6",
        "--open-mode=append", "--requeue", "--signal=USR1@120", "--time=1-00:00:00", "--partition=gpu,long",
        "--constraint=a100|h100", "--mem=64G", "--chdir=/home/me/suite", "--job-name=alpha.paper",
        "--output=/scratch/me/runs/slurm/alpha.paper-%A_%a.log",
        "--account=proj", "--qos=normal", "--reservation=course",
    } == set(found)  # fmt: skip


def test_a_bare_profile_asks_for_nothing_more(world: World, places: Places) -> None:
    script = render_script([spec()], parse_profile("bare", {"gpus_per_node": 0}), "x", places)
    assert not [
        d for d in directives(script) if d.startswith(("--account", "--partition", "--mem", "--gpus"))
    ]
    assert "--array=0-0" in directives(script)
    assert "unstage" not in script
    assert "--trainer.accelerator cpu --trainer.strategy auto" in script


def test_trainer_values_follow_from_slurm(world: World, places: Places) -> None:
    gpu = render_script([spec()], profile(), "x", places)
    cpu = render_script([spec()], load_profile("cpu"), "x", places)
    for script in (gpu, cpu):
        assert (
            '--trainer.num_nodes "$SLURM_JOB_NUM_NODES" --trainer.devices "$SLURM_NTASKS_PER_NODE"' in script
        )
        assert (
            'srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1 repro run "${run[@]}"' in script
        )
    assert "--trainer.accelerator gpu --trainer.strategy ddp" in gpu
    assert "--trainer.accelerator cpu --trainer.strategy ddp" in cpu


def test_one_array_task_for_each_run(world: World, places: Places) -> None:
    script = render_script([spec(seed=7), spec("alpha/grid@b", seed=9)], profile(), "x", places)
    assert (
        "0) run=(alpha/base --scale paper --seed 7) run_dir=/scratch/me/runs/alpha/base/paper/s7-01234567"
        in script
    )
    assert "1) run=(alpha/grid@b --scale paper --seed 9)" in script
    assert "  2) " not in script


def test_requeue_is_bounded_and_names_one_array_task(world: World, places: Places) -> None:
    script = render_script([spec()], profile(max_requeues=7), "x", places)
    assert '[ "${SLURM_RESTART_COUNT:-0}" -lt 7 ]' in script
    assert 'scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"' in script
    assert 'scontrol requeue "$SLURM_JOB_ID"' not in script


@pytest.mark.parametrize("name", ["example", "hgx-8gpu", "cpu"])
@pytest.mark.parametrize("count", [1, 3])
def test_bash_parses_the_script_of_every_profile(
    world: World, places: Places, monkeypatch: pytest.MonkeyPatch, name: str, count: int
) -> None:
    monkeypatch.setenv("REPRO_CLUSTERS", str(SHIPPED))
    script = render_script([spec(seed=s) for s in range(count)], load_profile(name), "x", places)
    assert bash_parses(script)
    check_syntax(script)
    assert "HF_HUB_OFFLINE=1" in script


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("key", ["account", "partition", "qos", "constraint", "reservation", "mem", "time"])
def test_hostile_directives_are_refused(value: str, key: str) -> None:
    if key == "constraint" and value in ("a|b", "a&b"):
        assert (
            profile(**{key: value}).queue.constraint == value
        )  # Slurm's own operators, in a comment to the shell
        return
    with pytest.raises(UserError) as caught:
        profile(**{key: value})
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("value", [*HOSTILE, "bash", "interactive"])
def test_hostile_job_names_are_refused(world: World, places: Places, value: str) -> None:
    with pytest.raises(UserError, match="job name"):
        render_script([spec()], profile(), value, places)


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_experiments_are_refused(world: World, places: Places, value: str) -> None:
    with pytest.raises(UserError, match="experiment"):
        render_script([spec(value)], profile(), "x", places)


@pytest.mark.parametrize(
    "value", ["/home/me/a b", "/home/me/$(x)", "/home/me/a%j", "/home/me/a'b", "/x\n#SBATCH --uid=0", "rel"]
)
def test_hostile_folders_are_refused(world: World, places: Places, value: str) -> None:
    for hostile in (replace(places, work=Path(value)), replace(places, logs=Path(value))):
        with pytest.raises(UserError, match="#SBATCH line"):
            render_script([spec()], profile(), "x", hostile)


@pytest.mark.parametrize("value", [v for v in HOSTILE if "\n" not in v and "\0" not in v])
def test_hostile_values_are_quoted(world: World, places: Places, value: str) -> None:
    """bash reads back exactly what went in; only the two export lines are run, in a shell without a PATH."""
    variables = {**places.variables, "REPRO_DATA": Path(f"/x/{value}")}
    script = render_script(
        [spec()], profile(env={"HOSTILE": value}), "x", replace(places, variables=variables)
    )
    assert bash_parses(script)
    lines = [
        line for line in script.split("\n") if line.startswith(("export HOSTILE=", "export REPRO_DATA="))
    ][:2]
    assert len(lines) == 2
    program = "\n".join(lines) + '\nprintf "%s\\n%s" "$REPRO_DATA" "$HOSTILE"'
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run([bash, "-r", "-c", program], env={"PATH": "/none"}, capture_output=True, check=True)
    assert done.stdout.decode() == f"{variables['REPRO_DATA']}\n{value}"


def test_hostile_run_folders_are_quoted(world: World, places: Places) -> None:
    script = render_script([replace(spec(), run_dir=Path("/r/$(touch x) '"))], profile(), "x", places)
    assert bash_parses(script)
    assert """run_dir='/r/$(touch x) '"'"''""" in script


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
    script = render_script([spec()], profile(), "x", places)
    assert not [name for name, value in secrets.items() if value in script or name in code(script)]
    with pytest.raises(UserError, match=r"value of \$HF_TOKEN") as caught:  # by whatever way it came in
        render_script([spec()], profile(setup=["huggingface-cli login hf_sesame_open"]), "x", places)
    assert "sesame" not in str(caught.value)


def test_short_values_are_not_taken_for_secrets() -> None:
    refuse_secrets("nodes=1", {"SOME_KEY": "1"})
    with pytest.raises(UserError, match="SOME_KEY"):
        refuse_secrets("x 12345678 y", {"SOME_KEY": "12345678"})


def test_a_setup_line_that_does_not_parse_is_named(world: World, places: Places) -> None:
    script = render_script([spec()], profile(setup=["if true"]), "x", places)
    with pytest.raises(UserError, match="setup"):
        check_syntax(script)


def test_too_many_runs_and_none(world: World, places: Places) -> None:
    with pytest.raises(UserError, match="1001 runs exceed"):
        render_script([spec(seed=s) for s in range(1001)], profile(), "x", places)
    with pytest.raises(UserError, match="no run"):
        render_script([], profile(), "x", places)


def test_a_store_that_is_no_name_is_refused(world: World, places: Places) -> None:
    world.write(
        "configs/evil/x.yaml", "title: x\ndata: {class_path: x.D, init_args: {store: '../../etc; id'}}\n"
    )
    run: RunSpec = spec("evil/x")
    with pytest.raises(UserError, match="store"):
        render_script([run], profile(), "x", places)
