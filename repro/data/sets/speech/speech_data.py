"""Speech for training and evaluation: recordings of a prepared store, and a generated substitute.

The substitute has the symbols in order, without their times, and is the same on any machine.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from repro.batches import Examples
from repro.data.core.draws import Int64s, Raw
from repro.data.core.examples import ExampleData
from repro.data.core.generated import GeneratedData, Purpose, below, lengths_between, raw
from repro.data.core.segments import Array, padded
from repro.data.sets.speech.wsj import BLANK, CHANNELS, PARTS
from repro.data.store import Store
from repro.data.store_data import StoreDataModule
from repro.errors import UserError, at_least

SHORTEST_SOUND, LONGEST_SOUND = 3, 8  # frames
LONGEST_PAUSE = 2  # frames
Floats = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class SpeechReader:
    """Makes examples of the utterances of a split that can be used.

    Args:
        store: of speech.
        split: its name.
        longest: frames of an utterance at most.
    """

    store: Store
    split: str
    longest: int

    @cached_property
    def frames(self) -> Int64s:
        """Frames of each utterance of the split, used or not, ``(N,)``."""
        return np.diff(self.store.offsets(self.split, "frames"))

    @cached_property
    def phonemes(self) -> Int64s:
        """Phonemes of each utterance of the split, used or not, ``(N,)``."""
        return np.diff(self.store.offsets(self.split, "phonemes"))

    @cached_property
    def usable(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether each utterance is neither too long nor too short for CTC to have a path, ``(N,)``."""
        ids, offsets = self.store.values(self.split, "phonemes"), self.store.offsets(self.split, "phonemes")
        return (self.frames <= self.longest) & (self.frames >= needed_frames(ids, offsets))

    @cached_property
    def kept(self) -> Int64s:
        """Indices of the utterances of the split that are used."""
        return np.flatnonzero(self.usable).astype(np.int64)

    def __call__(self, indices: Int64s) -> Examples:
        """Frames ``(B, T, 40)``, T the longest of these; phonemes ``(B, N)`` from 1, behind the last -1."""
        utterances = self.kept[indices]
        frames, phonemes = (self.store.rows(self.split, part, utterances) for part in PARTS)
        inputs, lengths = padded(frames, 0, np.float32, (CHANNELS,), least=1)
        targets, _ = padded(phonemes, -1, least=1)
        return Examples(inputs, targets, lengths=lengths)


def needed_frames(phonemes: Array, offsets: Int64s) -> Int64s:
    """Frames that CTC needs at least for each utterance, ``(N,)``: one a phoneme, and a blank between equal ones."""
    same = np.zeros(len(phonemes), np.int64)
    same[1:] = phonemes[1:] == phonemes[:-1]
    total = np.cumsum(same)
    # from each utterance's second phoneme to its last: the first one's neighbour belongs to another utterance
    return np.diff(offsets) + total[offsets[1:] - 1] - total[offsets[:-1]]


class SpeechData(StoreDataModule, ExampleData):
    """Recorded speech and its phonemes from a prepared store.

    Utterances of more than ``longest`` frames are left out of training and counted as ``left_out``, and so are those
    with fewer frames than CTC needs, whose loss would be infinite. One of these in a split to evaluate on is refused.

    Args:
        batch_size: utterances of the global batch.
        store: ``wsj``.
        phonemes: there are, which must be the store's; CTC's blank is not counted.
        longest: frames of an utterance, of 10 ms each.
        eval_batch_size: utterances of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Attributes:
        symbols: name of each class; class 0 is CTC's blank.
        public: whether transcripts may appear in records; these are licensed, so no.

    Raises:
        UserError: a number below 1.

    Source: Katharopoulos et al. 2020, section 4.3: 80 hours of WSJ, 40 mel filterbanks, about 800 frames an utterance,
        at most 2,400.
    Deviation: the paper states neither its set of phonemes nor how features are normalised: here by utterance,
        and kept in 16 bits.
    """

    parts = PARTS
    content = "speech"
    input_size = CHANNELS
    public = False

    def __init__(
        self,
        batch_size: int,
        store: str = "wsj",
        phonemes: int = 39,
        longest: int = 2_400,
        eval_batch_size: int = 8,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, seed, num_workers)
        at_least(1, phonemes=phonemes, longest=longest)
        self.store_name, _, self.variant = store.partition("/")
        self.seq_len = longest
        self.n_classes = phonemes + 1

    def check(self, store: Store) -> None:
        """Refuses a store that does not fit.

        Raises:
            UserError: it has another number of phonemes, or a split to evaluate on cannot be used whole.
        """
        n_phonemes = store.manifest.tokenizer["size"] - 1
        if n_phonemes != self.n_classes - 1:
            raise UserError(
                f"store {store.name} has {n_phonemes} phonemes, not {self.n_classes - 1}; set data.phonemes"
            )
        for split in (self.val_split, self.test_split):
            reader = SpeechReader(store, split, self.seq_len)
            if not reader.usable.all():
                frames = int(reader.frames[np.flatnonzero(~reader.usable)[0]])
                raise UserError(
                    f"{split} has an utterance of {frames} frames, which is more than longest {self.seq_len} or too "
                    "few for its phonemes; raise longest, or prepare the store without it"
                )

    def size(self, split: str) -> int:
        """Utterances of a split that can be used."""
        return len(self.readers[split].kept)

    @cached_property
    def readers(self) -> dict[str, SpeechReader]:
        """The reader of each split."""
        return {split: SpeechReader(self.store, split, self.seq_len) for split in self.splits}

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """Frames ``(B, T, 40)``, T the longest of these; phonemes ``(B, N)`` from 1, behind the last -1."""
        return self.readers[split](indices)

    def targets_of(self, split: str, indices: Int64s, epoch: int | None) -> Int64s:
        """Phonemes of each utterance, ``(B,)``."""
        reader = self.readers[split]
        return reader.phonemes[reader.kept[indices]].astype(np.int64)

    @property
    def symbols(self) -> list[str]:
        """Name of each class."""
        return list(self.store.manifest.tokenizer["symbols"])

    def too_long(self, split: str) -> dict[str, int]:
        """How many utterances of a split cannot be used, also those too short for CTC."""
        return {"left_out": len(self.readers[split].frames) - self.size(split)}


