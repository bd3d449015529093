"""The official encoder-decoder with weighted shortcuts: its weights under our names, in stacks of ours."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from repro.nn import (
    Blocks,
    CrossAttention,
    FeedForward,
    FullAttention,
    Layout,
    MixerOutput,
    State,
    WeightedPostNorm,
)
from repro.nn.attention.full import split_heads
from repro.nn.positions.positions import split_sinusoids
from tests.models import golden
from tests.nn.mixers import valid

PAD = 1
NORMS = {
    "encoder": {"self_attn_layer_norm": "mix", "final_layer_norm": "feed_forward"},
    "decoder": {
        "self_attn_layer_norm": "mix",
        "encoder_attn_layer_norm": "cross",
        "final_layer_norm": "feed_forward",
    },
}
OMEGAS = {
    "attention_ratio_change": "mix",
    "self_ratio_change": "mix",
    "encoder_ratio_change": "cross",
    "fc_ratio_change": "feed_forward",
}
PARTS = {
    "self_attn.out_proj": "mix.body.out",
    "encoder_attn.out_proj": "cross.body.out",
    "fc1": "feed_forward.body.inner",
    "fc2": "feed_forward.body.outer",
}


class HidingPadding(FullAttention):
    """Hides padded keys from padded queries, too, as fairseq's decoder does; of valid queries nothing changes."""

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        q, k, v = (split_heads(part, self.n_heads) for part in self.qkv(x).split(self.widths, dim=-1))
        steps = torch.arange(x.shape[1])
        attention_mask = (steps <= steps[:, None]) | (not layout.causal)
        if layout.lengths is not None:
            attention_mask = attention_mask & valid(layout.lengths, x.shape[1])[:, None, None]
        return MixerOutput(
            self.out(self._attend(q, k, v, attention_mask.expand(len(x), 1, -1, -1), False)), state
        )


def ours(stack: str, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights, or gradients, of one official stack under our names."""
    result: dict[str, Tensor] = {}
    for name, value in golden.under(f"{stack}.layers.", theirs).items():
        layer, rest = name.split(".", 1)
        for key, part in _layer(stack, rest, value).items():
            result[f"layers.{layer}.{key}"] = part
    return result


def both(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """All weights of an official model whose embeddings are one table, under the names of our ``EncoderDecoder``."""
    result = {"vocabulary.embedding.table.weight": theirs["encoder.embed_tokens.weight"]}
    for stack in ("encoder", "decoder"):
        result |= {f"{stack}.{name}": value for name, value in ours(stack, theirs).items()}
    return result


def _layer(stack: str, name: str, value: Tensor) -> dict[str, Tensor]:
    if name in OMEGAS:
        return {f"{OMEGAS[name]}.shortcut.omega": value}
    part, kind = name.rsplit(".", 1)
    if part in PARTS:
        return {f"{PARTS[part]}.{kind}": value}
    if part in NORMS[stack]:
        return {f"{NORMS[stack][part]}.norm_out.{kind}": value}
    kind = kind.removeprefix("in_proj_")
    if part == "self_attn":
        return {f"mix.body.qkv.{kind}": value}
    width = value.shape[0] // 3
    return {f"cross.body.q.{kind}": value[:width], f"cross.body.kv.{kind}": value[width:]}


def to_the_right(ids: Tensor) -> Tensor:
    """Moves padding from the left to the right: no token's numbers depend on where padding stands."""
    return torch.stack([torch.cat([row[row != PAD], row[row == PAD]]) for row in ids])


class Model(nn.Module):
    """Both stacks, one table of vectors, positions as fairseq counts them: from 2, none at padding."""

    def __init__(self, options: dict[str, Any], weights: dict[str, Tensor]) -> None:
        super().__init__()
        width, heads = options["d_model"], options["heads"]
        blocks = Blocks(
            mixers=[lambda d: HidingPadding(d, heads)],
            cross=lambda d: CrossAttention(d, heads),
            feed_forward=lambda d: FeedForward(d, options["ff"]),
            sublayer=lambda body, d: WeightedPostNorm(body, d, dropout=0.0, eps=1e-5),
        )
        self.table = nn.Embedding(options["V"], width)
        self.encoder = blocks.build(width, options["encoder_layers"])
        self.decoder = blocks.build(width, options["decoder_layers"], cross=True)
        self.double()
        self.table.load_state_dict({"weight": weights["encoder.embed_tokens.weight"]})
        for stack in ("encoder", "decoder"):
            missing = getattr(self, stack).load_state_dict(ours(stack, weights), strict=False)
            assert all(key.endswith("begun") for key in missing.missing_keys)
            assert not missing.unexpected_keys

    def embed(self, ids: Tensor) -> Tensor:
        width = self.table.embedding_dim
        where = split_sinusoids(torch.arange(ids.shape[1]) + 2, width, torch.float64)
        return width**0.5 * self.table(ids) + where * (ids != PAD)[..., None]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits ``(B, T, V)`` of ids padded on the right."""
        lengths, target_lengths = ((ids != PAD).sum(1) for ids in (source, target))
        encoded = self.encoder(self.embed(source), None, Layout(False, lengths=lengths)).y
        state = self.decoder.attend_to(encoded, lengths)
        hidden = self.decoder(self.embed(target), state, Layout(True, lengths=target_lengths)).y
        return hidden @ self.table.weight.T

    def loss(self, logits: Tensor, wanted: Tensor) -> Tensor:
        return cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=PAD)
