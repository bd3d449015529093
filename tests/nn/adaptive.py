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
    "one cluster, projected": {"cutoffs": [], "div_value": 2, "scaled": False},
}
# Both sides of every border, a cluster's only token of the batch, and repetitions.
IDS = torch.tensor([[0, 6, 7, 7, 22], [11, 12, 3, 21, 0]])


def build(**options: Any) -> AdaptiveVocabulary:
    """A vocabulary in float64 with random weights."""
    torch.manual_seed(0)
    made = AdaptiveVocabulary(D, D, V, **{"cutoffs": CUTOFFS, **options})
    return randomise(made.double())  # type: ignore[return-value]


def hidden_states(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, D, generator=generator, dtype=torch.float64).requires_grad_()


def place_of(token: int, cutoffs: list[int]) -> tuple[int, int]:
    """Cluster of a token, and its number in there."""
    edges = [0, *cutoffs]
    c = max(c for c, edge in enumerate(edges) if token >= edge)
    return c, token - edges[c]


def slow_vector(v: Any, token: int, options: dict[str, Any]) -> Tensor:
    c, row = place_of(token, options.get("cutoffs", CUTOFFS))
    vector = v.clusters[c].table.weight[row]
    if options.get("div_value", 1) > 1:
        vector = v.clusters[c].up.weight @ vector
    return vector * (D**0.5 if options.get("scaled", True) else 1.0)


def slow_log_probs(v: Any, h: Tensor, options: dict[str, Any]) -> Tensor:
    """Every token's log-probability ``(V,)`` given one hidden state ``(D,)``."""
    tied, projected = options.get("tied", True), options.get("div_value", 1) > 1

    def logits(c: int) -> Tensor:
        cluster, narrow = v.clusters[c], h
        if projected and c > 0:
            used = cluster.up if options.get("tied_projections", True) else cluster.down
            narrow = used.weight.T @ h
        elif projected and options.get("head_projection", True):
            narrow = cluster.down.weight.T @ h
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
    if ".up." in name:
        return bool(options.get("tied_projections", True)) and "clusters.0." not in name
    return True
