import dataclasses
import errno
import json
import os

import pytest

from repro import files as module
from repro.errors import ReproError, UserError
from repro.record import (
    LEDGER,
    Measurement,
    RunRecord,
    read_records,
    thin,
    withdrawn,
    write_atomic,
    write_record,
)


@pytest.fixture
def made():
    return RunRecord(
        experiment="toy/big",
        scale="cpu",
        seed=3,
        run_id="toy/big/cpu/s3-01234567",
        command="repro run toy/big",
        config={"title": "Ünïcode", "model": {"width": 8}},
        config_hash="0123456789abcdef",
        commit="abc",
        dirty=False,
        versions={"torch": "2.13.0"},
        hardware={"device": "CPU", "count": 1},
        precision="32-true",
        data={},
        parameters=10,
        steps=2,
        tokens=20,
        wall_seconds=1.5,
        gpu_hours=0.0,
        peak_bytes=1,
        metrics=[Measurement("test/bleu", 30.0, "BLEU", "test", {"beam": 4}, 50, 31.0)],
        curves={"val/loss": [(0, 2.0), (1, 1.0)]},
        checkpoint_sha256=None,
        outputs_sha256=None,
        finished="2026-01-02T03:04:05Z",
        deviations=["fewer updates"],
    )


def test_there_and_back(made):
    assert RunRecord.from_json(made.to_json()) == made


def test_only_runs_on_a_cpu_record_threads(made):
    assert made.on_gpu
    made.hardware["threads"] = 2
    assert not made.on_gpu


def test_profiles_are_kept_and_left_out_where_there_are_none(made):
    assert "profiles" not in json.loads(made.to_json())
    assert RunRecord.from_json(made.to_json()).profiles == {}
    made.profiles = {"density/layer 1": [0.5, 1, 1.5]}
    assert RunRecord.from_json(made.to_json()) == made
    for wrong in ([[0, 0.5]], ["a"], None):
        made.profiles = {"density/layer 1": wrong}
        with pytest.raises(UserError, match="profiles"):
            RunRecord.from_json(made.to_json())


CPU = {"device": "CPU", "instructions": {"torch": "AVX2"}}
ATTEMPT = {"commit": "abc", "code_sha256": "1" * 64, "versions": {"torch": "2"}, "hardware": CPU}


@pytest.mark.parametrize(
    ("change", "mixed"),
    [
        ({}, False),
        ({"commit": "def"}, False),  # the package's files are equal
        ({"code_sha256": "2" * 64}, True),
        ({"code_sha256": None}, True),
        ({"versions": {"torch": "3"}}, True),
        ({"hardware": {"device": "GPU"}}, True),
        ({"data": {"manifest_sha256": "3" * 64}}, True),
        ({"data": None}, False),
        ({"hardware": {**CPU, "device": "another CPU"}}, False),
        ({"code_sha256": "2" * 64, "last": 0}, False),  # none of its updates were kept
        ({"first": 2}, True),  # nobody knows what made the first two updates
    ],
)
def test_a_record_is_mixed_where_attempts_differ(made, change, mixed):
    assert not made.mixed
    made.attempts = [
        {**ATTEMPT, "first": 0, "last": 5, **change},
        {**ATTEMPT, "first": 5, "last": 9},
    ]
    assert made.mixed is mixed
    assert RunRecord.from_json(made.to_json()) == made
    first = made.attempts[0]
    for wrong in ({**first, "last": "x"}, {**first, "data": "x"}):
        made.attempts[0] = wrong
        with pytest.raises(UserError, match="attempts"):
            RunRecord.from_json(made.to_json())


def test_the_json_is_stable_and_legible(made):
    assert made.to_json() == RunRecord.from_json(made.to_json()).to_json()
    assert "Ünïcode" in made.to_json()


def test_metric_by_name(made):
    assert made.metric("test/bleu").value == 30.0
    assert made.metric("test/ppl") is None


def test_file_stem(made):
    assert made.file_stem == "cpu-s3-01234567-20260102030405"


def test_write_and_read_with_outputs(made, tmp_path):
    path = write_record(made, tmp_path, outputs="ein Hund\n")
    assert path == tmp_path / "toy" / "big" / "cpu-s3-01234567-20260102030405.json"
    assert path.with_suffix(".outputs.txt").read_text() == "ein Hund\n"
    (record,) = read_records(tmp_path).good
    assert record == made
    assert record.path == made.path == "toy/big/cpu-s3-01234567-20260102030405.json"


