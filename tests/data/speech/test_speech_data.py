"""Recorded speech as examples: what is in a batch, what is left out, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch

from repro.data import SpeechData
from repro.data.prepare import prepare
from repro.data.store import Store
from repro.errors import UserError
from tests.data.speech_folder import SPLITS, write_folder

IDS = {"AA": 1, "B": 2, "S": 3}


@pytest.fixture
def store(data_folder: Path, tmp_path: Path) -> Path:
    return prepare("wsj", write_folder(tmp_path / "kaldi"), report=lambda line: None)


def said(split: str, name: str) -> list[int]:
    return [IDS[phoneme] for phoneme in SPLITS[split][name][1].split()]


def test_a_batch_is_frames_and_phonemes_with_padding(store: Path) -> None:
    module = SpeechData(2, phonemes=3)
    module.setup()
    result = module.examples("train", np.array([1, 0]), 0)
    assert result.lengths is not None
    assert result.lengths.tolist() == [1 + (1300 - 400) // 160, 1 + (800 - 400) // 160]
    assert result.inputs.shape == (2, 6, 40)
    assert (result.inputs.dtype, result.targets.dtype) == (torch.float32, torch.int64)
    assert result.targets.tolist() == [said("train_si284", "b"), [*said("train_si284", "a"), -1, -1]]
    raw = module.store.values("train", "frames").astype(np.float32)
    assert np.array_equal(result.inputs[1, :3].numpy(), raw[:3]), "a comes first"
    assert np.array_equal(result.inputs[0].numpy(), raw[3:9])
    assert not result.inputs[1, 3:].any()
    assert not module.public, "it is licensed"
    assert module.symbols == ["<blank>", "AA", "B", "S"]
    assert (module.input_size, module.n_classes, module.seq_len) == (40, 4, 2400)


def test_what_is_too_long_or_too_short_is_left_out_of_training(store: Path) -> None:
    """d has 3 frames for S S AA, which need 4; c has 11 frames."""
    module = SpeechData(1, phonemes=3)
    assert module.readers["train"].frames.tolist() == [3, 6, 11, 3]
    assert module.readers["train"].kept.tolist() == [0, 1, 2]
    assert module.counts["train"] == {"examples": 3, "targets": 8, "dropped": 0, "left_out": 1}
    assert module.counts["test"] == {"examples": 1, "targets": 2, "dropped": 0, "left_out": 0}
    short = SpeechData(1, phonemes=3, longest=10)
    assert short.readers["train"].kept.tolist() == [0, 1]
    assert short.counts["train"]["left_out"] == 2
    assert SpeechData(1, phonemes=3, longest=11).size("train") == 3


def test_targets_are_counted_without_reading_them(store: Path) -> None:
    module = SpeechData(1, phonemes=3)
    indices = np.array([2, 0, 1])
    drawn = module.examples("train", indices, 0).targets
    assert module.targets_of("train", indices, 0).tolist() == (drawn >= 0).sum(1).tolist() == [4, 1, 3]
    assert sorted(row.step_targets for row in module.plan_epoch(0)) == [1, 3, 4]


def test_every_utterance_is_evaluated_once(store: Path) -> None:
    module = SpeechData(1, phonemes=3, eval_batch_size=1)
    assert [batch.indices.tolist() for batch in module.val_dataloader()] == [[0], [1]]


def test_evaluation_leaves_nothing_out(store: Path) -> None:
    with pytest.raises(UserError, match=r"val.*5 frames,.*longest 4"):
        SpeechData(1, phonemes=3, longest=4).setup()


def test_an_utterance_too_short_to_score_is_refused(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kaldi"
    (folder / "test_dev93" / "text").write_text("e S AA\nf S S S S AA B\n")  # 9 for 5 frames
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "other"))
    prepare("wsj", folder, report=lambda line: None)
    with pytest.raises(UserError, match=r"val.*5 frames"):
        SpeechData(1, phonemes=3).setup()


def test_a_store_of_something_else_is_refused(numbers_store: Path, store: Path) -> None:
    with pytest.raises(UserError, match=r"store wsj/fbank40 has 3.*39; set data\.phonemes"):
        SpeechData(1).setup()
    other = SpeechData(1, store="numbers-en-de/bpe300-n300")
    with pytest.raises(UserError, match=r"numbers-en-de/bpe300-n300.*speech"):
        other.setup()


def test_no_store_names_the_command(data_folder: Path) -> None:
    with pytest.raises(UserError, match="repro data prepare wsj --from DIR"):
        SpeechData(1).setup()


@pytest.mark.parametrize("settings", [{"longest": 0}, {"phonemes": 0}])
def test_numbers_below_one(settings: dict[str, int]) -> None:
    with pytest.raises(UserError, match=f"{next(iter(settings))} must be at least 1"):
        SpeechData(1, **settings)


def test_it_travels_to_workers(store: Path) -> None:
    import pickle

    module = SpeechData(2, phonemes=3)
    assert isinstance(module.store, Store)
    expected = module.examples("train", np.array([0, 2]), 0)
    result = pickle.loads(pickle.dumps(module)).examples("train", np.array([0, 2]), 0)
    assert torch.equal(result.inputs, expected.inputs)
    assert torch.equal(result.targets, expected.targets)
