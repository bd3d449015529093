"""Generated substitute for speech: the symbols in order, without their times. The same on any machine."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from repro.batches import Examples
from repro.data.core.draws import Int64s
from repro.data.core.generated import (
    SPEECH,
    SPEECH_LENGTH,
    TEMPLATE,
    ExampleGenerator,
    GeneratedData,
    Raw,
    below,
    lengths_between,
    raw,
)
from repro.data.core.padding import padded
from repro.errors import UserError

CHANNELS = 40
SHORTEST_SOUND, LONGEST_SOUND = 3, 8  # frames
LONGEST_PAUSE = 2  # frames
BLANK = "<blank>"
Floats = np.ndarray[Any, np.dtype[np.float32]]


class Said(NamedTuple):
    """The parts of an utterance, all ``(N,)``.

    Attributes:
        phonemes: ids, from 1.
        pauses: frames of silence before each.
        durations: frames of each.
    """

    phonemes: Int64s
    pauses: Int64s
    durations: Int64s


@dataclass(frozen=True)
class Utterances(ExampleGenerator):
    """Utterances of one split: each phoneme is a fixed random vector that lasts some frames, under noise.

    An utterance is a random sequence of phonemes, uniform. Before each is a pause of 0 to 2 frames, of 2 where the
    phoneme is that of before: else nobody could tell two from one that lasts long. Silence is the zero vector. The
    vectors are about normal, variance 1 a channel, and the same for every split; the noise, too, is about normal.

    Args:
        phonemes: to draw from.
        shortest: phonemes of an utterance, at least.
        longest: phonemes of an utterance, at most.
        noise: its standard deviation.
    """

    phonemes: int
    shortest: int
    longest: int
    noise: float

    def lengths(self, indices: Int64s, epoch: int | None) -> Int64s:
        """Phonemes of each utterance, ``(B,)``."""
        return lengths_between(self.shortest, self.longest, SPEECH_LENGTH, self.split, indices, epoch)

    def __call__(self, indices: Int64s, epoch: int | None) -> Examples:
        """Frames ``(B, T, 40)``, T the longest of these; phonemes ``(B, N)`` from 1, behind the last -1."""
        counts = self.lengths(indices, epoch)
        utterances = [self._utterance(int(i), int(n), epoch) for i, n in zip(indices, counts, strict=True)]
        inputs, lengths = padded([frames for frames, _ in utterances], 0, np.float32, (CHANNELS,), least=1)
        targets, _ = padded([phonemes for _, phonemes in utterances], -1, least=1)
        return Examples(inputs, targets, lengths=lengths)

    def said(self, index: int, count: int, epoch: int | None) -> Said:
        """The parts of an utterance of ``count`` phonemes."""
        drawn = raw(3 * count, SPEECH, self.split, epoch, index).reshape(3, count)
        phonemes = 1 + below(drawn[0], self.phonemes)
        pauses = below(drawn[1], LONGEST_PAUSE + 1)
        pauses[1:][phonemes[1:] == phonemes[:-1]] = LONGEST_PAUSE
        return Said(phonemes, pauses, SHORTEST_SOUND + below(drawn[2], LONGEST_SOUND - SHORTEST_SOUND + 1))

    def _utterance(self, index: int, count: int, epoch: int | None) -> tuple[Floats, Int64s]:
        spoken = self.said(index, count, epoch)
        runs = np.stack([spoken.pauses, spoken.durations], axis=1).ravel()
        ids = np.repeat(np.stack([np.zeros_like(spoken.phonemes), spoken.phonemes], axis=1).ravel(), runs)
        noise = bell(raw(3 * count + len(ids) * CHANNELS, SPEECH, self.split, epoch, index)[3 * count :])
        frames = self.templates()[ids] + noise.reshape(-1, CHANNELS) * np.float32(self.noise)
        return frames, spoken.phonemes

    def templates(self) -> Floats:
        """The vectors of silence and of each phoneme, ``(phonemes + 1, 40)``."""
        vectors = bell(raw(self.phonemes * CHANNELS, TEMPLATE, "train", None)).reshape(-1, CHANNELS)
        return np.concatenate([np.zeros((1, CHANNELS), np.float32), vectors])


def bell(numbers: Raw) -> Floats:
    """Random numbers of mean 0 and variance 1, about normal, of the shape ``(count,)``.

    Each is the sum of four numbers of 16 bits: a logarithm may differ in its last bit from machine to machine.
    """
    sums = numbers.astype("<u8").view("<u2").reshape(-1, 4).sum(axis=1, dtype=np.int64)
    centred = (sums - 2 * 65535).astype(np.float32)
    return centred * np.float32((4 * (65536**2 - 1) / 12) ** -0.5)


class AlignmentData(GeneratedData[Utterances]):
    """:class:`Utterances`, for networks that learn to transcribe without an alignment of frames.

    Args:
        batch_size: utterances of the global batch.
        phonemes: to draw from.
        shortest: phonemes of an utterance, at least.
        longest: phonemes of an utterance, at most.
        noise: its standard deviation; phonemes have 1.
        train_examples: of an epoch; every epoch has fresh ones.
        eval_examples: of the validation split and of the test split.
        eval_batch_size: utterances of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Attributes:
        symbols: name of each class; class 0 is CTC's blank.
        public: whether what is said may stand in records.

    Raises:
        UserError: lengths in the wrong order, a negative noise, or a number below 1.
    """

    store_name = "alignment"
    input_size = CHANNELS
    public = True

    def __init__(
        self,
        batch_size: int,
        phonemes: int = 12,
        shortest: int = 5,
        longest: int = 12,
        noise: float = 1.0,
        train_examples: int = 6_400,
        eval_examples: int = 640,
        eval_batch_size: int = 64,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, train_examples, eval_examples, eval_batch_size, seed, num_workers)
        if not 1 <= shortest <= longest or phonemes < 1 or noise < 0:
            raise UserError(
                f"phonemes {phonemes}, shortest {shortest} and longest {longest} must be at least 1, "
                f"shortest at most longest, and noise {noise} not negative"
            )
        self.table = Utterances("train", phonemes, shortest, longest, noise)
        self.symbols = [BLANK, *(f"p{i}" for i in range(1, phonemes + 1))]
        self.n_classes = len(self.symbols)
        self.seq_len = longest * (LONGEST_SOUND + LONGEST_PAUSE)
        self.n_targets = (shortest + longest) // 2

    def targets_of(self, split: str, indices: Int64s, epoch: int | None) -> Int64s:
        """Phonemes of each utterance, ``(B,)``."""
        return self.reader(split).lengths(indices, epoch)