def test_the_records_of_one_paper(made, tmp_path):
    write_record(made, tmp_path)
    other = write_record(dataclasses.replace(made, experiment="other/big"), tmp_path)
    (other.parent / "odd.json").write_text("{")
    result = read_records(tmp_path, paper="toy")
    assert (result.good, result.damaged) == ([made], [])
    assert [record.path for record in result.good] == [made.path]
    assert read_records(tmp_path, paper="none") == read_records(tmp_path / "none")


def test_a_record_is_known_by_the_place_where_it_lies(made, tmp_path):
    path = write_record(made, tmp_path)
    moved = path.parent / "moved" / "one.json"
    moved.parent.mkdir(parents=True)
    path.rename(moved)
    (record,) = read_records(tmp_path).good
    assert record.path == "toy/big/moved/one.json"
    assert record.to_json() == made.to_json(), "the place is no part of the record"


def test_a_record_of_others_is_not_read(made, tmp_path):
    assert not RunRecord.from_json(made.to_json()).external
    write_record(dataclasses.replace(made, external=True), tmp_path)
    (damage,) = read_records(tmp_path).damaged
    assert damage.problem == "external is true: not a record of ours"


def test_a_record_without_overrides_is_as_old_ones_are(made):
    raw = json.loads(made.to_json())
    assert raw.pop("overrides") == []
    assert RunRecord.from_json(json.dumps(raw)) == made
    output = dataclasses.replace(made, overrides=["--trainer.max_steps=10"])
    assert RunRecord.from_json(output.to_json()).overrides == ["--trainer.max_steps=10"]


def test_records_are_never_overwritten(made, tmp_path):
    path = write_record(made, tmp_path)
    before = path.read_bytes()
    with pytest.raises(ReproError, match="never overwritten"):
        write_record(dataclasses.replace(made, steps=9), tmp_path, outputs="x")
    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) == 1


def test_what_is_not_a_number_leaves_nothing_half_written(made, tmp_path):
    test, *others = made.metrics
    lost = dataclasses.replace(made, metrics=[dataclasses.replace(test, value=float("nan")), *others])
    with pytest.raises(ReproError, match="is nan"):
        write_record(lost, tmp_path, outputs="ein Hund")
    assert list(tmp_path.rglob("*.*")) == []
    output = dataclasses.replace(made, metrics=[dataclasses.replace(test, validation=float("inf")), *others])
    assert RunRecord.from_json(output.to_json()).metrics[0].validation is None


def test_a_diverged_run_keeps_its_curve_and_loses_its_metric(made):
    curve = [(0, 2.0), (1, float("nan")), (2, float("inf"))]
    output = dataclasses.replace(made, curves={"val/loss": curve})
    again = RunRecord.from_json(output.to_json())
    assert again.curves == {"val/loss": [(0, 2.0), (1, None), (2, None)]}
    assert again.to_json() == output.to_json(), "a diverged run's record can be written again"
    output.metrics.append(Measurement("test/ppl", float("inf"), "perplexity", "test"))
    with pytest.raises(ReproError, match="test/ppl"):
        output.to_json()


