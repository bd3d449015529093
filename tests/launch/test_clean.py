"""Snapshots without a job and checkpoints of recorded runs go; everything else stays."""

from dataclasses import replace
from pathlib import Path

import pytest

from repro.launch.clean import remove, superfluous
from repro.launch.slurm.snapshot import link_snapshot
from tests.launch.conftest import World
from tests.launch.fake_slurm import MINE, FakeSlurm, queued, slurm
from tests.report.fakes import make_record

__all__ = ["slurm"]

RUN, OTHER = "alpha/base/cpu/s1-01234567", "alpha/base/cpu/s2-01234567"


def run_folder(root: Path, run: str, recorded: bool) -> Path:
    folder = root / "runs" / run
    (folder / "checkpoints").mkdir(parents=True)
    for name in (
        "step-00000001.ckpt",
        "step-00000001.ckpt.json",
        "step-00000002.ckpt",
        "step-00000002.ckpt.json",
    ):
        (folder / "checkpoints" / name).write_text("1234")
    for name in ("model.pt", "events.jsonl"):
        (folder / name).write_text("{}")
    if recorded:
        experiment, scale, name = run.rsplit("/", 2)
        seed = int(name[1 : name.index("-")])
        record = replace(make_record(experiment, seed, 1.0, scale), run_id=run)
        (folder / "record.json").write_text(record.to_json())
    return folder


def removed(root: Path, *targets: str) -> set[str]:
    """Removes what is superfluous; returns the files that are gone."""
    before = {path for path in root.rglob("*") if path.is_file()}
    remove(superfluous(targets))
    gone = before - {*root.rglob("*")}
    return {path.relative_to(root / "runs").as_posix() for path in gone}


def test_what_goes_and_what_stays(world: World, slurm: FakeSlurm) -> None:
    for run, recorded in ((RUN, True), (OTHER, False)):
        run_folder(world.root, run, recorded)
    ended, waiting = (
        slurm.submit("20260101T000000Z-aa", 12, RUN),
        slurm.submit("20260102T000000Z-bb", 13, OTHER),
    )
    for submission in (ended, waiting):  # of an earlier version: not shared
        (submission.folder / "code").mkdir()
        (submission.folder / "code" / "x.py").write_text("1")
    slurm.queue(queued("13_0", "PENDING", f"repro:{waiting.name}:job"))
    assert removed(world.root, OTHER) == set()
    first, last = ({f"{RUN}/checkpoints/step-0000000{i}.ckpt{end}" for end in ("", ".json")} for i in (1, 2))
    assert removed(world.root) == {*first, f"slurm/{ended.name}/code/x.py"}
    assert removed(world.root) == set()
    slurm.queue()  # none is left that could continue the run by a recipe of its own
    assert removed(world.root) == {*last, f"slurm/{waiting.name}/code/x.py"}


def test_a_shared_snapshot_stays_while_a_job_uses_it(world: World, slurm: FakeSlurm) -> None:
    ended, waiting, other = (
        slurm.submit(f"2026010{i}T000000Z-aa", 10 + i, run)
        for i, run in enumerate((RUN, OTHER, RUN.replace("s1", "s3")))
    )
    for submission in (ended, waiting):
        link_snapshot(submission.folder, {"x.py": b"1"})
    link_snapshot(other.folder, {"x.py": b"2"})
    first, second = ((s.folder / "code").resolve() for s in (ended, other))
    assert (waiting.folder / "code").resolve() == first
    slurm.queue(queued("11_0", "PENDING", f"repro:{waiting.name}:job"))
    assert superfluous([]) == [ended.folder / "code", other.folder / "code", second]
    remove(superfluous([]))
    assert (waiting.folder / "code" / "x.py").read_bytes() == b"1"
    assert not second.exists()
    slurm.queue()
    remove(superfluous([]))
    assert not first.exists()
    assert superfluous([]) == []


def test_a_run_whose_training_another_continues_keeps_its_last_checkpoint(
    world: World, slurm: FakeSlurm
) -> None:
    world.write(
        "configs/alpha/more.yaml",
        "title: t\nstart_from: alpha/base\nstart_with: everything\nscales: {cpu: {hours: 1, hardware: x}}\n",
    )
    run_folder(world.root, RUN, True)
    assert removed(world.root) == {f"{RUN}/checkpoints/step-00000001.ckpt{end}" for end in ("", ".json")}


def test_a_run_whose_record_cannot_be_read_keeps_its_checkpoints(
    world: World, slurm: FakeSlurm, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_folder(world.root, RUN, True) / "record.json").write_text('{"torn')
    assert removed(world.root) == set()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"repro: {RUN} keeps its checkpoints: ")
    assert "copy it anew from results/runs, or delete it" in line


@pytest.mark.usefixtures("world")
def test_nothing_is_removed_where_slurm_does_not_answer(slurm: FakeSlurm) -> None:
    slurm.submit("20260101T000000Z-aa", 12, RUN)
    slurm.answers("squeue", err="slurm_load_jobs error: Unable to contact slurm controller", code=1)
    with pytest.raises(Exception, match="squeue failed"):
        superfluous([])
    assert MINE
