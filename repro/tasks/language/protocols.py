"""Scoring of a language model: the protocol of a published perplexity."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from repro.batches import TextCut
from repro.nn.settings import CallSettings, MemorySettings

MEMORY_SETTINGS: dict[str, Any] = {"mem_len": 0, "clamp_len": None, "same_length": False}  # without a memory


@dataclass(frozen=True)
class Protocol(TextCut):
    """The cut of a split into inputs, and the length of the past that each sees.

    Without a stride the model's memory goes from segment to segment; with a stride, or drawn, windows stand alone.

    Args:
        seq_len: tokens of a segment or window, L.
        rows: streams, or windows at a time.
        stride: see :class:`~repro.batches.TextCut`.
        tokens: only so many tokens at the beginning of the split are scored; None for all, as published numbers are.
        documents, batches: see :class:`~repro.batches.TextCut`.
        mem_len: memory of streams, M.
        clamp_len: larger distances count as this one.
        same_length: every token sees exactly ``mem_len`` tokens, itself included.

    Raises:
        ValueError: a number out of range, or a memory for windows.

    Source: Dai et al. 2019, section 4; Press et al. 2021, section 2.
    """

    mem_len: int = 0
    clamp_len: int | None = None
    same_length: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("stride", "batches"):
            value = getattr(self, name)
            if self.mem_len and value is not None:
                raise ValueError(
                    f"windows stand alone: leave out mem_len {self.mem_len}, or leave out {name} {value}"
                )
        _ = self.settings

    @property
    def settings(self) -> CallSettings:
        """The settings for mixers with a memory."""
        return CallSettings(memory=MemorySettings(self.mem_len, self.clamp_len, self.same_length))

    @property
    def capacity(self) -> int:
        """Places that a state needs: twice the memory, for a mixer that cuts it now and then, and a segment."""
        return 2 * self.mem_len + self.seq_len

    def without_memory(self) -> "Protocol":
        """The protocol with the same segments for a network without memory."""
        return replace(self, **MEMORY_SETTINGS)

    def describe(self) -> dict[str, Any]:
        """Returns the settings for the record."""
        return {name: value for name, value in asdict(self).items() if value not in (None, False)}
