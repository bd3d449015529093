"""Attention with relative positions, a memory, and a compressed memory of what has left it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call

from repro.nn.attention.compressed.compression import Compression
from repro.nn.attention.compressed.pieces import touching
from repro.nn.attention.compressed.reconstruction import lost
from repro.nn.attention.relative.attention import RelativeAttention
from repro.nn.attention.relative.distance import Norm
from repro.nn.attention.relative.past import remember, valid_memory
from repro.nn.mixer import Layout, MixerOutput, State
from repro.nn.settings import AS_BUILT, CallSettings, MemorySettings


class CompressiveAttention(RelativeAttention):
    """:class:`RelativeAttention` over compressed memory, memory and the tokens of the call, in this order.

    What leaves the memory is compressed, block by block of c inputs, and the newest ``compressed_len`` results are
    kept. Every entry has one position: the oldest input in the memory follows directly on the newest compressed entry.
    Inputs that have left the memory and do not fill a block yet wait in it and are still seen, so that blocks do not
    depend on how a sequence is cut into calls. The queries of a call see the memories as they were before it.

    State: ``{"past": {"memory": (B, M, D), "compressed": (B, C, D)}, "length": (B,), "compressed_length": (B,)}``, both
    right-aligned, M at most ``mem_len + c - 1``. Entries are inputs; in a pre-norm sublayer they are inputs of the
    norm, which is computed anew, also of the compressed ones. The mixer does not detach. For decoding, with a capacity,
    the state is the same at full size, under the name ``slots``, and written in place; keys and values are computed
    anew in every call. A capacity below ``mem_len`` is a shorter memory.

    The auxiliary loss is given in training for calls with a state, where the compression has parameters: the
    attention-reconstruction loss of each row. Its gradient reaches the compression only. Where the task detaches the
    state between calls, as for Transformer-XL, the compression is trained by nothing else.

    Args:
        d_model: D, even.
        n_heads: H.
        mem_len: inputs of earlier calls that are kept as they are, at least 1.
        compressed_len: most entries of the compressed memory, at least 1.
        compression: maker of the compression from ``d_model``.
        d_head: E; default ``d_model / n_heads``.
        dropout: on the attention weights, in [0, 1).
        position_dropout: on the sinusoids, in [0, 1).
        shared_biases: as :class:`RelativeAttention`.
        reconstruction: weight of the auxiliary loss, at least 0; 0 leaves it out.

    Raises:
        ValueError: as :class:`RelativeAttention`; or a length below 1 or a negative weight.

    Source: Rae et al. 2020, section 3.1; the loss: section 3.2, as a mean of squares, as in the authors' code in Sonnet
    1 (``nets/transformer.py``).
    Deviation: their code divides the loss by the number of layers; a stack here adds up its layers, so that
    ``reconstruction`` has to set it. It projects distances of the compressed memory with weights of its own and counts
    them as if the memory did not lie between; in a pre-norm layer it keeps and compresses what the norm made; its
    memories begin full of zeros, ours empty. Its calls have a multiple of c inputs, so that none wait.
    """

    rereads = False

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        mem_len: int,
        compressed_len: int,
        compression: Callable[[int], Compression],
        d_head: int | None = None,
        dropout: float = 0.0,
        position_dropout: float = 0.0,
        shared_biases: bool = True,
        reconstruction: float = 1.0,
    ) -> None:
        super().__init__(d_model, n_heads, d_head, mem_len, dropout, position_dropout, shared_biases)
        for name, length in (("mem_len", mem_len), ("compressed_len", compressed_len)):
            if length < 1:
                raise ValueError(f"{name} must be at least 1, not {length}")
        if not reconstruction >= 0:
            raise ValueError(f"reconstruction must be at least 0, not {reconstruction}")
        self.compression = compression(d_model)
        self.compressed_len = compressed_len
        self.reconstruction = reconstruction
        self.learns = reconstruction > 0 and any(True for _ in self.compression.parameters())

    def init_state(self, batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        """An empty state for ``batch`` rows; with a capacity for decoding in place.

        Raises:
            ValueError: the settings ask for ``same_length``.
        """
        mem_len, weight = self._memory_settings(settings).mem_len, self.qkv.weight
        sizes = {"memory": 0, "compressed": 0}
        if capacity is not None:
            waiting = self.compression.rate - 1
            sizes = {"memory": min(capacity, mem_len) + waiting, "compressed": self.compressed_len}
        vectors = {name: weight.new_zeros(batch, size, weight.shape[1]) for name, size in sizes.items()}
        length = torch.zeros(batch, dtype=torch.long, device=weight.device)
        kind = "past" if capacity is None else "slots"
        return {kind: vectors, "length": length, "compressed_length": length.clone()}

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Attends; ``x (B, T, D)``. Outputs at padded queries are finite and mean nothing.

        Raises:
            ValueError: the layout is not causal, or the settings ask for ``same_length``.
        """
        if not layout.causal:
            raise ValueError("attention by distance looks back only; it needs a causal layout")
        memory = self._memory_settings(layout.settings)
        if state is None:
            return MixerOutput(touching(self._attend(x, None, None, None, memory), self.compression))
        past, attention_mask = packed(state)
        y = touching(self._attend(x, past, attention_mask, layout.norm, memory), self.compression)
        old, blocks, state = self._moved_on(x, state, layout, memory.mem_len)
        aux = None
        if self.training and self.learns:
            aux = x.new_zeros(len(x)) if old is None else self._reconstruction(x, old, blocks, layout)
        return MixerOutput(y, state, aux)

    def _memory_settings(self, settings: CallSettings) -> MemorySettings:
        memory = settings.memory or self.memory
        if memory.same_length:
            raise ValueError(
                "same_length would hide the compressed memory; set same_length: false for CompressiveAttention"
            )
        return memory

    def _moved_on(
        self, x: Tensor, state: State, layout: Layout, mem_len: int
    ) -> tuple[Tensor | None, Tensor, State]:
        """The state after a call, and what has been compressed for it.

        Returns:
            The oldest inputs ``(B, N·c, D)`` of each row in order, None where no row can have a block; how many of the
            N blocks have left the row's memory, ``(B,)``; the state.
        """
        kind = "slots" if "slots" in state else "past"
        memory, compressed = state[kind]["memory"], state[kind]["compressed"]
        rate, steps, inputs = self.compression.rate, x.shape[1], x if layout.stream is None else layout.stream
        stays = mem_len if kind == "past" else memory.shape[1] - rate + 1
        total = state["length"] + (steps if layout.lengths is None else layout.lengths)
        blocks, most = (total - stays).clamp(min=0) // rate, max(0, memory.shape[1] + steps - stays) // rate
        remembered = remember({"memory": memory, "length": state["length"]}, inputs, layout, stays + rate - 1)
        old, new = None, {"memory": compressed, "length": state["compressed_length"]}
        if most:
            old = oldest(memory, state["length"], inputs, most * rate)
            new = remember(new, self.compression(old), Layout(True, lengths=blocks), self.compressed_len)
        vectors = {"memory": remembered["memory"], "compressed": new["memory"]}
        if kind == "slots":
            vectors = {name: state[kind][name].copy_(tensor) for name, tensor in vectors.items()}
        return (
            old,
            blocks,
            {kind: vectors, "length": total - blocks * rate, "compressed_length": new["length"]},
        )

    def _reconstruction(self, x: Tensor, old: Tensor, blocks: Tensor, layout: Layout) -> Tensor:
        """The weighted :func:`~repro.nn.attention.compressed.reconstruction.lost` of ``old (B, N·c, D)``, ``(B,)``."""
        width, weight = self.n_heads * self.d_head, self.qkv.weight.detach()
        (query,) = self._project(x.detach(), weight[:width])
        norm = frozen(layout.norm)

        def read(entries: Tensor) -> tuple[Tensor, ...]:
            return self._project(norm(entries), weight[width:])

        return self.reconstruction * lost(query, read, self.compression, old, blocks, layout.lengths)


