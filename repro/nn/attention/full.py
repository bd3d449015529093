"""Softmax attention over everything, to oneself and to another sequence."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import linear, scaled_dot_product_attention

from repro.nn.cache import empty_cache, written
from repro.nn.fused import FusedLinear
from repro.nn.mixer import Layout, MixerOutput, State
from repro.nn.settings import AS_BUILT, CallSettings

# Many queries behind earlier keys are cut into at most so many blocks, of at least so many queries. Four blocks leave a
# quarter of the unseen half of a square to be read; more save little, and each costs a gradient of all keys.
_BLOCKS, _LEAST = 4, 256


class SelfAttention(nn.Module):
    """Base of multi-head self-attention: one fused projection makes queries, keys and values, another the output.

    Args:
        d_model: D.
        n_heads: H.
        d_head: E, width of queries and keys; None for ``d_model / n_heads``.
        d_value: Ev, width of values; None for ``d_head``.
        bias: biases in the projections.

    Raises:
        ValueError: ``d_head`` is not given and ``n_heads`` does not divide ``d_model``.
    """

    def __init__(
        self, d_model: int, n_heads: int, d_head: int | None, d_value: int | None, bias: bool
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.d_head, self.d_value = head_widths(d_model, n_heads, d_head, d_value)
        self.widths = [n_heads * self.d_head, n_heads * self.d_head, n_heads * self.d_value]
        self.qkv = FusedLinear(d_model, self.widths, bias=bias)
        self.out = nn.Linear(n_heads * self.d_value, d_model, bias=bias)

    def init_state(self, batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        widths = {"k": (self.n_heads, self.d_head), "v": (self.n_heads, self.d_value)}
        return empty_cache(batch, widths, self.qkv.weight, capacity)

    def qkv_heads(self, x: Tensor, last: int | None = None) -> tuple[Tensor, ...]:
        """Queries of the ``last`` tokens of ``x (B, T, D)`` or of all, keys and values of all: ``(B, ·, H, ·)``."""
        if last is None or last >= x.shape[1]:
            parts = self.qkv(x).split(self.widths, dim=-1)
        else:
            query, *others = self.widths
            (w_q, w_kv), bias = self.qkv.weight.split([query, sum(others)]), self.qkv.bias
            b_q, b_kv = (None, None) if bias is None else bias.split([query, sum(others)])
            parts = linear(x[:, -last:], w_q, b_q), *linear(x, w_kv, b_kv).split(others, dim=-1)
        return tuple(split_heads(part, self.n_heads) for part in parts)


class FullAttention(SelfAttention):
    """Multi-head self-attention: ``softmax(q kᵀ / sqrt(E)) v`` for each head, concatenated and projected.

    State: ``k (B, S, H, E)`` and ``v (B, S, H, Ev)``; see :mod:`repro.nn.cache`.

    Args:
        d_model: D.
        n_heads: H.
        d_head: E, width of queries and keys; default ``d_model / n_heads``.
        d_value: Ev, width of values; default ``d_head``.
        bias: biases in the projections.
        dropout: on the attention weights, in [0, 1).
        fused: torch's kernels, which make no table of weights where they can do without; False makes it, as the code
            of the first years did: slower, and its memory grows with the square of the length.

    Raises:
        ValueError: ``d_head`` is not given and ``n_heads`` does not divide ``d_model``.

    Source: Vaswani et al. 2017, section 3.2, equation 1.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_head: int | None = None,
        d_value: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        fused: bool = True,
    ) -> None:
        super().__init__(d_model, n_heads, d_head, d_value, bias)
        self.dropout = dropout
        self.fused = fused

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Attends; ``x (B, T, D)``. Outputs at padded queries are finite and mean nothing."""
        q, k, v = self.qkv_heads(x, layout.last if state is None else None)
        lengths, causal = layout.lengths, layout.causal
        if state is not None:
            length = state["length"]
            keys, state = written(state, {"k": k, "v": v}, layout)
            k, v = (keys[name].to(q.dtype) for name in ("k", "v"))  # autocast's, where it is on
            if causal:
                y = attend_behind(q, k, v, length, self.dropout if self.training else 0.0, self.fused)
                return MixerOutput(self.out(y), state)
            lengths = state["length"].clamp(min=1)
        # Right padding needs no mask under causality: a valid query sees no later key.
        attention_mask = None if causal else key_mask(lengths, k.shape[1])
        if causal and q.shape[1] < k.shape[1]:  # of the last queries alone
            steps = torch.arange(k.shape[1], device=x.device)
            attention_mask, causal = steps <= steps[-q.shape[1] :, None], False
        return MixerOutput(self.out(self._attend(q, k, v, attention_mask, causal)), state)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None, causal: bool) -> Tensor:
        return attend(q, k, v, attention_mask, causal, self.dropout if self.training else 0.0, self.fused)


class CrossAttention(nn.Module):
    """Multi-head attention to another sequence, whose keys and values are made once by :meth:`attend_to`.

    The state has one row for each *memory*; when there are more query rows than memories, consecutive rows
    share one (the beams of a sentence), and nothing is copied.

    Args: as :class:`FullAttention`.

    Source: Vaswani et al. 2017, section 3.2.3.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_head: int | None = None,
        d_value: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.d_head, self.d_value = head_widths(d_model, n_heads, d_head, d_value)
        self.widths = [n_heads * self.d_head, n_heads * self.d_value]
        self.q = nn.Linear(d_model, n_heads * self.d_head, bias=bias)
        self.kv = FusedLinear(d_model, self.widths, bias=bias)
        self.out = nn.Linear(n_heads * self.d_value, d_model, bias=bias)
        self.dropout = dropout

    def attend_to(self, memory: Tensor, lengths: Tensor | None) -> State:
        """Keys and values of ``memory (B, S, D)``, of which ``lengths (B,)`` are valid; carries gradient."""
        k, v = (split_heads(part, self.n_heads) for part in self.kv(memory).split(self.widths, dim=-1))
        if lengths is None:
            return {"k": k, "v": v}
        return {"k": k, "v": v, "length": lengths}

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Attends from ``x (B·K, T, D)`` to a state of B rows; the state is returned as it came."""
        rows, memories = x.shape[0], state["k"].shape[0]
        q = split_heads(self.q(x), self.n_heads)
        q = q.reshape(memories, (rows // memories) * x.shape[1], self.n_heads, self.d_head)
        attention_mask = key_mask(state.get("length"), state["k"].shape[1])
        y = attend(q, state["k"], state["v"], attention_mask, False, self.dropout if self.training else 0.0)
        return MixerOutput(self.out(y.view(rows, x.shape[1], -1)), state)


def head_widths(d_model: int, n_heads: int, d_head: int | None, d_value: int | None) -> tuple[int, int]:
    """Widths of keys and of values, by default ``d_model / n_heads``; a ValueError where one cannot be."""
    if min([n_heads, *(width for width in (d_head, d_value) if width is not None)]) < 1:
        raise ValueError(f"n_heads {n_heads}, d_head {d_head} and d_value {d_value} must be at least 1")
    if d_head is None and d_model % n_heads:
        raise ValueError(
            f"n_heads {n_heads} does not divide d_model {d_model}; give d_head or another n_heads"
        )
    d_head = d_head or d_model // n_heads
    return d_head, d_value or d_head


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """``(B, T, H·E)`` as ``(B, T, H, E)``."""
    return x.unflatten(-1, (n_heads, -1))


def key_mask(lengths: Tensor | None, size: int) -> Tensor | None:
    """Which of ``size`` keys are valid, boolean ``(B, 1, 1, S)``; None where all are."""
    return None if lengths is None else valid_keys(lengths, size)


def valid_keys(lengths: Tensor, size: int) -> Tensor:
    """Which of ``size`` keys are valid, boolean ``(B, 1, 1, S)``."""
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, None]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attention_mask: Tensor | None,
    causal: bool,
    dropout: float,
    fused: bool = True,
) -> Tensor:
    """Softmax attention with the heads on axis 2; ``q (B, T, H, E)`` to ``(B, T, H·Ev)``."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    if fused:
        y = scaled_dot_product_attention(
            q, k, v, attn_mask=attention_mask, dropout_p=dropout, is_causal=causal
        )
    else:
        y = spelled_out(q, k, v, attention_mask, causal, dropout)
    return y.transpose(1, 2).flatten(2)


