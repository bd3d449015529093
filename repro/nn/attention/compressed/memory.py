"""A mixer with a long past: full attention to a block of tokens, and to compressed vectors of the blocks before it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from repro.nn.attention.compressed.compression import Compression
from repro.nn.attention.compressed.pending import append_new, drop_oldest, empty_pending, most, oldest
from repro.nn.attention.compressed.pieces import cleared, pieces, touching
from repro.nn.attention.compressed.reconstruction import lost
from repro.nn.attention.continuous.long_term import may_hold
from repro.nn.attention.continuous.short_term import queries
from repro.nn.attention.full import FullAttention, attend, split_heads
from repro.nn.attention.relative.past import remember, valid_memory
from repro.nn.cache import append
from repro.nn.mixer import Layout, MixerOutput, State
from repro.nn.settings import AS_BUILT, CallSettings, MemorySettings, Remembers


class CompressedMemory(nn.Module, Remembers):
    """Full attention whose queries also see compressed vectors of earlier blocks, in the same softmax.

    A call is cut into pieces of at most ``block`` tokens. Before each piece, a row with ``block`` inputs that wait
    compresses them, and its newest ``compressed_len`` vectors are kept. The short-term mixer's own projection makes
    keys and values of these vectors. The score of head h = 1, ..., H with the n-th newest of them is lowered by
    ``2^(-8h/H) (i + n)``, where i short-term keys lie before the query; scores of short-term keys stay as they are, so
    that their positions have to come with the inputs. While a row has no compressed vector, its outputs are those of
    the short-term mixer; behind that its ``fused`` has no effect.

    The short-term keys of a token are those of its piece up to itself; decoding in place, those of its block so far.
    Inputs that wait and do not fill a block yet are not seen by later calls. So calls that end where blocks end equal
    the whole, and in place all calls of which no piece goes beyond the end of a block.

    State: ``pending``, the inputs that wait, see :mod:`repro.nn.attention.compressed.pending`. ``compressed (B, C,
    D)``, right-aligned, and ``compressed_length (B,)``. With a capacity it is written in place, and ``short`` is the
    short-term mixer's state for a block. All entries are inputs of the mixer, in a pre-norm sublayer what the norm
    made. Its size does not grow with the past. The mixer does not detach. Memory settings of a call are ignored.

    The auxiliary loss is given in training, where the compression has parameters: ``reconstruction`` times the loss of
    :func:`~repro.nn.attention.compressed.reconstruction.lost` with the queries of the piece that follows on a block,
    as a mean over the blocks of a row that the call compressed. Its gradient reaches the compression only.

    Args:
        d_model: D.
        short_term: maker of the short-term mixer, a :class:`FullAttention`, from ``d_model``.
        block: L, tokens that are compressed at once; a multiple of the compression's rate.
        compressed_len: most compressed vectors of a row.
        compression: maker of the compression from ``d_model``.
        reconstruction: weight of the auxiliary loss, at least 0; 0 leaves it out.

    Raises:
        ValueError: a size below 1, a rate that does not divide ``block``, a negative weight, or another short-term
            mixer.

    Source: Martins, Marinho and Martins 2022, the baseline of the experiment with GPT-2; Rae et al. 2020, section 3;
    the slopes: Press, Smith and Lewis 2022, section 3.
    Deviation: no code of the baseline was released, and that its bias is like ALiBi's is not confirmed. That short-term
    keys have none, and that distances count compressed vectors and not the tokens that they stand for, was decided
    here. Rae et al. train the compression by the auxiliary loss alone; here a block is compressed at the start of the
    call that follows on it, so that the gradient of this call's task loss reaches the compression, also where the state
    is detached between calls.
    """

    def __init__(
        self,
        d_model: int,
        short_term: Callable[[int], nn.Module],
        block: int,
        compressed_len: int,
        compression: Callable[[int], Compression],
        reconstruction: float = 1.0,
    ) -> None:
        super().__init__()
        for name, size in (("block", block), ("compressed_len", compressed_len)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, not {size}")
        if not reconstruction >= 0:
            raise ValueError(f"reconstruction must be at least 0, not {reconstruction}")
        short = short_term(d_model)
        if not isinstance(short, FullAttention):
            raise ValueError(
                f"a compressed memory needs FullAttention as short_term, not {type(short).__name__}"
            )
        self.short = short
        self.compression = compression(d_model)
        if block % self.compression.rate:
            raise ValueError(
                f"block {block} is not a multiple of the compression's rate {self.compression.rate}"
            )
        self.block, self.compressed_len, self.reconstruction = block, compressed_len, reconstruction
        self.learns = reconstruction > 0 and any(True for _ in self.compression.parameters())
        # Tokens that are kept as they are; what was compressed is not counted.
        self.memory = MemorySettings(block)

    def init_state(self, batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        """An empty state for ``batch`` rows; with a capacity for decoding in place."""
        weight, in_place = self.short.qkv.weight, capacity is not None
        state = {
            "pending": empty_pending(batch, 2 * self.block - 1, weight, in_place),
            "compressed": weight.new_zeros(batch, self.compressed_len if in_place else 0, weight.shape[1]),
            "compressed_length": torch.zeros(batch, dtype=torch.long, device=weight.device),
        }
        if in_place:
            state["short"] = self.short.init_state(batch, 2 * self.block)
        return state

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Mixes ``x (B, T, D)``. Outputs at padded tokens are finite and mean nothing.

        Raises:
            ValueError: the layout is not causal.
        """
        if not layout.causal:
            raise ValueError("a compressed memory looks back only; it needs a causal layout")
        now = self.init_state(len(x)) if state is None else state
        outputs, total, count = [], x.new_zeros(len(x)), x.new_zeros(len(x))
        for piece, part in pieces(x, layout, self.block):
            now, old, blocks = self._moved_on(now)
            y, now = self._attend(piece, now, part)
            outputs.append(touching(y, self.compression if old is None else None))
            now["pending"] = append_new(now["pending"], piece, part, 2 * self.block - 1)
            if old is not None and self.training and self.learns:
                total = total + self._lost(piece, old, blocks, part)
                asked = 1 if part.lengths is None else part.lengths > 0  # padding asks nothing of a block
                count = count + (blocks > 0) * asked
        y = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)
        aux = self.reconstruction * total / count.clamp(min=1) if self.training and self.learns else None
        return MixerOutput(y, None if state is None else now, aux)

    def _moved_on(self, state: State) -> tuple[State, Tensor | None, Tensor]:
        """Compresses the oldest block of each row that has one.

        Returns:
            The state; the oldest block of each row ``(B, L, D)``, None where no row has one; and how many vectors were
            made of it, ``(B,)``, 0 for rows that have none.
        """
        pending, size, state = state["pending"], self.block, dict(state)
        full = pending["length"] >= size
        made, in_place = size // self.compression.rate, "short" in state
        blocks = full * made
        state["pending"] = drop_oldest(pending, size * full, size - 1)
        if most(pending) < size:
            return state, None, blocks
        if not may_hold(full):
            if not in_place:  # as wide as where a row is full: states of other rows are joined to it
                columns = state["compressed"].shape[1]
                more = min(columns + made, self.compressed_len) - columns
                state["compressed"] = pad(state["compressed"], (0, 0, more, 0))
            return state, None, blocks
        old = oldest(pending, size)
        past = {"memory": state["compressed"], "length": state["compressed_length"]}
        new = remember(past, self.compression(old), Layout(True, lengths=blocks), self.compressed_len)
        state["compressed"] = past["memory"].copy_(new["memory"]) if in_place else new["memory"]
        state["compressed_length"] = new["length"]
        if in_place:
            state["short"] = cleared(state["short"], full)
        return state, old, blocks

    def _attend(self, x: Tensor, state: State, layout: Layout) -> tuple[Tensor, State]:
        """Outputs of one piece, and the state with its keys and values where there is room for them."""
        short, cache, steps = self.short, state.get("short"), torch.arange(x.shape[1], device=x.device)
        if not state["compressed"].shape[1] or not may_hold(state["compressed_length"] > 0):
            mixed = short(x, cache, layout)
            return mixed.y, state if cache is None else {**state, "short": mixed.state}
        q, k, v = short.qkv_heads(x)
        before, attention_mask = steps[None], (steps <= steps[:, None])[None, None]
        if cache is not None:
            before = cache["length"][:, None] + steps
            keys, cache, attention_mask = append(cache, {"k": k, "v": v}, layout)
            k, v = (keys[name].to(q.dtype) for name in ("k", "v"))
            state = {**state, "short": cache}
        far = self._bias(before, state, torch.promote_types(q.dtype, torch.float32))
        plain = torch.zeros_like(attention_mask, dtype=far.dtype).masked_fill(~attention_mask, -torch.inf)
        size = (*torch.broadcast_shapes(far.shape[:3], plain.shape[:3]), -1)
        bias = torch.cat([far.expand(size), plain.expand(size)], dim=-1).to(q.dtype)
        old_k, old_v = self._project(state["compressed"])
        k, v = torch.cat([old_k.to(k.dtype), k], dim=1), torch.cat([old_v.to(v.dtype), v], dim=1)
        y = attend(q, k, v, bias, False, short.dropout if self.training else 0.0)
        return short.out(y), state

    def _bias(self, before: Tensor, state: State, dtype: torch.dtype) -> Tensor:
        """The bias of scores with compressed vectors, ``(B, H, T, C)``, for ``before (B or 1, T)`` keys."""
        heads, size, device = self.short.n_heads, state["compressed"].shape[1], before.device
        slopes = torch.exp2(-8.0 / heads * torch.arange(1, heads + 1, dtype=dtype, device=device))
        distances = before[:, None, :, None] + torch.arange(size, 0, -1, device=device)
        attention_mask = valid_memory(state["compressed_length"], size)
        bias = -slopes[:, None, None] * distances
        return (
            bias if attention_mask is None else bias.masked_fill(~attention_mask[:, None, None], -torch.inf)
        )

    def _project(self, entries: Tensor, frozen: bool = False) -> tuple[Tensor, Tensor]:
        """Keys ``(B, S, H, E)`` and values ``(B, S, H, Ev)`` of entries ``(B, S, D)``."""
        query, *widths = self.short.widths
        weights = [None if p is None else p[query:] for p in (self.short.qkv.weight, self.short.qkv.bias)]
        if frozen:
            weights = [None if p is None else p.detach() for p in weights]
        key, value = linear(entries, *weights).split(widths, dim=-1)
        return split_heads(key, self.short.n_heads), split_heads(value, self.short.n_heads)

    def _lost(self, x: Tensor, old: Tensor, blocks: Tensor, layout: Layout) -> Tensor:
        """The loss of the queries of a piece ``x`` by the compression of ``old``, for each row: ``(B,)``."""
        with torch.no_grad():
            query = queries(self.short, x)

        def read(entries: Tensor) -> tuple[Tensor, ...]:
            return tuple(part.permute(2, 0, 1, 3) for part in self._project(entries, frozen=True))

        return lost(query.permute(2, 0, 1, 3), read, self.compression, old, blocks, layout.lengths)