def test_no_records_where_there_is_no_folder(tmp_path):
    result = read_records(tmp_path / "none")
    assert (result.good, result.damaged) == ([], [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw.update(schema_version=99), "schema_version: Input should be 1, not 99"),
        (lambda raw: raw.pop("schema_version"), "schema_version is missing"),
        (lambda raw: raw["config"].update(rate=float("nan")), "NaN is not a JSON number"),
        (lambda raw: raw["metrics"][0].update(count=10**400), r"items is above 1e\+18"),
        (lambda raw: raw.update(curves={"val/loss": [[-(10**400), 1.0]]}), r"steps, .* is above 1e\+18"),
        (lambda raw: raw.pop("seed"), "seed is missing"),
        (lambda raw: raw.update(sead=1), "sead is no key of a record"),
        (lambda raw: raw["metrics"][0].update(colour=1), "metric test/bleu.colour is no key"),
        (lambda raw: raw.update(metrics=None), "metrics: .* not None"),
        (lambda raw: raw.pop("metrics"), "metrics is missing"),
        (lambda raw: raw.update(seed="3"), "seed: Input should be a valid integer, not '3'"),
        (lambda raw: raw.update(seed=True), "seed: .* not True"),
        (lambda raw: raw.update(finished=5), "finished: .* not 5"),
        (lambda raw: raw.update(finished="yesterday"), "finished 'yesterday' is no time of ISO 8601"),
        (lambda raw: raw.update(finished="2026-01-02T00:00:00"), "with its zone"),
        (lambda raw: raw.update(wall_seconds=1e30), r"wall_seconds 1e\+30 are too many"),
        (
            lambda raw: raw.update(attempts=[{"first": 0, "last": 5, "versions": "x"}]),
            "mappings of `versions`",
        ),
        (
            lambda raw: raw.update(attempts=[{"first": 0, "last": 5, "hardware": "x"}]),
            "mappings of `versions`",
        ),
        (lambda raw: raw.update(curves=[]), r"curves: .* not \[\]"),
        (lambda raw: raw["metrics"][0].update(value="30"), "metric test/bleu.value: .* not '30'"),
        (lambda raw: raw["metrics"][0].update(protocol=[]), "metric test/bleu.protocol: "),
        (lambda raw: raw["metrics"][0].update(value=10**400), "value: Input should be a finite number"),
        (lambda raw: raw.update(steps=10**400), r"steps, .* is above 1e\+18"),
        (lambda raw: raw["metrics"][0].update(validation="31"), "metric test/bleu.validation: .* not '31'"),
        (lambda raw: raw.update(commit=5), "commit: .* not 5"),
        (lambda raw: raw.update(dirty="no"), "dirty: .* not 'no'"),
        (lambda raw: raw.update(versions={"torch": 2}), "versions.torch: .* not 2"),
        (lambda raw: raw.update(overrides=[1]), "overrides.0: .* not 1"),
        (lambda raw: raw.update(stored_at="x"), "stored_at is no key of a record"),
        (lambda raw: raw["curves"].update(new=[[1]]), "curves.new.0.1 is missing"),
        (lambda raw: raw["curves"].update(new=[[1, "2"]]), "curves.new.0.1: .* not '2'"),
        (lambda raw: raw["curves"].update(new=[[None, 2]]), "curves.new.0.0: .* not None"),
    ],
)
def test_a_malformed_record_is_refused_with_its_name(made, tmp_path, change, message):
    raw = json.loads(made.to_json())
    change(raw)
    with pytest.raises(UserError, match=message) as error:
        RunRecord.from_json(json.dumps(raw), "odd.json")
    assert "odd.json" in str(error.value)


DAMAGED = [b"", b"{", b"[]", b'{"schema_version": NaN}', b"\xff\xfe", b"[" * 100_000]


@pytest.mark.parametrize("data", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_record_is_named_and_the_others_are_read(made, tmp_path, data):
    path = write_record(made, tmp_path)
    (path.parent / "odd.json").write_bytes(data)
    (tmp_path / "folder.json").mkdir()
    result = read_records(tmp_path)
    assert result.good == [made]
    assert [damage.path for damage in result.damaged] == ["folder.json", "toy/big/odd.json"]
    assert all(damage.path in str(damage) and "\n" not in str(damage) for damage in result.damaged)


def test_a_withdrawn_record_is_no_longer_called_damaged(tmp_path):
    (tmp_path / "odd.json").write_text("{")
    (tmp_path / LEDGER).write_text("a header\n2026-01-01T00:00:00Z\twithdrawn\todd.json\tabc\tcut off\n")
    assert withdrawn(tmp_path) == {"odd.json"}
    assert read_records(tmp_path).damaged == []
    assert withdrawn(tmp_path / "none") == frozenset()


def test_thin_keeps_ends_and_order():
    points = [[i, float(i)] for i in range(1000)]
    few = thin(points, 7)
    assert len(few) == 7
    assert (few[0], few[-1]) == (points[0], points[-1])
    assert few == sorted(few)
    assert thin(points[:7], 7) == points[:7]
    assert len(thin(points)) == 200


def test_write_atomic_leaves_nothing_half_written(tmp_path, monkeypatch):
    path = tmp_path / "new" / "file.json"
    write_atomic(path, b"one")
    assert path.stat().st_mode & 0o777 == 0o644

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ReproError, match="no space left") as error:
        write_atomic(path, b"two")
    assert error.value.exit_code == 1
    assert path.read_bytes() == b"one"
    assert [p.name for p in path.parent.iterdir()] == ["file.json"]


def test_write_atomic_into_what_is_no_folder_is_the_users_to_mend(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="make the folder writable"):
        write_atomic(tmp_path / "file" / "below", b"x")


def test_a_refused_write_is_the_users_to_mend(tmp_path, monkeypatch):
    def refuse(*_args, **_keys):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(module.tempfile, "mkstemp", refuse)
    with pytest.raises(UserError, match="Permission denied"):
        write_atomic(tmp_path / "x", b"x")
