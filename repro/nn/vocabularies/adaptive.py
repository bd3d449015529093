"""A vocabulary in clusters by frequency: rare tokens have narrow vectors, and cost nothing in batches without them."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from repro.nn.device import without_autocast
from repro.nn.vocabularies.clusters import edges_of, group, tied_by_cluster, widths_of
from repro.nn.vocabularies.heads import token_scores


class Projection(nn.Linear):
    """A linear map from a cluster's vectors to the model's, which can also be walked back.

    A class of its own: published initialisations treat it apart from other linear layers.

    Args:
        width: channels of the cluster's vectors.
        outside: channels of the model's.
    """

    def __init__(self, width: int, outside: int) -> None:
        super().__init__(width, outside, bias=False)

    def back(self, hidden: Tensor) -> Tensor:
        """``(..., outside)`` to ``(..., width)`` by the transposed matrix."""
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
        """Vectors of the model's width of ids ``(N,)`` counted from the cluster's first token."""
        vectors = self.table(local)
        return vectors if self.up is None else self.up(vectors)

    def narrow(self, hidden: Tensor) -> Tensor:
        """Hidden states ``(N, D)`` to ``(N, width)``."""
        return hidden if self.down is None else self.down.back(hidden)


class AdaptiveVocabulary(nn.Module):
    """Adaptive input embedding and adaptive softmax over one vocabulary, sorted by falling frequency.

    The cutoffs part the vocabulary into a head and tails. The head scores its own tokens and one logit for each tail
    (``gate``), in the order of the tails; a tail scores its tokens given that the token is one of them:
    ``-log p(w) = -log p(tail) - log p(w | tail)``. Cluster c has vectors of width ``d_embed // div_value ** c``.

    Where ``div_value`` is 1 and no width differs there are no projections. Else every cluster projects its vectors to
    the model's width, with ``div_value`` 1 all by one matrix, and hidden states to its vectors' width, by a matrix of
    its own or by that of its embedding, transposed.

    Everything is computed in the weights' precision, also under autocast: the loss of a large vocabulary is a sum over
    many small probabilities, and it is what perplexities are made of. (Where float32 matrices are too slow,
    ``torch.set_float32_matmul_precision("high")`` trades digits for speed in the open.) Logits of a tail exist only
    for tokens of that tail. A cluster without tokens is computed on zero rows, so that its weights get a zero gradient
    instead of none, which data-parallel training would wait for.

    Args:
        token_width: channels of a token vector going in.
        d_model: D, channels coming out; also the scale ``sqrt(D)`` of the embedding, always applied.
        size: V.
        cutoffs: the first token of each tail, increasing, inside (0, V); empty for one cluster, an ordinary softmax.
        div_value: by which each cluster's vectors are narrower than those of the one before.
        tied: a token's vector going in is also its vector in the softmax.
        tied_projections: for each cluster, the head first, whether hidden states are projected by its embedding's
            matrix; True is all but the head, False none. Without effect where there are no projections.
        head_projection: the head projects hidden states, otherwise it sees them as they are. Without effect where there
            are no projections.
        bias: a bias for each token's score and for each tail's.
        dropout: on hidden states going in to be scored, in [0, 1).
        tail_dropout: on what a tail sees, after its projection, in [0, 1).
        d_embed: channels of the head's vectors; default ``token_width``.

    Raises:
        ValueError: cutoffs out of order or range, a cluster that would have no channel left, tied projections between
            other widths than ``token_width`` equal to D or not one for each cluster, or a head without a projection
            where it needs one.

    Source: Grave et al. 2017 (softmax) and Baevski and Auli 2019 (input, tying), as used by Dai et al. 2019
    (``div_value`` 1 or 4, ``bias``, ``head_projection``; tails' projections tied on WikiText-103, not on One Billion
    Word; ``d_embed`` and ``tied_projections`` as ``tie_projs`` in their code) and Press et al. 2021 (``div_value`` 4,
    tails' projections tied, no bias, no head projection).
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
        tied_projections: bool | list[bool] = True,
        head_projection: bool = True,
        bias: bool = True,
        dropout: float = 0.0,
        tail_dropout: float = 0.0,
        d_embed: int | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.edges = edges_of(size, cutoffs)
        self.token_width = token_width
        self.d_model = d_model
        self.scale = math.sqrt(d_model)
        self.dropout = nn.Dropout(dropout)
        self.tail_dropout = nn.Dropout(tail_dropout)
        widths = widths_of(token_width if d_embed is None else d_embed, div_value, len(cutoffs) + 1)
        tied_too = tied_by_cluster(tied_projections, len(widths))
        pairs = _projections(widths, div_value == 1, token_width, d_model, tied_too, head_projection)
        self.clusters = nn.ModuleList(
            Cluster(self.edges[c + 1] - self.edges[c], widths[c], tied, bias, up, down)
            for c, (up, down) in enumerate(pairs)
        )
        self.gate = nn.Linear(widths[0], len(cutoffs), bias=bias) if cutoffs else None

    def embed(self, ids: Tensor) -> Tensor:
        """Vectors ``(..., token_width)`` of token ids ``(...)``.

        Raises:
            ValueError: an id outside the vocabulary (with one cluster, torch's own error).
        """
        with without_autocast(ids.device):
            vectors = self._embed(ids.flatten()) * self.scale
        return vectors.view(*ids.shape, self.token_width)

    def nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """``-log p`` in nats of targets ``(...)`` given hidden states ``(..., D)``: ``(...)``, in float32 or better.

        Raises:
            ValueError: a target outside the vocabulary (with one cluster, torch's own error).
        """
        with without_autocast(hidden.device):
            return self._nll(self._as_rows(hidden), targets.flatten()).view(targets.shape)

    def log_probs(self, hidden: Tensor) -> Tensor:
        """Log-probabilities ``(..., V)`` given hidden states ``(..., D)``, in float32 or better."""
        head = self.edges[1]
        with without_autocast(hidden.device):
            inputs = self._as_rows(hidden)
            log_probs = _log_softmax(self._head(inputs))
            parts = [log_probs[:, :head]]
            for c in range(1, len(self.clusters)):
                tail = log_probs[:, head + c - 1, None]
                parts.append(tail + _log_softmax(self._tail(c, inputs)))
            return torch.cat(parts, -1).view(*hidden.shape[:-1], self.size)

    def _clusters(self) -> list[Cluster]:
        return [cluster for cluster in self.clusters if isinstance(cluster, Cluster)]

    def _embed(self, ids: Tensor) -> Tensor:
        """Vectors ``(N, token_width)`` of ids ``(N,)``, not scaled."""
        if self.gate is None:  # nothing to sort, and no need to wait for the device
            return self._clusters()[0].embed(ids)
        groups = group(ids, self.edges)
        parts = [cluster.embed(local) for cluster, local in zip(self._clusters(), groups.local, strict=True)]
        grouped = torch.cat(parts)
        return torch.empty_like(grouped).index_copy(0, groups.order, grouped)

    def _nll(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Losses ``(N,)`` of hidden states ``(N, D)``."""
        if self.gate is None:
            return token_scores(self._head(inputs), targets).nll
        groups, head = group(targets, self.edges), self.edges[1]
        in_head = torch.where(groups.cluster == 0, targets, groups.cluster + (head - 1))
        nll = token_scores(self._head(inputs), in_head).nll
        for c, rows in enumerate(groups.rows[1:], start=1):
            tail = token_scores(self._tail(c, inputs.index_select(0, rows)), groups.local[c]).nll
            nll = nll.index_add(0, rows, tail)
        return nll

    def _as_rows(self, hidden: Tensor) -> Tensor:
        """Hidden states as ``(N, D)``, in the weights' precision (autocast may have made them coarser)."""
        return self.dropout(hidden.reshape(-1, self.d_model).to(self._clusters()[0].out.weight.dtype))

    def _head(self, inputs: Tensor) -> Tensor:
        """Logits of the head's tokens and of each tail, ``(N, D)`` to ``(N, head + tails)``."""
        first = self._clusters()[0]
        weight: Tensor = first.out.weight
        bias: Tensor | None = first.bias
        if self.gate is not None:
            # One product and one softmax: joining the weights copies them, joining logits would copy N rows.
            weight = torch.cat([weight, self.gate.weight])
            bias = None if bias is None else torch.cat([bias, self.gate.bias])
        return linear(first.narrow(inputs), weight, bias)

    def _tail(self, c: int, inputs: Tensor) -> Tensor:
        """Logits of a tail's tokens, ``(N, D)`` to ``(N, tokens)``."""
        cluster = self._clusters()[c]
        return linear(self.tail_dropout(cluster.narrow(inputs)), cluster.out.weight, cluster.bias)


def _projections(
    widths: list[int], one_width: bool, token_width: int, d_model: int, tied: list[bool], head: bool
) -> Iterator[tuple[Projection | None, Projection | None]]:
    """Makes ``up`` and ``down`` of :class:`Cluster` for one cluster after another.

    Where all clusters have vectors of one width, ``up`` is the same for all, and there are only the projections that
    this width needs.

    Args:
        widths: of the vectors of each cluster.
        one_width: whether clusters do not narrow; the width of a single cluster does not show it.
        token_width: channels of what the model takes in.
        d_model: channels of its hidden states.
        tied: for each cluster, whether ``down`` is ``up``.
        head: whether the first cluster has a ``down``.

    Raises:
        ValueError: one projection for two widths, or a head that needs a projection and shall have none.
    """
    rises, falls = (not one_width or widths[0] != outside for outside in (token_width, d_model))
    if falls and any(tied) and token_width != d_model:
        raise ValueError(
            f"tied projections need equal widths, not {token_width} in and {d_model} out; set tied_projections: false"
        )
    if falls and not head and (tied[0] or widths[0] != d_model):
        raise ValueError(
            f"a head with vectors of {widths[0]} channels for {d_model}, tied_projections {tied}, "
            "cannot be without a projection; set head_projection: true"
        )
    up = None
    for c, width in enumerate(widths):
        if rises and (up is None or not one_width):
            up = Projection(width, token_width)
        down = None
        if falls and (c or head):
            down = up if tied[c] else Projection(width, d_model)
        yield up, down


def _log_softmax(logits: Tensor) -> Tensor:
    return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
