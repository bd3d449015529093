"""Generated speech: every frame is accounted for, every phoneme can be told, and noise is noise."""

import numpy as np
import pytest
import torch

from repro.data import AlignmentData
from repro.data.core.generated import Purpose, raw
from repro.data.sets.speech.speech_data import CHANNELS, bell
from repro.errors import UserError

N = 150


def quiet(**changes: int) -> AlignmentData:
    """Without noise, few phonemes, so that many have a neighbour of their kind."""
    return AlignmentData(4, **({"phonemes": 3, "noise": 0} | changes))


def test_frames_are_pauses_and_phonemes_in_turn() -> None:
    module = quiet()
    result, templates = module.examples("train", np.arange(N), 1), torch.from_numpy(module.templates())
    assert result.lengths is not None
    assert result.inputs.shape == (N, int(result.lengths.max()), CHANNELS)
    assert (result.inputs.dtype, result.targets.dtype, result.lengths.dtype) == (
        torch.float32, torch.int64, torch.int64,
    )  # fmt: skip
    repeated = 0
    for row, length in enumerate(result.lengths.tolist()):
        output = module.utterance("train", row, int((result.targets[row] >= 0).sum()), 1)
        expected = []
        for i, (phoneme, pause, duration) in enumerate(zip(*map(np.ndarray.tolist, output), strict=True)):
            assert 0 <= pause <= 2
            assert 3 <= duration <= 8
            if i and phoneme == output.phonemes[i - 1]:
                repeated += 1
                assert pause == 2
            expected += [0] * pause + [phoneme] * duration
        assert torch.equal(result.inputs[row, :length], templates[expected])
        assert not result.inputs[row, length:].any(), "padding"
        assert result.targets[row].tolist() == output.phonemes.tolist() + [-1] * (12 - len(output.phonemes))
    assert repeated > 100


def test_what_is_drawn_is_drawn_from_everything() -> None:
    module = quiet()
    all_said = [module.utterance("val", i, 8, None) for i in range(N)]
    for values, expected in zip(
        zip(*all_said, strict=True), ({1, 2, 3}, {0, 1, 2}, set(range(3, 9))), strict=True
    ):
        assert set(np.concatenate(values).tolist()) == expected
    assert set(module.targets_of("val", np.arange(N), None).tolist()) == set(range(5, 13))


def test_splits_share_nothing_but_phonemes() -> None:
    parts = [quiet().examples(split, np.arange(N), None) for split in ("train", "val", "test")]
    output = [{tuple(row.tolist()) for row in part.targets if (row >= 0).sum() > 8} for part in parts]
    assert min(map(len, output)) > 40
    assert not set.intersection(*output)


def test_noise_has_the_deviation_it_is_asked_for() -> None:
    with_noise = AlignmentData(4, phonemes=3, noise=2.5).examples("train", np.arange(N), 1)
    without = quiet().examples("train", np.arange(N), 1)
    assert torch.equal(with_noise.targets, without.targets)
    valid = torch.arange(without.inputs.shape[1]) < without.lengths[:, None]  # type: ignore[index]
    noise = (with_noise.inputs - without.inputs)[valid]
    assert float(noise.std()) == pytest.approx(2.5, rel=0.01)
    assert not (with_noise.inputs - without.inputs)[~valid].any(), "none in the padding"
    assert abs(float((noise[:, 0] * noise[:, 1]).mean())) < 0.25, "channels are independent"


def test_the_bell_is_about_normal() -> None:
    result = bell(raw(200_000, Purpose.SPEECH, "train", 0)).astype(np.float64)
    assert abs(result.mean()) < 0.01
    assert result.std() == pytest.approx(1.0, rel=0.01)
    assert (result**3).mean() == pytest.approx(0.0, abs=0.03)
    assert (result**4).mean() == pytest.approx(2.7, abs=0.05), (
        "that of the sum of four uniform numbers; normal is 3"
    )


def test_phonemes_can_be_told_apart() -> None:
    templates = AlignmentData(4).templates()
    assert templates.shape == (13, CHANNELS)
    apart = np.linalg.norm(templates[:, None] - templates, axis=-1) + 100 * np.eye(13)
    assert apart.min() > 4


def test_attributes() -> None:
    module = AlignmentData(4)
    assert (module.input_size, module.n_classes, module.seq_len, module.n_targets) == (40, 13, 120, 8)
    assert module.symbols[:2] == ["<blank>", "p1"]
    assert len(module.symbols) == 13
    result = module.examples("train", np.arange(N), 0)
    assert result.lengths is not None
    assert int(result.lengths.max()) <= 120
    assert int(result.targets.max()) == 12
    assert not (result.targets == 0).any(), "no target is the blank"


@pytest.mark.parametrize(
    "settings", [{"phonemes": 0}, {"shortest": 0}, {"shortest": 13}, {"noise": -0.5}, {"longest": 4}]
)
def test_speech_that_cannot_be(settings: dict[str, float]) -> None:
    with pytest.raises(UserError, match="must be at least"):
        AlignmentData(4, **settings)  # type: ignore[arg-type]