class Utterance(NamedTuple):
    """The parts of an utterance, all ``(N,)``.

    Attributes:
        phonemes: ids, from 1.
        pauses: frames of silence before each.
        durations: frames of each.
    """

    phonemes: Int64s
    pauses: Int64s
    durations: Int64s


def bell(numbers: Raw) -> Floats:
    """Random numbers of mean 0 and variance 1, about normal, of the shape ``(count,)``.

    Each is the sum of four numbers of 16 bits: a logarithm may differ in its last bit from machine to machine.
    """
    sums = numbers.astype("<u8").view("<u2").reshape(-1, 4).sum(axis=1, dtype=np.int64)
    centred = (sums - 2 * 65535).astype(np.float32)
    return centred * np.float32((4 * (65536**2 - 1) / 12) ** -0.5)


class AlignmentData(GeneratedData):
    """Generated utterances, for networks that learn to transcribe without an alignment of frames.

    Each phoneme is a fixed random vector that lasts some frames, under noise. An utterance is a random sequence of
    phonemes, uniform. Before each is a pause of 0 to 2 frames, of 2 where the phoneme is that of before: else nobody
    could tell two from one that lasts long. Silence is the zero vector. The vectors are about normal, variance 1 a
    channel, and the same for every split; the noise, too, is about normal.

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
        public: whether transcripts may appear in records.

    Raises:
        UserError: lengths in the wrong order, a negative noise, or a number below 1.
    """

    store_name = "alignment"
    made_of = ("phonemes", "shortest", "longest", "noise")
    input_size = CHANNELS

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
        at_least(1, phonemes=phonemes, shortest=shortest)
        at_least(shortest, longest=longest)
        at_least(0, noise=noise)
        self.phonemes, self.noise = phonemes, noise
        self.shortest, self.longest = shortest, longest
        self.symbols = [BLANK, *(f"p{i}" for i in range(1, phonemes + 1))]
        self.n_classes = len(self.symbols)
        self.seq_len = longest * (LONGEST_SOUND + LONGEST_PAUSE)
        self.n_targets = (shortest + longest) // 2

    def targets_of(self, split: str, indices: Int64s, epoch: int | None) -> Int64s:
        """Phonemes of each utterance, ``(B,)``."""
        return lengths_between(self.shortest, self.longest, Purpose.SPEECH_LENGTH, split, indices, epoch)

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """Frames ``(B, T, 40)``, T the longest of these; phonemes ``(B, N)`` from 1, behind the last -1."""
        counts = self.targets_of(split, indices, epoch)
        utterances = [
            self._utterance(split, int(i), int(n), epoch) for i, n in zip(indices, counts, strict=True)
        ]
        inputs, lengths = padded([frames for frames, _ in utterances], 0, np.float32, (CHANNELS,), least=1)
        targets, _ = padded([phonemes for _, phonemes in utterances], -1, least=1)
        return Examples(inputs, targets, lengths=lengths)

    def utterance(self, split: str, index: int, count: int, epoch: int | None) -> Utterance:
        """The parts of an utterance of ``count`` phonemes."""
        drawn = raw(3 * count, Purpose.SPEECH, split, epoch, index).reshape(3, count)
        phonemes = 1 + below(drawn[0], self.phonemes)
        pauses = below(drawn[1], LONGEST_PAUSE + 1)
        pauses[1:][phonemes[1:] == phonemes[:-1]] = LONGEST_PAUSE
        durations = SHORTEST_SOUND + below(drawn[2], LONGEST_SOUND - SHORTEST_SOUND + 1)
        return Utterance(phonemes, pauses, durations)

    def _utterance(self, split: str, index: int, count: int, epoch: int | None) -> tuple[Floats, Int64s]:
        drawn = self.utterance(split, index, count, epoch)
        runs = np.stack([drawn.pauses, drawn.durations], axis=1).ravel()
        ids = np.repeat(np.stack([np.zeros_like(drawn.phonemes), drawn.phonemes], axis=1).ravel(), runs)
        numbers = 3 * count + len(ids) * CHANNELS  # the first ones are those of the parts
        noise = bell(raw(numbers, Purpose.SPEECH, split, epoch, index)[3 * count :])
        frames = self.templates()[ids] + noise.reshape(-1, CHANNELS) * np.float32(self.noise)
        return frames, drawn.phonemes

    def templates(self) -> Floats:
        """The vectors of silence and of each phoneme, ``(phonemes + 1, 40)``."""
        vectors = bell(raw(self.phonemes * CHANNELS, Purpose.TEMPLATE, "train", None)).reshape(-1, CHANNELS)
        return np.concatenate([np.zeros((1, CHANNELS), np.float32), vectors])
