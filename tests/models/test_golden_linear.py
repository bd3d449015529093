"""With the same inputs and weights, ours equals idiap's linear attention and its encoder; see tests/golden."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.nn import Blocks, EluPlusOne, FeedForward, Layout, LinearAttention, PostNorm, ResidualStack
from repro.nn.attention.linear.attention import linear_attention
from tests.models import golden
from tests.nn.mixers import difference, gradients, valid

CONTROL = 0.1
PARTS = {
    "attention.out_projection": "mix.body.out",
    "linear1": "feed_forward.body.inner",
    "linear2": "feed_forward.body.outer",
    "norm1": "mix.norm_out",
    "norm2": "feed_forward.norm_out",
}


class Core:
    """A golden file of the attention alone: features are made of its queries and keys, ours from there on."""

    def __init__(self, name: str, causal: bool) -> None:
        self.arrays, meta = golden.read(name)
        self.tolerance, self.eps, self.causal = meta["tolerance"], meta["options"]["eps"], causal
        self.given = [self.arrays[f"in/{kind}"].requires_grad_() for kind in ("queries", "keys", "values")]
        key = "in/lengths" if "in/lengths" in self.arrays else "in/key_lengths"
        self.seen = valid(self.arrays[key], self.given[1].shape[1])[..., None, None]

    def features(self, padded_before: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Features of queries and keys, and values; keys of padding are zero behind the map, by mistake before it."""
        q, k, v = self.given
        if padded_before:
            return EluPlusOne()(q), EluPlusOne()(k * self.seen), v
        return EluPlusOne()(q), EluPlusOne()(k) * self.seen, v

    def values(self, chunk: int = 5, **options: Any) -> Tensor:
        return linear_attention(*self.features(**options), causal=self.causal, chunk=chunk, eps=self.eps)[0]


@pytest.mark.parametrize("chunk", [1, 5, 32])
@pytest.mark.parametrize(("name", "causal"), [("linear_causal", True), ("linear_full", False)])
def test_outputs_and_gradients_of_the_attention(name: str, causal: bool, chunk: int) -> None:
    case = Core(name, causal)
    y = case.values(chunk)
    loss = (y * case.arrays["in/loss_weight"]).sum()
    assert difference(y, case.arrays["out/values"]) < case.tolerance["out"]
    assert difference(loss, case.arrays["out/loss"]) < case.tolerance["out"]
    for kind, grad in zip(("queries", "keys", "values"), torch.autograd.grad(loss, case.given), strict=True):
        assert difference(grad, case.arrays[f"gin/{kind}"]) < case.tolerance["grad"], kind


@pytest.mark.parametrize(("name", "causal"), [("linear_causal", True), ("linear_full", False)])
@torch.no_grad()
def test_control_padding_features_and_causality_show(name: str, causal: bool) -> None:
    case = Core(name, causal)
    expected = case.arrays["out/values"]
    assert difference(case.values(padded_before=True), expected) > CONTROL
    q, k, v = case.features()
    bent = EluPlusOne()(case.given[0]).clamp(min=1.0)  # as if the map were relu(x) + 1
    assert difference(linear_attention(bent, k, v, causal=causal)[0], expected) > 0.01
    scaled = [EluPlusOne()(t * 8**-0.25) for t in case.given[:2]]  # as if scores were divided by sqrt(E)
    assert (
        difference(linear_attention(scaled[0], scaled[1] * case.seen, v, causal=causal)[0], expected) > 0.01
    )
    if causal:
        assert difference(linear_attention(q, k, v, causal=False)[0], expected) > CONTROL
        shifted = torch.cat([torch.zeros_like(k[:, :1]), k[:, :-1]], dim=1)
        assert difference(linear_attention(q, shifted, v)[0], expected) > CONTROL


