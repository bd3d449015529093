"""Small adaptive vocabularies in every variant, and what they must equal: loops over tokens."""

from typing import Any

import torch
from torch import Tensor

from repro.nn import AdaptiveVocabulary
from tests.nn.mixers import randomise

D, V, CUTOFFS = 8, 23, [7, 12, 16]
VARIANTS: dict[str, dict[str, Any]] = {
    "full width": {},
    "full width, no bias": {"bias": False},
    "full width, untied": {"tied": False},
    "narrow tails": {"div_value": 2},
    "narrow tails, only weights tied": {"div_value": 2, "tied_projections": False},
    "narrow tails, plain head, no bias": {"div_value": 2, "head_projection": False, "bias": False},
    "narrow tails, nothing tied": {"div_value": 2, "tied": False, "tied_projections": False},
    "one cluster": {"cutoffs": []},
    "one cluster, projected": {"cutoffs": [], "div_value": 2},
    "one width, narrower": {"d_embed": 5},
    "one width, wider, untied": {"d_embed": 11, "tied": False, "tied_projections": False},
    "one width, tied by cluster": {"d_embed": 5, "tied_projections": [True, False, True, False]},
    "one cluster, narrower": {"cutoffs": [], "d_embed": 3},
    "one cluster, narrower, all tied": {"cutoffs": [], "d_embed": 3, "tied_projections": [True]},
    "narrow tails, narrower head": {"div_value": 2, "d_embed": 9},
    "narrow tails, tied by cluster": {"div_value": 2, "tied_projections": [True, True, False, True]},
    "narrow tails, narrower head, tied by cluster": {
        "div_value": 2, "d_embed": 9, "tied_projections": [False, False, True, True]
    },
    "narrower tokens": {"token_width": 5, "tied_projections": False},
    "narrower tokens, vectors as wide as hidden states": {"token_width": 5, "d_embed": D},
    "narrower tokens, narrow tails": {"token_width": 5, "div_value": 2, "d_embed": 9, "tied_projections": False},
}  # fmt: skip
# Both sides of every border, a cluster's only token of the batch, and repetitions.
IDS = torch.tensor([[0, 6, 7, 7, 22], [11, 12, 3, 21, 0]])


def build(**options: Any) -> AdaptiveVocabulary:
    """A vocabulary in float64 with random weights."""
    torch.manual_seed(0)
    given = {"token_width": D, "d_model": D, "size": V, "cutoffs": CUTOFFS, **options}
    made = AdaptiveVocabulary(**given)
    return randomise(made.double())  # type: ignore[return-value]


def hidden_states(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, D, generator=generator, dtype=torch.float64).requires_grad_()


def widths(options: dict[str, Any]) -> tuple[int, int, int]:
    """Channels of tokens going in, of the head's vectors, and the divisor."""
    token = options.get("token_width", D)
    return token, options.get("d_embed", token), options.get("div_value", 1)


def tied_by_cluster(options: dict[str, Any]) -> list[bool]:
    """Returns which clusters have one projection for both ways."""
    given, tails = options.get("tied_projections", True), len(options.get("cutoffs", CUTOFFS))
    return given if isinstance(given, list) else [False] + [given] * tails


def place_of(token: int, cutoffs: list[int]) -> tuple[int, int]:
    """Cluster of a token, and its number in there."""
    edges = [0, *cutoffs]
    c = max(c for c, edge in enumerate(edges) if token >= edge)
    return c, token - edges[c]


def slow_vector(v: Any, token: int, options: dict[str, Any]) -> Tensor:
    c, row = place_of(token, options.get("cutoffs", CUTOFFS))
    vector = v.clusters[c].table.weight[row]
    token_width, d_embed, div = widths(options)
    if div > 1:
        vector = v.clusters[c].up.weight @ vector
    elif d_embed != token_width:
        vector = v.clusters[0].up.weight @ vector
    return vector * D**0.5


def slow_log_probs(v: Any, h: Tensor, options: dict[str, Any]) -> Tensor:
    """Every token's log-probability ``(V,)`` given one hidden state ``(D,)``."""
    tied, (_, d_embed, div) = options.get("tied", True), widths(options)
    projected, first = div > 1 or d_embed != D, v.clusters[0]

    def logits(c: int) -> Tensor:
        cluster, narrow = v.clusters[c], h
        if projected and (c > 0 or options.get("head_projection", True)):
            up = cluster.up if div > 1 else first.up
            narrow = (up if tied_by_cluster(options)[c] else cluster.down).weight.T @ h
        rows = list(zip((cluster.table if tied else cluster.out).weight, cluster.bias, strict=True) if
                    options.get("bias", True) else [(w, 0.0) for w in cluster.out.weight])  # fmt: skip
        if c == 0 and v.gate is not None:
            rows += [(w, v.gate.bias[i] if options.get("bias", True) else 0.0)
                     for i, w in enumerate(v.gate.weight)]  # fmt: skip
        return torch.stack([w @ narrow + b for w, b in rows])

    head = logits(0).log_softmax(0)
    words = len(head) - (len(v.clusters) - 1)
    tails = [head[words + c - 1] + logits(c).log_softmax(0) for c in range(1, len(v.clusters))]
    return torch.cat([head[:words], *tails])


def is_scored_by(name: str, options: dict[str, Any]) -> bool:
    """Whether a weight takes part in scoring: an untied one of the embedding does not."""
    if ".table." in name:
        return bool(options.get("tied", True))
    if ".up." not in name:
        return True
    tied, (_, d_embed, div) = tied_by_cluster(options), widths(options)
    return tied[int(name.split(".")[1])] if div > 1 else d_embed != D and any(tied)
