"""One run with three restarts, of which each attempt but the last loses its server in another way."""

import functools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from repro import tracking
from repro.experiment import run as running
from repro.tasks.stopping import Stopping
from repro.tracking.fragments import fragments_of
from repro.tracking.mirror import Mirror
from tests.tracking.conftest import KEY, steps_in
from tests.wandb_server import GONE, HANG, WandbServer
from tests.workshop import PAPER, RECIPE, TINY, Said, Workshop, call, make_workshop

pytestmark = pytest.mark.slow
HEADER = """\
reproduces:
  - {table: table2, row: transformer-base, metric: bleu_en_de, measured: test/bleu}
  - {table: table2, row: transformer-big, metric: bleu_en_de, measured: test/bleu}
"""
TABLED = RECIPE.replace("title: Tiny\n", "title: Tiny\n" + HEADER)
SETTINGS = ("--trainer.max_steps", "5", "--trainer.val_check_interval", "5")
FAULTS = (500, HANG, GONE)
WAIT_S = 3.5  # for W&B, at the end of an attempt
HOSTILE = "a\x1b[31m\x00\u2028\udcff</script>|b"


@dataclass
class Story:
    """What happened.

    Attributes:
        workshop: where.
        server: that W&B's project lies on in the end.
        attempts: what each said.
        before: how many rows the server had when the last attempt ended.
        dry: what `repro sync --dry-run` said.
        synced: what `repro sync` said, twice.
    """

    workshop: Workshop
    server: WandbServer
    attempts: list[Said] = field(default_factory=list)
    before: int = 0
    dry: Said | None = None
    synced: list[Said] = field(default_factory=list)

    @property
    def record(self) -> dict[str, Any]:
        (path,) = self.workshop.records()
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    @property
    def id(self) -> str:
        return tracking.wandb_id(self.record["run_id"])

    @property
    def folder(self) -> Path:
        return self.workshop.runs / self.record["run_id"]


def moved(server: WandbServer) -> WandbServer:
    """A server in place of one that is gone, with all that it had."""
    made = WandbServer()
    for name in ("rows", "runs", "exits", "summaries", "alerts", "artifacts"):
        setattr(made, name, getattr(server, name))
    return made


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, small_store: Path) -> Iterator[Story]:
    made = make_workshop(tmp_path_factory.mktemp("restarts") / "workshop", small_store)
    made.recipe(TABLED)
    told = Story(made, WandbServer())
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in os.environ if n.startswith("WANDB_") or n.lower().endswith("_proxy")]:
            patch.delenv(name)
        made.enter(patch)
        patch.setenv("HOME", str(made.root))
        patch.setenv("WANDB_API_KEY", KEY)
        patch.setattr(running, "LEAVING_S", WAIT_S)
        for number, fault in enumerate((*FAULTS, None), 1):
            patch.setenv("WANDB_BASE_URL", told.server.url)
            with pytest.MonkeyPatch.context() as briefly:
                told.attempts.append(attempt(told.server, number, fault, briefly))
            if fault == GONE:
                told.server = moved(told.server)
            told.server.recover()
        told.before = len(told.server.rows[told.id])
        told.dry = call("sync", "--dry-run")
        told.synced = [call("sync"), call("sync", TINY)]
        yield told
    told.server.vanish()


def attempt(server: WandbServer, number: int, fault: int | None, patch: pytest.MonkeyPatch) -> Said:
    """Fails the server at the first row, and preempts the run after as many updates as its number says."""
    put = Mirror.put

    @functools.wraps(put)
    def failing(self: Mirror, kind: str, what: dict[str, Any], dying: bool = False) -> None:
        if kind == "row" and fault is not None and server.mood == 200:
            server.fail(fault)
        put(self, kind, what, dying)

    patch.setattr(Mirror, "put", failing)
    if fault is not None:
        patch.setattr(Stopping, "_agreed", lambda _, trainer: trainer.global_step == number)
    else:
        patch.setattr("repro.tasks.Translation.samples", lambda _: (["source", HOSTILE], [[HOSTILE, "x"]]))
    return call("run", TINY, "--scale", "cpu", *SETTINGS)


def test_training_goes_on_whatever_the_server_does(story: Story) -> None:
    """Three times it is asked to stop, says so, and is done at the end of the fourth attempt."""
    assert [said.code for said in story.attempts] == [75, 75, 75, 0]
    assert story.record["steps"] == 5
    assert len(story.record["curves"]["train/loss"]) == 5
    for said in story.attempts[:3]:
        assert said.err.count(f"`repro sync {story.record['run_id']}` sends ") >= 1, said.err
        assert "Traceback" not in said.err


