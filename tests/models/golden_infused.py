"""Our language model with the weights of the official infused-attention code, and of the fairseq it grew from."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from repro.models.decoder_lm import DecoderLM
from repro.nn import (
    AdaptiveVocabulary,
    Added,
    Blocks,
    FeedForward,
    FullAttention,
    InfusedAttention,
    NoPositions,
    PreNorm,
    SplitSinusoids,
    Vocabulary,
)
from tests.models.golden import under

# Each part of one of their layers, and ours.
PARTS = {
    "self_attn.out_proj": "mix.body.out",
    "self_attn_layer_norm": "mix.norm_in",
    "fc1": "feed_forward.body.inner",
    "fc2": "feed_forward.body.outer",
    "final_layer_norm": "feed_forward.norm_in",
}
EMBEDDING = {"decoder.embed_tokens.weight": "vocabulary.embedding.table.weight"}


def build(options: dict[str, Any], mem_len: int | None, vocabulary: Any = None) -> DecoderLM:
    """Our model in float64, without dropout.

    Args:
        options: of a golden file.
        mem_len: inputs remembered by infused attention; None builds plain attention, positions at the bottom.
        vocabulary: its maker; default one table, tied and scaled.
    """
    mixer = partial(FullAttention, n_heads=options["heads"])
    if mem_len is not None:
        mixer = partial(InfusedAttention, n_heads=options["heads"], mem_len=mem_len)  # type: ignore[assignment]
    norm = partial(nn.LayerNorm, eps=1e-5) if options["final_norm"] else None
    blocks = Blocks(
        mixers=[mixer],
        feed_forward=partial(FeedForward, d_ff=options["ff"]),
        sublayer=partial(PreNorm, dropout=0.0, eps=1e-5),
        final_norm=norm,
    )
    return DecoderLM(
        options["d_model"],
        options["layers"],
        vocabulary or partial(Vocabulary, size=options["V"]),
        blocks,
        positions=partial(Added, table=partial(SplitSinusoids, first=2)) if mem_len is None else NoPositions,
        dropout=0.0,
    ).double()


def ours(theirs: dict[str, Tensor], vocabulary: dict[str, str] = EMBEDDING) -> dict[str, Tensor]:
    """Weights, or gradients, of the official model under our names; ``vocabulary`` renames what is no layer's."""
    result = {mine: theirs[name] for name, mine in vocabulary.items()}
    for name, value in theirs.items():
        if name.startswith("decoder.layers."):
            _, _, layer, rest = name.split(".", 3)
            part, kind = rest.rsplit(".", 1)
            if part in PARTS:
                result[f"stack.layers.{layer}.{PARTS[part]}.{kind}"] = value
        elif name.startswith("decoder.layer_norm."):
            result[name.replace("decoder.layer_norm", "stack.final_norm")] = value
    for layer in {name.split(".")[2] for name in theirs if name.startswith("decoder.layers.")}:
        for kind in ("weight", "bias"):
            parts = [theirs[f"decoder.layers.{layer}.self_attn.{p}_proj.{kind}"] for p in "qkv"]
            result[f"stack.layers.{layer}.mix.body.qkv.{kind}"] = torch.cat(parts)
    return result


def load(arrays: dict[str, Tensor], options: dict[str, Any], mem_len: int | None) -> DecoderLM:
    """Our model with a golden file's weights."""
    plain = options.get("adaptive_cutoff") is None
    model = build(options, mem_len, None if plain else adaptive(options))
    weights = ours(under("w/", arrays), names(options))
    with torch.no_grad():
        parameters = dict(model.named_parameters())
        assert parameters.keys() == weights.keys()
        for name, value in weights.items():
            assert parameters[name].shape == value.shape
            parameters[name].copy_(value)
    return model


def names(options: dict[str, Any]) -> dict[str, str]:
    """Names of the vocabulary's weights, theirs and ours."""
    cutoffs = options.get("adaptive_cutoff")
    return EMBEDDING if cutoffs is None else adaptive_names(len(cutoffs.split(",")) + 1)


def watch(model: DecoderLM) -> list[Tensor]:
    """A list that fills with what goes into the stack and with each layer's output as the model runs."""
    seen: list[Tensor] = []
    model.dropout.register_forward_hook(lambda _, __, x: seen.append(x))
    for layer in model.stack.layers:
        layer["feed_forward"].register_forward_hook(lambda _, __, mixed: seen.append(mixed.y))  # type: ignore[index]
    return seen


def adaptive(options: dict[str, Any]) -> Any:
    """Maker of the adaptive vocabulary of a golden file: tied, projected, no bias, the head not projected."""
    return partial(
        AdaptiveVocabulary,
        size=options["V"],
        cutoffs=[int(cut) for cut in options["adaptive_cutoff"].split(",")],
        div_value=options["factor"],
        head_projection=False,
        bias=False,
    )


def adaptive_names(clusters: int) -> dict[str, str]:
    """Their names of the adaptive vocabulary's weights, and ours; what is tied is named once."""
    names = {"decoder.adaptive_softmax.head.class_proj.weight": "vocabulary.gate.weight"}
    for c in range(clusters):
        names[f"decoder.embed_tokens.embeddings.{c}.0.weight"] = f"vocabulary.clusters.{c}.table.weight"
        names[f"decoder.embed_tokens.embeddings.{c}.1.weight"] = f"vocabulary.clusters.{c}.up.weight"
    return names
