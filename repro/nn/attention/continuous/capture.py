"""Captures from outside the content of continuous memories and attention to them, while a network reads one row."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from repro.nn.attention.continuous.gaussian import histogram
from repro.nn.attention.continuous.long_term import Read
from repro.nn.attention.continuous.memory import ContinuousMemory

PLACES = 1024  # parts of [0, 1] whose content is known


class MemoryCapture:
    """The content of one continuous memory, and the densities of the queries of its last piece.

    Args:
        memory: the mixer.

    Attributes:
        tokens: number of the token, from 0, that lies in each of :data:`PLACES` equal parts of [0, 1]; None while the
            memory is empty.
        mean: of each query's density, ``(H, T)``; None before anything was read.
        variance: of the same, ``(H, T)``.
        mass: of a sticky memory, the attention by bin from which the last update drew, ``(bins,)``; else None.
        draws: of a sticky memory, how often that update drew each bin, ``(bins,)``; else None.
    """

    def __init__(self, memory: ContinuousMemory) -> None:
        self.signal, self.block = memory.long.signal, memory.block
        self.clear()

    def clear(self) -> None:
        """Begins with another row."""
        self._written = 0
        self.tokens: Tensor | None = None
        self.mean: Tensor | None = None
        self.variance: Tensor | None = None
        self.mass: Tensor | None = None
        self.draws: Tensor | None = None
        self._attended: Tensor | None = None  # by bin, since the last update

    def update(self, empty: bool, bins: Tensor | None) -> None:
        """Notes that the memory takes the next block of tokens.

        Args:
            empty: the memory was empty.
            bins: where a sticky memory's past is read, ascending ``(samples,)``.
        """
        block = self._written + torch.arange(self.block)
        self._written += self.block
        places = (torch.arange(PLACES) + 0.5) / PLACES
        if empty or self.tokens is None:
            self.tokens = block[(places * self.block).long()]
        else:
            tau = self.signal.tau
            past = self.tokens[(self._read_at((places / tau).clamp(max=1), bins) * PLACES).long()]
            new = block[((places - tau) / (1 - tau) * self.block).long().clamp(min=0)]
            self.tokens = torch.where(places > tau, new, past)
            if bins is not None and self.signal.bins is not None:
                self.mass, self.draws = self._attended, torch.bincount(bins, minlength=self.signal.bins)
        self._attended = None

    def _read_at(self, places: Tensor, bins: Tensor | None) -> Tensor:
        """The position in the past that an update reads for ``places`` of the contracted one; in [0, 1)."""
        samples = self.signal.samples
        nth = (places * samples).ceil().long().sub(1).clamp(0, samples - 1)
        read = places if bins is None or self.signal.bins is None else bins[nth] / self.signal.bins
        return read.clamp(max=1 - 0.5 / PLACES)

    def read(self, reading: Read) -> None:
        """The queries of a piece have read the memory."""
        self.mean, self.variance = reading.mean[0], reading.variance[0]
        if self.signal.bins is not None:
            mass = masses(self.mean, self.variance, self.signal.bins).sum((0, 1))
            self._attended = mass if self._attended is None else self._attended + mass

    def density(self, parts: int) -> Tensor:
        """The mean density of each query in equal parts of [0, 1], ``(H, T, parts)``; 1 where it is uniform."""
        assert self.mean is not None
        assert self.variance is not None
        return masses(self.mean, self.variance, parts) * parts


def masses(mean: Tensor, variance: Tensor, parts: int) -> Tensor:
    """Mass of each density in equal parts of [0, 1]: of shape ``(..., parts)`` for means and variances ``(...)``."""
    counts = torch.ones(mean.numel(), 1, dtype=torch.bool, device=mean.device)
    mass = histogram(mean.reshape(-1, 1), variance.reshape(-1, 1), counts, parts)
    return mass.unflatten(0, mean.shape)


@contextmanager
def capture_memories(model: nn.Module) -> Iterator[dict[str, MemoryCapture]]:
    """Captures every continuous memory of a model on a CPU that reads one row at a time, without gradients.

    Args:
        model: any module.

    Yields:
        By the name of each :class:`ContinuousMemory`, the capture of the last row that was read.

    Raises:
        ValueError: in a call of the model, with more than one row.
    """
    memories = {
        name: module for name, module in model.named_modules() if isinstance(module, ContinuousMemory)
    }
    captures = {name: MemoryCapture(module) for name, module in memories.items()}
    with ExitStack() as hooks:
        for name, module in memories.items():
            hooks.enter_context(_capture(module, captures[name]))
        yield captures


@contextmanager
def _capture(memory: ContinuousMemory, capture: MemoryCapture) -> Iterator[None]:
    def begin(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        x, state = inputs[:2]
        if len(x) != 1:
            raise ValueError(f"a continuous memory is captured with one row, not {len(x)}")
        if state is None or not int(state["pending"]["length"][0]):
            capture.clear()

    def update(past: Tensor, block: Tensor, empty: Tensor, bins: Tensor | None) -> Tensor:
        capture.update(bool(empty[0]), None if bins is None else bins[0])
        return original(past, block, empty, bins)

    original = memory.long.update
    hooks = (
        memory.register_forward_pre_hook(begin),
        memory.long.register_forward_hook(lambda _, __, reading: capture.read(reading)),
    )
    memory.long.__dict__["update"] = update  # it is a method, which no hook of torch sees
    try:
        yield
    finally:
        del memory.long.__dict__["update"]
        for hook in hooks:
            hook.remove()
