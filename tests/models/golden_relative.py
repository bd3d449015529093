"""Models with relative positions and a memory, and the official code's weights under our names."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from repro.models.decoder_lm import DecoderLM
from repro.nn import (
    AdaptiveVocabulary,
    Blocks,
    FeedForward,
    NoPositions,
    PostNorm,
    PreNorm,
    RelativeAttention,
    ShawAttention,
)
from tests.models import golden_adaptive

# Each of the official parts of a layer, and ours; norms are norm_in or norm_out.
PARTS = {
    "dec_attn.qkv_net": "mix.body.qkv",
    "dec_attn.o_net": "mix.body.out",
    "dec_attn.r_net": "mix.body.place",
    "dec_attn.layer_norm": "mix.norm",
    "pos_ff.CoreNet.0": "feed_forward.body.inner",
    "pos_ff.CoreNet.3": "feed_forward.body.outer",
    "pos_ff.layer_norm": "feed_forward.norm",
}
BIASES = {"r_w_bias": "content_bias", "r_r_bias": "position_bias"}


def ours(theirs: dict[str, Tensor], options: dict[str, Any]) -> dict[str, Tensor]:
    """Weights, or gradients, of kimiyoung's or huggingface's model under our names."""
    result = {f"vocabulary.{key}": value for key, value in _vocabulary(theirs, options).items()}
    side = "_in" if options.get("pre_lnorm") else "_out"
    for name, value in theirs.items():
        if name.startswith("layers."):
            _, layer, rest = name.split(".", 2)
            part, kind = rest.rsplit(".", 1)
            moved = PARTS.get(part, "") + (side if part.endswith("layer_norm") else "")
            ours_ = f"mix.body.{BIASES[kind]}" if kind in BIASES else f"{moved}.{kind}"
            result[f"stack.layers.{layer}.{ours_}"] = value
        elif name in BIASES and value.dim() == 2:  # once for all layers: ours is found on the first
            result[f"stack.layers.0.mix.body.{BIASES[name]}"] = value
    if "r_emb" in theirs:  # the last row is distance 0
        for layer in range(options["n_layer"]):
            body = f"stack.layers.{layer}.mix.body"
            result[f"{body}.place"] = theirs["r_emb"][layer].flip(0)
            result[f"{body}.place_bias"] = theirs["r_bias"][layer].flip(0)
            result[f"{body}.content_bias"] = theirs["r_w_bias"][layer]
    return result


def _vocabulary(theirs: dict[str, Tensor], options: dict[str, Any]) -> dict[str, Tensor]:
    if options.get("cutoffs"):
        return golden_adaptive.from_reversed_gates(theirs, options["cutoffs"])
    result = {"clusters.0.table.weight": theirs["word_emb.emb_layers.0.weight"]}
    if "crit.out_layers.0.bias" in theirs:
        result["clusters.0.bias"] = theirs["crit.out_layers.0.bias"]
    return result


def build(options: dict[str, Any], dropout: float = 0.0) -> DecoderLM:
    """The model that a file's options describe, with weights of its own, float32."""
    untied = options.get("untie_r", False)
    heads = {"n_heads": options["n_head"], "d_head": options["d_head"], "mem_len": options["mem_len"]}
    mixer: Callable[[int], nn.Module] = partial(RelativeAttention, shared_biases=not untied, **heads)
    if options.get("attn_type"):
        mixer = partial(ShawAttention, max_distance=options["tgt_len"] + options["mem_len"] - 1, **heads)
    blocks = Blocks(
        mixers=[mixer],
        feed_forward=partial(FeedForward, d_ff=options["d_inner"]),
        sublayer=partial(PreNorm if options.get("pre_lnorm") else PostNorm, dropout=dropout, eps=1e-5),
    )
    vocabulary = partial(
        AdaptiveVocabulary,
        size=options.get("n_token") or options["vocab_size"],
        cutoffs=options.get("cutoffs", []),
        div_value=options.get("div_val", 1),
        tied_projections=golden_adaptive.tied_projections(options),
        d_embed=options.get("d_embed"),
        bias=not untied,  # that file ends with the hidden states
    )
    return DecoderLM(options["d_model"], options["n_layer"], vocabulary, blocks, NoPositions, dropout)


def model(theirs: dict[str, Tensor], options: dict[str, Any]) -> DecoderLM:
    """The model of a golden file, float64."""
    net = build(options).double()
    golden_adaptive.fill(net, ours(theirs, options))
    return net
