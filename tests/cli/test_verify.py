"""repro verify: exit codes, what is printed, what is kept."""

import hashlib
import json
from pathlib import Path

import pytest

from repro.evidence.verified import read_verified
from repro.record import RunRecord, write_record
from tests.fake_checkout import FakeCheckout, make_checkout, make_record
from tests.workshop import call


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> FakeCheckout:
    return make_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def checkout(shared: FakeCheckout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCheckout:
    """The package's repository takes the place of ours; results are the test's own."""
    monkeypatch.setattr("repro.cli.verify.PROJECT", shared.root)
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("REPRO_RUNS", str(tmp_path / "runs"))
    return shared


def write(tmp_path: Path, record: RunRecord) -> Path:
    return write_record(record, tmp_path / "results" / "runs")


def test_a_record_that_comes_out_again_is_kept_as_such(checkout: FakeCheckout, tmp_path: Path) -> None:
    path = write(tmp_path, make_record(checkout.commits[0]))
    output = call("verify", str(path))
    assert output.code == 0, output.err
    assert "bit-equal" in output.out
    [kept] = read_verified(tmp_path / "results")
    assert (kept.record, kept.outcome, kept.same_build) == (f"p/x/{path.name}", "bit-equal", True)
    assert kept.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_number_that_does_not_come_out_again_is_kept_as_such(
    checkout: FakeCheckout, tmp_path: Path
) -> None:
    record = make_record(checkout.commits[0], value=0.6)
    write(tmp_path, record)
    output = call("verify", record.run_id, "--quiet")
    assert output.code == 1
    assert "test/accuracy (test) {} 0.6 → 0.5" in output.out
    [kept] = read_verified(tmp_path / "results")
    assert kept.outcome == "differs"
    assert "test/accuracy (test) {} 0.6 → 0.5" in kept.detail


def test_json_is_all_that_is_printed(
    checkout: FakeCheckout, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, make_record(checkout.commits[1], value=0.5))
    output = call("verify", str(path), "--json")
    [result] = json.loads(output.out)
    assert (output.code, output.err) == (1, "")
    assert capfd.readouterr() == ("", "")
    assert (result["outcome"], result["same_build"], result["commit"]) == (
        "differs",
        True,
        checkout.commits[1],
    )
    assert result["differences"] == ["test/accuracy (test) {} 0.5 → 0.75"]


def test_the_runs_output_passes_through(
    checkout: FakeCheckout, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, make_record(checkout.commits[0]))
    call("verify", str(path), "-q")
    assert capfd.readouterr().out == ""
    call("verify", str(path))
    assert "the run's table" in capfd.readouterr().out


def test_a_run_that_fails_is_kept_as_such(checkout: FakeCheckout, tmp_path: Path) -> None:
    path = write(tmp_path, make_record(checkout.commits[0], "p/broken"))
    output = call("verify", str(path), "--quiet")
    assert output.code == 1
    assert "failed to run" in output.out
    assert "exit code 2" in output.out
    [kept] = read_verified(tmp_path / "results")
    assert (kept.outcome, kept.same_build) == ("failed to run", None)
    assert "exit code 2" in kept.detail
    assert str(tmp_path) not in kept.detail


def test_refused_before_anything_is_run_or_kept(checkout: FakeCheckout, tmp_path: Path) -> None:
    path = write(tmp_path, make_record("f" * 40))
    call("verify", str(path)).refused("f" * 40)
    copied = tmp_path / "copy.json"
    copied.write_text(path.read_text().replace('"steps": 2', '"steps": 3'))
    call("verify", str(copied)).refused(str(copied))
    path.unlink()
    call("verify", str(copied)).refused(str(copied))
    call("verify", "p/none").refused("p/none")
    call("verify", "p/none.json").refused("no such file: p/none.json")
    assert read_verified(tmp_path / "results") == []


def test_a_record_of_gpus_that_are_missing_is_refused(
    checkout: FakeCheckout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    record = make_record(checkout.commits[0])
    record.hardware = {"device": "NVIDIA X", "count": 2, "nodes": 1}
    call("verify", str(write(tmp_path, record))).refused("2 x NVIDIA X")


def test_an_interrupted_verification_is_not_kept(checkout: FakeCheckout, tmp_path: Path) -> None:
    path = write(tmp_path, make_record(checkout.commits[0], "p/requeue"))
    assert call("verify", str(path)).code == 130
    assert read_verified(tmp_path / "results") == []
