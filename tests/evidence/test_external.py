"""Records that others made: what is taken in, where it lies, what is refused."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from repro.evidence.compare import compare
from repro.evidence.external import MAX_DEPTH, MAX_SEED, Outcome, refused, take
from repro.record import RunRecord, read_records
from repro.report.formats import markdown
from repro.report.formats.documents import paper_document, runs_document
from repro.report.render import render_all
from tests.report.fakes import House, make_record

SOURCE = "ada/toy-runs"


class Inbox:
    """Hands uploads of one recipe to the code under test."""

    def __init__(self, house: House) -> None:
        self.house, self.runs = house, house.results / "runs"
        self.experiment = house.recipe("base")

    def record(self, **changes: Any) -> dict[str, Any]:
        """A sound record as somebody's run wrote it."""
        made = dataclasses.replace(make_record(self.experiment, 1, 28.1), **changes)
        return dict(json.loads(made.to_json()))

    def take(self, record: Any, outputs: bytes | None = None, source: str = SOURCE) -> Outcome:
        data = record if isinstance(record, bytes) else json.dumps(record).encode()
        return take("record-1:v0", data, outputs, source, self.runs)

    def files(self) -> list[Path]:
        """Every file below the whole temporary folder that holds a record or outputs."""
        root = self.house.results.parent
        return sorted(p for p in root.rglob("*") if p.is_file() and p.suffix in (".json", ".txt"))


@pytest.fixture
def inbox(house: House) -> Inbox:
    return Inbox(house)


def test_a_good_record_is_stored_apart_and_marked_whatever_it_says(inbox: Inbox) -> None:
    said = inbox.take(inbox.record(external=False))
    assert said.state == "taken"
    (path,) = inbox.files()
    assert path.parent == inbox.runs / "toy" / "base" / "external" / "ada--toy-runs"
    assert said.said == str(path)
    (record,) = read_records(inbox.runs).good
    assert record.external
    assert record.metric("test/bleu").value == 28.1  # type: ignore[union-attr]
    assert record.file_stem in path.name


def test_taken_twice_it_is_there_and_nothing_changes(inbox: Inbox) -> None:
    first = inbox.take(inbox.record())
    before = {path: path.read_bytes() for path in inbox.files()}
    for source in (SOURCE, "others/copy"):
        again = inbox.take(inbox.record(), source=source)
        assert (again.state, again.said) == ("there", first.said)
    assert inbox.take(inbox.record(external=True)).state == "there"
    assert {path: path.read_bytes() for path in inbox.files()} == before


def test_another_record_of_the_same_run_is_kept_beside_the_first(inbox: Inbox) -> None:
    inbox.take(inbox.record())
    (first,) = inbox.files()
    before = first.read_bytes()
    assert inbox.take(inbox.record(precision="bf16-mixed")).state == "taken"
    assert len(inbox.files()) == 2
    assert first.read_bytes() == before


def test_what_this_machine_uploaded_itself_does_not_come_back_as_anothers(inbox: Inbox) -> None:
    (own,) = inbox.house.run(inbox.experiment, [28.1])
    uploaded = json.loads(dataclasses.replace(own, wandb_url="https://wandb.ai/a/b/runs/c").to_json())
    said = inbox.take(uploaded)
    assert said.state == "there"
    assert "our own record" in said.said
    assert len(inbox.files()) == 1
    assert inbox.take({**uploaded, "steps": 101}).state == "taken", "all else must agree"


def test_it_is_never_reproduced_and_yields_to_our_own(inbox: Inbox) -> None:
    for seed in (1, 2, 3):
        made = make_record(inbox.experiment, seed, 28.0 + seed / 100)
        assert inbox.take(made.to_json().encode()).state == "taken"
    comparison = compare()
    entry = comparison.entries["toy", "table1", "base", "bleu"]
    assert entry.verdict == "undecided", "good enough for `reproduced`, were it ours"
    assert any("external record" in note for note in entry.ours[0].notes)
    written = markdown.render(paper_document(comparison, comparison.papers[0]))
    assert "external record (seeds 1, 2, 3)" in written
    for seed in (1, 2, 3):
        inbox.house.record(inbox.experiment, seed, 28.0 + seed / 100)
    comparison = compare()
    assert comparison.entries["toy", "table1", "base", "bleu"].verdict == "reproduced"
    states = [comparison.state(r) for r in comparison.records if r.external]
    assert states == ["external"] * 3
    assert markdown.render(runs_document(comparison)).count("| external |") == 3


