"""A vocabulary in clusters by frequency: rare tokens have narrow vectors, and cost nothing where they do not occur."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from repro.nn.dropout import Dropout
from repro.nn.heads import token_scores


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
    at_least = torch.stack([(ids >= edge).sum() for edge in edges]).tolist()
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


class Projection(nn.Linear):
    """A linear map ``(D, width)`` from a cluster's vectors to the model's, which can also be walked back.

    A class of its own: published initialisations treat it apart from other linear layers.

    Args:
        width: channels of the cluster's vectors.
        d_model: D.
    """

    def __init__(self, width: int, d_model: int) -> None:
        super().__init__(width, d_model, bias=False)

    def back(self, hidden: Tensor) -> Tensor:
        """``(..., D)`` to ``(..., width)`` by the transposed matrix."""
        return hidden @ self.weight


class Cluster(nn.Module):
    """Tokens next to each other in frequency: their vectors in and out, and the projections to and fro.

    What is tied is one module under two names.

    Args:
        size: tokens.
        width: channels of their vectors.
        tied: the vectors that score are those that embed.
        bias: a bias for each token's score.
        up: from vectors to the model's width; None where the widths are equal.
        down: whose way back takes hidden states to the vectors' width; None leaves them.
    """

    def __init__(
        self, size: int, width: int, tied: bool, bias: bool, up: Projection | None, down: Projection | None
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(size, width)
        self.out = self.table if tied else nn.Linear(width, size, bias=False)
        self.bias = nn.Parameter(torch.zeros(size)) if bias else None
        self.up = up
        self.down = down

    def embed(self, local: Tensor) -> Tensor:
        """Vectors ``(N, D)`` of ids ``(N,)`` counted from the cluster's first token."""
        vectors = self.table(local)
        return vectors if self.up is None else self.up(vectors)

    def narrow(self, hidden: Tensor) -> Tensor:
        """Hidden states ``(N, D)`` to ``(N, width)``."""
        return hidden if self.down is None else self.down.back(hidden)


