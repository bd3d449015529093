"""Costs of layers that connect the positions of a sequence: operations, steps, path lengths and time."""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from repro.nn.connections import Connection
from repro.record import Measurement
from repro.tasks.costs.measuring import Measuring, measurement, slope
from repro.tasks.costs.operations import OperationCounter, flops_in
from repro.tasks.task import OptimizerMaker, ScheduleMaker

Costs = dict[str, dict[int, float]]  # {what: {length or width: how much}}
_UNITS = {
    "operations": "multiply-adds",
    "milliseconds": "milliseconds",
    "sequential_steps": "products one after another",
    "path_length": "hops",
}
_NARROW = 4  # channels where only dependence counts
_FAINT = 0.01  # of the input there: a recurrence stays far from where tanh is flat


class LayerCosts(Measuring[Connection]):
    """Measures one of :mod:`repro.nn.connections` against the length and the width.

    * *operations*: multiply-adds of all matrix products, counted as they run.
    * *sequential steps*: products on the longest chain of products that wait for each other, counted in torch's graph.
    * *path length*: layers that a stack needs until the gradient of its last output reaches its first input, times the
      sequential steps of a layer, in units of those that a layer has for a single place.
    * *time*: of a forward pass, the median.

    An exponent is the slope of the logarithm against that of the length (or width), over all of them; that of time over
    the largest four.

    Args:
        layer: maker of the layer from the width d.
        optimizer: maker of the optimiser.
        schedule: maker of the schedule.
        width: d where the length varies; that of the data.
        length: n where the width varies.
        lengths: n.
        widths: d.
        depths: n for paths, at a small width.
        rows: sequences side by side in what is timed.
        repeats: passes whose median counts.
        against: maker of another layer: where both cost the same, against the length, is measured too.

    Raises:
        ValueError: fewer than four lengths or widths.

    Source: Vaswani et al. 2017, section 4, table 1.
    """

    def __init__(
        self,
        layer: Callable[[int], Connection],
        optimizer: OptimizerMaker,
        schedule: ScheduleMaker,
        width: int,
        length: int,
        lengths: list[int],
        widths: list[int],
        depths: list[int],
        rows: int = 1,
        repeats: int = 5,
        against: Callable[[int], Connection] | None = None,
    ) -> None:
        super().__init__(layer(width), optimizer, schedule)
        if min(len(lengths), len(widths), len(depths)) < 4:
            raise ValueError("a slope needs at least four lengths, widths and depths")
        self.layer, self.against = layer, against
        self.width, self.length = width, length
        self.lengths, self.widths, self.depths = sorted(lengths), sorted(widths), sorted(depths)
        self.rows, self.repeats = rows, repeats
        self.by_length: Costs = {}
        self.by_width: Costs = {}
        self.other: Costs = {}

    def measure(self) -> None:
        self.by_length = {
            **self._costs(self.layer, [(n, self.width) for n in self.lengths], 0),
            **self._reach(),
        }
        self.by_width = self._costs(self.layer, [(self.length, d) for d in self.widths], 1)
        if self.against is not None:
            self.other = self._costs(self.against, [(n, self.width) for n in self.lengths], 0)

    def _costs(self, maker: Callable[[int], Connection], sizes: list[tuple[int, int]], key: int) -> Costs:
        """Operations and time at some (length, width), by one of the two."""
        costs: Costs = {"operations": {}, "milliseconds": {}}
        for size in sizes:
            layer = maker(size[1]).to(self.device)
            x = torch.randn(self.rows, *size, device=self.device)
            costs["operations"][size[key]] = operations(layer, x) / self.rows
            costs["milliseconds"][size[key]] = 1e3 * self._seconds(layer, x)
        return costs

    @torch.no_grad()
    def _seconds(self, layer: nn.Module, x: Tensor) -> float:
        def run() -> float:
            began = self.now()
            layer(x)
            return self.now() - began

        run()  # warms up
        return statistics.median(run() for _ in range(self.repeats))

    def _reach(self) -> Costs:
        """Sequential steps and path lengths."""
        layer = self.layer(_NARROW).double()
        single = sequential_steps(layer(_faint(1)))
        steps = {n: sequential_steps(layer(_faint(n))) for n in self.depths}
        paths = {n: layers_to_connect(layer, n) * steps[n] / single for n in self.depths}
        return {"sequential_steps": dict(steps), "path_length": paths}

    # --- the record ---------------------------------------------------------------------------------------------

    def measurements(self) -> list[Measurement]:
        """Exponents, where another layer costs the same, and every cost as a point of a sweep."""
        results = []
        for key, costs in (("length", self.by_length), ("width", self.by_width)):
            letter = {"length": "n", "width": "d"}[key]
            for cost, values in costs.items():
                sizes = list(values)[-4:] if cost == "milliseconds" else list(values)
                name = {"milliseconds": "time"}.get(cost, cost)
                exponent = slope(sizes, [values[size] for size in sizes])
                fit = {"exponent_of": f"cost/{cost}", "by": key, f"{key}s": sizes}
                results.append(measurement(f"cost/{name}_exponent_{letter}", exponent, "exponent", fit))
                for size, value in values.items():
                    protocol = {
                        "sweep": key,
                        "of": f"cost/{cost}",
                        key: size,
                        "at": self._fixed_size(key, cost),
                    }
                    results.append(measurement(f"cost/{cost}_{letter}{size}", value, _UNITS[cost], protocol))
        return [*results, *self._crossovers()]

    def _fixed_size(self, key: str, cost: str) -> str:
        if cost in ("sequential_steps", "path_length"):
            return f"width {_NARROW}"
        return f"width {self.width}" if key == "length" else f"length {self.length}"

    def _crossovers(self) -> list[Measurement]:
        results = []
        for cost, values in self.other.items():
            crossing = crossover(self.lengths, [self.by_length[cost][n] / values[n] for n in self.lengths])
            if crossing is not None:
                other = type(self.against(1)).__name__ if self.against else ""
                fit = {"crossing_of": f"cost/{cost}", "by": "length", "against": other, "width": self.width}
                results.append(measurement(f"cost/crossover_{cost}", crossing, "length", fit))
        return results


