"""The known runs, and the runs that a word names."""

import pytest

from repro.cli.arguments import runs_and_jobs
from repro.errors import UserError
from repro.launch.slurm.queue import Queued
from repro.launch.status.ledger import Job, Submission, write_submission
from repro.launch.status.run_index import RunEntry, everything, names, newest, run_of_path, select
from tests.launch.conftest import World
from tests.launch.fake_slurm import FakeSlurm, run_id, slurm

__all__ = ["slurm"]
LONG = run_id(1, "alpha/base-long")
GRID = run_id(1, "alpha/grid@a")
OTHER = run_id(1, "beta/only")


@pytest.fixture
def entries(world: World, slurm: FakeSlurm) -> list[RunEntry]:
    slurm.submit("20260101T000000Z-aa", 12, run_id(1), run_id(2), LONG)
    slurm.submit("20260102T000000Z-bb", 13, run_id(1), GRID)
    tables = Submission(
        "20260103T000000Z-cc", "site", "x", None, None, (Job("tables", "t", 14, ("job",), ()),)
    )
    write_submission(tables)
    (world.root / "runs" / OTHER).mkdir(parents=True)
    return everything()


def of(targets: list[str], entries: list[RunEntry]) -> list[tuple[str, str | None]]:
    return [(entry.run, entry.job_id) for entry in select(targets, entries)]


FIRST, SECOND, THIRD = (run_id(1), "12_0"), (run_id(2), "12_1"), (LONG, "12_2")
AGAIN, POINT, TABLES, LOCAL = (run_id(1), "13_0"), (GRID, "13_1"), ("", "14"), (OTHER, None)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("alpha", [FIRST, SECOND, THIRD, AGAIN, POINT]),
        ("alpha/base", [FIRST, SECOND, AGAIN]),  # not alpha/base-long
        ("alpha/bas", [FIRST, SECOND, THIRD, AGAIN]),
        ("alpha/grid", [POINT]),
        ("alpha/grid@a", [POINT]),
        ("alpha/grid@b", []),  # has a recipe, no run
        ("alpha:table2:small-row", [FIRST, SECOND, AGAIN]),
        (run_id(2), [SECOND]),
        (f"{run_id(2)}/", [SECOND]),
        ("alpha/base/cpu/s1", [FIRST, AGAIN]),
        ("12", [FIRST, SECOND, THIRD]),
        ("12_1", [SECOND]),
        ("1", None),
        ("12_9", None),
        ("14", [TABLES]),
        ("20260102T000000Z-bb", [AGAIN, POINT]),
        ("beta", [LOCAL]),
        (f"runs/{OTHER}", [LOCAL]),
        ("alpah/base", None),
        ("", None),
        ("/", None),
        ("..", None),
    ],
)
def test_targets(entries: list[RunEntry], target: str, expected: list[tuple[str, str | None]] | None) -> None:
    if expected is None:
        with pytest.raises(UserError, match=r"repro status --all"):
            select([target], entries)
    else:
        assert of([target], entries) == expected


def test_several_targets_each_run_once(entries: list[RunEntry]) -> None:
    assert of(["12_1", "alpha/base", "beta"], entries) == [FIRST, SECOND, AGAIN, LOCAL]
    assert of([], entries) == [FIRST, SECOND, THIRD, AGAIN, POINT, TABLES, LOCAL]


def test_a_misspelt_target_gets_the_nearest(entries: list[RunEntry]) -> None:
    with pytest.raises(UserError, match=r"nearest: .*alpha/base"):
        select(["alpah/base"], entries)


def test_the_newest_submission_wins_and_jobs_without_runs_are_no_runs(entries: list[RunEntry]) -> None:
    assert sorted((entry.run, entry.job_id) for entry in newest(entries)) == sorted(
        [AGAIN, SECOND, THIRD, POINT, LOCAL]
    )


def test_what_slurm_never_took_is_no_run_and_hides_none(world: World, slurm: FakeSlurm) -> None:
    slurm.submit("20260101T000000Z-aa", 12, run_id(1))
    slurm.submit("20260102T000000Z-bb", None, run_id(1), run_id(2), run_id(3))
    (world.root / "runs" / run_id(3)).mkdir(parents=True)
    assert [(k.run, k.job_id) for k in newest(everything())] == [(run_id(1), "12_0"), (run_id(3), None)]


def test_a_number_that_was_never_noted_is_learned_from_the_queue(world: World, slurm: FakeSlurm) -> None:
    slurm.submit("20260102T000000Z-bb", None, run_id(1), run_id(2))
    queue = {
        "7_0": Queued("7_0", "PENDING", "", 0, "", "other", None, "job"),
        "8_1": Queued("8_1", "PENDING", "", 0, "", "repro 20260102T000000Z-bb", None, "job"),
        "9_1": Queued("9_1", "PENDING", "", 0, "", "repro 20260102T000000Z-bb", None, "another"),
    }
    assert [entry.job_id for entry in everything(queue)] == ["8_0", "8_1"]


@pytest.mark.parametrize(
    ("comment", "name", "mine"),
    [("repro 20260102T000000Z-bb", "x", True), ("", "job", True), ("", "x", False), ("mine", "job", False)],
)
def test_a_foreign_job_of_that_number_is_not_ours(
    world: World, slurm: FakeSlurm, comment: str, name: str, mine: bool
) -> None:
    slurm.submit("20260102T000000Z-bb", 8, run_id(1))
    entry = everything()[0]
    task = Queued("8_0", "PENDING", "", 0, "", comment, None, name)
    other = Queued("8_1", "PENDING", "", 0, "", "20260102T000000Z-bb", None, "job")
    assert entry.task_in({"8_0": task, "8_1": other}) == (task if mine else None)
    assert entry.task_in({"8_1": other}) is None


def test_only_folders_of_runs_are_runs(world: World, slurm: FakeSlurm) -> None:
    for path in (
        run_id(10),
        "alpha/base/cpu/s1-0123abcd.old",
        "alpha/base/huge/s1-0123abcd",
        "slurm/x/cpu/sx",
    ):
        (world.root / "runs" / path).mkdir(parents=True)
    entry = everything()
    assert [k.run for k in entry] == [run_id(10)]
    assert (entry[0].experiment, entry[0].scale, entry[0].seed, entry[0].log) == (
        "alpha/base",
        "cpu",
        10,
        None,
    )


def test_a_runs_folder_however_written(
    world: World, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = world.root / "runs" / run_id()
    folder.mkdir(parents=True)
    assert run_of_path(str(folder)) == run_of_path(f"runs/{run_id()}/") == run_of_path(run_id()) == run_id()
    monkeypatch.chdir(folder.parent)
    assert run_of_path(folder.name) == run_of_path(f"../cpu/{folder.name}") == run_id()
    (world.root / "link").symlink_to(world.root / "runs")
    assert run_of_path(f"{world.root}/link/{run_id()}") == run_id()


def test_completion_offers_runs_jobs_and_what_holds_them(entries: list[RunEntry]) -> None:
    assert {"12_0", "12_1", "12_2", "alpha/base", "alpha/grid@a", GRID} <= names(everything())
    assert runs_and_jobs() == sorted({*names(everything()), "alpha", "beta"})
