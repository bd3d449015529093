"""Settings of one call: passed with the call, never set on a module from outside."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from repro.nn.attention.hashed.hashing import Hashing


@dataclass(frozen=True)
class MemorySettings:
    """The length of the past that a mixer keeps, and its view of it.

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


@dataclass(frozen=True)
class CallSettings:
    """Settings without weights that one call may choose; None: what each mixer was built with.

    A state made under some settings must be continued under the same.

    Args:
        memory: for mixers that keep earlier tokens (:class:`Remembers`); others ignore it.
        hashing: for mixers that hash (:class:`Hashes`); others ignore it.
        first_draw: added to the numbers of random draws, for mixers whose draws are numbered (sticky memories); others
            ignore it. May differ from call to call.
        reread: how many of the last tokens of this call the next one reads again; the state does not hold them. Only
            for mixers that support it (``Remembers.rereads``). May differ from call to call.
    """

    memory: MemorySettings | None = None
    hashing: Hashing | None = None
    first_draw: int = 0
    reread: int = 0


AS_BUILT = CallSettings()


class Remembers:
    """Base of mixers that have memory settings.

    Attributes:
        memory: the settings it was built with.
        rereads: whether it supports ``CallSettings.reread``.
    """

    memory: MemorySettings
    rereads: bool = False


class Hashes:
    """Base of mixers that hash.

    Attributes:
        hashing: the settings it was built with.
    """

    hashing: Hashing


def has_memory(model: nn.Module) -> bool:
    """Whether any mixer of the model keeps earlier tokens as built (``mem_len`` above 0)."""
    return any(module.memory.mem_len > 0 for module in model.modules() if isinstance(module, Remembers))


def has_memory_settings(model: nn.Module) -> bool:
    """Whether any mixer of the model has memory settings, even if it keeps no earlier tokens as built."""
    return any(isinstance(module, Remembers) for module in model.modules())


def rereads(model: nn.Module) -> bool:
    """Whether a model with a memory as built can leave out of its state the tokens that are read again.

    Every mixer that keeps earlier tokens must support it; a sublayer's without memory settings must have no state. A
    model without a memory carries no state.
    """
    if not has_memory(model):
        return True
    mixers = (module for module in model.modules() if isinstance(module, Remembers))
    if not all(module.rereads for module in mixers if module.memory.mem_len > 0):
        return False
    bodies: list[Any] = [getattr(module, "body", None) for module in model.modules()]
    others = (body for body in bodies if hasattr(body, "init_state") and not isinstance(body, Remembers))
    return all(body.init_state(1, capacity=1) is None for body in others)


def has_hashing(model: nn.Module) -> bool:
    """Whether any mixer of the model hashes."""
    return any(isinstance(module, Hashes) for module in model.modules())
