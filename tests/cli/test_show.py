"""plot and compare, and runs that have no record yet."""

import csv
import io
import json

import pytest

from repro.cli.runs import parse_grid
from repro.errors import UserError
from tests.conftest import TrainedRun
from tests.report.svg import words
from tests.workshop import PROJECT, TINY, Workshop, call


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


def test_a_run_without_a_record_whose_curve_ends_in_no_number_is_shown(own_run: TrainedRun) -> None:
    lose_record(own_run)
    with (own_run.folder / "events.jsonl").open("a") as file:
        file.write('{"t": 1, "step": 2, "kind": "val", "val/loss": NaN, "val/ppl": Infinity}\n')
    assert call("show", own_run.run_id).code == 0
    assert call("plot", own_run.run_id).code == 0
    (seen,) = call("show", own_run.run_id, "--json").json()
    assert seen["curves"]["val/loss"][-1][1] is None
    assert not {"val/loss", "val/ppl"} & {m["name"] for m in seen["metrics"]}


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
    said = call("run", TINY, "--scale", "cpu", "--seeds", "101-102", "--grid", "model.net.dropout=0.1,0.2")
    assert said.code == 0, said.err
    assert said.out.count(f"{TINY}/cpu/s101-") == 2 * 2, "as it starts, and in the last line"
    assert "--model.net.dropout=0.2" in said.out
    figure = workshop.root / "both.svg"
    said = call("compare", f"{TINY}/cpu", "--metric", "test/loss", "--plot", str(figure))
    lines = said.out.splitlines()
    assert lines[0].split() == ["dropout", "seeds", "test/loss"]
    assert [line.split()[:2] for line in lines[2:4]] == [["0.1", "2"], ["0.2", "2"]]
    assert all("±" in line for line in lines[2:4])
    assert "± is half of the 95 % interval over seeds" in lines
    assert {f"{TINY}, 2 seeds", "dropout 0.2"} <= {*words(figure.read_bytes())}
    one = next(r for r in call("compare", TINY, "--csv").out.splitlines() if ",0.2," in r).split(",")[0]
    assert call("plot", one, "--out", str(figure)).code == 0
    assert f"{TINY} --model.net.dropout=0.2, 1 seed" in " ".join(words(figure.read_bytes()))
    assert f"{TINY} --model.net.dropout=0.2" in call("compare", one).out
    rows = list(csv.DictReader(io.StringIO(call("compare", TINY, "--csv").out)))
    assert sorted((row["dropout"], row["seed"]) for row in rows) == [
        ("0.1", "101"), ("0.1", "102"), ("0.2", "101"), ("0.2", "102"),
    ]  # fmt: skip
    assert len({row["test/loss"] for row in rows}) == 4
    call("compare", TINY, "--metric", "test/los").refused("'test/los'", "test/loss")
    call("compare", "nosuch/run").refused("nosuch/run")
    several = call("show", f"{TINY}/cpu/s101-").refused("2 runs begin with", "; give more of the id")
    assert "..." not in several


def test_a_trial_without_a_record_among_the_results_is_compared_by_its_own(own_run: TrainedRun) -> None:
    for path in [*own_run.workshop.records()]:
        path.unlink()
    said = call("compare", TINY, "--metric", "test/bleu").out
    assert "not finished" not in said
    assert call("compare", TINY, "--csv").out.splitlines()[0].startswith("run_id,scale,seed,updates,")


def test_a_checkpoint_of_an_unfinished_run_translates(own_run: TrainedRun) -> None:
    lose_record(own_run)
    (own_run.folder / "model.pt").unlink()
    for word in (own_run.run_id, TINY):
        said = call("translate", word, stdin=b"seventeen\n")
        assert said.code == 0, said.err
        assert "is not finished: weights of step-00000002.ckpt" in said.err
        assert len(said.out.splitlines()) == 1
    assert call("generate", TINY, "--max-new", "3", stdin=b"seventeen\n").code == 0


def test_the_best_checkpoint_of_an_unfinished_run_translates(workshop: Workshop) -> None:
    words = (
        "--scale",
        "cpu",
        "--seed",
        "101",
        "--checkpoints.best",
        "val/loss",
        "--checkpoints.average_last",
        "1",
    )
    assert call("run", TINY, *words).code == 0
    (model,) = workshop.runs.rglob("model.pt")
    model.unlink()
    (model.parent / "record.json").unlink()
    said = call("translate", str(model.parent), stdin=b"seventeen\n")
    assert said.code == 0, said.err
    assert "is not finished: weights of best-" in said.err