def test_tables_are_made_with_it(inbox: Inbox) -> None:
    inbox.take(inbox.record())
    assert any("28.10" in data.decode(errors="replace") for data in render_all(inbox.house.results).values())


def test_outputs_are_stored_where_they_are_those_that_the_record_names(inbox: Inbox) -> None:
    outputs = b"ein Hund\n"
    digest = hashlib.sha256(outputs).hexdigest()
    assert inbox.take(inbox.record(outputs_sha256=digest), outputs).state == "taken"
    stored = [path for path in inbox.files() if path.name.endswith(".outputs.txt")]
    assert [path.read_bytes() for path in stored] == [outputs]
    assert stored[0].with_name(stored[0].name.replace(".outputs.txt", ".json")).is_file()
    other = inbox.record(outputs_sha256=digest, seed=1, finished="2026-02-01T00:00:00Z")
    assert "not those it names" in inbox.take(other, outputs + b"!").said
    assert "not those it names" in inbox.take(inbox.record(outputs_sha256=None), outputs).said
    assert "outputs were not uploaded" in inbox.take(other).said


def changed(**fields: Any) -> Any:
    """How a record's JSON is spoilt."""
    return lambda raw: {**raw, **fields}


def in_metric(**fields: Any) -> Any:
    return lambda raw: {**raw, "metrics": [{**raw["metrics"][0], **fields}]}


def renamed(experiment: str) -> Any:
    """Another experiment, with a run id that fits."""
    return lambda raw: {
        **raw,
        "experiment": experiment,
        "run_id": raw["run_id"].replace("toy/base", experiment),
    }


def text_of(**fields: str) -> Any:
    """The JSON as text, with words in it that no dictionary can hold."""
    return lambda raw: json.dumps(raw | dict.fromkeys(fields, 0)).replace(
        *(next((f'"{k}": 0', f'"{k}": {v}') for k, v in fields.items()))
    )


def nested(levels: int) -> Any:
    return lambda raw: json.dumps(raw).replace('"name": "toy-text"', '"name": ' + "[" * levels + "]" * levels)


