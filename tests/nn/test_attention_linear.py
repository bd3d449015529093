"""Linear attention beyond the laws: its forms are one, its sums stay small and precise, its gradients are right."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from repro.nn import EluPlusOne, Layout, LinearAttention
from repro.nn.attention.linear import causal_sums
from repro.nn.attention.linear.attention import linear_attention
from repro.nn.attention.linear.causal_sums import causal_mean
from repro.nn.device import without_autocast
from repro.nn.mixer import leaves, nbytes
from tests.nn.mixers import D_MODEL, difference, feed, randomise
from tests.nn.reference_linear import phi

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def randn(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def some(steps: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Features of queries and keys, and values."""
    q, k, v = (randn(2, steps, 3, width, seed=i, dtype=dtype) for i, width in enumerate((5, 5, 4)))
    return [phi(q).requires_grad_(), phi(k).requires_grad_(), v.requires_grad_()]


def parallel(q: Tensor, k: Tensor, v: Tensor, chunk: int) -> Tensor:
    """The weights of all pairs at once."""
    weights = torch.einsum("bthe,bshe->bhts", q, k).tril()
    return torch.einsum("bhts,bshv->bthv", weights / (weights.sum(-1, keepdim=True) + 1e-6), v)


def chunked(q: Tensor, k: Tensor, v: Tensor, chunk: int) -> Tensor:
    return linear_attention(q, k, v, chunk=chunk)[0]


def recurrent(q: Tensor, k: Tensor, v: Tensor, chunk: int) -> Tensor:
    outputs, past = [], None
    for parts in zip(*(t.split(1, dim=1) for t in (q, k, v)), strict=True):
        y, *past = linear_attention(*parts, past, chunk=chunk)  # type: ignore[arg-type]
        outputs.append(y)
    return torch.cat(outputs, dim=1)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("steps", [1, 7, 63])
@pytest.mark.parametrize("chunk", [1, 5, 32, 100])
def test_parallel_chunked_and_recurrent_are_the_same(chunk: int, steps: int, dtype: torch.dtype) -> None:
    given, weight = some(steps, dtype), randn(2, steps, 3, 4, seed=9, dtype=dtype)
    result = []
    for form in (parallel, chunked, recurrent):
        y = form(*given, chunk)
        result.append([y, *torch.autograd.grad((y * weight).sum(), given)])
    for other in result[1:]:
        for got, expected in zip(other, result[0], strict=True):
            assert got.dtype == dtype
            assert difference(got, expected) < TOLERANCE[dtype]
    assert all(float(grad.abs().max()) > 0.01 for grad in result[0][1:]) or steps == 1


@pytest.mark.parametrize("cut", [1, 2, 9, 22])
def test_forms_may_follow_each_other(cut: int) -> None:
    given = some(23)
    before, after = ([t[:, :cut] for t in given], [t[:, cut:] for t in given])
    y, *past = linear_attention(*before, chunk=4)
    z, s_end, z_end = linear_attention(*after, past, chunk=6)  # type: ignore[arg-type]
    whole, s_whole, z_whole = linear_attention(*given, chunk=8)
    assert difference(torch.cat([y, z], 1), whole) < 1e-12
    assert difference(s_end, s_whole) < 1e-12
    assert difference(z_end, z_whole) < 1e-12
    all_seen = linear_attention(*given, causal=False)[0]
    assert difference(all_seen[:, -1], whole[:, -1]) < 1e-12
    assert difference(all_seen[:, 0], whole[:, 0]) > 1e-3