class AdaptiveVocabulary(nn.Module):
    """Adaptive input embedding and adaptive softmax over one vocabulary, sorted by falling frequency.

    The cutoffs part the vocabulary into a head and tails. The head scores its own tokens and one logit for each tail
    (``gate``), in the order of the tails; a tail scores its tokens given that the token is one of them:
    ``-log p(w) = -log p(tail) - log p(w | tail)``. Cluster c has vectors of width ``D // div_value ** c``.

    Everything is computed in the weights' precision, also under autocast: the loss of a large vocabulary is a sum over
    many small probabilities, and it is what perplexities are made of. (Where float32 matrices are too slow,
    ``torch.set_float32_matmul_precision("high")`` trades digits for speed in the open.) Logits of a tail exist only
    for tokens of that tail. A cluster without tokens is computed on zero rows, so that its weights get a zero gradient
    instead of none, which data-parallel training would wait for.

    Args:
        token_width: channels of a token vector going in; must equal ``d_model``.
        d_model: D, channels coming out; also the scale ``sqrt(D)`` of the embedding.
        size: V.
        cutoffs: the first token of each tail, increasing, inside (0, V); empty for one cluster, an ordinary softmax.
        div_value: by which each cluster is narrower than the one before. With 1 there are no projections; else every
            cluster's embedding has one, also the head's, whose vectors are D wide.
        tied: a token's vector going in is also its vector in the softmax.
        tied_projections: a tail's hidden states are projected by the transpose of its embedding's projection,
            otherwise by a matrix of its own.
        head_projection: the head projects hidden states by a matrix of its own (never tied to the embedding's),
            otherwise it sees them as they are. Without effect where ``div_value`` is 1.
        bias: a bias for each token's score and for each tail's.
        dropout: on hidden states going in to be scored, in [0, 1).
        tail_dropout: on what a tail sees, after its projection, in [0, 1).
        scaled: multiply embeddings by ``sqrt(D)``.

    Raises:
        ValueError: widths that differ, cutoffs out of order or range, or a cluster that would have no channel left.

    Source: Grave et al. 2017 (softmax) and Baevski and Auli 2019 (input, tying), as used by Dai et al. 2019
    (``div_value`` 1 or 4, ``bias``, ``head_projection``; tails' projections tied on WikiText-103, not on One Billion
    Word) and Press et al. 2021 (``div_value`` 4, tails' projections tied, no bias, no head projection).
    Deviation: weights of Dai et al.'s PyTorch code have the tails' logits in reverse; flip them when converting.
    Press et al.'s training loss (fairseq's ``adaptive_loss``) takes the second token of every tail for padding and
    leaves out its ``-log p(w | tail)``, and the padding symbol's row of the embedding learns only from the softmax:
    accidents of two words, not repeated here.
    """

    def __init__(
        self,
        token_width: int,
        d_model: int,
        size: int,
        cutoffs: list[int],
        div_value: int = 1,
        tied: bool = True,
        tied_projections: bool = True,
        head_projection: bool = True,
        bias: bool = True,
        dropout: float = 0.0,
        tail_dropout: float = 0.0,
        scaled: bool = True,
    ) -> None:
        super().__init__()
        if token_width != d_model:
            raise ValueError(
                f"an adaptive vocabulary needs equal widths, not {token_width} in and {d_model} out"
            )
        self.size = size
        self.edges = _edges(size, cutoffs)
        self.d_model = d_model
        self.scale = math.sqrt(d_model) if scaled else 1.0
        self.dropout = Dropout(dropout)
        self.tail_dropout = Dropout(tail_dropout)
        clusters = []
        for c, width in enumerate(_widths(d_model, div_value, len(cutoffs) + 1)):
            up = Projection(width, d_model) if div_value > 1 else None
            shared, own = (tied_projections, True) if c else (False, head_projection)
            down = up if up is None or shared else Projection(width, d_model) if own else None
            clusters.append(Cluster(self.edges[c + 1] - self.edges[c], width, tied, bias, up, down))
        self.clusters = nn.ModuleList(clusters)
        self.gate = nn.Linear(d_model, len(cutoffs), bias=bias) if cutoffs else None

    def embed(self, ids: Tensor) -> Tensor:
        """Vectors ``(..., D)`` of token ids ``(...)``.

        Raises:
            ValueError: an id outside the vocabulary (with one cluster, torch's own error).
        """
        with _full_precision(ids.device):
            vectors = self._embed(ids.flatten()) * self.scale
        return vectors.view(*ids.shape, self.d_model)

    def nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """``-log p`` in nats of targets ``(...)`` given hidden states ``(..., D)``: ``(...)``, in float32 or better.

        Raises:
            ValueError: a target outside the vocabulary (with one cluster, torch's own error).
        """
        with _full_precision(hidden.device):
            return self._nll(self._given(hidden), targets.flatten()).view(targets.shape)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """Log-probabilities ``(..., V)`` given hidden states ``(..., D)``, in float32 or better."""
        head = self.edges[1]
        with _full_precision(hidden.device):
            given = self._given(hidden)
            found = _log_softmax(self._head(given))
            parts = [found[:, :head]]
            for c in range(1, len(self.clusters)):
                tail = found[:, head + c - 1, None]
                parts.append(tail + _log_softmax(self._tail(c, given)))
            return torch.cat(parts, -1).view(*hidden.shape[:-1], self.size)

    def _each(self) -> list[Any]:
        return list(self.clusters)

    def _embed(self, ids: Tensor) -> Tensor:
        """Vectors ``(N, D)`` of ids ``(N,)``, not scaled."""
        if self.gate is None:  # nothing to sort, and no need to wait for the device
            return self._each()[0].embed(ids)
        groups = group(ids, self.edges)
        parts = [cluster.embed(local) for cluster, local in zip(self._each(), groups.local, strict=True)]
        grouped = torch.cat(parts)
        return torch.empty_like(grouped).index_copy(0, groups.order, grouped)

    def _nll(self, given: Tensor, targets: Tensor) -> Tensor:
        """Losses ``(N,)`` of hidden states ``(N, D)``."""
        if self.gate is None:
            return token_scores(self._head(given), targets).nll
        groups, head = group(targets, self.edges), self.edges[1]
        in_head = torch.where(groups.cluster == 0, targets, groups.cluster + (head - 1))
        nll = token_scores(self._head(given), in_head).nll
        for c, rows in enumerate(groups.rows[1:], start=1):
            tail = token_scores(self._tail(c, given.index_select(0, rows)), groups.local[c]).nll
            nll = nll.index_add(0, rows, tail)
        return nll

    def _given(self, hidden: Tensor) -> Tensor:
        """Hidden states as ``(N, D)``, in the weights' precision (autocast may have made them coarser)."""
        return self.dropout(hidden.reshape(-1, self.d_model).to(self._each()[0].out.weight.dtype))

    def _head(self, given: Tensor) -> Tensor:
        """Logits of the head's tokens and of each tail, ``(N, D)`` to ``(N, head + tails)``."""
        first = self._each()[0]
        weight, bias = first.out.weight, first.bias
        if self.gate is not None:
            # One product and one softmax: joining the weights copies them, joining logits would copy N rows.
            weight = torch.cat([weight, self.gate.weight])
            bias = None if bias is None else torch.cat([bias, self.gate.bias])
        return linear(first.narrow(given), weight, bias)

    def _tail(self, c: int, given: Tensor) -> Tensor:
        """Logits of a tail's tokens, ``(N, D)`` to ``(N, tokens)``."""
        cluster = self._each()[c]
        return linear(self.tail_dropout(cluster.narrow(given)), cluster.out.weight, cluster.bias)


def _log_softmax(logits: Tensor) -> Tensor:
    return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def _edges(size: int, cutoffs: list[int]) -> list[int]:
    """Where clusters begin and the last one ends."""
    edges = [0, *cutoffs, size]
    if any(low >= high for low, high in pairwise(edges)):
        raise ValueError(
            f"cutoffs must increase and lie between 0 and the vocabulary's size {size}, not {cutoffs}"
        )
    return edges


def _widths(d_model: int, div_value: int, clusters: int) -> list[int]:
    """The width of each cluster's vectors."""
    if div_value < 1:
        raise ValueError(f"div_value must be at least 1, not {div_value}")
    widths = [d_model // div_value**c for c in range(clusters)]
    if not widths[-1]:
        raise ValueError(
            f"with div_value {div_value}, {clusters} clusters are too many for {d_model} channels: widths {widths}; "
            "take fewer cutoffs or a smaller div_value"
        )
    return widths


@contextmanager
def _full_precision(device: torch.device) -> Iterator[None]:
    with torch.autocast(device.type, enabled=False):
        yield
