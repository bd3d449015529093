"""Official weights in our blocks give the numbers of the library they come from, and of an independent forward pass."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from repro.data.prepare import prepare
from repro.data.sets.weights.weight_data import open_weights
from repro.models import Bert, DecoderLM, Gpt2, VisionTransformer
from repro.models.body import gpt2_blocks, learned
from repro.models.pretrained import begin_with, translate
from repro.nn import Vocabulary
from tests.nn.mixers import difference, randomise
from tests.official_weights import D_MODEL, HEADS, LAYERS, POSITIONS, Architecture, official, resize

TOLERANCE = 1e-5
CONTROL = 1e-3


def opened(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, architecture: Architecture) -> Any:
    """Prepares a folder with a file of weights and opens the store."""
    monkeypatch.setenv("REPRO_DATA", str(folder / "data"))
    resize(monkeypatch, name, architecture)
    prepare(name, folder, report=lambda line: None)
    return open_weights(name)


@pytest.mark.parametrize("headless", [True, False])
@torch.no_grad()
def test_gpt2_of_the_library_in_our_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headless: bool
) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=37, n_positions=24, n_embd=32, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0
    )
    theirs = randomise(GPT2LMHeadModel(config)).eval()
    (theirs.transformer if headless else theirs).save_pretrained(tmp_path)
    assert (
        any(key.startswith("transformer.") for key in load_file(tmp_path / "model.safetensors")) != headless
    )
    result = opened(monkeypatch, tmp_path, "gpt2", Architecture("gpt2", 32, 3, 4, 24, 37))
    model = DecoderLM(
        32,
        3,
        partial(Vocabulary, size=37, scaled=False),
        gpt2_blocks(4, 128, 0.0),
        learned(24),
        dropout=0.0,
    )
    model.load_state_dict(translate("gpt2", result.tensors))
    ids = torch.randint(37, (2, 24))
    expected = theirs(ids, output_hidden_states=True)
    hidden = model(ids).y
    assert difference(hidden, expected.hidden_states[-1]) < TOLERANCE
    assert difference(model.vocabulary.logits(hidden), expected.logits) < TOLERANCE
    body = Gpt2(32, 3, 4, 24, dropout=0.0)
    begin_with(body, "gpt2", result.tensors, 4)
    assert difference(body(model.vocabulary.embed(ids)), expected.hidden_states[-1]) < TOLERANCE
    body.causal = False
    assert difference(body(model.vocabulary.embed(ids)), expected.hidden_states[-1]) > CONTROL


@torch.no_grad()
def test_bert_of_the_library_in_our_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import BertConfig, BertForPreTraining

    torch.manual_seed(2)
    config = BertConfig(
        vocab_size=37,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=24,
    )
    theirs = randomise(BertForPreTraining(config)).eval()
    for name, parameter in theirs.named_parameters():
        if "LayerNorm.weight" in name:
            parameter.add_(1.0)
    theirs.save_pretrained(tmp_path)
    result = opened(monkeypatch, tmp_path, "bert-base-uncased", Architecture("bert", 32, 3, 4, 24, 37))
    body = Bert(32, 3, 4, 24, dropout=0.0)
    begin_with(body, "bert", result.tensors, 4)
    ids = torch.randint(37, (2, 24))
    expected = theirs.bert(ids).last_hidden_state
    vectors = theirs.bert.embeddings.word_embeddings(ids)
    assert difference(body(vectors), expected) < TOLERANCE
    segments = theirs.bert.embeddings.token_type_embeddings.weight
    body.positions.table.table.weight.sub_(segments[0]).add_(segments[1])
    assert difference(body(vectors), expected) > CONTROL


def naive_vit(w: dict[str, Tensor], x: Tensor, heads: int, eps: float = 1e-6) -> Tensor:
    """The blocks of a vision transformer by its official names, written from its formulas."""

    def norm(name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / (centred.pow(2).mean(-1, keepdim=True) + eps).sqrt()
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    width = x.shape[-1] // heads
    for i in range(LAYERS):
        qkv = linear(f"blocks.{i}.attn.qkv", norm(f"blocks.{i}.norm1", x))
        mixed = []
        for head in range(heads):
            q, k, v = (qkv[..., (part * heads + head) * width :][..., :width] for part in range(3))
            mixed.append((q @ k.transpose(1, 2) / math.sqrt(width)).softmax(-1) @ v)
        x = x + linear(f"blocks.{i}.attn.proj", torch.cat(mixed, dim=-1))
        inner = linear(f"blocks.{i}.mlp.fc1", norm(f"blocks.{i}.norm2", x))
        inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
        x = x + linear(f"blocks.{i}.mlp.fc2", inner)
    return norm("norm", x)


@torch.no_grad()
def test_a_vision_transformer_and_its_own_positions() -> None:
    torch.manual_seed(5)
    body = VisionTransformer(D_MODEL, LAYERS, HEADS, POSITIONS, dropout=0.0).double()
    body.positions.table.table.weight.normal_()
    own = body.positions.table.table.weight.clone()
    weights = {name: value.double() for name, value in official("vit-base").items()}
    begin_with(body, "vit", weights, HEADS)
    assert torch.equal(body.positions.table.table.weight, own)
    x = torch.randn(2, 7, D_MODEL, dtype=torch.float64)
    expected = naive_vit(weights, x + own[:7], HEADS)
    assert difference(body(x), expected) < 1e-12
    assert difference(body(x), naive_vit(weights, x + own[:7], HEADS, eps=1e-2)) > CONTROL
    assert difference(body(x), naive_vit(weights, x, HEADS)) > CONTROL