@pytest.mark.parametrize("limits", [(16, 1 << 17), (3, 1 << 17), (1, 1 << 17), (16, 24)])
def test_gradients_of_the_chunks_are_those_of_numerical_differences(
    limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(causal_sums, "_CPU", limits)
    sizes = [(1, 9, 2, 2), (1, 9, 2, 2), (1, 9, 2, 1), (1, 2, 2, 1), (1, 2, 2)]  # 5 chunks of 2
    given = [randn(*size, seed=i) for i, size in enumerate(sizes)]
    given = [t if i == 2 else phi(t) for i, t in enumerate(given)]
    given = [t.requires_grad_() for t in given]
    assert gradcheck(lambda q, k, v, s, z: causal_mean(q, k, v, (s, z), 2, 0.1), given)
    assert gradcheck(
        lambda q, k, v: causal_mean(q, k, v, None, 2, 0.0), given[:3]
    )  # fillers divide by something


def test_gradients_when_it_is_used_twice() -> None:
    """Outputs and sums of one call go into another; one query serves both; the graph is walked twice."""
    given = [t if i == 2 else phi(t) for i, t in enumerate(randn(1, 6, 1, 2, seed=i) for i in range(3))]
    given = [t.requires_grad_() for t in given]
    s, z = torch.zeros(1, 1, 2, 2, dtype=torch.float64), torch.zeros(1, 1, 2, dtype=torch.float64)

    def twice(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        y, *past = causal_mean(q, k, v, (s, z), 2, 0.1)
        return causal_mean(q, k + q, y * v, (past[0], past[1]), 4, 0.1)

    assert gradcheck(twice, given)
    loss = twice(*given)[0].square().sum()
    first = torch.autograd.grad(loss, given, retain_graph=True)
    for one, other in zip(first, torch.autograd.grad(loss, given), strict=True):
        assert torch.equal(one, other)


def test_a_second_derivative_is_refused() -> None:
    given = some(5)
    (grad,) = torch.autograd.grad(chunked(*given, 2).square().sum(), given[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


class Largest(TorchDispatchMode):
    """Notes how many numbers the largest tensor holds that anything makes."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        made = [t.untyped_storage().size() // t.element_size() for t in leaves(out) if isinstance(t, Tensor)]
        self.numbers = max([self.numbers, *made])
        return out


def numbers(run: Callable[[], Tensor]) -> int:
    """Those of the largest tensor made on the way there and back."""
    with Largest() as seen:
        run().sum().backward()
    return seen.numbers


def test_sums_of_single_tokens_are_never_made() -> None:
    steps, heads, width = 128, 2, 32
    q, k, v = (randn(1, steps, heads, width, seed=i).exp().requires_grad_() for i in range(3))
    each = steps * heads * width * width
    assert numbers(lambda: linear_attention(q, k, v)[0]) < each / 4
    # The measure sees them where they are made.
    summed = lambda: torch.einsum("bthe,bthev->bthv", q, (k[..., None] * v[..., None, :]).cumsum(1))  # noqa: E731
    assert numbers(summed) >= each


def test_what_is_kept_for_the_way_back_is_little() -> None:
    steps, width = 512, 16
    q, k, v = (randn(1, steps, 2, width, seed=i).exp().requires_grad_() for i in range(3))
    kept: list[int] = []

    def keep(t: Tensor) -> Tensor:
        kept.append(t.untyped_storage().size() // t.element_size())
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        linear_attention(q, k, v, chunk=32)
    token = 2 * width
    assert sum(kept) < 4.2 * steps * token  # queries, keys, values, outputs
    assert max(kept) == steps * token


@pytest.mark.parametrize("kind", ["autocast", "bfloat16"])
def test_sums_and_features_are_precise_in_low_precision(kind: str) -> None:
    torch.manual_seed(0)
    mixer, x = LinearAttention(16, 2), randn(1, 1500, 16, dtype=torch.float32)
    with torch.no_grad():
        mixer.qkv.weight[:32].zero_()  # every feature is 1: z counts tokens, which bfloat16 does to 256 only
        mixer.qkv.bias.zero_()
    expected = mixer(x, None, Layout(True)).y
    if kind == "bfloat16":
        mixer, x = mixer.bfloat16(), x.bfloat16()
    for causal in (True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
            y, state, *_ = mixer(x, mixer.init_state(1), Layout(causal))
            y.float().sum().backward()
        assert y.dtype == torch.bfloat16
        assert all(t.dtype == torch.float32 for t in leaves(state))
        assert torch.equal(state["z"], torch.full((1, 2, 8), 1500.0))
    assert difference(mixer(x, None, Layout(True)).y.float(), expected) < 0.02


def test_gradients_under_autocast_are_those_without() -> None:
    """A stack that recomputes walks back inside autocast."""
    given = some(40, torch.float32)
    expected = torch.autograd.grad(chunked(*given, 8).square().sum(), given)
    loss = chunked(*given, 8).square().sum()
    with torch.autocast("cpu", torch.bfloat16):
        got = torch.autograd.grad(loss, given)
    for a, b in zip(got, expected, strict=True):
        assert difference(a, b) < 1e-5


def test_a_compiled_backward_pass_under_autocast_is_precise() -> None:
    """A compiler traces it with the forward pass, which casts nothing, and runs it where casting is on."""
    given = some(40, torch.float32)

    def exact(*features: Tensor) -> Tensor:
        with without_autocast(features[0].device):
            return chunked(*features, 8)

    expected = torch.autograd.grad(exact(*given).square().sum(), given)
    with torch.autocast("cpu", torch.bfloat16):
        loss = torch.compile(exact, backend="aot_eager", fullgraph=True)(*given).square().sum()
    for a, b in zip(torch.autograd.grad(loss, given), expected, strict=True):
        assert difference(a, b) < 1e-5


def build(**options: Any) -> LinearAttention:
    torch.manual_seed(0)
    return randomise(LinearAttention(D_MODEL, 3, **options).double())  # type: ignore[return-value]


@pytest.mark.parametrize("causal", [True, False])
def test_a_row_without_keys_is_finite(causal: bool) -> None:
    mixer = build()
    x = randn(2, 5, D_MODEL).requires_grad_()
    for state in (None, mixer.init_state(2)):
        y = mixer(x, state, Layout(causal, lengths=torch.tensor([0, 5]))).y
        (grad,) = torch.autograd.grad(y.sum(), x)
        assert y.isfinite().all()
        assert grad.isfinite().all()


@torch.no_grad()
def test_no_tokens_are_fed() -> None:
    mixer = build()
    _, state, *_ = mixer(randn(2, 3, D_MODEL), mixer.init_state(2), Layout(True))
    y, after, *_ = mixer(randn(2, 0, D_MODEL), state, Layout(True))
    assert y.shape == (2, 0, D_MODEL)
    assert all(torch.equal(a, b) for a, b in zip(leaves(after), leaves(state), strict=True))


@torch.no_grad()
def test_no_rows_are_fed() -> None:
    mixer = build()
    for state, steps in (
        (None, 5),
        (mixer.init_state(0), 5),
        (mixer.init_state(0), 1),
        (mixer.init_state(0, 4), 1),
    ):
        assert mixer(randn(0, steps, D_MODEL), state, Layout(True)).y.shape == (0, steps, D_MODEL)


@pytest.mark.parametrize("capacity", [None, 4])
@torch.no_grad()
def test_a_state_stays_as_small_as_it_was(capacity: int | None) -> None:
    mixer = build(d_value=5)
    state = mixer.init_state(2, capacity)
    size = 2 * 3 * (4 * 5 + 4) * 8
    assert nbytes(state) == size
    for part in randn(2, 60, D_MODEL).split([1] * 20 + [40], dim=1):  # more than any capacity
        _, state, *_ = mixer(part, state, Layout(True))
        assert nbytes(state) == size


@pytest.mark.parametrize("steps", [1, 6])
@torch.no_grad()
def test_padding_leaves_the_state_alone(steps: int) -> None:
    mixer = build()
    rows = [randn(9, D_MODEL, seed=b) for b in range(2)]
    _, state = feed(mixer, rows, [[5, 9]], mixer.init_state(2))
    before = [t.clone() for t in leaves(state)]
    _, after, *_ = mixer(
        9.0 * randn(2, steps, D_MODEL), state, Layout(True, lengths=torch.tensor([0, steps]))
    )
    for old, new in zip(before, leaves(after), strict=True):
        assert torch.equal(old[0], new[0])
        assert difference(old[1], new[1]) > 0.01


@torch.no_grad()
def test_elu_plus_one_and_its_tail() -> None:
    x = torch.tensor([-3.0, -0.5, 0.0, 0.5, 80.0], dtype=torch.float64)
    assert difference(EluPlusOne()(x), phi(x)) < 1e-15
    assert float(EluPlusOne()(torch.tensor(-30.0))) >= 0.0


def test_gradient_of_elu_plus_one() -> None:
    assert gradcheck(
        EluPlusOne(), [torch.tensor([-2.0, -0.1, 0.3, 2.0], dtype=torch.float64).requires_grad_()]
    )


class Learned(nn.Module):
    """Features with a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(4, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x).sigmoid()


def test_features_may_be_learned_and_of_another_width() -> None:
    mixer = build(feature_map=Learned)
    assert mixer.init_state(2)["s"].shape == (2, 3, 7, 4)
    x = randn(1, 9, D_MODEL)
    whole = mixer(x, None, Layout(True)).y
    grad = torch.autograd.grad(whole.square().sum(), mixer.feature_map.proj.weight)[0]  # type: ignore[union-attr]
    assert float(grad.abs().max()) > 1e-4
    parts, _ = feed(mixer, [x[0]], [[4], [1], [4]], mixer.init_state(1))
    assert difference(parts[0], whole[0]) < 1e-12


def test_features_that_are_all_zero_give_zero() -> None:
    mixer = build(feature_map=nn.ReLU)
    with torch.no_grad():
        mixer.qkv.bias[:D_MODEL].fill_(-100.0)
    y = mixer(randn(1, 9, D_MODEL), None, Layout(True)).y
    assert difference(y, mixer.out.bias.expand(1, 9, -1)) < 1e-12


@pytest.mark.parametrize("chunk", [0, -4])
def test_a_chunk_without_tokens_is_refused(chunk: int) -> None:
    with pytest.raises(ValueError, match=f"chunk {chunk}"):
        LinearAttention(8, 2, chunk=chunk)


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ValueError, match=r"n_heads 3.*d_model 8"):
        LinearAttention(8, 3)
