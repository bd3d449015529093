"""Tiny random weights in the form of the published files, and their place among the known sources."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from repro.data.registry import DATA_SETS
from repro.data.sets.weights.pretrained import Architecture, PretrainedWeights

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
    patch.setitem(DATA_SETS, name, dataclasses.replace(known, architecture=architecture))


def official(name: str, seed: int = 0) -> dict[str, Tensor]:
    """Random weights of a tiny model under official names, with what files hold beside them; gains around 1."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for key, shape in TINY[name].shapes().items():
        found[key] = 0.3 * torch.randn(shape, generator=generator)
        if len(shape) == 1 and key.endswith("weight"):
            found[key] += 1.0
    return found | BESIDE[name]


def save(folder: Path, tensors: Mapping[str, Tensor]) -> Path:
    """Writes a file of weights as it is published; returns its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({key: value.contiguous() for key, value in tensors.items()}, folder / "model.safetensors")
    return folder
