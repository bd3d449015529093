"""Common parts of all decoding methods: the model's interface, the initial state, the result.

This code is independent of mixers: a model continues sequences with ``decode(ids, state)``, its state is a tree of
tensors, and hypotheses are rows of that tree. Decoding starts from a state that holds everything but the last
token, and that token:

* an encoder-decoder: ``model.start(source, lengths, capacity=...)`` and the begin symbol;
* a language model: its state after all but the last token of the prompt, and that last token.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from repro.nn.mixer import MixerOutput, State
from repro.nn.packed import packed

# Rows that are done leave the batch once no more than this share of it is still at work.
COMPACT_BELOW = 0.75

Rows = dict[str, Tensor]


class Scoring(Protocol):
    """The interface of a vocabulary for decoding."""

    def log_probs(self, hidden: Tensor) -> Tensor:
        """Log-probabilities ``(..., V)`` given hidden states ``(..., D)``."""
        ...


class Decodable(Protocol):
    """A model that decoding can drive.

    Its state is ``{"stream": tree, "memory": tree}``: the stream has a row for each hypothesis, the memory
    one for each source, and consecutive hypotheses share a source.
    """

    @property
    def vocabulary(self) -> Scoring:
        """The vocabulary, which scores the hidden states."""
        ...

    def decode(self, ids: Tensor, state: State, lengths: Tensor | None = None) -> MixerOutput:
        """Hidden states ``(R, T, D)`` of the next ids ``(R, T)``, of which ``lengths (R,)`` are valid."""
        ...

    def modules(self) -> Iterator[nn.Module]:
        """Every module of the model."""
        ...


class Decoded(NamedTuple):
    """One sequence for each row; of an n-best search N consecutive ones, so that B is N times as large.

    Attributes:
        ids: ``(B, L)``, the end symbol included where it was reached; zeros behind ``lengths``.
        lengths: tokens of each row, the end symbol counted, ``(B,)``.
        log_probs: log-probability of these tokens under the model in nats, ``(B,)``.
        scores: log_probs over the length penalty; log_probs where there is none, ``(B,)``.
    """

    ids: Tensor
    lengths: Tensor
    log_probs: Tensor
    scores: Tensor


Search = Callable[[Decodable, State, Tensor, "int | Tensor", "int | None"], Decoded]


@contextmanager
def stepping(model: Decodable, steps: int) -> Iterator[None]:
    """Inference mode for a search of at most so many steps, in which the weights do not change."""
    with evaluating(model), packed(model.modules(), steps):
        yield


@contextmanager
def evaluating(model: Decodable | nn.Module) -> Iterator[None]:
    """Inference mode with dropout off; each module's own mode is restored afterwards."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        with torch.inference_mode():
            yield
    finally:
        for module in training:
            module.training = True


def step(model: Decodable, last: Tensor, state: State) -> tuple[Tensor, State]:
    """Log-probabilities ``(R, V)`` of the token after ``last (R,)``, in float32 or better; and the state."""
    mixed = model.decode(last[:, None], state)
    log_probs = model.vocabulary.log_probs(mixed.y[:, -1])
    return log_probs.to(torch.promote_types(log_probs.dtype, torch.float32)), mixed.state


def row_limits(max_new: int | Tensor, first: Tensor) -> tuple[Tensor, int]:
    """The most new tokens of each row, ``(B,)``, and of any row.

    Raises:
        ValueError: a limit is below 1, or there are no rows.
    """
    if not first.shape[0]:
        raise ValueError("there is nothing to decode: 0 rows")
    limits = torch.as_tensor(max_new, dtype=torch.long, device=first.device).expand(first.shape[0])
    low, high = (int(edge) for edge in torch.stack([limits.amin(), limits.amax()]).tolist())
    if low < 1:
        raise ValueError(f"max_new must be at least 1, not {low}")
    return limits, high


def compact(still: Tensor, count: int) -> Tensor | None:
    """The rows ``(count,)`` to continue with, or None while too few are done to be worth a copy.

    Args:
        still: which rows are at work, boolean ``(B,)``.
        count: how many that is.
    """
    if count > COMPACT_BELOW * still.shape[0]:
        return None
    return still.sort(descending=True, stable=True).indices[:count]


def store(results: Rows, rows: Tensor, values: Rows) -> None:
    """Writes the rows of ``values`` into rows ``rows`` of ``results``."""
    for name, result in results.items():
        result.index_copy_(0, rows, values[name])


def decoded(results: Rows, n_best: int = 1) -> Decoded:
    """The finished result.

    Args:
        results: by the names of :class:`Decoded`.
        n_best: consecutive sequences that belong together, best first.

    Raises:
        FloatingPointError: a best score is not a number: the model's outputs are broken.
    """
    broken = ~results["scores"][::n_best].isfinite()
    if broken.any():
        raise FloatingPointError(
            f"the model gives no finite log-probabilities in row {int(broken.int().argmax())}"
        )
    return Decoded(**results)


def top(values: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The n largest of each row, largest first; of equal values, the one with the lower index first.

    ``torch.topk`` takes any of several equal values, which half-precision logits have often.

    Args:
        values: ``(R, V)``.
        n: 1 to V.

    Returns:
        Values and indices, ``(R, n)``.
    """
    size = values.shape[-1]
    if n == size:
        everything = values.sort(dim=-1, descending=True, stable=True)
        return everything.values, everything.indices
    best = values.topk(n + 1)
    index = best.indices[:, :n]
    # The last may have equals that were left out. On a CPU it costs nothing to look whether; on a GPU looking
    # would synchronise, and settling does not.
    if values.device.type != "cpu" or bool((best.values[:, n - 1] == best.values[:, n]).any()):
        index = _settle(values, best.values[:, :n], index)
    index = index.sort(dim=-1).values
    ordered = values.gather(-1, index).sort(dim=-1, descending=True, stable=True)
    return ordered.values, index.gather(-1, ordered.indices)


def _settle(values: Tensor, largest: Tensor, index: Tensor) -> Tensor:
    """Takes those with the lowest indices among the values equal to the last of the ``largest (R, n)``."""
    size, n = values.shape[-1], index.shape[-1]
    edge = largest[:, -1:]
    places = torch.arange(size, device=values.device)
    tied = torch.where(values == edge, places, size - 1).topk(n, largest=False).values
    above = largest > edge
    behind = torch.arange(n, device=values.device) - above.sum(-1, keepdim=True)
    return torch.where(above, index, tied.gather(-1, behind.clamp(min=0)))
