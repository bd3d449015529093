"""How far back a mixer with a memory looks: a setting of its own, and another one for as long as a protocol wants."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import nn

from repro.nn.settings import having, replaced


@dataclass(frozen=True)
class Reach:
    """How much of the past a mixer keeps, and how it sees it.

    Args:
        mem_len: tokens of earlier calls that are kept, M.
        clamp_len: C; with sinusoids larger distances count as C, with learned vectors as C - 1; None leaves them.
            Relative positions only.
        same_length: every query sees exactly ``mem_len`` keys, itself included, instead of all of the memory and
            of its segment so far. Relative positions only.

    Raises:
        ValueError: a negative length, or ``same_length`` without a memory.
    """

    mem_len: int = 0
    clamp_len: int | None = None
    same_length: bool = False

    def __post_init__(self) -> None:
        if self.mem_len < 0:
            raise ValueError(f"mem_len must be at least 0, not {self.mem_len}")
        if self.clamp_len is not None and self.clamp_len < 1:
            raise ValueError(f"clamp_len must be at least 1, not {self.clamp_len}")
        if self.same_length and self.mem_len < 1:
            raise ValueError(
                "same_length lets every query see mem_len keys, itself included: mem_len must be at least 1"
            )


@contextmanager
def reaching(model: nn.Module, reach: Reach | None) -> Iterator[None]:
    """Gives every mixer of a model that has a ``reach`` another one; its own comes back afterwards.

    A state made under one reach must not be used under another.

    Args:
        model: any module.
        reach: None changes nothing.

    Raises:
        ValueError: no mixer of the model has a memory.
    """
    mixers = having(model, "reach", Reach) if reach else []
    if reach and reach.mem_len and not mixers:
        raise ValueError(f"mem_len {reach.mem_len} is asked for, but no mixer of this model has a memory")
    with replaced(mixers, "reach", reach):
        yield
