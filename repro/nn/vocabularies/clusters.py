"""The clusters of a vocabulary by frequency: their tokens and the widths of their vectors."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from repro.nn.device import host_ints


class Groups(NamedTuple):
    """Token ids ``(N,)`` by cluster. Every tuple has an entry for each cluster, an empty one where no id is in it.

    Attributes:
        cluster: ``(N,)``, the cluster of each id.
        order: ``(N,)``, indices into the ids, cluster by cluster.
        rows: the same in parts, one for each cluster.
        local: the ids of each cluster, counted from its first token.
    """

    cluster: Tensor
    order: Tensor
    rows: tuple[Tensor, ...]
    local: tuple[Tensor, ...]


def group(ids: Tensor, edges: Sequence[int]) -> Groups:
    """Groups ids ``(N,)`` by the clusters ``[edges[c], edges[c + 1])``; waits for the device once.

    Raises:
        ValueError: an id is below the first edge, or not below the last.
    """
    # Counts must be known to the host to split by them, so the check of the range comes for free.
    counts = torch.stack([(ids >= edge).sum() for edge in edges])
    at_least = host_ints(counts, lambda: _at_least(typical_ids(len(ids), edges[-1]), edges))
    if at_least[0] < len(ids) or at_least[-1]:
        wrong = int(ids[(ids < edges[0]) | (ids >= edges[-1])][0])
        raise ValueError(
            f"token id {wrong} is not in a vocabulary of {edges[-1]}; encode with this vocabulary"
        )
    cluster = torch.zeros_like(ids)
    for edge in edges[1:-1]:
        cluster += ids >= edge
    order = cluster.argsort(stable=True)
    rows = order.split([low - high for low, high in pairwise(at_least)])
    local = tuple(ids[row] - first for row, first in zip(rows, edges, strict=False))
    return Groups(cluster, order, rows, local)


def typical_ids(n: int, size: int) -> Tensor:
    """Ids ``(n,)`` as frequent as Zipf's law has them, the likeliest first, for a network without values.

    Token r of V, from 0, has a share of ``ln((r + 2) / (r + 1)) / ln(V + 1)``.
    """
    places = (torch.arange(n, dtype=torch.float64, device="cpu") + 0.5) / max(n, 1)
    return (torch.pow(float(size + 1), places).floor() - 1).long().clamp(0, size - 1)


def _at_least(ids: Tensor, edges: Sequence[int]) -> list[int]:
    return [int((ids >= edge).sum()) for edge in edges]


def edges_of(size: int, cutoffs: list[int]) -> list[int]:
    """The bounds of the clusters.

    Raises:
        ValueError: cutoffs out of order or range.
    """
    edges = [0, *cutoffs, size]
    if any(low >= high for low, high in pairwise(edges)):
        raise ValueError(
            f"cutoffs must increase and lie between 0 and the vocabulary's size {size}, not {cutoffs}"
        )
    return edges


def widths_of(first: int, div_value: int, clusters: int) -> list[int]:
    """The width of each cluster's vectors, ``first // div_value ** c``.

    Raises:
        ValueError: a ``div_value`` below 1, or a width of 0.
    """
    if div_value < 1:
        raise ValueError(f"div_value must be at least 1, not {div_value}")
    widths = [first // div_value**c for c in range(clusters)]
    if widths[-1] < 1:
        raise ValueError(
            f"with div_value {div_value}, {clusters} clusters are too many for {first} channels: widths {widths}; "
            "take fewer cutoffs or a smaller div_value"
        )
    return widths


def tied_by_cluster(tied: bool | list[bool], clusters: int) -> list[bool]:
    """Whether each cluster has one projection for both ways: as given, or True for all but the head.

    Raises:
        ValueError: the number of entries is not that of the clusters.
    """
    flags = [False] + [tied] * (clusters - 1) if isinstance(tied, bool) else tied
    if len(flags) != clusters:
        raise ValueError(f"tied_projections needs an entry for each of {clusters} clusters, not {tied}")
    return flags
