"""Official weights under our names: every source fits, statistics only, and every refusal."""

import re
from typing import Any

import pytest
import torch
from torch import nn

from repro.data.registry import DATA_SETS
from repro.data.sets.weights.pretrained import PretrainedWeights
from repro.models import Bert, Body, Gpt2, VisionTransformer
from repro.models.body import gpt2_blocks, learned
from repro.models.pretrained import FAMILIES, TOKENS, begin_with, fill, statistics, translate
from tests.official_weights import (
    BESIDE,
    D_MODEL,
    HEADS,
    LAYERS,
    POSITIONS,
    TINY,
    Architecture,
    numbers_in,
    official,
)

ARCHITECTURES = {
    "gpt2": Architecture("gpt2", 768, 12, 12, 1024, 50257),
    "gpt2-medium": Architecture("gpt2", 1024, 24, 16, 1024, 50257),
    "gpt2-large": Architecture("gpt2", 1280, 36, 20, 1024, 50257),
    "bert-base-uncased": Architecture("bert", 768, 12, 12, 512, 30522),
    "vit-base": Architecture("vit", 768, 12, 12),
}
BODIES: dict[str, type[Any]] = {"gpt2": Gpt2, "bert": Bert, "vit": VisionTransformer}


def body_of(family: str, **more: Any) -> Any:
    """A tiny body of a family, random and without dropout."""
    sizes = {
        "d_model": D_MODEL,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "max_length": POSITIONS,
        "dropout": 0.0,
    }
    torch.manual_seed(5)
    return BODIES[family](**{**sizes, **more}).eval()


def source_of(family: str) -> str:
    return next(name for name, architecture in TINY.items() if architecture.family == family)


# --- names and shapes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_source_fits_the_body_of_its_size(name: str) -> None:
    of = ARCHITECTURES[name]
    length = of.n_positions or 1024
    with torch.device("meta"):
        tensors = {key: torch.empty(shape) for key, shape in of.shapes().items()}
        body = BODIES[of.family](of.d_model, of.n_layers, of.n_heads, length)
        result = translate(of.family, tensors)
    result.pop(TOKENS, None)
    expected = {k: v.shape for k, v in body.state_dict().items()}
    if of.family == "vit":
        expected.pop("positions.table.table.weight")
    assert {k: v.shape for k, v in result.items()} == expected


def test_every_source_is_of_its_family() -> None:
    weights = [one for one in DATA_SETS.values() if isinstance(one, PretrainedWeights)]
    known = {one.name: (one.family, one.n_heads) for one in weights}
    assert known == {name: (of.family, of.n_heads) for name, of in ARCHITECTURES.items()}


def test_sizes_are_the_published_ones() -> None:
    counts = {name: numbers_in(of.shapes()) for name, of in ARCHITECTURES.items()}
    assert counts["gpt2"] == 124_439_808
    assert counts["gpt2-medium"] == 354_823_168
    assert counts["gpt2-large"] == 774_030_080
    assert counts["bert-base-uncased"] == 109_482_240 - (768 * 768 + 768), "without the pooler"
    assert counts["vit-base"] == 12 * (12 * 768**2 + 13 * 768) + 2 * 768


@pytest.mark.parametrize("name", TINY)
def test_prefixes_and_old_spellings_mean_the_same(name: str) -> None:
    known, plain = FAMILIES[TINY[name].family], official(name)
    old = {re.sub("LayerNorm.weight$", "LayerNorm.gamma", key): value for key, value in plain.items()}
    old = {re.sub("LayerNorm.bias$", "LayerNorm.beta", key): value for key, value in old.items()}
    assert (old.keys() != plain.keys()) == (name == "bert-base-uncased")
    expected = translate(TINY[name].family, plain)
    result = translate(TINY[name].family, {known.prefix + key: value for key, value in old.items()})
    assert result.keys() == expected.keys()
    assert all(torch.equal(result[key], value) for key, value in expected.items())


