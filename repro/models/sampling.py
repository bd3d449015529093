"""One sequence at a time: greedy decoding and sampling, over carried state."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from repro.models.decodable import (
    Decodable,
    Decoded,
    compact,
    decoded,
    row_limits,
    step,
    stepping,
    store,
    top,
)
from repro.nn.mixer import State, reorder

# From log-probabilities (R, V), the rows of the first batch they belong to (R,) and the step to tokens (R,).
_Choice = Callable[[Tensor, Tensor, int], Tensor]


def greedy(model: Decodable, state: State, first: Tensor, max_new: int | Tensor, eos: int | None) -> Decoded:
    """Takes the likeliest token at each step; of equal ones, the lowest id.

    Args:
        model: in any mode; dropout is off meanwhile.
        state: B rows in stream and memory, with a capacity of at least max_new; consumed.
        first: last token of each prompt, ``(B,)``.
        max_new: most new tokens, one number or ``(B,)``, the end symbol counted; at least 1.
        eos: the end symbol, or None where there is none.

    Raises:
        ValueError: max_new is below 1.
        FloatingPointError: the model's outputs are not numbers.
    """

    def choose(log_probs: Tensor, rows: Tensor, at: int) -> Tensor:
        return log_probs.argmax(-1)

    return _extend(model, state, first, max_new, eos, choose)


def sample(
    model: Decodable,
    state: State,
    first: Tensor,
    max_new: int | Tensor,
    eos: int | None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Decoded:
    """Draws each token from the model's distribution, first sharpened, then cut to top_k, then to top_p.

    All random numbers are drawn beforehand, so a row's sample depends on the seed, its place in the batch and
    the largest max_new, never on the other rows' contents.

    Args:
        model, state, first, max_new, eos: as for :func:`greedy`.
        temperature: divides the log-probabilities, above 0.
        top_k: draw from the k likeliest tokens only, at least 1.
        top_p: draw from the smallest set of likeliest tokens whose probability is at least this, in (0, 1].
        generator: on any device; None uses the global one of the model's device.

    Raises:
        ValueError: an argument is out of range.
        FloatingPointError: the model's outputs are not numbers.
    """
    if not 0 < temperature < float("inf"):
        raise ValueError(f"temperature must be above 0 and finite, not {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, not {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, not {top_p}")
    _, longest = row_limits(max_new, first)
    where = first.device if generator is None else generator.device
    uniform = torch.rand(first.shape[0], longest, generator=generator, device=where).to(first.device)

    def choose(log_probs: Tensor, rows: Tensor, at: int) -> Tensor:
        likeliest, ids = restrict(log_probs / temperature, top_k, top_p)
        place = draw(likeliest, uniform[rows, at])
        return place if ids is None else ids.gather(-1, place[:, None]).squeeze(-1)

    return _extend(model, state, first, max_new, eos, choose)


def restrict(logits: Tensor, top_k: int | None, top_p: float | None) -> tuple[Tensor, Tensor | None]:
    """The tokens that may be drawn.

    Args:
        logits: ``(R, V)``, normalised or not.
        top_k: as in :func:`sample`.
        top_p: as in :func:`sample`; of what ``top_k`` leaves.

    Returns:
        Probabilities ``(R, n)``, zero for what is cut, and the token ids they belong to; None: all, in order.
    """
    size = logits.shape[-1]
    # A mass of 1 is everything; rounding could cut the tail.
    mass = None if top_p == 1 else top_p
    if mass is None and (top_k is None or top_k >= size):
        return logits.softmax(-1), None
    values, ids = top(logits, size if top_k is None else min(top_k, size))
    probabilities = values.softmax(-1)
    if mass is not None:
        before = pad(probabilities.cumsum(-1)[:, :-1], (1, 0))
        probabilities = torch.where(before < mass, probabilities, 0.0)
    return probabilities, ids


def draw(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """Inverts the cumulative distribution: one index for each row.

    Args:
        probabilities: ``(R, n)``, up to a factor; zero is never drawn.
        uniform: in [0, 1), ``(R,)``.
    """
    cumulative = probabilities.cumsum(-1)
    target = uniform.to(cumulative.dtype)[:, None] * cumulative[:, -1:]
    place = torch.searchsorted(cumulative, target, right=True).squeeze(-1)
    return place.clamp(max=probabilities.shape[-1] - 1)  # where they are no numbers, which the caller refuses


def _extend(
    model: Decodable, state: State, first: Tensor, max_new: int | Tensor, eos: int | None, choose: _Choice
) -> Decoded:
    limits, longest = row_limits(max_new, first)
    with stepping(model, longest):
        live = {"row": torch.arange(first.shape[0], device=first.device), "limit": limits}
        live["ids"] = torch.zeros(first.shape[0], longest, dtype=torch.long, device=first.device)
        live |= {"lengths": torch.zeros_like(limits), "open": torch.ones_like(limits, dtype=torch.bool)}
        results: dict[str, Tensor] = {}
        last = first
        for at in range(longest):
            log_probs, state = step(model, last, state)
            last = choose(log_probs, live["row"], at)
            if at == 0:
                live["log_probs"] = log_probs.new_zeros(first.shape[0])
                results = {name: live[name].clone() for name in ("ids", "lengths", "log_probs")}
            _note(live, log_probs, last, at, eos)
            keep = compact(live["open"], int(live["open"].sum()))  # the step's only synchronisation
            if keep is not None:
                store(results, live["row"], live)
                live, state, last = reorder(live, keep), reorder(state, keep), last[keep]
                if not keep.shape[0]:
                    break
        return decoded({**results, "scores": results["log_probs"].clone()})


def _note(live: dict[str, Tensor], log_probs: Tensor, token: Tensor, at: int, eos: int | None) -> None:
    """Appends a token to every row that is still open, and closes rows that end here."""
    gained = log_probs.gather(-1, token[:, None]).squeeze(-1)
    live["ids"][:, at] = torch.where(live["open"], token, 0)
    live["log_probs"] = live["log_probs"] + torch.where(live["open"], gained, 0.0)
    live["lengths"] = live["lengths"] + live["open"]
    live["open"] = live["open"] & (live["limit"] > at + 1)
    if eos is not None:
        live["open"] = live["open"] & (token != eos)
