"""Generates pictures value by value, and measures the time."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from repro.models.decodable import Decodable, evaluating
from repro.models.decoder_lm import DecoderLM
from repro.models.sampling import sample
from repro.nn.mixer import MixerOutput, State

Clock = Callable[[], float]
PLACES = 8  # of a picture at which drawing is timed where not all of it is


def draw(
    net: DecoderLM,
    known: Tensor,
    n: int,
    generator: torch.Generator | None = None,
    temperature: float = 1.0,
    cached: bool = True,
) -> Tensor:
    """Completes pictures value by value.

    Both ways draw the same pictures from the same random numbers, up to rounding, where a mixer's state loses nothing.

    Args:
        net: in any mode; dropout is off meanwhile. Its vocabulary's tokens are values.
        known: the first values of every picture on the model's device, ``(B, K)``, or ``(B,)`` for one each.
        n: values of a picture, the known ones among them.
        generator: of random numbers, on any device; None uses the global one of the model's device.
        temperature: divides the log-probabilities, above 0.
        cached: with carried state, each value is one step; False reads all values again for every value.

    Returns:
        ``(B, n)``, the known values in front. A picture whose first value was predicted behind a value 0 is drawn with
        this 0 as the known one and one value more.

    Raises:
        ValueError: nothing is known or there is nothing to draw.
        FloatingPointError: the model's outputs are not numbers.

    Source: Katharopoulos et al. 2020, section 4.2: the softmax and hashing baselines read all values again.
    """
    known = known[:, None] if known.dim() == 1 else known
    if not known.shape[1] or n <= known.shape[1]:
        raise ValueError(
            f"of {n} values {known.shape[1]} are known; give at least one, and leave some to draw"
        )
    model, state = _reader(net, known[:, :-1], n - 1, cached)
    drawn = sample(model, state, known[:, -1], n - known.shape[1], None, temperature, generator=generator)
    return torch.cat([known, drawn.ids], dim=1)


class _Anew:
    """A model whose state is the values so far."""

    def __init__(self, net: DecoderLM) -> None:
        self.net = net
        self.vocabulary = net.vocabulary

    def modules(self) -> Iterator[nn.Module]:
        return self.net.modules()

    def decode(self, ids: Tensor, state: State, lengths: Tensor | None = None) -> MixerOutput:
        read = torch.cat([state["stream"]["ids"], ids], dim=1)
        return MixerOutput(self.net(read).y, _read(read))


def _read(ids: Tensor) -> State:
    """The state of a model that has read values ``(B, T)`` and keeps nothing else."""
    return {"stream": {"ids": ids}, "memory": {}}


def _reader(net: DecoderLM, ids: Tensor, capacity: int, cached: bool) -> tuple[Decodable, State]:
    """Returns a model that has read values ``(B, T)``, and its state."""
    if not cached:
        return _Anew(net), _read(ids)
    with evaluating(net):
        state = net.init_state(len(ids), capacity=capacity)
        return net, net.decode(ids, state).state if ids.shape[1] else state


@dataclass(frozen=True)
class Drawing:
    """The time that drawing took.

    Attributes:
        images: pictures drawn side by side.
        n_values: of a picture, the first one given and the others drawn.
        measured: drawn values of each picture that were timed.
        seconds: for these.
    """

    images: int
    n_values: int
    measured: int
    seconds: float

    @property
    def extrapolated(self) -> bool:
        """Whether only a part was timed and the rest extrapolated."""
        return self.measured < self.n_values - 1

    @property
    def seconds_in_all(self) -> float:
        """Seconds for all pictures: as timed, or the mean time of a value times their number."""
        return self.seconds if not self.extrapolated else self.seconds / self.measured * (self.n_values - 1)

    @property
    def images_per_s(self) -> float:
        """Pictures a second."""
        return self.images / self.seconds_in_all

    @property
    def seconds_per_image(self) -> float:
        """Seconds a picture; with more than one side by side each takes longer."""
        return self.seconds_in_all / self.images


def timed_drawing(
    net: DecoderLM,
    images: int,
    n_values: int,
    cached: bool,
    values: int | None = None,
    clock: Clock = time.perf_counter,
) -> Drawing:
    """Times the drawing of pictures, random choice included, on the model's device.

    Only a part may be timed: ``values`` of each picture, divided among ``PLACES`` places in the middles of as many
    equal parts of the picture. A value's cost without state is nearly a parabola of its place, whose mean over the
    picture the mean over eight such middles misses by less than 1 %. Values before a place are random; reading them
    into a state is not timed.

    Args:
        net: in any mode; dropout is off meanwhile.
        images: pictures side by side.
        n_values: of a picture, the first one given.
        cached: with carried state; False reads all values again for every value.
        values: drawn values of each picture that are timed; None for all.
        clock: gives seconds; ``time.process_time`` counts computing only, where others use the machine.

    Raises:
        ValueError: a number is out of range.

    Source: Katharopoulos et al. 2020, tables 1, 2, 4 (pictures a second) and 5 (seconds for one).
    """
    if images < 1 or n_values < 2:
        raise ValueError(f"images {images} must be at least 1 and n_values {n_values} at least 2")
    if values is not None and not 1 <= values < n_values:
        raise ValueError(f"values {values} must be from 1 to {n_values - 1}, those that are drawn")
    device = next(net.parameters()).device
    vocabulary: Any = net.vocabulary
    ids = torch.randint(vocabulary.size, (images, n_values), device=device)
    runs = _runs(n_values - 1, values)
    _seconds(net, ids, (runs[0][0], min(2, runs[0][1])), cached, clock)  # warms up
    seconds = sum(_seconds(net, ids, run, cached, clock) for run in runs)
    return Drawing(images, n_values, sum(length for _, length in runs), seconds)


def _runs(total: int, values: int | None) -> list[tuple[int, int]]:
    """Drawn values that are timed: how many are drawn before each run, and how many are in it."""
    if values is None or values == total:
        return [(0, total)]
    places = min(PLACES, values)
    lengths = [values // places + (i < values % places) for i in range(places)]
    gap = (total - values) / places  # half of it is before a run, half after it
    return [(sum(lengths[:i]) + int((i + 0.5) * gap), length) for i, length in enumerate(lengths)]


def _seconds(net: DecoderLM, ids: Tensor, run: tuple[int, int], cached: bool, clock: Clock) -> float:
    """Seconds for a run of :func:`_runs` in pictures ``(B, n)``."""
    start, length = run
    model, state = _reader(net, ids[:, :start], ids.shape[1] - 1, cached)
    _wait(ids)
    started = clock()
    sample(model, state, ids[:, start], length, None)
    _wait(ids)
    return clock() - started


def _wait(like: Tensor) -> None:
    """Waits until a GPU has finished."""
    if like.device.type == "cuda":
        torch.cuda.synchronize(like.device)