@torch.no_grad()
def test_states_and_outputs_step_by_step() -> None:
    arrays, meta = golden.read("linear_recurrent")
    tolerance, past, result = meta["tolerance"]["out"], None, []
    q, k, v = (arrays[f"in/{kind}"] for kind in ("queries", "keys", "values"))
    for t in range(q.shape[1]):
        one = slice(t, t + 1)
        y, *past = linear_attention(EluPlusOne()(q[:, one]), EluPlusOne()(k[:, one]), v[:, one], past)  # type: ignore[arg-type]
        result.append(y)
        if t < len(arrays["out/S"]):
            assert difference(past[0], arrays["out/S"][t]) < tolerance
            if t:
                assert difference(past[0], arrays["out/S"][t - 1]) > CONTROL
        assert difference(past[1], arrays["out/Z"][t]) < tolerance
    assert difference(torch.cat(result, dim=1), arrays["out/values"]) < tolerance
    for chunk in (3, 32):
        whole, s, z = linear_attention(EluPlusOne()(q), EluPlusOne()(k), v, chunk=chunk)
        assert difference(whole, arrays["out/values"]) < tolerance
        assert difference(z, arrays["out/Z"][-1]) < tolerance
        _, s, _ = linear_attention(EluPlusOne()(q[:, :6]), EluPlusOne()(k[:, :6]), v[:, :6], chunk=chunk)
        assert difference(s, arrays["out/S"][5]) < tolerance


def ours(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights, or gradients, of idiap's encoder under our names."""
    result: dict[str, Tensor] = {}
    for name, value in theirs.items():
        part, kind = name.rsplit(".", 1)
        if part == "norm":
            result[f"final_norm.{kind}"] = value
            continue
        _, layer, part = part.split(".", 2)
        if part in PARTS:
            result[f"layers.{layer}.{PARTS[part]}.{kind}"] = value
        elif part == "attention.query_projection":  # queries, keys and values, as in our fused projection
            names = [f"layers.{layer}.attention.{p}_projection.{kind}" for p in ("query", "key", "value")]
            result[f"layers.{layer}.mix.body.qkv.{kind}"] = torch.cat([theirs[n] for n in names])
    return result


def encoder(options: dict[str, Any], weights: dict[str, Tensor]) -> ResidualStack:
    """Our encoder with all official weights."""
    heads, width = options["n_heads"], options["n_heads"] * options["query_dimensions"]
    blocks = Blocks(
        mixers=[partial(LinearAttention, n_heads=heads, chunk=4)],
        feed_forward=partial(FeedForward, d_ff=options["feed_forward_dimensions"]),
        sublayer=partial(PostNorm, dropout=0.0, eps=1e-5),
        final_norm=nn.LayerNorm,
    )
    stack = blocks.build(width, options["n_layers"])
    stack.load_state_dict(ours(weights))
    return stack


def test_a_whole_encoder_and_all_its_gradients() -> None:
    arrays, meta = golden.read("linear_encoder")
    stack = encoder(meta["options"], golden.under("w/", arrays))
    x = arrays["in/x"].requires_grad_()
    layers = golden.layer_outputs(stack)
    y = stack(x, None, Layout(True)).y
    assert difference(y, arrays["out/encoder"]) < meta["tolerance"]["out"]
    for i, layer in enumerate(layers):
        assert difference(layer, arrays[f"out/layer{i}"]) < meta["tolerance"]["out"]
    assert len(layers) == meta["options"]["n_layers"]
    got = gradients((y * arrays["in/loss_weight"]).sum(), [x], stack)
    expected = ours(golden.under("grad/", arrays)) | {"input 0": arrays["gin/x"]}
    assert got.keys() == expected.keys()
    for name, grad in got.items():
        assert difference(grad, expected[name]) < meta["tolerance"]["grad"], name


@torch.no_grad()
def test_the_encoder_token_by_token() -> None:
    arrays, meta = golden.read("linear_encoder")
    stack = encoder(meta["options"], golden.under("w/", arrays))
    state, result = stack.init_state(2, capacity=1), []
    for token in arrays["in/x"].split(1, dim=1):
        y, state, *_ = stack(token, state, Layout(True))
        result.append(y)
    assert difference(torch.cat(result, dim=1), arrays["out/encoder"]) < meta["tolerance"]["out"]


@torch.no_grad()
def test_control_direction_final_norm_and_order_of_the_projection_show() -> None:
    arrays, meta = golden.read("linear_encoder")
    x, expected = arrays["in/x"], arrays["out/encoder"]

    def fresh() -> Any:
        return encoder(meta["options"], golden.under("w/", arrays))

    assert difference(fresh()(x, None, Layout(False)).y, expected) > CONTROL
    stack = fresh()
    stack.final_norm = nn.Identity()
    assert difference(stack(x, None, Layout(True)).y, expected) > CONTROL
    stack = fresh()
    for layer in stack.layers:
        weight = layer["mix"].body.qkv.weight
        weight.copy_(torch.cat([weight[16:32], weight[:16], weight[32:]]))  # queries and keys change places
    assert difference(stack(x, None, Layout(True)).y, expected) > CONTROL