def test_own_runs_are_listed_with_the_settings_that_change_them(workshop: Workshop) -> None:
    words = ("--model.net.dropout", "0.2", "--trainer.accelerator", "cpu", "--trainer.devices", "1")
    assert call("run", TINY, "--scale", "cpu", *words).code == 0
    for _ in range(2):
        listed = call("list", "--mine").out
        assert "--model.net.dropout=0.2" in listed
        assert "--trainer" not in listed
        for path in (*workshop.records(), *workshop.runs.rglob("record.json")):
            path.unlink()  # then as a run without a record


def test_own_runs_are_listed_with_those_under_way(own_run: TrainedRun) -> None:
    assert own_run.run_id in call("list", "--mine").out
    lose_record(own_run)
    said = call("list", "--mine")
    assert "not yet: done" in said.out
    call("list", "--mine", "--json").refused("--mine")


@pytest.mark.parametrize(
    ("file", "text", "wrong"),
    [
        ("record.json", "{", "record.json: not a run record"),
        ("events.jsonl", '{"run": "x", "config": {}}', "its events are not those of a run"),
        ("events.jsonl", '{"run": "a/b/cpu/s2-0", "config": {"seed": 2}}', "('commit')"),
        (
            "events.jsonl",
            '{"run": "a/b/cpu/s2-0", "config": {"recipe": 1}}',
            "its events are not those of a run",
        ),
    ],
)
def test_a_folder_that_cannot_be_read_is_a_line_beside_the_other_runs(
    own_run: TrainedRun, file: str, text: str, wrong: str
) -> None:
    lose_record(own_run)
    other = own_run.folder.with_name("s2-01234567")
    other.mkdir()
    first = {"t": 1, "step": 0, "kind": "state", "state": "starting"}
    (other / "events.jsonl").write_text(json.dumps(first) + "\n")
    text = json.dumps({**first, **json.loads(text)}) + "\n" if file == "events.jsonl" else text
    (other / file).write_text(text)
    listed = call("list", "--mine")
    assert own_run.run_id in listed.out
    (line,) = listed.err.splitlines()
    assert line.startswith(f"repro: {other}")
    assert wrong in line
    assert own_run.run_id in call("status", "--all").out


def test_points_of_a_grid_that_are_one_run_are_refused(workshop: Workshop) -> None:
    words = ("run", TINY, "--scale", "cpu", "--seed", "100", "--grid")
    for word in ("trainer.accumulate_grad_batches=1,2", "trainer.max_steps=2,2"):
        call(*words, word).refused("--grid: several points are the run")


@pytest.mark.parametrize(
    "content", ["", '{"t": 1, "step": 0, "kind": "state", "state": "starting", "config": {}}\n']
)
def test_damaged_events_stop_no_list(workshop: Workshop, content: str) -> None:
    folder = workshop.runs / "mine" / "zz" / "cpu" / "s1-aaaaaaaa"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_text(content)
    call("show", "mine/zz").refused("mine/zz")
    assert call("list", "--mine").code == 0


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("model.net.dropout", "write a key"),
        ("dropout=1,2", "write a key"),
        ("trainer.max_steps=", "write a key"),
        ("trainer..max_steps=1,2", "write a key"),
    ],
)
def test_grids_that_are_none_are_refused(workshop: Workshop, word: str, part: str) -> None:
    call("run", TINY, "--scale", "cpu", "--grid", word).refused(f"--grid {word}", part)


def test_a_grid_is_all_pairs_of_values() -> None:
    points = parse_grid(["a.x=1,2", "a.y=[0, 1],{k: 3}"], [("b.c", 5)])
    assert points == [[("b.c", 5), ("a.x", x), ("a.y", y)] for x in (1, 2) for y in ([0, 1], {"k": 3})]
    with pytest.raises(UserError, match="is given twice"):
        parse_grid(["b.c=1,2"], [("b.c", 5)])


def test_a_paper_without_published_numbers_lists_its_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    said = call("list", "crossover")
    assert (said.code, said.out.splitlines()[0].split()) == (0, ["recipe", "title", "scales"])
    assert "crossover/bytes@full" in said.out
    call("list", "crosover").refused("unknown paper 'crosover'")


def test_recipes_are_listed_by_time_with_their_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    monkeypatch.setenv("REPRO_DATA", "nowhere")
    rows = {
        line.split()[0]: line for line in call("recipes", "--scale", "cpu", "--fits", "10m").out.splitlines()
    }
    assert "generated" in rows["transformer-xl/ablation@xl"]
    assert "attention-is-all-you-need/big@en-de" not in rows
    assert "repro data prepare enwik8 --level bytes" in call("recipes").out
    call("recipes", "--fits", "soon").refused("'soon'", "10m")
    call("recipes", "--fits", "1.2.3h").refused("'1.2.3h'", "10m")
    call("recipes", "--scale", "cpu", "--fits", "1s").refused("no recipe")
