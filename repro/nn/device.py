"""What sets devices apart: features that kinds of them lack, and numbers that the host must wait for.

The ``meta`` device has shapes only, no autocast and no random numbers.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import ModuleType

import torch
from torch import Tensor


def without_autocast(device: torch.device, later: bool = False) -> AbstractContextManager[object]:
    """A context in which nothing is cast on a device; does nothing where nothing is cast anyway.

    Args:
        device: where the work is done.
        later: for a backward pass of one's own, which a compiler traces when nothing is cast and runs where it is.
    """
    if not (torch.amp.is_autocast_available(device.type) if later else autocast_is_on(device)):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def autocast_is_on(device: torch.device) -> bool:
    """Whether matrices on a device are now multiplied in another precision."""
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def autocast_as_now(device: torch.device) -> Callable[[], AbstractContextManager[object]]:
    """A maker of contexts that cast on a device as is done now; casts of weights are not cached."""
    kind = device.type
    if not torch.amp.is_autocast_available(kind):
        return nullcontext
    enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    return partial(torch.autocast, kind, dtype=dtype, enabled=enabled, cache_enabled=False)


def seeded(device: torch.device, seed: int) -> torch.Generator | None:
    """A generator of a device's own; None where the device draws no numbers."""
    return None if device.type == "meta" else torch.Generator(device).manual_seed(seed)


def accelerator(device: torch.device) -> ModuleType | None:
    """torch's module for a device, such as ``torch.cuda``; None for the CPU and for ``meta``."""
    return None if device.type in ("cpu", "meta") else torch.get_device_module(device)


class RandomStates:
    """The states, now, of the generators that work on a device draws from: the CPU's and the device's own.

    Args:
        device: where the work is done.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.cpu = torch.get_rng_state()
        own = accelerator(device)
        self.own: Tensor | None = None if own is None else own.get_rng_state(device)

    def restore(self) -> None:
        """Restores the random states."""
        torch.set_rng_state(self.cpu)
        own = accelerator(self.device)
        if own is not None:
            own.set_rng_state(self.own, self.device)


def host_ints(values: Tensor, typical: Callable[[], list[int]] | None = None) -> list[int]:
    """Whole numbers of a tensor ``(N,)`` on the host: the only place where training waits for a number from the device.

    Forward and backward passes and losses never read a value from the device otherwise: that makes the host wait until
    all queued work is done. Only what torch cannot do without numbers on the host may call it: the sizes of groups of
    tokens (:mod:`repro.nn.vocabularies.clusters`), packed sequences (:mod:`repro.nn.bidirectional`) and the lengths of
    CTC (:mod:`repro.nn.vocabularies.ctc`). A comment at each use gives the reason.

    Args:
        values: integers, ``(N,)``, on any device.
        typical: N numbers to go on with on the meta device, which has none; :mod:`repro.experiment.costs` counts a
            step there. None raises an error there.

    Returns:
        The N numbers.
    """
    if values.is_meta and typical is not None:
        return typical()
    return [int(value) for value in values.tolist()]
