"""Captured attention: the weights are those that were used, by the module that used them, and nothing changes."""

from functools import partial

import pytest
import torch
from torch import nn

from repro.models import DecoderLM, EncoderDecoder
from repro.nn import Blocks, CrossAttention, FeedForward, FullAttention, LinearAttention, Vocabulary
from repro.nn.attention_capture import capture_attention, weights_of
from repro.nn.mixer import Layout

D, H = 8, 2


def translator() -> EncoderDecoder:
    torch.manual_seed(0)
    heads = partial(FullAttention, n_heads=H, dropout=0.1)
    blocks = Blocks([heads], partial(FeedForward, d_ff=16), cross=partial(CrossAttention, n_heads=H))
    return EncoderDecoder(D, 1, 2, partial(Vocabulary, size=11), blocks).double().eval()


@torch.no_grad()
def test_weights_give_what_the_layer_gave() -> None:
    torch.manual_seed(0)
    layer = FullAttention(D, H).double()
    x = torch.randn(3, 5, D, dtype=torch.float64)
    lengths = torch.tensor([5, 2, 4])
    for causal in (True, False):
        with capture_attention(layer) as result:
            y = layer(x, None, Layout(causal=causal, lengths=lengths)).y
        (weights,) = result.values()
        assert weights.shape == (3, H, 5, 5)
        values = layer.qkv(x)[..., -D:].unflatten(-1, (H, -1)).transpose(1, 2)
        again = layer.out((weights @ values).transpose(1, 2).flatten(2))
        assert float((again - y).abs().max()) < 1e-12
        assert float((weights.sum(-1) - 1).abs().max()) < 1e-12
        assert bool((weights[1, :, :, 2:] == 0).all()) or causal
        assert bool((weights.triu(1) == 0).all()) == causal


@torch.no_grad()
def test_every_attention_of_a_translator_is_there_by_its_name() -> None:
    net = translator()
    source, target = torch.randint(11, (1, 6)), torch.randint(11, (1, 4))
    plain = net(source, None, target).y
    with capture_attention(net) as result:
        y = net(source, None, target).y
    assert torch.equal(y, plain), "capturing changes nothing"
    assert {name: tuple(w.shape[2:]) for name, w in result.items()} == {
        "encoder.layers.0.mix.body": (6, 6),
        "decoder.layers.0.mix.body": (4, 4),
        "decoder.layers.0.cross.body": (4, 6),
        "decoder.layers.1.mix.body": (4, 4),
        "decoder.layers.1.cross.body": (4, 6),
    }


@torch.no_grad()
def test_nobody_watches_afterwards() -> None:
    net = translator()
    source, target = torch.randint(11, (1, 6)), torch.randint(11, (1, 4))
    with capture_attention(net) as result:
        net(source, None, target)
        with pytest.raises(RuntimeError):
            net(source, None, torch.zeros(1, 4, 1, dtype=torch.long))
    before = {name: weights.shape for name, weights in result.items()}
    net(source[:, :3], None, target)
    assert {name: weights.shape for name, weights in result.items()} == before
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


@torch.no_grad()
def test_what_has_no_table_of_weights_does_not_appear() -> None:
    torch.manual_seed(0)
    blocks = Blocks([partial(LinearAttention, n_heads=H)], partial(FeedForward, d_ff=16))
    net = DecoderLM(D, 1, partial(Vocabulary, size=11), blocks).eval()
    with capture_attention(net) as result:
        net(torch.randint(11, (1, 6)))
    assert result == {}


@pytest.mark.parametrize("mask", [None, "keys", "added"])
def test_masks_of_every_kind(mask: str | None) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 1, n, 4, dtype=torch.float64) for n in (3, 5, 5))
    attention_mask = torch.rand(2, 1, 3, 5) < 0.7
    attention_mask[..., 0] = True
    added = torch.zeros(attention_mask.shape, dtype=q.dtype).masked_fill(~attention_mask, -torch.inf)
    given = {None: None, "keys": attention_mask, "added": added}[mask]
    y = nn.functional.scaled_dot_product_attention(q, k, v, given, scale=0.3)
    assert float((weights_of(q, k, v, given, scale=0.3) @ v - y).abs().max()) < 1e-12
