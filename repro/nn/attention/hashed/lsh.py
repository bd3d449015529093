"""Attention to the keys that hash into the same bucket, in chunks of the sorted sequence."""

import torch
from torch import Tensor, nn

from repro.nn.attention.full import head_widths, split_heads
from repro.nn.attention.hashed.arrangement import arrange
from repro.nn.attention.hashed.buckets import empty_buckets, hash_into, round_groups, shared_buckets
from repro.nn.attention.hashed.hashing import Hashing, bucket_ids, draw_rotations
from repro.nn.attention.hashed.windows import attend_in_windows
from repro.nn.attention.relative.shared import attend_to_past, exact, key_scale
from repro.nn.cache import append
from repro.nn.device import without_autocast
from repro.nn.fused import FusedLinear
from repro.nn.mixer import Layout, MixerOutput, State
from repro.nn.settings import AS_BUILT, CallSettings, Hashes


class LSHAttention(nn.Module, Hashes):
    """Shared queries and keys, of which a token sees those that hashing brings near.

    Each of R rounds hashes every query into a bucket, sorts the tokens by bucket and then by place, and cuts the sorted
    sequence into chunks. A token sees the tokens of its own chunk and of the one before (the first chunk looks back at
    the last chunk of the round before; of the last round, for the first) that lie in its bucket, none later than itself
    where the layout is causal, and itself only where it sees nothing else in any round. Scores are ``q · k`` with keys
    ``k = q / |q|``, without a further ``1 / sqrt(E)``. All rounds are one softmax over the pairs they bring together,
    each counted once. :class:`~repro.nn.attention.hashed.hashing.Hashing` changes each of these.

    Rotations are drawn anew in every call, for each round, row and head, or ``shared_rotations`` for each round alone.
    ``MixerOutput.bucket_replay`` are the bucket ids ``(B, H, R, T)``, through which no gradient flows; a call that is
    given them as ``Layout.bucket_replay`` draws as many numbers from torch's generator as one that is not. They are
    None where hashing changes nothing: without rounds, and for at most one chunk of tokens with ``across_buckets``,
    which is exact attention.

    Any length will do: a last chunk that is not full is filled up, and fillers and padding lie in a bucket of their
    own, where nobody sees them.

    With a state a call has no chunks. It sees what it would see if one chunk held the sequence so far: the cached keys
    that lie in its bucket in any round, or all of them with ``across_buckets`` or without rounds; itself only where
    that is nothing. State: ``k (B, S, H, E)`` and ``v (B, S, H, Ev)``, and where buckets decide, their ids ``buckets
    (B, S, H, R)`` and ``rotations (B, H, E, R, W)``. A row draws its rotations with its first token, so that one that
    is reset draws new ones. With a capacity, buckets that are not given are two for each chunk of the capacity.

    Laws I and II hold where the sequence fits into one chunk, or into two with R = 1, ``across_buckets`` and ``wrap``,
    as far as buckets do not change: for ``rounds=0``, for ``across_buckets``, or for given bucket ids. Elsewhere a
    token moves the borders of chunks and so may change *earlier* outputs; benchmarks/README.md states how often and how
    much.

    Args:
        d_model: D.
        n_heads: H.
        hashing: which keys a query attends to; :class:`~repro.nn.settings.CallSettings` may override it.
        d_head: E, width of queries and keys; default ``d_model / n_heads``.
        d_value: Ev, width of values; default ``d_head``.
        bias: biases in the projections.
        dropout: on the attention weights, in [0, 1).

    Raises:
        ValueError: ``d_head`` is not given and ``n_heads`` does not divide ``d_model``.

    Source: Kitaev, Kaiser and Levskaya 2020, section 2.
    Deviation: a pair that N rounds bring together counts in the first of them, instead of N times with 1/N of its
    weight. That is the same but for dropout, which drops it or not. The code behind :meth:`Hashing.averaged` puts
    padding into the first bucket, where it takes places in chunks: here a row's output does not depend on padding.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        hashing: Hashing = Hashing(),  # noqa: B008 (frozen)
        d_head: int | None = None,
        d_value: int | None = None,
        bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.d_head, self.d_value = head_widths(d_model, n_heads, d_head, d_value)
        self.widths = [n_heads * self.d_head, n_heads * self.d_value]
        self.qk_v = FusedLinear(d_model, self.widths, bias=bias)
        self.out = nn.Linear(n_heads * self.d_value, d_model, bias=bias)
        self.hashing = hashing
        self.dropout = dropout

    def init_state(self, batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        """An empty state.

        Raises:
            ValueError: the number of buckets depends on the length, which a capacity does not fix.
        """
        widths = {"k": self.d_head, "v": self.d_value}
        hashing = settings.hashing or self.hashing
        return empty_buckets(batch, widths, self.n_heads, self.qk_v.weight, capacity, hashing)

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Attends; ``x (B, T, D)``. Outputs at padded queries are finite and mean nothing."""
        q, v = (split_heads(part, self.n_heads) for part in self.qk_v(x).split(self.widths, dim=-1))
        hashing = layout.settings.hashing or self.hashing
        scale = key_scale(q, hashing.unit_keys, hashing.scaled)
        dropout = self.dropout if self.training else 0.0
        if state is not None:
            return self._with_state(q, q * scale, v, state, layout, hashing, dropout)
        # Where one chunk holds everything and buckets do not decide, hashing changes nothing.
        if not hashing.rounds or (hashing.across_buckets and x.shape[1] <= hashing.chunk):
            return MixerOutput(self.out(exact(q, q * scale, v, layout, hashing.see_self, dropout)))
        y, buckets = self._in_windows(q, scale, v, layout, hashing, dropout)
        return MixerOutput(self.out(y), bucket_replay=buckets)

    def _in_windows(
        self, q: Tensor, scale: Tensor, v: Tensor, layout: Layout, hashing: Hashing, dropout: float
    ) -> tuple[Tensor, Tensor]:
        rows, steps = q.shape[:2]
        q, scale, v = (t.transpose(1, 2) for t in (q, scale, v))
        # Always both, so that a call that is given its bucket ids leaves torch's generator where the first left it.
        # Drawn on the CPU, wherever the rest is: nothing waits for a device.
        seeds = torch.randint(1 << 62, (2,)).tolist()
        buckets = layout.bucket_replay
        if buckets is None:
            sizes = hashing.sizes(steps)
            shared = (1, 1) if hashing.shared_rotations else (rows, self.n_heads)
            turns = draw_rotations(q, *shared, self.d_head, hashing.rounds, sizes, seed=seeds[0])
            buckets = bucket_ids(q, turns, sizes)
        shape = (rows, self.n_heads, hashing.rounds, steps)
        if buckets.shape != shape:
            raise ValueError(
                f"bucket ids of shape {tuple(buckets.shape)} are given for a call of shape {shape}"
            )
        count = hashing.count(steps)
        arrangement = arrange(buckets, layout.lengths, count, hashing, layout.causal)
        q, scale, v = (t.to(v.dtype).flatten(0, 1) for t in (q, scale, v))
        with without_autocast(q.device):
            y = attend_in_windows(q, scale, v, arrangement, dropout, seeds[1])
        return y.unflatten(0, (rows, self.n_heads)).transpose(1, 2).flatten(2), buckets

    def _with_state(
        self, q: Tensor, k: Tensor, v: Tensor, state: State, layout: Layout, hashing: Hashing, dropout: float
    ) -> MixerOutput:
        start = state["length"]
        ids = hash_into(state, q, layout, hashing)
        cache = state["past"] if "past" in state else state["slots"]
        q, k, v = (t.to(cache["k"].dtype) for t in (q, k, v))
        new = {"k": k, "v": v} if ids is None else {"k": k, "v": v, "buckets": ids.permute(0, 3, 1, 2)}
        cached, state, attention_mask = append(state, new, layout)
        own = start[:, None] + torch.arange(q.shape[1], device=q.device)
        places = torch.arange(cached["k"].shape[1], device=q.device)
        hidden = ~attention_mask if hashing.see_self else ~attention_mask | (places == own[:, None, :, None])
        parts = []
        for rounds in round_groups(ids, cached, hashing.average):
            bias = shared_buckets(hidden, *rounds, hashing.duplicates, q.dtype)
            parts.append(attend_to_past(q, cached["k"], cached["v"], bias, own, dropout))
        return MixerOutput(self.out(torch.stack(parts).mean(0)), state, bucket_replay=ids)
