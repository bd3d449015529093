"""Problems on disk: stores, checkpoints, vocabularies, full and read-only disks, two runs at once."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from repro import files
from repro.data.table import DATA_FILE
from repro.experiment.run import claimed
from tests.conftest import TrainedRun
from tests.workshop import TINY, Workshop, call

RUN = ("run", TINY, "--scale", "cpu")


@pytest.fixture
def own_store(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that a test may damage."""
    shutil.copytree(workshop.data, workshop.root / "data")
    monkeypatch.setenv("REPRO_DATA", str(workshop.root / "data"))
    return workshop.root / "data" / "numbers-en-de" / "bpe300-n300"


def nothing_written(workshop: Workshop) -> bool:
    """Whether there is neither a record nor a leftover of one, nor a folder for a run."""
    leftovers = [p for p in workshop.root.rglob(".*") if p.is_file()]
    return workshop.records() == [] and not leftovers and not workshop.runs.exists()


# --- folders of earlier versions ------------------------------------------------------------------------------------


def test_a_run_of_a_very_old_version_is_shown_and_never_an_error(workshop: Workshop) -> None:
    run = f"{TINY}/cpu/s1-01234567"
    folder = workshop.runs / run
    for inside in ("wandb/offline-run-1", "checkpoints"):
        (folder / inside).mkdir(parents=True)
    (folder / "status.json").write_text(json.dumps({"state": "requeue", "step": 7, "attempt": 3}))
    (folder / "checkpoints" / "step-00000007.ckpt").write_bytes(b"x")
    assert [row["state"] for row in call("status", "--json", "--all").json()] == ["lost"]
    for words in (
        ["status", "--all"],
        ["status", run],
        ["list"],
        ["list", "--mine"],
        ["logs", run],
        ["sync"],
    ):
        output = call(*words)
        assert (output.code, "Traceback" in output.err) == (0, False), (words, output.err)
    call("show", run).refused(run)


# --- stores -------------------------------------------------------------------------------------------------------


def test_a_missing_store_names_the_command_that_makes_it(workshop: Workshop) -> None:
    output = call(*RUN, "--data.store", "multi30k")
    output.refused("multi30k/bpe300", "`repro data prepare multi30k --vocab-size 300`")
    assert nothing_written(workshop)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
@pytest.mark.parametrize("file", ["train/data-00000-of-00001.arrow", "test/state.json", "tokenizer.json"])
def test_verify_names_the_corrupt_file(own_store: Path, file: str, damage: Callable[[Path], None]) -> None:
    damage(own_store / file)
    output = call("data", "verify", "numbers-en-de")
    output.refused("numbers-en-de/bpe300-n300", file, "`repro data prepare numbers-en-de")


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
def test_a_run_refuses_a_store_with_a_changed_short_or_missing_file(
    workshop: Workshop, own_store: Path, damage: Callable[[Path], None]
) -> None:
    damage(own_store / "train" / DATA_FILE)
    call(*RUN).refused(f"train/{DATA_FILE}", "repro data prepare")
    assert nothing_written(workshop)


def test_a_run_refuses_a_half_written_manifest(workshop: Workshop, own_store: Path) -> None:
    (own_store / "manifest.json").write_bytes((own_store / "manifest.json").read_bytes()[:100])
    call(*RUN).refused("bpe300-n300", "repro data prepare")
    assert nothing_written(workshop)


def test_a_vocabulary_of_another_size_than_the_network_is_refused_before_training(workshop: Workshop) -> None:
    apart = ("--model.net.vocabulary.size", "512", "--data.vocab_size", "300")
    line = call(*RUN, *apart).refused("512", "300", "vocab_size")
    assert "vocabulary.init_args.size" in line
    assert nothing_written(workshop)


def test_a_store_of_another_vocabulary_than_stated_is_refused(workshop: Workshop) -> None:
    output = call(*RUN, "--data.vocab_size", "310", "--model.net.vocabulary.size", "310")
    output.refused("300", "310")
    assert nothing_written(workshop)


# --- checkpoints --------------------------------------------------------------------------------------------------


def unfinish(run: TrainedRun) -> None:
    """Takes a run back to where it had trained but was not recorded."""
    (run.folder / "record.json").unlink()
    for path in run.workshop.records():
        path.unlink()


def test_a_checkpoint_of_another_signature_is_refused_and_the_keys_are_named(own_run: TrainedRun) -> None:
    other = call("config", TINY, "--scale", "cpu", "--model.net.dropout", "0.3", "--data.batch_tokens", "500")
    digits = other.out.splitlines()[0].rsplit(" ", 1)[1]
    folder = own_run.folder.with_name(f"s1-{digits}")
    shutil.copytree(own_run.folder / "checkpoints", folder / "checkpoints")
    output = call(*RUN, "--model.net.dropout", "0.3", "--data.batch_tokens", "500")
    output.refused(
        "data.init_args.batch_tokens: 400 → 500",
        "model.init_args.net.init_args.dropout: (not set) → 0.3",
    )  # fmt: skip
    assert len(own_run.workshop.records()) == 1


def test_a_truncated_checkpoint_is_set_aside_and_the_one_before_it_is_used(own_run: TrainedRun) -> None:
    unfinish(own_run)
    last = sorted((own_run.folder / "checkpoints").glob("*.ckpt"))[-1]
    last.write_bytes(last.read_bytes()[:1000])
    output = call(*RUN)
    assert output.code == 0
    assert last.name in output.err
    assert "1000" in output.err
    assert "resuming from step 1" in output.out
    assert len(own_run.workshop.records()) == 1