BAD = {
    "no JSON": (lambda raw: b"<html>", "not a run record"),
    "no text": (lambda raw: b"\xff\xfe", "not a run record"),
    "a list": (lambda raw: [raw], "schema_version"),
    "another schema": (changed(schema_version=99), "schema_version 99"),
    "unknown key": (changed(evil=1), "unknown keys ['evil']"),
    "missing key": (lambda raw: {k: v for k, v in raw.items() if k != "seed"}, "missing keys ['seed']"),
    "wrong type": (changed(seed="1"), "seed"),
    "NaN": (text_of(wall_seconds="NaN"), "NaN"),
    "infinite": (text_of(wall_seconds="1e999"), "wall_seconds"),
    "infinite metric": (lambda raw: json.dumps(raw).replace('"value": 28.1', '"value": -1e999'), "value"),
    "a huge whole number": (changed(tokens=10**30), "beyond reason"),
    "unknown experiment": (renamed("toy/bass"), "unknown experiment 'toy/bass'; nearest: toy/base"),
    "path that leaves": (renamed("../../../../tmp/base"), "unknown experiment"),
    "path from the root": (renamed("/etc/base"), "unknown experiment"),
    "scale that leaves": (changed(scale="../../x"), "has no scale"),
    "scale that is not there": (changed(scale="cpu"), "has no scale"),
    "hash that leaves": (changed(config_hash="../" * 21 + "a"), "no SHA-256"),
    "another's hash": (changed(config_hash="ab" * 32), "that of its config is"),
    "another config": (lambda raw: {**raw, "config": raw["config"] | {"trainer": {}}}, "that of its config is"),
    "config of another shape": (lambda raw: {**raw, "config": {"start_from": []}}, "config"),
    "goals of another shape": (lambda raw: {**raw, "config": raw["config"] | {"reproduces": 5}}, "reproduces"),
    "goals that are words": (lambda raw: {**raw, "config": raw["config"] | {"supports": ["x"]}}, "supports"),
    "another run id": (changed(run_id="toy/base/paper/s2-00000000"), "run_id"),
    "negative seed": (changed(seed=-1), "seed -1"),
    "huge seed": (changed(seed=MAX_SEED + 1), "seed"),
    "no time": (changed(finished="2026-13-41T00:00:00Z"), "finished"),
    "time that leaves": (changed(finished="2026-01-01T00:00:00Z/../x"), "finished"),
    "no commit": (changed(commit="main; rm -rf"), "commit"),
    "link that runs": (changed(wandb_url="javascript:alert(1)"), "wandb_url"),
    "link that breaks out": (changed(wandb_url='https://x/"><script>'), "wandb_url"),
    "deviations of numbers": (changed(deviations=[1]), "deviations"),
    "versions of lists": (changed(versions={"torch": ["2"]}), "versions"),
    "dirty of a word": (changed(dirty="no"), "dirty"),
    "hash of a number": (changed(checkpoint_sha256=5), "checkpoint_sha256"),
    "hash that is none": (changed(checkpoint_sha256="5"), "SHA-256"),
    "start of numbers": (changed(start_from={"run_id": 1}), "start_from"),
    "fewer than no bytes": (changed(peak_bytes=-1), "peak_bytes"),
    "count of a word": (in_metric(count="many"), "count"),
    "count below none": (in_metric(count=-1), "count -1"),
    "validation of a word": (in_metric(validation="x"), "validation"),
    "metric of a word": (in_metric(value="28"), "value"),
    "metric with more": (in_metric(more=1), "malformed"),
    "curve of words": (changed(curves={"val/bleu": [["a", "b"]]}), "curve val/bleu"),
    "curve of triples": (changed(curves={"val/bleu": [[1, 2, 3]]}), "curve val/bleu"),
    "profiles too long": (changed(profiles={"d/layer 1": [0.5] * 10_001}), "10000"),
    "curve too long": (changed(curves={"val/bleu": [[i, 1] for i in range(201)]}), "at most 200"),
    "no Unicode": (changed(precision="\ud800"), "no Unicode"),
    "long text": (changed(command="x" * 200_000), "too long"),
    "deep": (nested(MAX_DEPTH + 5), "levels deep"),
    "bottomless": (nested(100_000), "nested too deeply"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_record_is_refused_in_a_line_and_leaves_nothing(inbox: Inbox, kind: str) -> None:
    spoil, words = BAD[kind]
    raw = spoil(inbox.record())
    said = inbox.take(raw.encode() if isinstance(raw, str) else raw)
    assert said.state == "refused"
    assert words in said.said
    assert "\n" not in str(said)
    assert len(str(said)) < 700
    assert inbox.files() == []


def test_the_record_that_all_these_spoil_is_good(inbox: Inbox) -> None:
    assert inbox.take(inbox.record()).state == "taken"


def test_sound_but_unusual_records_are_taken(inbox: Inbox) -> None:
    unusual = inbox.record(
        commit=None, dirty=None, wandb_url="https://wandb.example:8443/a%20b/p?x=1&y=2", deviations=["<b>", "\x1b[31m"],
        curves={"val/bleu": [[0, float("nan")], [1, 2.5]]}, start_from={"run_id": "toy/base/paper/s0-1"},
    )  # fmt: skip
    assert unusual["curves"]["val/bleu"][0] == [0, None], "as a run that diverged writes it"
    assert inbox.take(unusual).state == "taken"
    stored = RunRecord.from_json(inbox.files()[0].read_text())
    assert stored.deviations == ["<b>", "\x1b[31m"]
    assert stored.curves == {"val/bleu": [[0, None], [1, 2.5]]}


@pytest.mark.parametrize("source", ["../../up", "a/..", "é/ö b", "x" * 90 + "/" + "y" * 90])
def test_the_folder_of_a_source_stays_where_it_belongs(inbox: Inbox, source: str) -> None:
    assert inbox.take(inbox.record(), source=source).state == "taken"
    (path,) = inbox.files()
    assert path.resolve().parent.parent == (inbox.runs / "toy" / "base" / "external").resolve()


def test_names_of_uploads_cannot_reach_the_terminal() -> None:
    said = str(refused("evil\x1b[2J\nname", "because\r\nof \x07 this"))
    assert said.startswith("refused evil")
    assert not {"\x1b", "\n", "\r", "\x07"} & set(said)


def test_how_it_lies_in_the_way_of_a_folder_that_cannot_be_written(inbox: Inbox) -> None:
    from repro.errors import UserError

    (inbox.runs / "toy" / "base").mkdir(parents=True)
    (inbox.runs / "toy" / "base" / "external").write_text("in the way")
    with pytest.raises(UserError, match="cannot write"):
        inbox.take(inbox.record())