@pytest.mark.parametrize("family", BODIES)
def test_a_shallow_body_gets_the_first_layers(family: str) -> None:
    tensors = official(source_of(family))
    shallow, whole = body_of(family, n_layers=1), body_of(family)
    begin_with(shallow, family, tensors, HEADS)
    begin_with(whole, family, tensors, HEADS)
    first, all_ = shallow.state_dict(), whole.state_dict()
    assert first.keys() == {name for name in all_ if "layers.1." not in name}
    assert all(torch.equal(value, all_[name]) for name, value in first.items())
    with pytest.raises(ValueError, match="the weights have 2 layers, the network has 3"):
        begin_with(body_of(family, n_layers=3), family, tensors, HEADS)


def test_what_is_frozen_stays_frozen_and_in_its_place() -> None:
    body = body_of("gpt2")
    body.requires_grad_(False)
    body.stack.final_norm.requires_grad_(True)
    before = {name: (id(p), p.requires_grad) for name, p in body.named_parameters()}
    begin_with(body, "gpt2", official("gpt2"), HEADS)
    assert {name: (id(p), p.requires_grad) for name, p in body.named_parameters()} == before


def without(key: str) -> Any:
    return lambda tensors: {k: v for k, v in tensors.items() if k != key}


@pytest.mark.parametrize(
    ("family", "change", "message"),
    [
        ("gpt2", without("h.1.ln_2.bias"), "h.1.ln_2.bias is missing in the weights"),
        ("bert", without("encoder.layer.0.attention.self.key.weight"), "self.key.weight is missing"),
        ("vit", without("norm.weight"), "norm.weight is missing in the weights"),
        ("gpt2", lambda t: t | {"h.0.attn.rotary": torch.ones(3)}, "h.0.attn.rotary [3] is not a known tensor of gpt2"),
        ("vit", lambda t: t | {"blocks.0.ls1.gamma": torch.ones(16)}, "ls1.gamma [16] is not a known tensor of vit"),
        ("gpt2", lambda t: t | {"h.7.ln_1.bias": torch.ones(16)}, "h.7.ln_1.bias [16] is not a known tensor"),
        ("gpt2", lambda t: t | {"transformer.wpe.weight": t["wpe.weight"]}, "wpe.weight is repeated"),
        ("gpt2", lambda t: {"wte.weight": t["wte.weight"]}, "the weights have 0 layers, the network has 2"),
        (
            "gpt2",
            lambda t: t | {"h.1.mlp.c_fc.weight": torch.ones(64, 16)},
            "layers.1.feed_forward.body.inner.weight is [16, 64] in the weights and [64, 16] in the network",
        ),
        (
            "gpt2",
            lambda t: t | {"wpe.weight": torch.ones(11, 16)},
            "positions.table.table.weight is [11, 16] in the weights and [12, 16] in the network",
        ),
        (
            "vit",
            lambda t: t | {"norm.bias": torch.ones(1)},
            "stack.final_norm.bias is [1] in the weights and [16] in the network",
        ),
        (
            "bert",
            lambda t: t | {
                "encoder.layer.1.attention.self.key.bias": torch.ones(12),
                "encoder.layer.1.attention.self.value.bias": torch.ones(20),
            },
            "self.key.bias [12] does not fit encoder.layer.1.attention.self.query.bias [16]",
        ),
        (
            "bert",
            lambda t: t | {"embeddings.token_type_embeddings.weight": torch.ones(2, 1)},
            "token_type_embeddings.weight [2, 1] does not fit embeddings.position_embeddings.weight [12, 16]",
        ),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit_are_named_and_change_nothing(family: str, change: Any, message: str) -> None:
    body = body_of(family)
    before = {name: value.clone() for name, value in body.state_dict().items()}
    with pytest.raises(ValueError, match=re.escape(message)):
        begin_with(body, family, change(official(source_of(family))), HEADS)
    assert all(torch.equal(value, before[name]) for name, value in body.state_dict().items())


def test_another_body_or_number_of_heads_is_refused() -> None:
    with pytest.raises(ValueError, match=r"gpt2.*body Gpt2, not VisionTransformer"):
        begin_with(body_of("vit"), "gpt2", official("gpt2"), HEADS)
    with pytest.raises(ValueError, match=r"2.*n_heads 4"):
        begin_with(body_of("gpt2", n_heads=4), "gpt2", official("gpt2"), HEADS)
    plain = Body(D_MODEL, LAYERS, gpt2_blocks(HEADS, 4 * D_MODEL), learned(POSITIONS))
    with pytest.raises(ValueError, match="not Body"):
        begin_with(plain, "gpt2", official("gpt2"), HEADS)


def test_filling_a_module_is_strict() -> None:
    module = nn.Linear(2, 3)
    fine = {"weight": torch.ones(3, 2), "bias": torch.ones(3)}
    fill(module, fine)
    assert torch.equal(module.weight, fine["weight"])
    with pytest.raises(ValueError, match=r"bias \[3\]"):
        fill(module, {"weight": torch.zeros(3, 2)})
    with pytest.raises(ValueError, match=r"gain \[1\]"):
        fill(module, fine | {"gain": torch.ones(1)})
    fill(module, {"weight": torch.zeros(3, 2)}, own=("bia",))
    assert module.weight.abs().max() == 0
    assert torch.equal(module.bias, fine["bias"])


# --- statistics only -----------------------------------------------------------------------------------------------


def test_statistics_are_kept_and_nothing_else() -> None:
    torch.manual_seed(3)
    given = {
        "a": 0.5 + 0.1 * torch.randn(200, 300),
        "b": -2 + torch.randn(60_000),
        "one": torch.tensor([3.0]),
    }
    result = statistics(given, 7)
    for name in ("a", "b"):
        std = float(given[name].std())
        assert abs(float(result[name].mean() - given[name].mean())) < 0.02 * std
        assert abs(float(result[name].std()) / std - 1) < 0.02
        both = torch.stack([result[name].flatten(), given[name].flatten()])
        assert abs(float(both.corrcoef()[0, 1])) < 0.02
        kurtosis = ((result[name] - result[name].mean()) / std).pow(4).mean()
        assert abs(float(kurtosis) - 3) < 0.15
        assert result[name].shape == given[name].shape
        assert result[name].dtype == given[name].dtype
    assert torch.equal(result["one"], given["one"])


def test_statistics_depend_on_seed_and_name_alone() -> None:
    given = {"a": torch.randn(5, 4), "b": torch.randn(5, 4)}
    twins = {"a": given["a"], "b": given["a"]}
    assert torch.equal(statistics(given, 1)["a"], statistics({"a": given["a"]}, 1)["a"])
    assert not torch.equal(statistics(given, 1)["a"], statistics(given, 2)["a"])
    assert not torch.equal(statistics(twins, 1)["a"], statistics(twins, 1)["b"])


def test_a_body_begins_with_statistics_alone() -> None:
    once, again, other, exact = (body_of("gpt2") for _ in range(4))
    begin_with(exact, "gpt2", official("gpt2"), HEADS)
    for body, seed in ((once, 1), (again, 1), (other, 2)):
        begin_with(body, "gpt2", official("gpt2"), HEADS, redraw=seed)
    for name, value in once.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)
        assert not torch.equal(other.state_dict()[name], value), name
        assert not torch.equal(exact.state_dict()[name], value), name
    gain = once.stack.layers[0]["mix"].norm_in.weight.detach()
    assert abs(float(gain.mean()) - 1) < 0.3


def test_what_is_beside_the_body_has_no_say() -> None:
    for name, beside in BESIDE.items():
        tensors = official(name)
        needed = {key: value for key, value in tensors.items() if key not in beside}
        assert len(needed) == len(tensors) - len(beside)
        result, expected = translate(TINY[name].family, tensors), translate(TINY[name].family, needed)
        assert result.keys() == expected.keys()
