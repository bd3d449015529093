"""Attention whose weights are products of features: linear in the length, and a recurrent network as well."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from repro.nn.attention.full import SelfAttention
from repro.nn.attention.linear.causal_sums import causal_mean
from repro.nn.device import without_autocast
from repro.nn.mixer import Layout, MixerOutput, State
from repro.nn.settings import AS_BUILT, CallSettings


class EluPlusOne(nn.Module):
    """``elu(x) + 1``: ``x + 1`` above zero and ``exp(x)`` below.

    Source: Katharopoulos et al. 2020, equation 7.
    """

    def forward(self, x: Tensor) -> Tensor:
        """``x`` of any shape."""
        return nn.functional.elu(x).add_(1.0)  # in place: the gradient needs x alone


class LinearAttention(SelfAttention):
    """Multi-head self-attention with weights ``φ(q) · φ(k)`` in place of ``exp(q · k)``; no scale, no dropout in it.

    Every form gives the same. Not causal: one sum over all keys serves all queries. Causal: chunks, with running sums
    between them. Causal with a state and one token: a step of a recurrent network.
    State: ``s = Σ φ(k) vᵀ (B, H, E, Ev)`` and ``z = Σ φ(k) (B, H, E)``, whatever the length. With a capacity, whatever
    its size, they are written in place: ``{"slots": {"s", "z"}}``.
    Features, sums and the division are in float32 or better, whatever the precision.

    Args:
        d_model: D.
        n_heads: H.
        d_head: width of queries and keys; default ``d_model / n_heads``.
        d_value: Ev, width of values; default ``d_head``.
        bias: biases in the projections.
        feature_map: maker of φ, which maps the last axis of a tensor ``(B, T, H, d_head)``, to another width E if it
            likes. Features should not be negative: a denominator near zero is no mean.
        chunk: tokens of a chunk of the causal form.
        eps: added to the denominators.

    Raises:
        ValueError: ``d_head`` is not given and ``n_heads`` does not divide ``d_model``; ``chunk`` is below 1.

    Source: Katharopoulos et al. 2020, section 3; biases, eps and padded keys, which are zeroed after φ, as in its code.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_head: int | None = None,
        d_value: int | None = None,
        bias: bool = True,
        feature_map: Callable[[], nn.Module] = EluPlusOne,
        chunk: int = 32,
        eps: float = 1e-6,
    ) -> None:
        if chunk < 1:
            raise ValueError(f"chunk {chunk} of linear attention must be at least 1")
        super().__init__(d_model, n_heads, d_head, d_value, bias)
        self.feature_map = feature_map()
        self.chunk = chunk
        self.eps = eps

    def init_state(self, batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        weight = self.qkv.weight
        with torch.no_grad():
            features = self.feature_map(widened(weight.new_zeros(batch, 1, self.n_heads, self.d_head)))
        z = torch.zeros_like(features[:, 0])
        sums = {"s": z[..., None].repeat(1, 1, 1, self.d_value), "z": z}
        return sums if capacity is None else {"slots": sums}

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Attends; ``x (B, T, D)``. Outputs at padded queries are finite and mean nothing."""
        if state is not None and x.shape[1] == 1 and layout.lengths is None and layout.causal:
            return self._step(x[:, 0], state)
        q, k, v = self.qkv_heads(x, layout.last)
        with without_autocast(x.device):
            q, k = (self.feature_map(widened(t)) for t in (q, k))
            if layout.lengths is not None:
                valid = torch.arange(x.shape[1], device=x.device) < layout.lengths[:, None]
                k = k.masked_fill(~valid[..., None, None], 0.0)  # after φ: φ(0) is seldom 0
            y, *sums = linear_attention(q, k, widened(v), _past(state), layout.causal, self.chunk, self.eps)
        return MixerOutput(self.out(y.flatten(2).to(v.dtype)), _next_state(state, *sums))

    def _step(self, x: Tensor, state: State) -> MixerOutput:
        """Processes one token of each row, ``x (B, D)``, like a recurrent network, in few operators."""
        rows, keys = len(x), 2 * self.widths[0]
        s, z = _sums(state)
        parts = self.qkv(x)
        with without_autocast(x.device):
            exact = widened(parts)
            features = self.feature_map(exact[:, :keys].view(rows, 1, 2 * self.n_heads, self.d_head))
            q, k = features.view(rows, 2, self.n_heads, features.shape[-1]).unbind(1)
            k, v = k.unsqueeze(-1), exact[:, keys:].view(rows, self.n_heads, 1, self.d_value)
            if "slots" in state:
                s.addcmul_(k, v)
                z.add_(k.squeeze(-1))
            else:
                s, z = torch.addcmul(s, k, v), z + k.squeeze(-1)
                state = {"s": s, "z": z}
            q = q.unsqueeze(2)
            y = torch.matmul(q, s).div_(torch.matmul(q, z.unsqueeze(-1)).add_(self.eps))
        return MixerOutput(self.out(y.flatten(1).to(parts.dtype)).unsqueeze(1), state)


def _past(state: State) -> tuple[Tensor, Tensor] | None:
    return None if state is None else _sums(state)


def _sums(state: State) -> tuple[Tensor, Tensor]:
    sums = state.get("slots", state)
    return sums["s"], sums["z"]


def _next_state(state: State, s: Tensor, z: Tensor) -> State:
    """The next state; written in place where it has a capacity."""
    if state is None:
        return None
    if "slots" not in state:
        return {"s": s, "z": z}
    return {"slots": {"s": state["slots"]["s"].copy_(s), "z": state["slots"]["z"].copy_(z)}}


def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past: tuple[Tensor, Tensor] | None = None,
    causal: bool = True,
    chunk: int = 32,
    eps: float = 1e-6,
) -> tuple[Tensor, Tensor, Tensor]:
    """Means of values ``Σ (q · k) v / (Σ q · k + eps)``, in the form that suits: parallel, chunked or recurrent.

    Args:
        q: features of queries ``(B, T, H, E)``; of fewer queries than keys, causal ones are the last.
        k: features of keys ``(B, S, H, E)``, zero for padding.
        v: values ``(B, S, H, Ev)``.
        past: the sums of earlier tokens, ``s (B, H, E, Ev)`` and ``z (B, H, E)``; None for none.
        causal: whether a query sees only its own place and what came before.
        chunk: tokens of a chunk of the causal form.
        eps: added to the denominators.

    Returns:
        ``(B, T, H, Ev)``, and the sums with these tokens.
    """
    first = k.shape[1] - q.shape[1] if causal else k.shape[1]
    if first:
        past = _add(*(past or _nothing(k, v)), k[:, :first], v[:, :first])
        k, v = k[:, first:], v[:, first:]
    if causal and q.shape[1] > 1 and v.numel():
        return causal_mean(q, k, v, past, chunk, eps)
    s, z = past or _nothing(k, v)
    if causal and q.shape[1] == 1:
        s = torch.addcmul(s, k[:, 0, :, :, None], v[:, 0, :, None])
        z = z + k[:, 0]
    return _read(q, s, z, eps), s, z


def _nothing(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    shape = k.shape[0], *k.shape[2:]
    return k.new_zeros(*shape, v.shape[-1]), k.new_zeros(shape)


def _add(s: Tensor, z: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Adds tokens to the sums."""
    return s + torch.einsum("bshe,bshv->bhev", k, v), z + k.sum(1)


def _read(q: Tensor, s: Tensor, z: Tensor, eps: float) -> Tensor:
    """Outputs ``(B, T, H, V)`` of queries that all read the same sums."""
    divisor = torch.einsum("bthe,bhe->bth", q, z) + eps
    return torch.einsum("bthe,bhev->bthv", q, s) / divisor[..., None]


def widened(x: Tensor) -> Tensor:
    """Converts to float32 or better, since sums over long sequences lose precision in less."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
