"""Cost of attention or of layers by sequence length: time and memory of a forward and a backward pass."""

import statistics
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from repro.batches import Data
from repro.models.body import Body
from repro.nn.mixer import Layout, SequenceMixer
from repro.record import Measurement
from repro.tasks.costs.measuring import Measuring, measurement, slope
from repro.tasks.costs.peak import peak_bytes
from repro.tasks.task import OptimizerMaker, ScheduleMaker

LONGEST = 3  # lengths over which growth is measured


@dataclass(frozen=True)
class Point:
    """The measurements at one length.

    Attributes:
        length: N.
        batch: sequences side by side.
        seconds: of a forward and a backward pass, the median.
        peak: bytes held at a time beyond weights and input.
    """

    length: int
    batch: int
    seconds: float
    peak: int


class VectorData(Data, Protocol):
    """The attributes of the datamodule that measuring uses."""

    input_size: int


class Scaling(Measuring[SequenceMixer | Body]):
    """Measures a causal mixer or body at growing lengths and a fixed number of tokens; trains next to nothing.

    Lengths are powers of two from ``shortest`` on, in as many sequences as fit ``tokens``, until the next one would be
    expected to take more than ``memory``: at a fixed number of tokens a peak at most doubles with the length. Growth is
    the slope of the logarithm of what a *sequence* takes over that of its length, over the longest three lengths: 1 is
    linear.

    Args:
        net: a mixer or a body; its ``d_model`` is that of the data.
        optimizer: maker of the optimiser.
        schedule: maker of the schedule.
        shortest: first length.
        longest: last length, at most.
        tokens: of a pass, a multiple of the longest.
        repeats: passes at each length whose median counts.
        memory: bytes that a pass may hold.

    Raises:
        ValueError: lengths that do not fit.

    Source: Katharopoulos et al. 2020, section 4.1.2, figure 1: lengths 2^9 to 2^16 on a GPU with 11 GB. Press et al.
    2021, table 1: training speed of a language model by the length of its inputs.
    """

    def __init__(
        self,
        net: nn.Module,
        optimizer: OptimizerMaker,
        schedule: ScheduleMaker,
        shortest: int = 512,
        longest: int = 65536,
        tokens: int = 65536,
        repeats: int = 5,
        memory: float = 11e9,
    ) -> None:
        super().__init__(net, optimizer, schedule)
        self.lengths = [shortest << i for i in range(32) if shortest << i <= longest]
        if shortest < 1 or len(self.lengths) < LONGEST or tokens % self.lengths[-1]:
            raise ValueError(
                f"lengths {shortest} to {longest} with {tokens} tokens: give {LONGEST} powers of two at least, and "
                "tokens that the longest power divides"
            )
        if repeats < 1:
            raise ValueError(f"repeats must be at least 1, not {repeats}")
        self.tokens = tokens
        self.repeats = repeats
        self.memory = memory
        self.points: list[Point] = []

    def output(self, x: Tensor) -> Tensor:
        """The outputs of the mixer or body for random vectors."""
        return self.net(x) if isinstance(self.net, Body) else self.net(x, None, Layout(True)).y

    def measure(self) -> None:
        """Measures memory, then time with the lengths in turns, so that a drift of the machine reaches all alike."""
        width = cast(VectorData, self.data).input_size
        x = torch.randn(self.tokens, width, device=self.device).requires_grad_()
        grad = torch.randn_like(x)
        parameters = [p for p in self.parameters() if p.requires_grad]

        def run(length: int) -> float:
            began = self.now()
            y = self.output(x.view(-1, length, width))
            torch.autograd.grad(y, [x, *parameters], grad.view(-1, length, width))
            return self.now() - began

        self.module.train()  # in the evaluation mode of a test reversible layers keep their inputs
        peaks: dict[int, int] = {}
        for length in self.lengths:
            if peaks and 2 * peaks[length // 2] > self.memory:
                break
            peaks[length] = peak_bytes(partial(run, length), self.device)  # warms up
        turns = [[run(length) for length in peaks] for _ in range(self.repeats)]
        self.module.eval()
        medians = map(statistics.median, zip(*turns, strict=True))
        self.points = [
            Point(length, self.tokens // length, seconds, peak)
            for (length, peak), seconds in zip(peaks.items(), medians, strict=True)
        ]

    # --- the record ---------------------------------------------------------------------------------------------

    def measurements(self) -> list[Measurement]:
        """Growth, the longest length, and the cost of a token at each length, as sweeps."""
        results = self._growth() if len(self.points) >= LONGEST else []
        longest = max((p.length for p in self.points if p.peak / p.batch <= self.memory), default=0)
        results.append(measurement("cost/max_length", longest, "tokens", {"memory": self.memory}))
        for point in self.points:
            tokens = point.length * point.batch
            values = {
                "cost/microseconds_per_token": (1e6 * point.seconds / tokens, "microseconds per token"),
                "cost/bytes_per_token": (point.peak / tokens, "bytes per token"),
            }
            for name, (value, unit) in values.items():
                sweep = {"sweep": "length", "of": name, "length": point.length, "sequences": point.batch}
                results.append(measurement(f"{name}_{point.length}", value, unit, sweep))
        return results

    def _growth(self) -> list[Measurement]:
        last = self.points[-LONGEST:]
        lengths = [p.length for p in last]
        protocol = {"lengths": lengths, "passes": self.repeats, "of": "a sequence, forward and backward"}
        values = {"time": [p.seconds / p.batch for p in last], "memory": [p.peak / p.batch for p in last]}
        return [
            measurement(f"cost/{name}_exponent", slope(lengths, cost), "exponent", protocol)
            for name, cost in values.items()
        ]
