"""The time that a new token takes with a memory and without one."""

import statistics
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from repro.models.decoder_lm import DecoderLM
from repro.nn.positions.positions import longest_window
from repro.nn.settings import CallSettings, MemorySettings
from repro.record import Measurement
from repro.tasks.costs.measuring import Measuring, measurement, slope
from repro.tasks.task import OptimizerMaker, ScheduleMaker

Step = Callable[[int], Tensor]  # from a token's place to log-probabilities ``(1, V)``


class Slowdown(Measuring[DecoderLM]):
    """Measures two language models that read a text one token at a time; trains next to nothing.

    With a memory a token is a pass over itself, and attends to ``length`` tokens, itself included. Without one it is a
    pass over the last ``length`` tokens, or ``window`` tokens, of which only the last position is used. Both give the
    distribution of the next token, at batch size 1. They take turns, so that a busy machine slows both; a slowdown is
    the median of the quotients of neighbouring turns, and each side's time the median of its turns.

    Args:
        net: the model with a memory.
        optimizer: maker of the optimiser.
        schedule: maker of the schedule.
        against: the model without one, of as many symbols.
        lengths: attention lengths, at least two.
        tokens: of a turn with the memory.
        windows: tokens of a turn without it.
        repeats: turns of each side that count; one more warms up.
        window: attention length without a memory; None for that of the memory. Where it is given, ``lengths`` are
            lengths of memories that a mixer may let grow before it cuts them back.

    Raises:
        ValueError: lengths or numbers that do not fit.

    Source: Dai et al. 2019, section 4.6, table 9; with a window, Press et al. 2021, section 5, table 3.
    """

    def __init__(
        self,
        net: nn.Module,
        optimizer: OptimizerMaker,
        schedule: ScheduleMaker,
        against: nn.Module,
        lengths: list[int],
        tokens: int = 100,
        windows: int = 10,
        repeats: int = 5,
        window: int | None = None,
    ) -> None:
        super().__init__(net, optimizer, schedule)
        self.against = cast(DecoderLM, against)
        longest, positions = max(lengths) if window is None else window, longest_window(against)
        if len(set(lengths)) < 2 or min(*lengths, tokens, windows, repeats, longest) < 1:
            raise ValueError(
                f"lengths {lengths}, tokens {tokens}, windows {windows}, repeats {repeats}, window {window}: give two "
                "different lengths at least, and numbers of at least 1"
            )
        if positions is not None and positions < longest:
            raise ValueError(f"a window of {longest} tokens: against has positions for {positions} tokens")
        self.lengths = lengths
        self.window = window
        self.tokens = tokens
        self.windows = windows
        self.repeats = repeats
        self.turns: dict[
            int, list[tuple[float, float]]
        ] = {}  # by length: seconds a token without and with memory

    def output(self, x: Tensor) -> Tensor:
        """The log-probabilities of both models for random tokens, as many as ``x`` has vectors."""
        ids = self._draw(*x.shape[:2])
        mine, other = (model.vocabulary.log_probs(model(ids).y) for model in (self.net, self.against))
        return mine + other

    def measure(self) -> None:
        with torch.inference_mode():
            self.turns = {length: self._take_turns(length) for length in self.lengths}

    def _take_turns(self, length: int) -> list[tuple[float, float]]:
        window = self.window or length
        ids = self._draw(1, 1 + max(window + self.windows, length + self.tokens))
        turns = [
            (
                self._time(self.anew(ids, window), window, self.windows),
                self._time(self.recalling(ids, length), length, self.tokens),
            )
            for _ in range(self.repeats + 1)
        ]
        return turns[1:]

    def _time(self, step: Step, length: int, count: int) -> float:
        """Seconds for each of ``count`` tokens behind the first ``length + 1``, the last of which warms up."""
        step(length)
        began = self.now()
        for place in range(length + 1, length + 1 + count):
            step(place)
        return (self.now() - began) / count

    def anew(self, ids: Tensor, length: int) -> Step:
        """Predicts the token after a place of ids ``(1, N)`` with a pass over the ``length`` tokens up to it."""

        def step(place: int) -> Tensor:
            hidden = self.against(ids[:, place + 1 - length : place + 1]).y[:, -1]
            return self.against.vocabulary.log_probs(hidden)

        return step

    def recalling(self, ids: Tensor, length: int) -> Step:
        """Predicts the token after a place with a memory of the first ``length`` tokens; places come in order."""
        settings = CallSettings(MemorySettings(length, same_length=self.window is None))
        capacity = length if self.window is None else 2 * length
        state = self.net(ids[:, :length], self.net.init_state(1, capacity, settings), None, settings).state

        def step(place: int) -> Tensor:
            nonlocal state
            mixed = self.net(ids[:, place : place + 1], state, None, settings)
            state = mixed.state
            return self.net.vocabulary.log_probs(mixed.y[:, -1])

        return step

    def _draw(self, *shape: int) -> Tensor:
        return torch.randint(self.net.vocabulary.size, shape, device=self.device)

    # --- the record ---------------------------------------------------------------------------------------------

    def measurements(self) -> list[Measurement]:
        """Slowdowns by length, their growth, and the seconds and speeds behind them."""
        results = []
        slowdowns = []
        for length, turns in self.turns.items():
            protocol = {
                "length": length,
                "turns": self.repeats,
                "tokens": self.tokens,
                "windows": self.windows,
            } | ({} if self.window is None else {"window": self.window})
            slow, fast = (statistics.median(side) for side in zip(*turns, strict=True))
            slowdowns.append(statistics.median(a / b for a, b in turns))
            results += [
                measurement(f"cost/slowdown_{length}", slowdowns[-1], "times", protocol),
                measurement(f"cost/seconds_anew_{length}", slow, "s", protocol),
                measurement(f"cost/seconds_with_memory_{length}", fast, "s", protocol),
                measurement(f"cost/tokens_per_s_anew_{length}", 1 / slow, "tokens per second", protocol),
                measurement(
                    f"cost/tokens_per_s_with_memory_{length}", 1 / fast, "tokens per second", protocol
                ),
            ]
        return [*results, self._growth(slowdowns)]

    def _growth(self, slowdowns: Sequence[float]) -> Measurement:
        """The exponent p of ``slowdown = a · length^p``; 1 is linear."""
        exponent = slope(list(self.turns), slowdowns)
        return measurement("cost/slowdown_exponent", exponent, "exponent", {"lengths": list(self.turns)})
