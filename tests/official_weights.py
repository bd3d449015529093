"""Tiny random weights in the form of the published files, and their place among the known sources."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from repro.data.registry import DATA_SETS
from repro.data.sets.weights.pretrained import PretrainedWeights

Family = Literal["gpt2", "bert", "vit"]
Shapes = dict[str, tuple[int, ...]]

# Modules of one layer, below a prefix with its number: sizes of the weight in multiples of D.
_LAYERS: dict[Family, tuple[str, dict[str, tuple[int, ...]]]] = {
    "gpt2": (
        "h.{}.",
        {
            "ln_1": (1,), "attn.c_attn": (1, 3), "attn.c_proj": (1, 1),
            "ln_2": (1,), "mlp.c_fc": (1, 4), "mlp.c_proj": (4, 1),
        },
    ),
    "bert": (
        "encoder.layer.{}.",
        {
            "attention.self.query": (1, 1), "attention.self.key": (1, 1), "attention.self.value": (1, 1),
            "attention.output.dense": (1, 1), "attention.output.LayerNorm": (1,),
            "intermediate.dense": (4, 1), "output.dense": (1, 4), "output.LayerNorm": (1,),
        },
    ),
    "vit": (
        "blocks.{}.",
        {
            "norm1": (1,), "attn.qkv": (3, 1), "attn.proj": (1, 1),
            "norm2": (1,), "mlp.fc1": (4, 1), "mlp.fc2": (1, 4),
        },
    ),
}  # fmt: skip
_NORMS: dict[Family, str] = {"gpt2": "ln_f", "bert": "embeddings.LayerNorm", "vit": "norm"}


@dataclass(frozen=True)
class Architecture:
    """The architecture of pretrained weights.

    Attributes:
        family: decides names.
        d_model: D.
        n_layers: layers.
        n_heads: H, which no shape tells.
        n_positions: learned positions that are of use; 0 where they belong to pictures.
        vocab_size: V; 0 where there is none.
    """

    family: Family
    d_model: int
    n_layers: int
    n_heads: int
    n_positions: int = 0
    vocab_size: int = 0

    def shapes(self) -> Shapes:
        """The tensors that are needed, under their official names without a prefix of the whole model."""
        prefix, modules = _LAYERS[self.family]
        shapes = self._tables() | self._module(_NORMS[self.family], (1,))
        for layer in range(self.n_layers):
            for name, sizes in modules.items():
                shapes |= self._module(prefix.format(layer) + name, sizes)
        return shapes

    def _module(self, name: str, sizes: tuple[int, ...]) -> Shapes:
        weight = tuple(size * self.d_model for size in sizes)
        # the linear layers of GPT-2 are (in, out), all others (out, in)
        return {
            f"{name}.weight": weight,
            f"{name}.bias": weight[-1:] if self.family == "gpt2" else weight[:1],
        }

    def _tables(self) -> Shapes:
        tokens, positions = (self.vocab_size, self.d_model), (self.n_positions, self.d_model)
        if self.family == "gpt2":
            return {"wte.weight": tokens, "wpe.weight": positions}
        if self.family == "bert":
            return {
                "embeddings.word_embeddings.weight": tokens,
                "embeddings.position_embeddings.weight": positions,
                "embeddings.token_type_embeddings.weight": (2, self.d_model),
            }
        return {}


def numbers_in(shapes: Shapes) -> int:
    """The number of values in tensors of these shapes."""
    return sum(math.prod(shape) for shape in shapes.values())


D_MODEL, HEADS, LAYERS, POSITIONS, VOCAB = 16, 2, 2, 12, 13
TINY = {
    "gpt2": Architecture("gpt2", D_MODEL, LAYERS, HEADS, POSITIONS, VOCAB),
    "bert-base-uncased": Architecture("bert", D_MODEL, LAYERS, HEADS, POSITIONS, VOCAB),
    "vit-base": Architecture("vit", D_MODEL, LAYERS, HEADS),
}
# What published files hold beside what is needed.
BESIDE = {
    "gpt2": {
        "h.0.attn.bias": torch.ones(1, 1, POSITIONS, POSITIONS),
        "h.1.attn.masked_bias": torch.tensor(-1e4),
        "lm_head.weight": torch.ones(VOCAB, D_MODEL),
    },
    "bert-base-uncased": {
        "pooler.dense.weight": torch.ones(D_MODEL, D_MODEL),
        "cls.predictions.bias": torch.ones(VOCAB),
        "embeddings.position_ids": torch.arange(POSITIONS)[None],
    },
    "vit-base": {
        "cls_token": torch.ones(1, 1, D_MODEL),
        "pos_embed": torch.ones(1, 5, D_MODEL),
        "patch_embed.proj.weight": torch.ones(D_MODEL, 3, 4, 4),
        "head.bias": torch.ones(7),
    },
}


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Makes the known weights so small that a test can have them."""
    for name, architecture in TINY.items():
        resize(patch, name, architecture)


def resize(patch: pytest.MonkeyPatch, name: str, architecture: Architecture) -> None:
    """Gives known weights another architecture."""
    known = DATA_SETS[name]
    assert isinstance(known, PretrainedWeights)
    patch.setitem(DATA_SETS, name, dataclasses.replace(known, n_heads=architecture.n_heads))


def official(name: str, seed: int = 0) -> dict[str, Tensor]:
    """Random weights of a tiny model under official names, with what files hold beside them; gains around 1."""
    generator = torch.Generator().manual_seed(seed)
    result = {}
    for key, shape in TINY[name].shapes().items():
        result[key] = 0.3 * torch.randn(shape, generator=generator)
        if len(shape) == 1 and key.endswith("weight"):
            result[key] += 1.0
    return result | BESIDE[name]


def save(folder: Path, tensors: Mapping[str, Tensor]) -> Path:
    """Writes a file of weights as it is published; returns its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({key: value.contiguous() for key, value in tensors.items()}, folder / "model.safetensors")
    return folder
