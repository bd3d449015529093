"""Bodies: each equals a plain loop over its layers, and has the parts that its paper gives it."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.models import Bert, Body, Gpt2, Recurrent, VisionTransformer
from repro.nn import (
    Blocks,
    ContinuousMemory,
    ContinuousSignal,
    FeedForward,
    FullAttention,
    Layout,
    NormedLSTM,
)
from tests.nn.mixers import difference, randomise, valid
from tests.nn.reference import self_attention

D, LAYERS, HEADS, LONGEST = 12, 2, 3, 9
TRANSFORMERS: dict[str, type[Body]] = {"gpt2": Gpt2, "vit": VisionTransformer, "bert": Bert}
CAUSAL = {"gpt2": True, "vit": False, "bert": False, "lstm": True, "lstm with shortcuts": True}
EPS = {"gpt2": 1e-5, "vit": 1e-6, "bert": 1e-12}


def body(name: str, random: bool = True, **settings: Any) -> Body:
    """A small body in float64, in evaluation mode where its weights are random."""
    torch.manual_seed(0)
    if name in TRANSFORMERS:
        made = TRANSFORMERS[name](D, LAYERS, HEADS, LONGEST, **settings)
    else:
        residual = {"residual": True, "max_length": LONGEST} if name != "lstm" else {}
        made = Recurrent(D, LAYERS, **residual, **settings)
    return randomise(made.double().eval()) if random else made  # type: ignore[return-value]


def vectors(*shape: int, size: float = 1.0) -> Tensor:
    return size * torch.randn(*shape, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def normed(x: Tensor, norm: nn.LayerNorm, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * norm.weight + norm.bias


def tanh_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def erf_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))


def wide(layer: Any, x: Tensor, gelu: Callable[[Tensor], Tensor]) -> Tensor:
    part = layer["feed_forward"].body
    return gelu(x @ part.inner.weight.T + part.inner.bias) @ part.outer.weight.T + part.outer.bias


def mixed(layer: Any, x: Tensor, causal: bool) -> Tensor:
    return self_attention(layer["mix"].body, x, causal)


def by_hand(name: str, net: Any, x: Tensor) -> Tensor:
    """The papers' layers: pre-norm with a norm at the end, or post-norm with a norm of the sums."""
    eps, gelu = EPS[name], tanh_gelu if name == "gpt2" else erf_gelu
    x = x + net.positions.table.table.weight[: x.shape[1]]
    if name == "bert":
        x = normed(x, net.norm, eps)
    for layer in net.stack.layers:
        for part in ("mix", "feed_forward"):
            norm = layer[part].norm_out if name == "bert" else layer[part].norm_in
            y = x if name == "bert" else normed(x, norm, eps)
            y = mixed(layer, y, CAUSAL[name]) if part == "mix" else wide(layer, y, gelu)
            x = normed(x + y, norm, eps) if name == "bert" else x + y
    return x if name == "bert" else normed(x, net.stack.final_norm, eps)


def scaled(name: str, small: bool) -> tuple[Body, Tensor]:
    """A body and its input; where the sums of vectors and positions are small, the epsilon shows."""
    size = (1e-6 if name == "bert" else 1e-2) if small else 1.0
    net = body(name)
    net.positions.table.table.weight.detach().mul_(size)
    return net, vectors(2, 7, size=size)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("name", TRANSFORMERS)
@torch.no_grad()
def test_a_transformer_is_the_plain_loop(name: str, small: bool) -> None:
    net, x = scaled(name, small)
    assert difference(net(x), by_hand(name, net, x)) < 1e-11


@pytest.mark.parametrize("name", TRANSFORMERS)
@torch.no_grad()
def test_the_loop_tells_epsilons_and_activations_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = scaled(name, small=True)
    right = by_hand(name, net, x)
    monkeypatch.setitem(EPS, name, 3 * EPS[name])
    assert difference(by_hand(name, net, x), right) > 1e-6
    monkeypatch.undo()
    mine, other = (tanh_gelu, erf_gelu) if name == "gpt2" else (erf_gelu, tanh_gelu)
    monkeypatch.setitem(globals(), mine.__name__, other)
    assert difference(by_hand(name, net, x), right) > 1e-6


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_every_norm_has_the_epsilon_of_the_paper(name: str) -> None:
    result = [m.eps for m in body(name).modules() if isinstance(m, nn.LayerNorm)]
    assert result == [EPS[name]] * (2 * LAYERS + 1)


