"""Loaders over planned batches. The training position is kept here, so a resumed run replays nothing.

Lightning takes any iterable. It asks for a training loader's state right after a batch was trained on (a
loader with a length is not prefetched from), calls ``iter`` once or twice before it takes the first batch,
and ends an epoch by counting to ``len``, without exhausting the iterator. Hence: a position counts the
batches handed out, ``iter`` moves nothing, and the epoch turns when a new iterator is asked for its first
batch.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast

from torch import Generator
from torch.utils.data import DataLoader

from repro.errors import ReproError, UserError

Item = TypeVar("Item")
Batch = TypeVar("Batch")


def _built(
    items: Sequence[Item], build: Callable[[Item], Batch], start: int, num_workers: int
) -> Iterator[Batch]:
    """Batches from ``items[start:]``, in order, built here or by worker processes."""
    rest: Any = items[start:]
    if num_workers == 0:
        return map(build, rest)
    loader: DataLoader[Batch] = DataLoader(
        rest,
        batch_size=None,
        collate_fn=cast(Any, build),  # without a batch size it takes one item
        num_workers=num_workers,
        worker_init_fn=_end_with_parent,
        # not the global generator: drawing worker seeds from it would change a resumed run's dropout
        generator=Generator().manual_seed(0),
    )
    return iter(loader)


def _end_with_parent(worker: int) -> None:
    """Has TERM end a worker only if its parent sends it, as at the parent's own exit.

    Slurm sends TERM to every process of a job. torch's handler would end the worker, and with it the run, which is to
    save first. A worker that ignored TERM would never end: the parent's exit waits for it.
    """
    if not hasattr(signal, "sigwaitinfo"):  # macOS, which does not report the sender of a signal
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_await_parent, name="term", daemon=True).start()


def _await_parent() -> None:
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != os.getppid():
        pass
    os._exit(0)


class FixedLoader(Generic[Item, Batch]):
    """A loader that gives the same batches at each pass, for evaluation.

    Args:
        items: what the batches are built from, in order.
        build: makes one batch; picklable if there are workers.
        num_workers: processes that build ahead; 0 builds here.
    """

    def __init__(self, items: Sequence[Item], build: Callable[[Item], Batch], num_workers: int = 0) -> None:
        self._items = items
        self._build = build
        self._num_workers = num_workers

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Batch]:
        return _built(self._items, self._build, 0, self._num_workers)


class PlannedLoader(Generic[Item, Batch]):
    """Batches planned for each epoch, with a position that can be saved.

    Each pass is one epoch, the next pass the next epoch; a pass cut short is continued by the next.
    ``state_dict`` is ``{"epoch", "batch", "parts"}``: ``batch`` batches of ``epoch`` have been handed out.

    Args:
        plan: what the batches of an epoch are built from; equally many in every epoch.
        build: makes one batch; picklable if there are workers.
        micro_batches: of an optimiser step (gradient accumulation).
        num_workers: processes that build ahead; 0 builds here.
    """

    def __init__(
        self,
        plan: Callable[[int], Sequence[Item]],
        build: Callable[[Item], Batch],
        micro_batches: int = 1,
        num_workers: int = 0,
    ) -> None:
        self._plan = plan
        self._build = build
        self._micro_batches = micro_batches
        self._num_workers = num_workers
        self._planned: tuple[int, Sequence[Item]] = (0, plan(0))
        self._length = len(self._planned[1])
        self.epoch = 0
        self.batch = 0

    def __len__(self) -> int:
        """Batches per epoch, wherever the position is."""
        return self._length

    def __iter__(self) -> Iterator[Batch]:
        if self.batch >= self._length:
            self.set_epoch(self.epoch + 1)
        if self._planned[0] != self.epoch:
            self._planned = (self.epoch, self._plan(self.epoch))
        items = self._planned[1]
        if len(items) != self._length:
            raise ReproError(f"epoch {self.epoch} has {len(items)} batches, but epoch 0 has {self._length}")
        for batch in _built(items, self._build, self.batch, self._num_workers):
            self.batch += 1
            yield batch

    def set_epoch(self, epoch: int) -> None:
        """Moves to the beginning of an epoch; takes effect with the next iterator."""
        self.epoch, self.batch = epoch, 0

    def state_dict(self) -> dict[str, int]:
        """The position."""
        return {"epoch": self.epoch, "batch": self.batch, "parts": self._micro_batches}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Moves to a saved position.

        Raises:
            UserError: it was saved with other micro-batches, by which Lightning counts validations.
        """
        epoch, batch, micro_batches = state["epoch"], state["batch"], state["parts"]
        if micro_batches != self._micro_batches:
            raise UserError(
                f"the checkpoint was made with accumulate_grad_batches {micro_batches}, not {self._micro_batches}; "
                f"resume with {micro_batches}"
            )
        if not 0 <= batch <= self._length:
            raise UserError(
                f"the checkpoint has batch {batch} of {self._length}: it was made with other data"
            )
        self.epoch, self.batch = epoch, batch