def attend_behind(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    length: Tensor,
    dropout: float,
    fused: bool = True,
    valid: Tensor | None = None,
) -> Tensor:
    """Causal attention behind earlier keys: query t of a row sees its first ``length + t + 1`` keys.

    On a CPU many queries are cut into blocks, and keys that none of a block sees are not read; of slots, those in use
    are read, and rows in step share their masks.

    Args:
        q: queries ``(B, T, H, E)``.
        k: keys ``(B, S, H, E)``.
        v: values ``(B, S, H, Ev)``.
        length: keys before that of the first query, ``(B,)``.
        dropout: on the weights, in [0, 1).
        fused: as of :class:`FullAttention`.
        valid: which keys may be seen at all, ``(B, 1, 1, S)``; None for all.

    Returns:
        ``(B, T, H·Ev)``.
    """
    steps = size = q.shape[1]
    columns = k.shape[1] - steps
    if steps > 1 and looks_are_free(length):
        columns = int(length.max())
        if columns == 0 and valid is None:
            return attend(q, k[:, :steps], v[:, :steps], None, True, dropout, fused)
        length = length[:1] if bool((length == columns).all()) else length
        size = max(_LEAST, -(-steps // _BLOCKS))
    parts = []
    for a in range(0, steps, size):
        b = min(a + size, steps)
        places = length[:, None] + torch.arange(a, b, device=q.device)
        seen = torch.arange(columns + b, device=q.device) <= places[:, None, :, None]
        seen = seen if valid is None else seen & valid[..., : columns + b]
        parts.append(attend(q[:, a:b], k[:, : columns + b], v[:, : columns + b], seen, False, dropout, fused))
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def looks_are_free(x: Tensor) -> bool:
    """Whether reading a number of a tensor stops nothing: on a CPU, outside a compiled graph."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def spelled_out(
    q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None, causal: bool, p: float
) -> Tensor:
    """Softmax attention that computes the matrix of weights explicitly, without a fused kernel.

    Args:
        q: queries ``(B, H, T, E)``.
        k: keys ``(B, H, S, E)``.
        v: values ``(B, H, S, Ev)``.
        attention_mask: which keys a query sees, broadcast to ``(B, H, T, S)``; None for all.
        causal: a query sees the keys up to its own place; without ``attention_mask`` only.
        p: probability of dropping a weight.

    Returns:
        ``(B, H, T, Ev)``.
    """
    (rows, heads, steps, width), size = q.shape, k.shape[2]
    bias = q.new_zeros(1, 1, 1)
    if causal:
        attention_mask = torch.ones(steps, size, dtype=torch.bool, device=q.device).tril()
    if attention_mask is not None:
        # not minus infinity: a padded query that sees nothing must stay finite
        bias = q.new_zeros(attention_mask.shape).masked_fill(~attention_mask, torch.finfo(q.dtype).min)
        if bias.dim() == 4:
            bias = bias.expand(rows, heads, steps, size).flatten(0, 1)
    scores = torch.baddbmm(
        bias, q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2), alpha=1.0 / math.sqrt(width)
    )
    return torch.bmm(functional.dropout(scores.softmax(-1), p), v.flatten(0, 1)).unflatten(0, (rows, heads))