def test_a_store_prepared_anew_with_another_vocabulary_is_refused_on_resume(
    own_run: TrainedRun, small_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinish(own_run)
    data = own_run.workshop.root / "data"
    monkeypatch.setenv("REPRO_DATA", str(data))
    replacement = small_store / "numbers-en-de" / "bpe300-n300"
    target = data / "numbers-en-de" / "bpe300-n300"
    shutil.copytree(replacement, target)
    from repro.experiment import run as running

    monkeypatch.setattr(running, "vocabulary_hash", lambda data: "0" * 64)
    call(*RUN).refused("00000000")
    assert own_run.workshop.records() == []


def replace_tokenizer(folder: Path) -> None:
    from repro.data.tokenizers.tokenizer import ByteBpe

    ByteBpe.train(["something else altogether"] * 9, 264).save(folder / "tokenizer.json")


def test_a_vocabulary_that_is_not_the_checkpoints_is_refused(own_run: TrainedRun) -> None:
    replace_tokenizer(own_run.folder)
    for verb in ("translate", "generate"):
        call(verb, own_run.run_id, stdin=b"one\n").refused("model.pt")


def test_a_run_without_its_tokeniser_says_so(own_run: TrainedRun) -> None:
    (own_run.folder / "tokenizer.json").unlink()
    call("translate", own_run.run_id, stdin=b"one\n").refused("tokenizer")


@pytest.mark.parametrize("content", [b"", b"not a zip file", None])
def test_a_damaged_model_file_is_refused(own_run: TrainedRun, content: bytes | None) -> None:
    path = own_run.folder / "model.pt"
    path.write_bytes(path.read_bytes()[:2000] if content is None else content)
    line = call("translate", own_run.run_id, stdin=b"one\n").refused("model.pt", "not a readable checkpoint")
    assert line.endswith("); restore it from a copy, or delete the run's folder and run it again")
    assert content is not None or "failed finding central directory)" in line, "a whole sentence"


def test_a_damaged_record_of_a_run_folder_says_how_to_go_on(own_run: TrainedRun) -> None:
    path = own_run.folder / "record.json"
    path.write_bytes(path.read_bytes()[:100])
    for words in (RUN, ("show", own_run.run_id)):
        call(*words).refused("record.json", "copy it anew from results/runs, or delete it")
    path.unlink()
    for record in own_run.workshop.records():  # the second record of a run needs another second in its name
        record.unlink()
    assert "resuming from step 2" in call(*RUN).out
    assert path.is_file()


def test_a_model_file_of_another_program_is_refused(own_run: TrainedRun) -> None:
    torch.save({"state_dict": {}}, own_run.folder / "model.pt")
    call("translate", own_run.run_id, stdin=b"one\n").refused("model.pt")


# --- disks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call_name", ["fsync", "replace"])
def test_no_space_for_the_record_leaves_nothing_half_written_and_the_next_call_finishes(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, call_name: str
) -> None:
    real = getattr(os, call_name)
    full = True

    def fail_below_results(first: object, *rest: object) -> None:
        name = os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else str(first)
        if full and str(workshop.results) in name and ".writable" not in name:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(first, *rest)

    monkeypatch.setattr(files.os, call_name, fail_below_results)
    call(*RUN).refused(str(workshop.results), code=1)
    assert workshop.records() == []
    assert not [path for path in workshop.results.rglob(".*") if path.is_file()]
    full = False
    output = call(*RUN)
    assert output.code == 0, output.err
    assert "resuming from step 2" in output.out  # nothing is trained again
    (path,) = workshop.records()
    written = json.loads(path.read_text())
    assert written["tokens"] > 0, "what was trained before still counts"
    assert [step for step, _ in written["curves"]["train/loss"]] == [1, 2]


def test_a_results_folder_that_cannot_be_written_to(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workshop.root / "a-file").write_text("in the way")
    monkeypatch.setenv("REPRO_RESULTS", str(workshop.root / "a-file" / "results"))
    call("tables").refused("a-file")
    call(*RUN).refused("a-file")
    assert not workshop.runs.exists(), "found out before training, not after it"
    assert nothing_written(workshop)


def test_a_read_only_results_folder(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    real = files.tempfile.mkstemp

    def refuse(*arguments: Any, **named: Any) -> tuple[int, str]:
        if str(named.get("dir")).startswith(str(workshop.results)):
            raise OSError(errno.EROFS, "Read-only file system")
        return real(*arguments, **named)

    monkeypatch.setattr(files.tempfile, "mkstemp", refuse)
    call(*RUN).refused(str(workshop.results), "Read-only")
    assert nothing_written(workshop)


def test_a_runs_folder_that_cannot_be_written_to(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    (workshop.root / "a-file").write_text("in the way")
    monkeypatch.setenv("REPRO_RUNS", str(workshop.root / "a-file" / "runs"))
    call(*RUN).refused("a-file", "REPRO_RUNS")
    assert nothing_written(workshop)


def test_a_read_only_runs_folder(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.mkdir

    def refuse(self: Path, *arguments: Any, **named: Any) -> None:
        if self.is_relative_to(workshop.runs):
            raise OSError(errno.EROFS, "Read-only file system")
        real(self, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refuse)
        call(*RUN).refused("Read-only", "REPRO_RUNS")
    assert nothing_written(workshop)


def test_two_runs_never_share_a_folder(workshop: Workshop) -> None:
    from repro.recipe import load_recipe

    with claimed(load_recipe(TINY, "cpu").run_dir(1)):
        call(*RUN).refused(load_recipe(TINY, "cpu").run_id(1))
    assert nothing_written(workshop)
    assert call(*RUN).code == 0