def packed(state: State) -> tuple[Tensor, Tensor | None]:
    """Compressed memory and memory of each row without a gap between them, right-aligned.

    Returns:
        Entries ``(B, C+M, D)``, and which of them are valid, boolean ``(B, C+M)``; None where there are none.
    """
    vectors = state["slots"] if "slots" in state else state["past"]
    both = torch.cat([vectors["compressed"], vectors["memory"]], dim=1)
    size, missing = both.shape[1], vectors["memory"].shape[1] - state["length"]
    places = torch.arange(size, device=both.device)
    in_memory = places >= size - state["length"][:, None]
    places = torch.where(in_memory, places, places - missing[:, None]).clamp(min=0)
    entries = both.gather(1, places[..., None].expand(-1, -1, both.shape[2]))
    return entries, valid_memory(state["length"] + state["compressed_length"], size)


def oldest(memory: Tensor, length: Tensor, x: Tensor, count: int) -> Tensor:
    """The oldest inputs of memory and call of each row, ``(B, count, D)``; rows that have fewer give anything.

    Args:
        memory: right-aligned, ``(B, M, D)``.
        length: valid entries of it, ``(B,)``.
        x: inputs of the call, ``(B, T, D)``.
        count: at most ``M + T``.
    """
    both = torch.cat([memory, x], dim=1)
    first = memory.shape[1] - length
    places = (first[:, None] + torch.arange(count, device=x.device)).clamp(max=both.shape[1] - 1)
    return both.gather(1, places[..., None].expand(-1, -1, both.shape[2]))


def frozen(norm: Norm | None) -> Norm:
    """The norm without gradients for its parameters; the identity for None."""
    if isinstance(norm, nn.Module):
        module, weights = norm, {name: tensor.detach() for name, tensor in norm.named_parameters()}
        return lambda x: functional_call(module, weights, (x,))
    return norm or (lambda x: x)
