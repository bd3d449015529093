"""GPT-2's weights in a language model built as recipes do, alone and inside memories; and every refusal."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.models import DecoderLM
from repro.models.body import gpt2_blocks, learned
from repro.models.pretrained import POSITIONS, TOKENS, begin_with, statistics, translate
from repro.nn import (
    ContinuousMemory,
    ContinuousSignal,
    FullAttention,
    NoPositions,
    PreNorm,
    RelativeAttention,
    Vocabulary,
)
from tests.models import golden
from tests.nn.mixers import difference
from tests.official_weights import D_MODEL, HEADS, LAYERS, VOCAB, official
from tests.official_weights import POSITIONS as LENGTH

SIGNAL = ContinuousSignal(basis=8, samples=6, tau=0.5, kl_weight=0.0)
BLOCK = 4


def network(
    d_model: int = D_MODEL, n_layers: int = LAYERS, heads: int = HEADS, size: int = VOCAB, length: int = LENGTH,
    memory: bool = False, **changes: Any,
) -> DecoderLM:  # fmt: skip
    """A language model in the shape of GPT-2, random and without dropout."""
    torch.manual_seed(7)
    blocks = gpt2_blocks(heads, 4 * d_model, 0.0)
    if memory:
        short = partial(FullAttention, n_heads=heads)
        blocks.mixers = [partial(ContinuousMemory, short_term=short, block=BLOCK, signal=SIGNAL)]
    for name in changes.keys() & {"mixers", "sublayer", "final_norm"}:
        setattr(blocks, name, changes.pop(name))
    settings: dict[str, Any] = {"positions": learned(length), "dropout": 0.0} | changes
    vocabulary = settings.pop("vocabulary", partial(Vocabulary, size=size, scaled=False))
    return DecoderLM(d_model, n_layers, vocabulary, blocks, **settings).eval()


def golden_network(memory: bool) -> tuple[DecoderLM, dict[str, Tensor], dict[str, Any]]:
    arrays, meta = golden.read("gpt2_lm")
    o = meta["options"]
    net = network(o["n_embd"], o["n_layer"], o["n_head"], o["vocab_size"], o["n_positions"], memory).double()
    begin_with(net, "gpt2", golden.under("w/", arrays), o["n_head"])
    return net, arrays, meta


@pytest.mark.parametrize("memory", [False, True])
@torch.no_grad()
def test_logits_are_those_of_gpt2_also_inside_an_empty_memory(memory: bool) -> None:
    net, arrays, meta = golden_network(memory)
    ids = arrays["in/ids"].long()
    steps = BLOCK if memory else ids.shape[1]
    result = net.vocabulary.logits(net(ids[:, :steps]).y)
    expected = golden.under("out/", arrays)["logits"][:, :steps]
    assert difference(result, expected) < meta["tolerance"]["out"]
    if memory:  # what the second block gets from the first is not GPT-2's
        later = net.vocabulary.logits(net(ids).y)[:, BLOCK:]
        assert difference(later, golden.under("out/", arrays)["logits"][:, BLOCK:]) > 1e-4


def test_a_memory_keeps_its_own_weights() -> None:
    net, before = network(memory=True), network(memory=True).state_dict()
    begin_with(net, "gpt2", official("gpt2"), HEADS)
    expected = {
        name.replace(".mix.body.", ".mix.body.short."): v
        for name, v in translate("gpt2", official("gpt2")).items()
    }
    result = net.state_dict()
    assert {name for name in result if ".long." not in name} == expected.keys()
    assert all(torch.equal(result[name], value) for name, value in expected.items())
    assert all(torch.equal(value, before[name]) for name, value in result.items() if ".long." in name)
    assert any(".long." in name for name in result)


def test_tokens_behind_those_of_the_weights_are_new() -> None:
    net, before = network(size=VOCAB + 3), network(size=VOCAB + 3).state_dict()[TOKENS]
    begin_with(net, "gpt2", official("gpt2"), HEADS)
    result = net.state_dict()[TOKENS]
    assert torch.equal(result[:VOCAB], official("gpt2")["wte.weight"])
    assert torch.equal(result[VOCAB:], before[VOCAB:])


def test_statistics_of_a_language_model_do_not_depend_on_its_memory() -> None:
    plain, memory = network(), network(memory=True)
    for net in (plain, memory):
        begin_with(net, "gpt2", official("gpt2"), HEADS, redraw=3)
    expected = statistics(translate("gpt2", official("gpt2")), 3)
    assert all(torch.equal(plain.state_dict()[name], value) for name, value in expected.items())
    result = memory.state_dict()
    assert all(
        torch.equal(result[n.replace(".mix.body.", ".mix.body.short.")], v) for n, v in expected.items()
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 8, "heads": 2}, r"\[\d+, 16\] in the weights and \[\d+, 8\] in the network"),
        ({"heads": 4}, "n_heads 4"),
        ({"n_layers": 3}, "the network has 3"),
        ({"length": LENGTH + 1}, rf"{POSITIONS} is \[12, 16\] in the weights and \[13, 16\]"),
        ({"size": VOCAB - 1}, rf"{TOKENS} is \[13, 16\] in the weights and \[12, 16\]"),
        ({"positions": NoPositions}, rf"{POSITIONS} \[12, 16\] is not in the network"),
        ({"final_norm": None}, r"stack.final_norm.weight \[16\] is not in the network"),
        ({"sublayer": partial(PreNorm, eps=1e-6)}, "1e-06"),
        ({"vocabulary": partial(Vocabulary, size=VOCAB)}, "scaled: false"),
        ({"vocabulary": partial(Vocabulary, size=VOCAB, scaled=False, tied=False)}, "tied: true"),
        ({"mixers": [partial(RelativeAttention, n_heads=HEADS)]}, "not RelativeAttention"),
        ({"mixers": [partial(FullAttention, n_heads=HEADS, bias=False)]}, r"qkv.bias \[48\] is not in the network"),
    ],
)  # fmt: skip
def test_a_language_model_that_is_not_gpt2_is_refused_and_unchanged(
    changes: dict[str, Any], message: str
) -> None:
    net = network(**changes)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        begin_with(net, "gpt2", official("gpt2"), HEADS)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_another_activation_or_family_is_refused() -> None:
    net = network()
    net.stack.layers[1]["feed_forward"].body.activation = nn.GELU()  # type: ignore[index]
    with pytest.raises(ValueError, match="approximate"):
        begin_with(net, "gpt2", official("gpt2"), HEADS)
    with pytest.raises(ValueError, match="not DecoderLM"):
        begin_with(network(), "bert", official("bert-base-uncased"), HEADS)
