"""The interface between data and tasks. Data and tasks import this module, never each other.

Numbers known from the plan of a batch are Python numbers, not tensors: branching on them needs no synchronisation.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from torch import Tensor

# --- batches --------------------------------------------------------------------------------------------------------


class SourceBatch(NamedTuple):
    """Source sentences alone.

    Attributes:
        source: ``(B, S)`` int64 ids, each row ends with eos, padded on the right.
        source_lengths: ``(B,)`` int64, eos counted.
    """

    source: Tensor
    source_lengths: Tensor


class PairBatch(NamedTuple):
    """One rank's rows of a global batch of sentence pairs.

    Attributes:
        source: ``(B, S)`` int64 ids, each row ends with eos, padded on the right.
        source_lengths: ``(B,)`` int64, eos counted.
        target_in: ``(B, T)`` int64, each row starts with bos.
        target_out: ``(B, T)`` int64, each row ends with eos: what follows each position of ``target_in``.
        target_lengths: ``(B,)`` int64, eos counted.
        indices: ``(B,)`` int64, which example of the split each row is.
        step_targets: target tokens of the whole global batch, over all ranks and micro-batches.
    """

    source: Tensor
    source_lengths: Tensor
    target_in: Tensor
    target_out: Tensor
    target_lengths: Tensor
    indices: Tensor
    step_targets: int


class StreamBatch(NamedTuple):
    """One rank's rows of a global batch of a language model.

    Attributes:
        ids: ``(B, T)`` int64, input tokens.
        targets: ``(B, T)`` int64, the token that follows each of ``ids``; -1 where it is not scored.
        scored: ``(N,)`` int64, places of the scored targets in the flattened ``targets``; None where all are.
        indices: ``(B,)`` int64, which stream, block or window each row is.
        reset_memory: whether the memory of these rows starts anew with this batch.
        micro_batch: its number within the step.
        step_targets: in training, scored targets of the whole global batch, over all ranks and micro-batches; in
            evaluation, those of this batch.
        lengths: tokens of each row, ``(B,)`` int64, padding is on the right; None means all T, in every batch.
        begins: rows in which a document begins, so that their memory is emptied, ``(B,)`` bool; None means none.
        reread: how many of the last tokens of each row the next batch reads again, so that no memory may hold them.
    """

    ids: Tensor
    targets: Tensor
    scored: Tensor | None
    indices: Tensor
    reset_memory: bool
    micro_batch: int
    step_targets: int
    lengths: Tensor | None = None
    begins: Tensor | None = None
    reread: int = 0


class Examples(NamedTuple):
    """Some examples of a split.

    Attributes:
        inputs: vectors ``(B, T, C)`` float32, or ids ``(B, T)`` int64.
        targets: classes ``(B, N)`` int64; -1 where there is none, or where it does not count.
        hidden: which targets the input does not show, ``(B, N)`` bool; None where there is no such difference.
        lengths: valid tokens of each row, ``(B,)`` int64, padding is on the right; None means all T.
        scored: ``(M,)`` int64, places of the targets that count in the flattened ``targets``; None where all do.
    """

    inputs: Tensor
    targets: Tensor
    hidden: Tensor | None = None
    lengths: Tensor | None = None
    scored: Tensor | None = None


class ExampleBatch(NamedTuple):
    """One rank's rows of a global batch of examples.

    Attributes:
        examples: the rows.
        indices: ``(B,)`` int64, which example of the split each row is.
        step_targets: targets that count in the whole global batch, over all ranks and micro-batches.
    """

    examples: Examples
    indices: Tensor
    step_targets: int


Batch = PairBatch | StreamBatch | ExampleBatch


def scored_places(flat: Tensor, scored: Tensor | None) -> Tensor:
    """The places ``scored`` of ``flat (B·T, ...)``, in order; all of them where it is None."""
    return flat if scored is None else flat.index_select(0, scored)


# --- what is evaluated ----------------------------------------------------------------------------------------------

Kind = Literal["train", "val", "test"]


@dataclass(frozen=True)
class TextCut:
    """The cut of a split of text into inputs for evaluation.

    Without a stride the split is laid into ``rows`` contiguous streams, read segment by segment. With a stride, windows
    of ``seq_len`` tokens begin every ``stride`` tokens, each alone; the last ``stride`` tokens of a window are scored
    (of the first one, all). Every token is scored once. With ``batches`` the split is sampled instead.

    Args:
        seq_len: tokens of a segment or window, L.
        rows: streams, or windows at a time. Streams are part of the result: each begins without a past.
        stride: S; ``stride = seq_len`` is non-overlapping evaluation, 1 token by token.
        tokens: only so many tokens at the beginning of the split are scored; None for all.
        documents: read document by document, each with an empty memory. A segment ends where its document ends, and
            the first token of a document is not scored.
        batches: only so many random batches of ``rows`` windows are scored, each window alone and all of its tokens.
            They are drawn with replacement from the run's seed. The score is noisy, for comparison with one that was
            measured so. None scores every token once.

    Raises:
        ValueError: a number out of range, documents with a stride, or ``batches`` with any other way to cut.
    """

    seq_len: int
    rows: int = 1
    stride: int | None = None
    tokens: int | None = None
    documents: bool = False
    batches: int | None = None

    def __post_init__(self) -> None:
        for name in ("seq_len", "rows", "tokens", "batches"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if self.stride is not None and not 1 <= self.stride <= self.seq_len:
            raise ValueError(f"stride must be between 1 and seq_len {self.seq_len}, not {self.stride}")
        if self.stride is not None and self.documents:
            raise ValueError(f"documents are read in streams: leave out stride {self.stride}, or documents")
        is_cut = self.stride is not None or self.tokens is not None or self.documents
        if self.batches is not None and is_cut:
            raise ValueError(
                f"batches {self.batches} are drawn at random: leave out stride, tokens and documents"
            )


@dataclass(frozen=True)
class FirstExamples:
    """The first ``count`` examples of a split; 0 is one batch without rows.

    Raises:
        ValueError: a count below 0.
    """

    count: int

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"count must be at least 0, not {self.count}")


@dataclass(frozen=True)
class RandomBatches:
    """Some random batches of a split, the same in every run: noisy, for comparison with a score measured so.

    Args:
        batches: how many.
        rows: examples of each.

    Raises:
        ValueError: a number below 1.
    """

    batches: int
    rows: int

    def __post_init__(self) -> None:
        if self.batches < 1 or self.rows < 1:
            raise ValueError(f"batches {self.batches} and rows {self.rows} must be at least 1")


@dataclass(frozen=True)
class Evaluation:
    """A way in which a model is scored; its measurements are called ``<kind>/<metric>[_<name>]``.

    Args:
        kind: which split.
        name: name of a setting that differs from training's; empty without one.
        selection: the part of the split and its cut; None reads every example once, and text in one stream.
    """

    kind: Kind
    name: str = ""
    selection: TextCut | FirstExamples | RandomBatches | None = None

    def called(self, metric: str) -> str:
        """The name of a measurement."""
        return f"{self.kind}/{metric}" + (f"_{self.name}" if self.name else "")


# --- what tasks read of their data ----------------------------------------------------------------------------------


class Tokenizer(Protocol):
    """Converts text to the ids of a batch and back."""

    @property
    def pad_id(self) -> int: ...
    @property
    def bos_id(self) -> int: ...
    @property
    def eos_id(self) -> int: ...
    def encode(self, text: str) -> list[int]:
        """Ids of a text, without special symbols."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids."""
        ...


class Data(Protocol):
    """The attributes of a datamodule that every task uses (:class:`repro.data.DataModule`)."""

    @property
    def public(self) -> bool:
        """Whether texts of the data may appear in records and outputs."""
        ...

    def split(self, kind: Kind) -> str:
        """The data's name of the split that serves as ``train``, ``val`` or ``test``."""
        ...

    def evaluate_with(self, validation: Evaluation, tests: Sequence[Evaluation]) -> None:
        """Sets the evaluations of the validation and test loaders."""
        ...

    def expected(self, evaluation: Evaluation) -> Mapping[str, int]:
        """The counts that an exact evaluation must reach over all ranks: ``examples``, ``tokens``, or both."""
        ...
