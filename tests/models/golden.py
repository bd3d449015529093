"""Golden numbers as tensors, and the weights of ``torch.nn.Transformer`` under our names."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from repro.nn import (
    Blocks,
    CrossAttention,
    FeedForward,
    FullAttention,
    Layout,
    PostNorm,
    PreNorm,
    ResidualStack,
)
from tests.parity.report import tolerances

FOLDER = Path(__file__).parent.parent / "golden"
# Each of torch's parts of a layer, and ours; the norm that belongs to a sublayer is counted from 1.
PARTS = {
    "self_attn.out_proj": "mix.body.out",
    "multihead_attn.out_proj": "cross.body.out",
    "linear1": "feed_forward.body.inner",
    "linear2": "feed_forward.body.outer",
}
SUBLAYERS = {"encoder": ["mix", "feed_forward"], "decoder": ["mix", "cross", "feed_forward"]}


def read(name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The arrays of one file, and its description, whose tolerances note what is compared with them."""
    path = FOLDER / f"{name}.npz"
    with np.load(path) as file:
        arrays = {key: torch.from_numpy(file[key]) for key in file.files if file[key].dtype.kind != "U"}
        meta = json.loads(str(file["meta"]))
    return arrays, meta | {"tolerance": tolerances(path, meta["source"], meta.get("tolerance", {}))}


def under(prefix: str, arrays: dict[str, Tensor]) -> dict[str, Tensor]:
    """The arrays whose names start with a prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}


def ours(stack: str, theirs: dict[str, Tensor], pre_norm: bool) -> dict[str, Tensor]:
    """Weights, or gradients, of torch's encoder or decoder under the names of our stack."""
    result: dict[str, Tensor] = {}
    for name, value in under(f"{stack}.", theirs).items():
        if name.startswith("norm."):
            result[name.replace("norm", "final_norm")] = value
        else:
            _, layer, rest = name.split(".", 2)
            for key, part in _layer(stack, rest, value, pre_norm).items():
                result[f"layers.{layer}.{key}"] = part
    return result


def _layer(stack: str, name: str, value: Tensor, pre_norm: bool) -> dict[str, Tensor]:
    part, kind = name.rsplit(".", 1)
    if part in PARTS:
        return {f"{PARTS[part]}.{kind}": value}
    if part.startswith("norm"):
        sublayer = SUBLAYERS[stack][int(part[-1]) - 1]
        return {f"{sublayer}.{'norm_in' if pre_norm else 'norm_out'}.{kind}": value}
    kind = kind.removeprefix("in_proj_")
    if part == "self_attn":  # queries, keys and values on top of each other, as in our fused projection
        return {f"mix.body.qkv.{kind}": value}
    width = value.shape[0] // 3
    return {f"cross.body.q.{kind}": value[:width], f"cross.body.kv.{kind}": value[width:]}


class Transformer(nn.Module):
    """Our two stacks on real-valued inputs, wired like ``torch.nn.Transformer``: a final norm after each."""

    def __init__(self, options: dict[str, Any], weights: dict[str, Tensor]) -> None:
        super().__init__()
        width, heads, eps = options["d_model"], options["nhead"], options["layer_norm_eps"]
        norm = PreNorm if options["norm_first"] else PostNorm
        blocks = Blocks(
            mixers=[lambda d: FullAttention(d, heads)],
            cross=lambda d: CrossAttention(d, heads),
            feed_forward=lambda d: FeedForward(d, options["dim_feedforward"]),
            sublayer=lambda body, d: norm(body, d, dropout=0.0, eps=eps),
            final_norm=lambda d: nn.LayerNorm(d, eps),
        )
        self.encoder = blocks.build(width, options["num_encoder_layers"])
        self.decoder = blocks.build(width, options["num_decoder_layers"], cross=True)
        self.double()
        for stack in ("encoder", "decoder"):
            getattr(self, stack).load_state_dict(ours(stack, weights, options["norm_first"]))

    def forward(self, source: Tensor, source_lengths: Tensor | None, target: Tensor) -> Tensor:
        encoded = self.encoder(source, None, Layout(False, lengths=source_lengths)).y
        return self.decoder(target, self.decoder.attend_to(encoded, source_lengths), Layout(True)).y


def layer_outputs(stack: ResidualStack) -> list[Tensor]:
    """A list that fills with each layer's output as the stack runs."""
    seen: list[Tensor] = []
    for layer in stack.layers:
        layer["feed_forward"].register_forward_hook(lambda _, __, mixed: seen.append(mixed.y))  # type: ignore[index]
    return seen
