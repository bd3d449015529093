"""Pretrained weights under our names: a table of names for each family of models, and loading into a network."""

import hashlib
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from repro.models.body import Bert, Body, Gpt2, VisionTransformer
from repro.models.decoder_lm import DecoderLM
from repro.models.placing import layer_of, memories, placed, require_gpt2, short_term, with_more_rows

Tensors = Mapping[str, Tensor]

POSITIONS = "positions.table.table.weight"
TOKENS = "vocabulary.embedding.table.weight"


@dataclass(frozen=True)
class Family:
    """The names of the tensors of a family of models.

    Attributes:
        body: our body with the same layers.
        names: official names and our names; ``#`` is a layer's number, ``*`` weight and bias. Several official names of
            one of ours are joined in their order.
        layer: what official names of a layer begin with.
        prefix: of the whole model, which a file may leave out.
        ignored: patterns of tensors that a body has no use for.
        transposed: the matrices of layers are (in, out).
    """

    body: type[Body]
    names: dict[str, str]
    layer: str
    prefix: str = ""
    ignored: tuple[str, ...] = ()
    transposed: bool = False

    @property
    def own(self) -> tuple[str, ...]:
        """Prefixes of the body's own parameters, which the weights do not have."""
        return () if POSITIONS in self.names.values() else ("positions.",)

    def pairs(self, n_layers: int) -> list[tuple[str, str]]:
        """Returns every official name with our name, for a model of ``n_layers`` layers."""
        return [
            (_named(official, layer, kind), _named(own, layer, kind))
            for official, own in self.names.items()
            for layer in (range(n_layers) if "#" in official else (0,))
            for kind in (("weight", "bias") if "*" in official else ("",))
        ]


def _named(template: str, layer: int, kind: str) -> str:
    return template.replace("#", str(layer)).replace("*", kind)


def _layers(norm: str, names: dict[str, str]) -> dict[str, str]:
    """Names of one layer: its parts, and the norm of each sublayer, at the position given by ``norm``."""
    parts = {
        "qkv": "mix.body.qkv", "out": "mix.body.out", "mix norm": f"mix.{norm}",
        "inner": "feed_forward.body.inner", "outer": "feed_forward.body.outer", "ff norm": f"feed_forward.{norm}",
    }  # fmt: skip
    return {f"{official}.*": f"stack.layers.#.{parts[own]}.*" for official, own in names.items()}


FAMILIES = {
    "gpt2": Family(
        Gpt2,
        {"wte.weight": TOKENS, "wpe.weight": POSITIONS, "ln_f.*": "stack.final_norm.*"}
        | _layers("norm_in", {
            "h.#.ln_1": "mix norm", "h.#.attn.c_attn": "qkv", "h.#.attn.c_proj": "out",
            "h.#.ln_2": "ff norm", "h.#.mlp.c_fc": "inner", "h.#.mlp.c_proj": "outer",
        }),
        layer="h.#.",
        prefix="transformer.",
        ignored=(r"h\.\d+\.attn\.(masked_)?bias", r"lm_head\.weight"),  # causal masks; tied to wte
        transposed=True,
    ),
    "bert": Family(
        Bert,
        {
            "embeddings.word_embeddings.weight": TOKENS,
            "embeddings.position_embeddings.weight": POSITIONS,
            "embeddings.token_type_embeddings.weight": POSITIONS,
            "embeddings.LayerNorm.*": "norm.*",
        }
        | _layers("norm_out", {
            "encoder.layer.#.attention.self.query": "qkv", "encoder.layer.#.attention.self.key": "qkv",
            "encoder.layer.#.attention.self.value": "qkv", "encoder.layer.#.attention.output.dense": "out",
            "encoder.layer.#.attention.output.LayerNorm": "mix norm", "encoder.layer.#.intermediate.dense": "inner",
            "encoder.layer.#.output.dense": "outer", "encoder.layer.#.output.LayerNorm": "ff norm",
        }),
        layer="encoder.layer.#.",
        prefix="bert.",
        ignored=(r"pooler\..*", r"cls\..*", r"embeddings\.position_ids"),
    ),
    "vit": Family(
        VisionTransformer,
        {"norm.*": "stack.final_norm.*"}
        | _layers("norm_in", {
            "blocks.#.norm1": "mix norm", "blocks.#.attn.qkv": "qkv", "blocks.#.attn.proj": "out",
            "blocks.#.norm2": "ff norm", "blocks.#.mlp.fc1": "inner", "blocks.#.mlp.fc2": "outer",
        }),
        layer="blocks.#.",
        ignored=(r"cls_token", r"pos_embed", r"patch_embed\..*", r"head\..*"),
    ),
}  # fmt: skip


def translate(family: str, tensors: Tensors, n_layers: int | None = None) -> dict[str, Tensor]:
    """Official tensors under the names of our :class:`Body`, and of a vocabulary where they have one.

    Args:
        family: one of :data:`FAMILIES`.
        tensors: by official name, with or without the prefix of the whole model.
        n_layers: number of first layers that are taken; None takes all.

    Raises:
        ValueError: a tensor that is missing, unknown or there twice, parts that do not fit each other, or too few
            layers.
    """
    spec = FAMILIES[family]
    stored = _plain(spec, tensors)
    n_stored = _count_layers(spec, stored)
    if n_stored < (n_layers or 1):
        raise ValueError(f"the weights have {n_stored} layers, the network has {n_layers or 1}")
    parts: dict[str, dict[str, Tensor]] = {}
    for official, own in spec.pairs(n_stored):
        if official not in stored:
            raise ValueError(f"{official} is missing in the weights")
        tensor = stored.pop(official)
        flip = spec.transposed and own.startswith("stack.layers.") and tensor.dim() == 2
        parts.setdefault(own, {})[official] = tensor.T if flip else tensor
    if stored:
        name, surplus = next(iter(stored.items()))
        raise ValueError(f"{name} {list(surplus.shape)} is not a known tensor of {family}")
    return {
        name: _join(name, pieces) for name, pieces in parts.items() if layer_of(name) < (n_layers or n_stored)
    }


