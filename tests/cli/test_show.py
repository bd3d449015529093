"""plot and compare, and runs that have no record yet."""

import csv
import io

import pytest

from tests.conftest import TrainedRun
from tests.workshop import TINY, Workshop, call


def lose_record(run: TrainedRun) -> None:
    """What a run that was killed leaves: events and checkpoints."""
    for path in [*run.workshop.records(), run.folder / "record.json"]:
        path.unlink()


def test_a_run_without_a_record_is_shown_from_its_events(own_run: TrainedRun) -> None:
    recorded = call("show", own_run.run_id, "--json").json()[0]
    lose_record(own_run)
    said = call("show", own_run.run_id)
    assert "finished    not yet: done, step" in said.out
    seen = call("show", str(own_run.folder), "--json").json()[0]
    for name in ("config", "steps", "versions", "data", "run_id", "tokens"):
        assert seen[name] == recorded[name], name
    assert {name: len(points) for name, points in seen["curves"].items()} == {
        name: len(points) for name, points in recorded["curves"].items()
    }
    assert seen["metrics"][0]["value"] == seen["curves"][seen["metrics"][0]["name"]][-1][1]


@pytest.mark.parametrize(("suffix", "begins"), [(".svg", b"<svg"), (".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_curves_are_drawn_from_events(own_run: TrainedRun, suffix: str, begins: bytes) -> None:
    lose_record(own_run)
    path = own_run.workshop.root / f"curves{suffix}"
    said = call("plot", own_run.run_id, "--out", str(path))
    assert said.code == 0, said.err
    assert "train/loss" in said.out
    assert "val/loss" in said.out
    assert path.read_bytes().startswith(begins)
    call("plot", own_run.run_id, "--metric", "val/nosuch").refused("val/nosuch", "there is: train/loss")
    call("plot", own_run.run_id, "--out", "x.gif").refused("x.gif", ".svg, .png, .pdf")


def test_runs_are_compared_by_what_differs_and_over_seeds(workshop: Workshop) -> None:
    for seed in ("101", "102"):
        for dropout in ("0.1", "0.2"):
            said = call("run", TINY, "--scale", "cpu", "--seed", seed, "--model.net.dropout", dropout)
            assert said.code == 0, said.err
    figure = workshop.root / "both.svg"
    said = call("compare", f"{TINY}/cpu", "--metric", "test/loss", "--plot", str(figure))
    lines = said.out.splitlines()
    assert lines[0].split() == ["dropout", "seeds", "test/loss"]
    assert [line.split()[:2] for line in lines[2:4]] == [["0.1", "2"], ["0.2", "2"]]
    assert all("±" in line for line in lines[2:4])
    assert "dropout 0.2" in figure.read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(call("compare", TINY, "--csv").out)))
    assert sorted((row["dropout"], row["seed"]) for row in rows) == [
        ("0.1", "101"), ("0.1", "102"), ("0.2", "101"), ("0.2", "102"),
    ]  # fmt: skip
    assert len({row["test/loss"] for row in rows}) == 4
    call("compare", TINY, "--metric", "test/los").refused("'test/los'", "test/loss")
    call("compare", "nosuch/run").refused("nosuch/run")


def test_a_checkpoint_of_an_unfinished_run_translates(own_run: TrainedRun) -> None:
    lose_record(own_run)
    (own_run.folder / "model.pt").unlink()
    for word in (own_run.run_id, TINY):
        said = call("translate", word, stdin=b"seventeen\n")
        assert said.code == 0, said.err
        assert "is not finished: weights of step-00000002.ckpt" in said.err
        assert len(said.out.splitlines()) == 1
    assert call("generate", TINY, "--max-new", "3", stdin=b"seventeen\n").code == 0