def test_its_numbers_are_those_of_a_run_that_knows_of_no_server(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_workshop(tmp_path / "workshop", story.workshop.data).enter(monkeypatch)
    other.recipe(TABLED)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert call("run", TINY, "--scale", "cpu", *SETTINGS).code == 0
    (path,) = other.records()
    alone = json.loads(path.read_text())
    assert alone["checkpoint_sha256"] == story.record["checkpoint_sha256"]
    assert alone["metrics"] == story.record["metrics"]
    assert alone["curves"]["train/loss"] == story.record["curves"]["train/loss"]
    assert alone["curves"].keys() == story.record["curves"].keys()


def test_the_fragments_hold_all_of_it(story: Story) -> None:
    found = fragments_of(story.folder / "wandb")
    losses = sorted({step for one in found for step in steps_in(one.folder)})
    assert losses == [1, 2, 3, 4, 5]
    assert all(one.synced for one in found)


def test_what_the_server_lacked_is_sent_once_and_counted(story: Story) -> None:
    run, held = story.record["run_id"], len(story.server.rows[story.id])
    missing = held - story.before
    assert missing > 0, "nothing was lacking, so nothing was repaired"
    assert story.dry is not None
    assert (story.dry.code, story.dry.out) == (0, f"{run}: would send up to {missing} of {held} rows\n")
    assert [said.code for said in story.synced] == [0, 0]
    assert story.synced[0].out == f"{run}: {missing} rows sent, {held} there, complete\n"
    assert story.synced[1].out == f"{run}: nothing sent, {held} there, complete\n"
    losses = [row["trainer/global_step"] for row in story.server.rows[story.id] if "train/loss" in row]
    assert sorted(losses) == [1, 2, 3, 4, 5]


def test_it_is_one_run_and_ends_as_the_last_attempt_did(story: Story) -> None:
    assert list(story.server.runs) == [story.id]
    assert story.server.exits[story.id] == 0
    said = story.server.runs[story.id]
    assert (said["groupName"], said["jobType"]) == (f"{TINY}/cpu", "train")
    assert (
        {PAPER, "cpu", f"{PAPER}:table2"} <= set(said["tags"]) <= {PAPER, "cpu", f"{PAPER}:table2", "dirty"}
    )
    config = json.loads(said["config"])
    assert config["commit"]["value"] == story.record["commit"]
    assert config["dirty"]["value"] == story.record["dirty"]
    assert config["data"]["value"] == story.record["data"]


def test_rows_hold_norms_speeds_waiting_and_memory(story: Story) -> None:
    found = [row for row in story.server.rows[story.id] if "train/grad_norm" in row]
    assert sorted(row["trainer/global_step"] for row in found) == [1, 2, 3, 4, 5]
    for row in found:
        assert row["train/grad_norm"] > 0
        assert row["train/param_norm"] > 0
        assert row["train/model_flops_per_s"] > 0
        assert 0 <= row["train/data_wait"] <= 1
        assert 0.05 < row["train/peak_memory_gib"] < 64
        assert row["train/tokens_per_s_per_device"] > 0
        assert "train/mfu" not in row, "nobody knows what a CPU can do"


def test_the_summary_holds_what_tables_use_beside_the_published_value(story: Story) -> None:
    summary = story.server.summaries[story.id]
    for metric in story.record["metrics"]:
        assert summary[metric["name"]] == pytest.approx(metric["value"]), metric["name"]
    assert summary["published/test/bleu@table2:transformer-base"] == 27.3
    assert summary["published/test/bleu@table2:transformer-big"] == 28.4


def test_data_weights_and_record_are_linked(story: Story) -> None:
    found = story.server.artifacts
    data = found[f"data-{story.record['data']['name']}"]
    assert (data["type"], data["used"], data["committed"]) == ("dataset", True, True)
    assert data["metadata"] == story.record["data"]
    record = found[f"record-{story.id}"]
    assert (record["type"], record["used"], record["committed"]) == ("record", False, True)
    told = json.loads(record["files"]["record.json"])
    assert told == story.record
    (outputs,) = story.workshop.results.rglob("*.outputs.txt")
    assert record["files"]["outputs.txt"] == outputs.read_bytes()
    model = found[f"model-{story.id}"]
    assert model["type"] == "model"
    assert model["metadata"]["sha256"] == story.record["checkpoint_sha256"]
    assert set(model["files"]) == {"facts.json", "wandb_manifest.json"}, "no weights"


def test_repeated_preemption_is_told_from_the_second_time_on(story: Story) -> None:
    titles = [(title, text) for run, title, text, level in story.server.alerts if run == story.id]
    assert {title for title, _ in titles} == {"Preempted again"}
    assert {text for _, text in titles} == {f"requeued {n} times, goes on from step {n} of 5" for n in (2, 3)}


def test_nothing_of_the_machine_is_sent(story: Story) -> None:
    for body in story.server.bodies:
        assert str(story.workshop.root).encode() not in body
        assert KEY.encode() not in body


def test_hostile_words_break_no_file(story: Story) -> None:
    tables = [body for body in story.server.bodies if b"<script" in body or b"</script>" in body]
    assert tables, "the table came"
    assert story.synced[1].code == 0