def _plain(family: Family, tensors: Tensors) -> dict[str, Tensor]:
    """Tensors that matter, without the model's prefix, in the newer spelling of norms."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        plain = name.removeprefix(family.prefix)
        for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
            plain = plain.removesuffix(old) + new if plain.endswith(old) else plain
        if any(re.fullmatch(pattern, plain) for pattern in family.ignored):
            continue
        if plain in renamed:
            raise ValueError(f"{plain} is repeated in the weights")
        renamed[plain] = tensor
    return renamed


def _count_layers(family: Family, tensors: Tensors) -> int:
    starts = (family.layer.replace("#", str(layer)) for layer in itertools.count())
    return next(n for n, start in enumerate(starts) if not any(name.startswith(start) for name in tensors))


def _join(own_name: str, parts: dict[str, Tensor]) -> Tensor:
    """Joins official tensors into one of ours: queries, keys and values; positions with the first segment."""
    (first, tensor), *others = parts.items()
    joined = [tensor]
    for name, other in others:
        same = other.shape[1:] == tensor.shape[1:] if own_name == POSITIONS else other.shape == tensor.shape
        if not same or not other.dim():
            raise ValueError(f"{name} {list(other.shape)} does not fit {first} {list(tensor.shape)}")
        joined.append(other)
    if own_name == POSITIONS and others:
        return tensor + joined[1][0]  # every token is of segment 0
    return torch.cat(joined) if others else tensor


def statistics(tensors: Tensors, seed: int) -> dict[str, Tensor]:
    """Every tensor redrawn from a Gaussian with its own mean and standard deviation.

    Args:
        tensors: by our names, so that each is of one layer.
        seed: the same gives the same, whichever other tensors there are.

    Source: Lu et al. 2021, section 3.6 and table 9.
    """
    return {name: _redrawn(tensor, f"{seed}/{name}") for name, tensor in tensors.items()}


def _redrawn(tensor: Tensor, key: str) -> Tensor:
    generator = torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(key.encode()).digest()[:7]))
    exact = tensor.double()
    noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    return (exact.mean() + exact.std(correction=0) * noise).to(tensor.dtype)


def fill(body: nn.Module, weights: Tensors, own: tuple[str, ...] = ()) -> None:
    """Copies weights into a body in place; frozen parameters stay frozen.

    Args:
        body: any module.
        weights: by its names, every one of them.
        own: beginnings of names whose values the body keeps.

    Raises:
        ValueError: a tensor that is missing, surplus or of another shape; names it, and both shapes.
    """
    own_tensors = {
        name: value for name, value in body.state_dict().items() if not (own and name.startswith(own))
    }
    for name, value in own_tensors.items():
        if name not in weights:
            raise ValueError(f"{name} {list(value.shape)} is missing in the weights")
        if weights[name].shape != value.shape:
            shape = list(weights[name].shape)
            raise ValueError(f"{name} is {shape} in the weights and {list(value.shape)} in the network")
    for name in weights:
        if name not in own_tensors:
            raise ValueError(f"{name} {list(weights[name].shape)} is not in the network")
    body.load_state_dict({**body.state_dict(), **weights})


def begin_with(
    net: nn.Module, family: str, tensors: Tensors, n_heads: int, redraw: int | None = None
) -> None:
    """Gives a network the first layers of official weights, its positions, and the norm before or behind the layers.

    A language model gets the vectors of tokens, too. Where it has more tokens than the weights, those behind them keep
    their vectors, and so do memories around its attention.

    Args:
        net: the body of the family, whose vision transformers keep their own positions; or a language model of GPT-2.
        family: one of :data:`FAMILIES`.
        tensors: by official name.
        n_heads: H of the weights, which does not follow from shapes.
        redraw: a seed; the network then gets the :func:`statistics` of the weights only.

    Raises:
        ValueError: another network, number of heads or positions, or another mismatch; the network is unchanged.
    """
    spec = FAMILIES[family]
    language_model = isinstance(net, DecoderLM) and spec.body is Gpt2
    if isinstance(net, DecoderLM) and language_model:
        require_gpt2(net)
    elif not isinstance(net, spec.body):
        raise ValueError(f"{family} weights are for a body {spec.body.__name__}, not {type(net).__name__}")
    mixers = [layer["mix"].body for layer in net.stack.each()]
    heads = short_term(mixers[0]).n_heads
    if heads != n_heads:
        raise ValueError(f"the weights are of {n_heads} heads, the network has n_heads {heads}")
    weights = translate(family, tensors, len(mixers))
    if not language_model:
        weights.pop(TOKENS, None)
    if redraw is not None:
        weights = statistics(weights, redraw)
    if language_model:
        weights[TOKENS] = with_more_rows(weights[TOKENS], net.state_dict()[TOKENS])
    weights = {placed(name, mixers): value for name, value in weights.items()}
    fill(net, weights, (*spec.own, *memories(mixers)))