@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_who_sees_a_later_token(name: str) -> None:
    net, x = body(name), vectors(2, 8)
    for token in (3, 7):
        other = x.clone()
        other[:, token, 0] += 1.0  # not all channels alike: a norm would take that away
        change = (net(x) - net(other)).abs().amax(-1)
        assert float(change[:, token:].min()) > 1e-6
        if CAUSAL[name]:
            assert float(change[:, :token].max()) == 0.0
        else:
            assert float(change[:, :token].min()) > 1e-6


@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_padding_is_not_seen(name: str) -> None:
    net, x, lengths = body(name), vectors(3, 8), torch.tensor([8, 1, 5])
    noisy = torch.where(valid(lengths, 8)[..., None], x, 9.0 * vectors(3, 8))
    y = net(noisy, lengths)
    for row, n in enumerate(lengths.tolist()):
        assert difference(y[row, :n], net(x[row : row + 1, :n])[0]) < 1e-11


@pytest.mark.parametrize("last", [1, 3, 8, 20])
@pytest.mark.parametrize("lengths", [None, [8, 7, 6]])
@pytest.mark.parametrize("name", CAUSAL)
def test_the_last_outputs_are_those_of_the_whole(name: str, lengths: list[int] | None, last: int) -> None:
    net, x = body(name), vectors(3, 8)
    given = None if lengths is None else torch.tensor(lengths)
    seen = valid(torch.tensor([8, 8, 8]) if given is None else given, 8)[:, -last:, None]
    whole, part = net(x, given)[:, -last:] * seen, net(x, given, last) * seen
    assert difference(part, whole) < 1e-12
    weight = vectors(3, 8)[:, -last:]
    expected = torch.autograd.grad((whole * weight).sum(), list(net.parameters()))
    for ours, other in zip(
        torch.autograd.grad((part * weight).sum(), list(net.parameters())), expected, strict=True
    ):
        assert difference(ours, other) < 1e-11


def test_an_auxiliary_loss_is_refused() -> None:
    signal = ContinuousSignal(basis=8, widths=(0.1,), samples=8, kl_weight=1.0)
    mixer = partial(ContinuousMemory, short_term=partial(FullAttention, n_heads=2), block=3, signal=signal)
    body = Body(8, 1, Blocks([mixer], partial(FeedForward, d_ff=8)))
    with pytest.raises(ValueError, match="no place for the auxiliary loss"):
        body(torch.randn(2, 7, 8))


@pytest.mark.parametrize("name", ["lstm", "lstm with shortcuts"])
@torch.no_grad()
def test_recurrent_layers_are_the_plain_loop(name: str) -> None:
    net, x = body(name), vectors(2, 6)
    h = x if name == "lstm" else x + net.positions.table.table.weight[:6]
    for layer in net.stack.layers:
        y = layer["mix"].body(h, None, Layout(True)).y  # type: ignore[index]
        h = y if name == "lstm" else h + y
    assert torch.equal(net(x), h)
    assert difference(h, x) > 1e-3


def test_recurrent_layers_begin_within_one_over_the_root_of_the_width() -> None:
    torch.manual_seed(0)
    net = Recurrent(64, 2)
    assert not any(isinstance(module, nn.Embedding) for module in net.modules())
    for layer in net.stack.layers:
        assert list(layer) == ["mix"]  # type: ignore[call-overload]
        mixer = layer["mix"].body  # type: ignore[index]
        for linear in (mixer.from_input, mixer.from_state):
            assert 0.1248 < float(linear.weight.detach().abs().max()) <= 0.125
            assert float(linear.weight.detach().std()) == pytest.approx(0.125 / math.sqrt(3), rel=0.02)
            assert 0.115 < float(linear.bias.detach().abs().max()) <= 0.125
        assert float(mixer.cell_norm.weight.detach().abs().max()) <= 0.125
    neutral = Recurrent(64, 2, neutral_norms=True)
    gains = [m.weight for m in neutral.modules() if isinstance(m, nn.LayerNorm)]
    assert len(gains) == 6
    assert all(torch.equal(gain, torch.ones_like(gain)) for gain in gains)


@pytest.mark.parametrize("name", ["vit", "lstm with shortcuts"])
def test_positions_that_begin_at_zero(name: str) -> None:
    table = body(name, random=False).positions.table.table.weight
    assert torch.equal(table, torch.zeros(LONGEST, D))
    assert table.requires_grad


