"""How a language model is scored: what a published perplexity means."""

from dataclasses import asdict, dataclass
from typing import Any

from repro.nn.reach import Reach


@dataclass(frozen=True)
class Protocol:
    """How a split is cut into inputs, and how far back each sees.

    Without a stride the split is laid into ``rows`` contiguous streams, read segment by segment; the model's memory
    goes with them from segment to segment. With a stride, windows of ``seq_len`` tokens begin every ``stride`` tokens,
    each alone; the last ``stride`` tokens of a window are scored (of the first one, all). Every token is scored once.

    Args:
        seq_len: tokens of a segment or window, L.
        rows: streams, or windows at a time. Streams are part of the result: each begins without a past.
        stride: S; ``stride = seq_len`` is non-overlapping evaluation, 1 token by token.
        mem_len: memory of streams, M.
        clamp_len: larger distances count as this one.
        same_length: every token sees exactly ``mem_len`` tokens, itself included.
        tokens: only so many tokens at the beginning of the split are scored; None for all, as published numbers are.

    Raises:
        ValueError: a number out of range, or a memory for windows.

    Source: Dai et al. 2019, section 4; Press et al. 2021, section 2.
    """

    seq_len: int
    rows: int = 1
    stride: int | None = None
    mem_len: int = 0
    clamp_len: int | None = None
    same_length: bool = False
    tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("seq_len", "rows", "tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if self.stride is not None and not 1 <= self.stride <= self.seq_len:
            raise ValueError(f"stride must be between 1 and seq_len {self.seq_len}, not {self.stride}")
        if self.stride is not None and self.mem_len:
            raise ValueError(
                f"windows stand alone: leave out mem_len {self.mem_len}, or leave out stride {self.stride}"
            )
        _ = self.reach

    @property
    def reach(self) -> Reach:
        """What mixers with a memory are told."""
        return Reach(self.mem_len, self.clamp_len, self.same_length)

    @property
    def capacity(self) -> int:
        """Places that a state needs: twice the memory, for a mixer that cuts it now and then, and a segment."""
        return 2 * self.mem_len + self.seq_len

    def describe(self) -> dict[str, Any]:
        """For the record: what was set."""
        return {name: value for name, value in asdict(self).items() if value not in (None, False)}
