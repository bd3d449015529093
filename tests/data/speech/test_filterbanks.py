"""Filterbanks are those of a computation frame by frame, frequency by frequency, and of Kaldi; see tests/golden."""

import cmath
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro.data.sets.speech.wsj import CHANNELS, STILL, filterbanks, mel_bands, normalised
from tests.data.speech_folder import noise


def by_hand(
    samples: list[int], emphasis: float = 0.97, power: float = 0.85, low: float = 20.0, high: float = 8000.0
) -> list[list[float]]:
    """The textbook: no matrix, no fast transform."""

    def mel(hertz: float) -> float:
        return 1127.0 * math.log(1.0 + hertz / 700.0)

    edges = [mel(low) + (mel(high) - mel(low)) * i / 41 for i in range(42)]
    rows = []
    for begin in range(0, len(samples) - 399, 160):
        frame = [float(sample) for sample in samples[begin : begin + 400]]
        mean = sum(frame) / 400
        frame = [value - mean for value in frame]
        frame = [frame[i] - emphasis * frame[max(i - 1, 0)] for i in range(400)]
        window = [(0.5 - 0.5 * math.cos(2 * math.pi * i / 399)) ** power for i in range(400)]
        frame = [value * weight for value, weight in zip(frame, window, strict=True)]
        energies = [0.0] * 40
        for k in range(257):
            turn = cmath.exp(-2j * math.pi * k / 512)
            total, place = 0j, 1 + 0j
            for value in frame:
                total += value * place
                place *= turn
            at = mel(k * 16000 / 512)
            for band in range(40):
                left, centre, right = edges[band : band + 3]
                if left < at < right:
                    weight = (
                        (at - left) / (centre - left) if at <= centre else (right - at) / (right - centre)
                    )
                    energies[band] += weight * abs(total) ** 2
        rows.append([math.log(energy) for energy in energies])
    return rows


GOLDEN = Path(__file__).parents[2] / "golden" / "filterbanks.npz"
SIGNALS = ("rising", "falling")
SAMPLES = noise(730, 0) + (500 * np.sin(np.arange(730) / 5)).astype(np.int16) + np.int16(200)


def test_they_are_those_of_the_textbook() -> None:
    result, expected = filterbanks(SAMPLES), np.array(by_hand(SAMPLES.tolist()))
    assert result.shape == expected.shape == (3, CHANNELS)
    assert np.abs(result - expected).max() < 1e-8


@pytest.mark.parametrize("mistake", [{"emphasis": 0.95}, {"power": 1.0}, {"low": 0.0}, {"high": 7800.0}])
def test_a_mistake_would_show(mistake: dict[str, float]) -> None:
    one = SAMPLES[:400]
    assert np.abs(filterbanks(one) - np.array(by_hand(one.tolist(), **mistake))).max() > 1e-2


def differences(signal: str) -> dict[str, float]:
    """Largest absolute difference of ours to each implementation of Kaldi's, in units of its tolerance."""
    with np.load(GOLDEN) as file:
        tolerance = json.loads(str(file["meta"]))["tolerance"]
        result = filterbanks(file[f"in/{signal}"])
        official = {name: file[f"{name}/{signal}"] for name in ("out", "native")}
    assert all(result.shape == expected.shape for expected in official.values())
    return {
        name: float(np.abs(result - expected).max()) / tolerance[name] for name, expected in official.items()
    }


@pytest.mark.parametrize("signal", SIGNALS)
def test_they_are_kaldis(signal: str) -> None:
    result = differences(signal)
    assert max(result.values()) < 1, result


def htk_bands() -> Any:
    """Triangles from 0 Hz on, as HTK has them by default."""
    edges = 1127.0 * np.log1p(8000 / 700) * np.arange(42) / 41
    at = 1127.0 * np.log1p(np.arange(257) * 16_000 / 512 / 700)
    return np.array([np.interp(at, edges[i : i + 3], [0, 1, 0]) for i in range(CHANNELS)])


HANN = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399)


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize(("name", "value"), [
    ("window", lambda: HANN), ("PRE_EMPHASIS", 0.0), ("PRE_EMPHASIS", 0.95), ("mel_bands", htk_bands)
])  # fmt: skip
def test_another_definition_is_not_kaldis(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any, signal: str
) -> None:
    monkeypatch.setattr(f"repro.data.sets.speech.wsj.{name}", value)
    result = differences(signal)
    assert min(result.values()) > 10, result


def test_another_floor_is_not_kaldis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repro.data.sets.speech.wsj.FLOOR", 1e-10)
    assert min(differences("falling").values()) > 10


@pytest.mark.parametrize(("count", "frames"), [(0, 0), (399, 0), (400, 1), (559, 1), (560, 2), (16_000, 98)])
def test_only_whole_frames_count(count: int, frames: int) -> None:
    assert filterbanks(noise(count, 1)).shape == (frames, CHANNELS)


def test_a_tone_is_heard_in_its_band() -> None:
    hertz = 1000.0
    tone = (8000 * np.sin(2 * np.pi * hertz * np.arange(4000) / 16_000)).astype(np.int16)
    band = int(filterbanks(tone).mean(axis=0).argmax())
    assert band == int(mel_bands()[:, round(hertz * 512 / 16_000)].argmax())
    assert np.abs(mel_bands().sum(axis=0)[10:230] - 1).max() < 1e-12, "neighbouring triangles add up to one"


def test_silence_has_a_floor() -> None:
    assert np.array_equal(filterbanks(np.zeros(400, np.int16)), np.full((1, CHANNELS), -23 * math.log(2.0)))


def test_an_utterance_is_normalised_by_itself() -> None:
    features = filterbanks(noise(8000, 2))
    result = normalised(features)
    assert np.abs(result.mean(axis=0)).max() < 1e-12
    assert np.abs(result.std(axis=0) - 1).max() < 1e-12
    assert np.abs(normalised(features * 3 + 1) - result).max() < 1e-10
    still = normalised(np.full((4, CHANNELS), 7.0))
    assert not still.any(), f"nothing to divide by but {STILL}"
