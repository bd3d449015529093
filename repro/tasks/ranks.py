"""The ranks of a run: sums over them, what each of them has, and the states of their random number generators."""

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, distributed

from repro.errors import ReproError

Item = TypeVar("Item")


def sum_over_ranks(values: Tensor) -> Tensor:
    """Adds a tensor over all ranks, in place; float64 stays float64."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.all_reduce(values)
    return values


def gather_objects(item: Item) -> list[Item]:
    """The ``item`` of every rank, in rank order, on every rank."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return [item]
    out = [item] * distributed.get_world_size()
    distributed.all_gather_object(out, item)
    return out


def gather_rows(rows: Mapping[Any, Item]) -> list[Item]:
    """The rows of all ranks in the order of their places, on every rank; one of two in the same place counts."""
    merged = {place: row for part in gather_objects(rows) for place, row in part.items()}
    return [merged[place] for place in sorted(merged)]


def together(act: Callable[[], Item]) -> Item:
    """Result of an action on this rank; if it fails on a rank, all ranks raise the error of the first that failed.

    Raises:
        ReproError: the action's. Any other error ends its rank alone.
    """
    made = failure = None
    try:
        made = act()
    except ReproError as error:
        failure = error
    if failures := [error for error in gather_objects(failure) if error]:
        raise failures[0]
    return cast(Item, made)


def by_rank_0(make: Callable[[], Item]) -> Item:
    """Returns what rank 0 makes on every rank; others make nothing. If it fails there, all ranks raise its error."""
    is_other = distributed.is_available() and distributed.is_initialized() and distributed.get_rank() > 0
    return cast(Item, gather_objects(together(lambda: None if is_other else make()))[0])


def random_state(device: torch.device) -> dict[str, Any]:
    """States of the generators of Python, NumPy, torch and the device, as tensors and plain values."""
    name, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": (name, torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, gauss),
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Brings the generators back to a state of :func:`random_state`."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.asarray(keys, dtype=np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(_bytes(state["torch"]))
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(_bytes(state["cuda"]), device)


def _bytes(state: Tensor) -> Tensor:
    return state.cpu().to(torch.uint8)
