"""Arguments of sbatch, and errors for its refusals."""

import os
from pathlib import Path

import pytest

from repro.errors import UserError
from repro.launch.slurm import sbatch
from repro.launch.slurm.profile import parse_profile
from repro.launch.slurm.sbatch import Unanswered, environment, submit_script
from tests.launch.fake_slurm import FakeSlurm, slurm

__all__ = ["slurm"]
PROFILE = parse_profile("site", {"gpus_per_node": 0, "partition": "gpu"})


@pytest.mark.parametrize("out", ["12\n", "12;east\n", "welcome to the cluster\n12\n"])
def test_the_id_is_read(slurm: FakeSlurm, out: str) -> None:
    slurm.answers("sbatch", out=out)
    assert submit_script(Path("/x/a b.sbatch"), PROFILE) == 12
    assert slurm.calls("sbatch") == [["sbatch", "--parsable", "/x/a b.sbatch"]]


@pytest.mark.parametrize(
    "complaint",
    [
        "Batch job submission failed: Invalid account or account/partition combination specified",
        "invalid partition specified: gpu",
        "Batch job submission failed: Invalid qos specification",
        "Batch job submission failed: Job dependency problem",
    ],
)
def test_a_refusal_is_one_line_with_slurms_words(slurm: FakeSlurm, complaint: str) -> None:
    slurm.answers("sbatch", err=f"sbatch: error: {complaint}\nsbatch: error: {complaint}\n", code=1)
    with pytest.raises(UserError) as caught:
        submit_script(Path("/x/a.sbatch"), PROFILE)
    output = str(caught.value)
    assert output.count(complaint) == 1
    assert output.startswith(f"sbatch refuses: {complaint}; look at account, partition")
    assert output.endswith("the cluster profile site")
    assert "\n" not in output


def test_control_characters_of_a_refusal_do_not_reach_the_terminal(slurm: FakeSlurm) -> None:
    slurm.answers("sbatch", err="\x1b[2Jsbatch: error: no\x07\n", code=1)
    with pytest.raises(UserError) as caught:
        submit_script(Path("/x/a.sbatch"), PROFILE)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ({"err": "sbatch: error: Socket timed out on send/recv operation", "code": 1}, "timed"),
        ({"err": "sbatch: error: Unable to contact slurm controller (connect failure)", "code": 1}, "contact"),
        ({"out": "Submitted, somehow\n"}, "no message"),
    ],
)  # fmt: skip
def test_no_answer_is_no_refusal(slurm: FakeSlurm, message: dict[str, object], part: str) -> None:
    slurm.answers("sbatch", **message)
    with pytest.raises(Unanswered, match=part):
        submit_script(Path("/x/a.sbatch"), PROFILE)


def test_an_sbatch_that_hangs_is_not_waited_for(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm.answers("sbatch", hangs=True)
    monkeypatch.setattr(sbatch, "PATIENCE", 0.3)
    with pytest.raises(Unanswered, match="did not answer"):
        submit_script(Path("/x/a.sbatch"), PROFILE)


def test_no_sbatch(slurm: FakeSlurm) -> None:
    with pytest.raises(UserError, match=r"sbatch is not on PATH .*login node"):
        submit_script(Path("/x/a.sbatch"), PROFILE)


def test_settings_of_the_shell_do_not_outrank_the_script(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SBATCH_ARRAY_INX=5 would submit another run than the ledger says."""
    for name in (
        "SBATCH_ARRAY_INX",
        "SBATCH_PARTITION",
        "SBATCH_ACCOUNT",
        "SLURM_NTASKS",
        "SRUN_CPUS_PER_TASK",
    ):
        monkeypatch.setenv(name, "5")
    monkeypatch.setenv("SLURM_CONF", "/etc/x")
    monkeypatch.setenv("SLURM_CLUSTERS", "north")  # squeue, scancel and scontrol follow it
    monkeypatch.setenv("WANDB_API_KEY", "0123456789")
    slurm.answers("sbatch", out="12\n")
    submit_script(Path("/x/a.sbatch"), PROFILE)
    env = slurm.environment()
    kept = {n for n in env if n.startswith(("SBATCH", "SLURM", "SRUN"))}
    assert kept == {"SBATCH_ACCOUNT", "SLURM_CONF", "SLURM_CLUSTERS"}
    assert env["WANDB_API_KEY"] == "0123456789"  # Slurm hands it on to the job
    assert "SBATCH_PARTITION" in environment(parse_profile("x", {"gpus_per_node": 0}), os.environ)