@pytest.mark.parametrize(("name", "std"), [("gpt2", 0.02), ("bert", 0.02), ("vit", 0.02), ("gpt2", 0.1)])
def test_weights_begin_normal(name: str, std: float) -> None:
    torch.manual_seed(0)
    more = {} if std == 0.02 else {"std": std}
    net = TRANSFORMERS[name](128, 1, 4, 256, **more)
    for module in net.modules():
        if isinstance(module, nn.Linear):
            assert float(module.weight.detach().std()) == pytest.approx(std, rel=0.02)
            assert float(module.bias.detach().abs().max()) == 0.0
    if name != "vit":
        assert float(net.positions.table.table.weight.detach().std()) == pytest.approx(std, rel=0.02)


def places(net: Body) -> dict[str, float]:
    """Returns the places of dropout in a transformer, with the rates."""
    layers: list[Any] = list(net.stack.layers)
    result = {"sums": {net.dropout.p}}
    result["weights"] = {layer["mix"].body.dropout for layer in layers}
    result["mixed"] = {layer["mix"].dropout.p for layer in layers}
    result["inside"] = {layer["feed_forward"].body.dropout.p for layer in layers}
    result["wide"] = {layer["feed_forward"].dropout.p for layer in layers}
    assert all(len(rates) == 1 for rates in result.values())
    return {where: rates.pop() for where, rates in result.items()}


@pytest.mark.parametrize("given", [{}, {"dropout": 0.3}, {"dropout": 0.0}])
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_where_a_transformer_drops(name: str, given: dict[str, float]) -> None:
    rate = given.get("dropout", 0.1)
    inside = rate if name == "vit" else 0.0
    expected = {"sums": rate, "weights": rate, "mixed": rate, "inside": inside, "wide": rate}
    assert places(body(name, **given)) == expected


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_sums_are_dropped_behind_the_norm(name: str) -> None:
    net, seen = body(name, dropout=0.5).train(), []
    net.stack.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    x = vectors(40, 9)
    net(x)
    sums = net.norm(x + net.positions.table.table.weight).detach()
    kept = seen[0] != 0
    assert 0.45 < float(kept.double().mean()) < 0.55
    assert difference(seen[0][kept], 2.0 * sums[kept]) < 1e-12


@pytest.mark.parametrize("name", ["lstm", "lstm with shortcuts"])
def test_recurrent_layers_drop_their_state_alone(name: str) -> None:
    net = body(name, dropout=0.5).train()
    rates = [(n, m.p) for n, m in net.named_modules() if isinstance(m, nn.Dropout) and m.p]
    assert rates == [(f"stack.layers.{depth}.mix.body.dropout", 0.5) for depth in range(LAYERS)]
    assert [layer["mix"].body.dropout.p for layer in Recurrent(D).stack.layers] == [0.1] * 3  # type: ignore[index]


def test_the_published_sizes_of_gpt2_without_its_table_of_tokens() -> None:
    sizes = {(768, 12, 12): 124_439_808, (1024, 24, 16): 354_823_168, (1280, 36, 20): 774_030_080}
    for (d, layers, heads), published in sizes.items():
        with torch.device("meta"):
            net = Gpt2(d, layers, heads)
        count = sum(p.numel() for p in net.parameters())
        assert count == layers * (12 * d * d + 13 * d) + 1024 * d + 2 * d == published - 50_257 * d
        mixer: Any = net.stack.layers[0]["mix"].body  # type: ignore[index]
        assert isinstance(mixer, FullAttention)
        assert (mixer.n_heads, mixer.d_head) == (heads, 64)


def test_the_sizes_of_the_others() -> None:
    with torch.device("meta"):
        vit, bert, lstm, star = VisionTransformer(), Bert(), Recurrent(), Recurrent(max_length=1024)
    layers = 12 * (12 * 768**2 + 13 * 768)
    # less BERT's tables of words and segments, and its pooler
    assert count(bert) == 109_482_240 - 30_522 * 768 - 2 * 768 - (768**2 + 768)
    assert count(bert) == layers + 512 * 768 + 2 * 768
    assert count(vit) == layers + 1024 * 768 + 2 * 768
    assert count(lstm) == 3 * (2 * (768 * 3072 + 3072) + 2 * 2 * 3072 + 2 * 768)
    assert count(star) == count(lstm) + 1024 * 768
    assert isinstance(lstm.stack.layers[2]["mix"].body, NormedLSTM)  # type: ignore[index]


def count(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize("name", [*TRANSFORMERS, "lstm with shortcuts"])
def test_a_token_beyond_the_positions_is_refused(name: str) -> None:
    net = body(name)
    assert net(vectors(1, LONGEST)).shape == (1, LONGEST, D)
    with pytest.raises(IndexError):
        net(vectors(1, LONGEST + 1))