def operations(layer: nn.Module, x: Tensor) -> int:
    """Multiply-adds of the matrix products of a forward pass; a flop is half of one."""
    with torch.no_grad(), OperationCounter() as counter:
        layer(x)
    return flops_in(counter.operations) // 2


def sequential_steps(y: Tensor) -> int:
    """The most matrix products of which each waits for the one before, of all that lead to ``y``."""
    longest: dict[Any, int] = {}
    waiting = [] if y.grad_fn is None else [y.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [parent for parent, _ in node.next_functions if parent is not None]
        missing = [parent for parent in before if parent not in longest]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        own = any(word in node.name() for word in ("MmBackward", "BmmBackward", "ConvolutionBackward"))
        longest[node] = own + max((longest[parent] for parent in before), default=0)
    return longest.get(y.grad_fn, 0)


def layers_to_connect(layer: Connection, steps: int) -> int:
    """The smallest stack of a layer whose last output of ``steps`` depends on its first input.

    Raises:
        ValueError: no stack of so many layers does.
    """

    def connected(count: int) -> bool:
        x = _faint(steps).requires_grad_()
        y = x
        for depth in range(count):
            y = layer.deeper(depth, steps)(y)
        (grad,) = torch.autograd.grad(y[0, -1].sum(), x)
        return bool(grad[0, 0].abs().sum() > 0)

    low, high = 0, 1
    while not connected(high):
        if high > steps:
            raise ValueError(f"{type(layer).__name__} does not connect {steps} places in {high} layers")
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if connected(middle) else (middle, high)
    return high


def crossover(sizes: Sequence[int], ratios: Sequence[float]) -> float | None:
    """The size at which a ratio of costs passes 1, between known sizes; both taken as powers. None: nowhere."""
    pairs = list(zip(sizes, ratios, strict=True))
    for (a, low), (b, high) in itertools.pairwise(pairs):
        if low <= 1.0 < high or high <= 1.0 < low:
            share = math.log(low) / (math.log(low) - math.log(high))
            return math.exp(math.log(a) + share * (math.log(b) - math.log(a)))
    return None


def _faint(steps: int) -> Tensor:
    x = torch.randn(1, steps, _NARROW, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x.mul_(_FAINT).requires_grad_()
