"""Profiles say what is wrong with them, and the ones shipped are right."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from repro.errors import UserError
from repro.launch.slurm import validation
from repro.launch.slurm.profile import Profile, load_profile, parse_profile, with_options
from repro.paths import cluster_files
from tests.launch.conftest import PROFILE, World

SHIPPED = Path(__file__).parents[3] / "slurm" / "clusters"


def changed(**changes: Any) -> dict[str, Any]:
    return {**yaml.safe_load(PROFILE), **changes}


def test_a_profile_is_read(world: World) -> None:
    profile = load_profile("site")
    assert profile.tasks_per_node == profile.gpus_per_node == 4
    assert profile.ranks == 8
    assert profile.env == {"NCCL_DEBUG": "WARN", "NCCL_IB_DISABLE": "1"}
    assert profile.partition == "gpu,long"
    assert (profile.max_parallel, profile.max_requeues, profile.stall_s) == (3, 7, 900)
    assert profile.container is None


def test_a_cpu_profile_states_its_ranks(world: World) -> None:
    profile = load_profile("cpu")
    assert (profile.gpus_per_node, profile.ranks) == (0, 2)
    assert profile.max_parallel is None
    assert parse_profile("x", {"gpus_per_node": 0}).ranks == 1


def test_a_container_is_read() -> None:
    made = parse_profile(
        "x", changed(container={"image": "/images/suite.sqsh", "mounts": ["/a:/b:ro+rprivate"]})
    )
    assert made.container is not None
    assert (made.container.image, made.container.mounts) == ("/images/suite.sqsh", ["/a:/b:ro+rprivate"])
    bare = parse_profile("x", changed(container={"image": "hub.example#suite/torch:1.0"}))
    assert bare.container is not None
    assert bare.container.mounts == []


def test_the_containers_lines_of_the_example_are_right() -> None:
    """They are commented out, so nobody else reads them."""
    text = (SHIPPED / "example.yaml").read_text(encoding="utf-8")
    lines = text[text.index("# container:") :].splitlines()
    made = parse_profile("x", changed(**yaml.safe_load("\n".join(line[2:] for line in lines))))
    assert made.container is not None
    assert made.container.mounts == ["/scratch/shared:/scratch/shared:ro"]


@pytest.mark.parametrize("name", ["example", "hgx-8gpu", "cpu"])
def test_shipped_profiles_are_valid(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CLUSTERS", str(SHIPPED))
    assert load_profile(name).name == name


def test_the_example_explains_every_key() -> None:
    text = (SHIPPED / "example.yaml").read_text(encoding="utf-8")
    assert [key for key in Profile.model_fields if key not in text] == []


@pytest.mark.parametrize("name", ["sites", "../site", "/etc/passwd", "site.yaml", "", "a b", "site\n"])
def test_only_listed_profiles_are_opened(world: World, name: str) -> None:
    assert list(cluster_files()) == ["cpu", "site"]
    with pytest.raises(UserError, match="no cluster profile"):
        load_profile(name)


def test_options_of_sbatch_set_the_keys_that_they_stand_for() -> None:
    words = ["--exclude=cn[3-4],cn9", "--mail-type=END,FAIL", "--time=10:00:00", "--exclusive", "--nice=100"]
    made = parse_profile("x", changed(sbatch=words, srun=["--cpu-bind=cores"], gpu_type="a100"))
    assert (made.exclude, made.mail_type, made.time) == ("cn[3-4],cn9", "END,FAIL", "10:00:00")
    assert (made.sbatch, made.srun, made.gpus) == (
        ["--exclusive", "--nice=100"],
        ["--cpu-bind=cores"],
        "a100:4",
    )
    more = with_options(made, ["--partition=long"], ["--mpi=none"])
    assert (more.partition, more.sbatch) == ("long", made.sbatch)
    assert more.srun == ["--cpu-bind=cores", "--mpi=none"]


def test_a_misspelt_key_offers_the_nearest(world: World) -> None:
    world.write("clusters/typo.yaml", "gpus_per_node: 1\npartitoin: gpu\n")
    with pytest.raises(UserError, match=r"typo\.yaml:.*'partitoin'; nearest: partition"):
        load_profile("typo")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpus_per_node": None}, "gpus_per_node is missing"),
        ({"gpus_per_node": -1}, "greater than or equal to 0, not -1"),
        ({"gpus_per_node": True}, "valid integer, not True"),
        ({"gpus_per_node": "4"}, "valid integer, not '4'"),
        ({"name": "other"}, "a profile has the name of its file, 'site'"),
        ({"nodes": 0}, "nodes: "),
        ({"nodes": 1.5}, "nodes: "),
        ({"cpus_per_task": 0}, "cpus_per_task"),
        ({"max_parallel": 0}, "max_parallel"),
        ({"max_requeues": -1}, "max_requeues"),
        ({"tasks_per_node": 2}, "one rank runs on each GPU"),
        ({"time": 86400}, "write it in quotes"),  # 24:00:00 without quotes to YAML 1.1
        ({"time": "soon"}, "time: 'soon'"),
        ({"time": "00:00:00"}, "leaves no time to train"),
        ({"time": "00:02:00"}, "asked to save 120 s before the end (warning_s); give it more"),
        ({"time": "2"}, "time: '2' leaves no time"),
        ({"time": "00:20:00", "warning_s": 1200}, "asked to save 1200 s before"),
        ({"warning_s": 0}, "warning_s: "),
        ({"exclude": "cn1 cn2"}, "exclude: 'cn1 cn2'"),
        ({"mail_user": "me; you"}, "mail_user"),
        ({"gpus_per_node": 0, "gpu_type": "a100"}, "gpu_type: 'a100' beside gpus_per_node: 0"),
        ({"sbatch": "--exclusive"}, "valid list"),
        ({"sbatch": ["-N 2"]}, "sbatch: '-N 2' cannot be written"),
        ({"sbatch": ["--nice=1\n#SBATCH --uid=0"]}, "cannot be written"),
        ({"sbatch": ["--comment=x"]}, "'--comment=x' is set by repro"),
        ({"sbatch": ["--time=1"]}, "leaves no time"),
        ({"srun": ["--ntasks=4"]}, "'--ntasks=4' is set by repro"),
        ({"srun": ["--cpu-bind=$(id)"]}, "cannot be written"),
        ({"mem": 64}, "not 64; write it in quotes"),
        ({"mem": "64 GB"}, "mem"),
        ({"setup": "source x"}, "valid list"),
        ({"setup": ["a\nb"]}, "line break"),
        ({"modules": ["cuda; rm -rf /"]}, "modules"),
        ({"env": ["A=1"]}, "env: Input should be a valid dictionary"),
        ({"env": {"A-B": "1"}}, "not a variable name"),
        ({"env": {"A": True}}, "write it in quotes"),
        ({"env": {"A": "1\n2"}}, "line break"),
        (
            {"env": {"REPRO_RUNS": "/tmp/runs"}},
            "env sets REPRO_RUNS, which the job's script sets: set it in the shell",
        ),
        ({"env": {"REPRO_STALL_S": 60}}, "stall_s sets the limit"),
        ({"env": {"PYTHONPATH": "/opt/lib"}}, "`setup` activates"),
        ({"stage_data": "relative"}, "stage_data"),
        ({"stage_data": "$(reboot)"}, "stage_data"),
        ({"stage_data": "/tmp/$USER"}, "stage_data"),
        ({"stall_s": 0}, "stall_s"),
        ({"stall_s": "900"}, "stall_s"),
        ({"container": "image.sqsh"}, "container: "),
        ({"container": {"mounts": []}}, "container.image is missing"),
        ({"container": {"image": "x", "mount": []}}, "unknown key 'container.mount'; nearest: mounts"),
        ({"container": {"image": "$(reboot)"}}, "image: "),
        ({"container": {"image": "--container-remap-root"}}, "image: "),
        ({"container": {"image": "x", "mounts": "/a:/b"}}, "container.mounts: "),
        ({"container": {"image": "x", "mounts": ["/a"]}}, "mounts: "),
        ({"container": {"image": "x", "mounts": ["/a:/b,/etc:/etc"]}}, "mounts: "),
        ({"container": {"image": "x", "mounts": ["/a:/b;id"]}}, "mounts: "),
    ],
)
def test_a_wrong_value_is_one_clear_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_profile("site", changed(**changes))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "WANDB_API_KEY",
        "HF_TOKEN",
        "MY_SECRET",
        "DB_PASSWORD",
        "aws_secret_access_key",
        "Token",
        "HUGGING_FACE_HUB_TOKEN",
    ],
)
def test_secrets_are_refused_unread(name: str) -> None:
    for changes in ({"env": {name: "hunter2hunter2"}}, {"setup": [f"export {name}=hunter2hunter2"]}):
        with pytest.raises(UserError, match=r"never written into scripts.*netrc") as caught:
            parse_profile("site", changed(**changes))
        assert name in str(caught.value)
        assert "hunter2" not in str(caught.value)


def test_what_only_looks_like_a_secret_passes() -> None:
    env = {"TOKENIZERS_PARALLELISM": "false"}
    assert parse_profile("site", changed(env=env)).env == env


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("30", 0.5), ("30:00", 0.5), ("24:00:00", 24), ("2-00", 48), ("1-12:30", 36.5), ("1-00:00:36", 24.01)],
)
def test_hours_of_a_time_limit(limit: str, expected: float) -> None:
    assert validation.hours(limit) == pytest.approx(expected)
