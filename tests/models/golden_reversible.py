"""Our reversible language model with the weights of the model of transformers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.models import DecoderLM
from repro.nn import (
    Added,
    AxialPositions,
    Blocks,
    FeedForward,
    Layout,
    PreNorm,
    ReversibleStack,
    State,
    Vocabulary,
)
from repro.nn.attention.hashed import lsh
from repro.nn.attention.hashed.hashing import Hashing, bucket_ids
from repro.nn.attention.hashed.lsh import LSHAttention
from repro.nn.attention.local import LocalAttention

# Each part of one of their layers, and ours.
PARTS = {
    "attention.layer_norm": "mix.norm_in",
    "attention.output.dense": "mix.body.out",
    "feed_forward.layer_norm": "feed_forward.norm_in",
    "feed_forward.dense.dense": "feed_forward.body.inner",
    "feed_forward.output.dense": "feed_forward.body.outer",
}
# Their projections that are one matrix of ours, on top of each other.
FUSED = {"local": ("qkv", ["query", "key", "value"]), "lsh": ("qk_v", ["query_key", "value"])}
OTHERS = {
    "reformer.embeddings.word_embeddings.weight": "vocabulary.embedding.table.weight",
    "reformer.embeddings.position_embeddings.weights.0": "positions.table.tables.0",
    "reformer.embeddings.position_embeddings.weights.1": "positions.table.tables.1",
    "reformer.encoder.layer_norm.weight": "stack.final_norm.weight",
    "reformer.encoder.layer_norm.bias": "stack.final_norm.bias",
    "lm_head.decoder.weight": "vocabulary.head.proj.weight",
}


def build(options: dict[str, Any]) -> DecoderLM:
    """Our model in float64, without dropout; in training, so that layers are undone."""
    hashing = Hashing.across(options["num_hashes"], options["chunk"], options["num_buckets"])
    heads = options["heads"]
    kinds = {
        "local": partial(LocalAttention, n_heads=heads, chunk=options["chunk"]),
        "lsh": partial(LSHAttention, n_heads=heads, hashing=hashing),
    }
    blocks = Blocks(
        mixers=[kinds[kind] for kind in options["attn_layers"]],
        feed_forward=partial(FeedForward, d_ff=options["feed_forward_size"], chunk=10),
        sublayer=partial(PreNorm, dropout=0.0, eps=options["layer_norm_eps"]),
        final_norm=partial(nn.LayerNorm, eps=options["layer_norm_eps"]),
        stack=ReversibleStack,
    )
    table = partial(AxialPositions, shape=options["axial_pos_shape"], widths=options["axial_pos_embds_dim"])
    return DecoderLM(
        options["hidden_size"],
        len(options["attn_layers"]),
        partial(Vocabulary, size=options["vocab_size"], tied=False, scaled=False, loss_chunk=9),
        blocks,
        positions=partial(Added, table=table),
        dropout=0.0,
    ).double()


def ours(theirs: dict[str, Tensor], kinds: list[str]) -> dict[str, Tensor]:
    """Weights, or gradients, under our names."""
    result = {mine: theirs[name].squeeze() for name, mine in OTHERS.items()}
    for layer, kind in enumerate(kinds):
        prefix = f"reformer.encoder.layers.{layer}"
        for part, mine in PARTS.items():
            for what in ("weight", "bias"):
                if f"{prefix}.{part}.{what}" in theirs:
                    result[f"stack.layers.{layer}.{mine}.{what}"] = theirs[f"{prefix}.{part}.{what}"]
        name, parts = FUSED[kind]
        rows = [theirs[f"{prefix}.attention.self_attention.{part}.weight"] for part in parts]
        result[f"stack.layers.{layer}.mix.body.{name}.weight"] = torch.cat(rows)
    return result


def load(model: DecoderLM, weights: dict[str, Tensor]) -> None:
    """Takes all of the weights over."""
    parameters = dict(model.named_parameters())
    assert parameters.keys() == weights.keys()
    with torch.no_grad():
        for name, value in weights.items():
            assert parameters[name].shape == value.shape
            parameters[name].copy_(value)


def rotated_by(rotations: Tensor, count: int) -> Any:
    """A hook by which a layer hashes with given rotations ``(H, E, R, W)`` wherever it would draw its own."""

    def hook(body: LSHAttention, given: tuple[Tensor, State, Layout]) -> tuple[Tensor, State, Layout] | None:
        x, state, layout = given
        if layout.bucket_replay is not None:
            return None
        q = body.qk_v(x)[..., : body.widths[0]].unflatten(-1, (body.n_heads, -1)).transpose(1, 2)
        return x, state, replace(layout, bucket_replay=bucket_ids(q, rotations[None], [count]))

    return hook


@contextmanager
def their_keys() -> Iterator[None]:
    """Keys as theirs, of length 1 but for a millionth under the root."""

    def nearly_unit(query: Tensor, unit: bool, scaled: bool) -> Tensor:
        assert (unit, scaled) == (True, False)
        return (query.square().mean(-1, keepdim=True) + 1e-6).rsqrt() / query.shape[-1] ** 0.5

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lsh, "key_scale", nearly_unit)
        yield
