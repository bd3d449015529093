"""The base Transformer of Vaswani et al. 2017 in four codes, with the same weights: for training and for decoding.

The peers are `transformers` (MarianMTModel), fairseq (a checkout below ``--official``) and ``torch.nn.Transformer``.
fairseq imports under Python 3.11 once its configurations may be hashed and ``numpy.float`` and ``numpy.int`` exist,
which is arranged in memory; packages that it names and does not use here are empty stand-ins.
"""

import dataclasses
import math
import sys
from argparse import Namespace
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from benchmarks.harness import official, size
from repro.models import EncoderDecoder
from repro.nn import Added, Blocks, CrossAttention, FeedForward, FullAttention, PostNorm, Vocabulary
from repro.nn.positions.positions import SplitSinusoids

WIDTH, D_FF, HEADS, LAYERS, VOCAB, LENGTH = 512, 2048, 8, 6, 32_768, size(48)
PAD, BOS, EOS = 1, 0, 2  # as in fairseq


def ours(dropout: float, layers: int = LAYERS) -> EncoderDecoder:
    """The model as the recipes build it, with fairseq's positions and torch's epsilon."""
    torch.manual_seed(0)
    blocks = Blocks(
        mixers=[partial(FullAttention, n_heads=HEADS)],
        cross=partial(CrossAttention, n_heads=HEADS),
        feed_forward=partial(FeedForward, d_ff=D_FF),
        sublayer=partial(PostNorm, dropout=dropout, eps=1e-5),
    )
    positions = partial(Added, table=partial(SplitSinusoids, first=PAD + 1))
    return EncoderDecoder(WIDTH, layers, layers, partial(Vocabulary, size=VOCAB), blocks, positions, dropout)


def _parts(name: str, body: Any) -> dict[str, tuple[Tensor, Tensor]]:
    """Weights and biases of a sublayer's body under the names that its peers use."""
    if name == "feed_forward":
        return {"fc1": (body.inner.weight, body.inner.bias), "fc2": (body.outer.weight, body.outer.bias)}
    joint = (body.qkv,) if name == "mix" else (body.q, body.kv)
    weights = torch.cat([p.weight for p in joint]).chunk(3)
    biases = torch.cat([p.bias for p in joint]).chunk(3)
    where = {"mix": "self_attn", "cross": "encoder_attn"}[name]
    found = {f"{where}.{p}_proj": (w, b) for p, w, b in zip("qkv", weights, biases, strict=True)}
    return found | {f"{where}.out_proj": (body.out.weight, body.out.bias)}


def _fill(model: nn.Module, encoder: nn.Module, decoder: nn.Module) -> None:
    """Gives the weights of ours to a peer whose layers have the names that fairseq and Marian share."""
    mine = ours(0.0)
    with torch.no_grad():
        for theirs, stack in ((encoder, mine.encoder), (decoder, mine.decoder)):
            for layer, own in zip(theirs.layers, stack.layers, strict=True):  # type: ignore[union-attr,arg-type]
                for name, sublayer in own.items():  # type: ignore[operator]
                    for path, (weight, bias) in _parts(name, sublayer.body).items():
                        module = layer.get_submodule(path)
                        module.weight.copy_(weight)
                        module.bias.copy_(bias)
            theirs.embed_tokens.weight.copy_(mine.vocabulary.embedding.table.weight)  # type: ignore[union-attr]


def marian(dropout: float) -> Any:
    """MarianMTModel."""
    from transformers import MarianConfig, MarianMTModel

    sizes = {}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": LAYERS, f"{side}_ffn_dim": D_FF, f"{side}_attention_heads": HEADS}
    special = {"pad_token_id": PAD, "decoder_start_token_id": BOS, "eos_token_id": None, "bos_token_id": None}
    config = MarianConfig(
        vocab_size=VOCAB, d_model=WIDTH, activation_function="relu", scale_embedding=True, max_position_embeddings=256,
        dropout=dropout, attention_dropout=0.0, activation_dropout=0.0, forced_eos_token_id=None,
        attn_implementation="sdpa", **sizes, **special,
    )  # fmt: skip
    model = MarianMTModel(config)
    _fill(model, model.model.encoder, model.model.decoder)
    table = SplitSinusoids(WIDTH, PAD + 1)(torch.arange(256), torch.float32)
    for side in (model.model.encoder, model.model.decoder):
        side.embed_positions.weight.data.copy_(table)
    return model


class Stand(ModuleType):
    """Stands in for a package that a peer imports and does not use here."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return object


class Words:
    """As much of fairseq's dictionary as its models and its search ask for."""

    def __len__(self) -> int:
        return VOCAB

    def pad(self) -> int:
        return PAD

    def eos(self) -> int:
        return EOS

    def bos(self) -> int:
        return BOS

    unk = bos


def import_fairseq() -> None:
    """Makes ``import fairseq`` work."""
    sys.path.insert(0, str(official("fairseq")))
    for kind in (float, int):
        setattr(np, kind.__name__, kind)
    for name in (
        "sklearn",
        "sklearn.metrics",
        "torchaudio",
        "torchaudio.transforms",
        "soundfile",
        "bitarray",
    ):
        sys.modules.setdefault(name, Stand(name))
    made = dataclasses.dataclass

    def hashable(cls: Any = None, /, **options: Any) -> Any:
        if cls is None:
            return partial(hashable, **options)
        return made(
            cls, **(options | {"unsafe_hash": True} if cls.__module__.startswith("fairseq") else options)
        )

    dataclasses.dataclass = hashable  # type: ignore[assignment]
    try:
        import fairseq  # noqa: F401
        from fairseq.models.transformer import TransformerModel  # noqa: F401
    finally:
        dataclasses.dataclass = made


def fairseq(dropout: float) -> Any:
    """Its ``TransformerModel``."""
    import_fairseq()
    from fairseq.models.transformer import TransformerModel, base_architecture

    options = Namespace(
        dropout=dropout, share_all_embeddings=True, max_source_positions=256, max_target_positions=256
    )
    base_architecture(options)
    words = Words()
    model = TransformerModel.build_model(options, Namespace(source_dictionary=words, target_dictionary=words))
    _fill(model, model.encoder, model.decoder)
    return model


class TorchTransformer(nn.Module):
    """``torch.nn.Transformer`` with what it lacks, and without what the paper lacks."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.body = nn.Transformer(WIDTH, HEADS, LAYERS, LAYERS, D_FF, dropout, batch_first=True)
        self.body.encoder.norm = self.body.decoder.norm = None
        for layer in [*self.body.encoder.layers, *self.body.decoder.layers]:
            layer.dropout.p = 0.0  # behind the ReLU
            for module in layer.modules():
                if isinstance(module, nn.MultiheadAttention):
                    module.dropout = 0.0
        self.dropout = nn.Dropout(dropout)
        self.positions = SplitSinusoids(WIDTH, PAD + 1)(torch.arange(LENGTH), torch.float32)
        self.future = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        self._fill(ours(0.0))

    @torch.no_grad()
    def _fill(self, mine: EncoderDecoder) -> None:
        self.embedding.weight.copy_(mine.vocabulary.embedding.table.weight)
        for theirs, stack in ((self.body.encoder, mine.encoder), (self.body.decoder, mine.decoder)):
            for layer, own in zip(theirs.layers, stack.layers, strict=True):
                for name, sublayer in own.items():  # type: ignore[operator]
                    parts = list(_parts(name, sublayer.body).values())
                    if name == "feed_forward":
                        places = [layer.linear1, layer.linear2]
                    else:
                        attention = layer.self_attn if name == "mix" else layer.multihead_attn
                        attention.in_proj_weight.copy_(torch.cat([w for w, _ in parts[:3]]))
                        attention.in_proj_bias.copy_(torch.cat([b for _, b in parts[:3]]))
                        places, parts = [attention.out_proj], parts[3:]
                    for place, (weight, bias) in zip(places, parts, strict=True):
                        place.weight.copy_(weight)
                        place.bias.copy_(bias)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * math.sqrt(WIDTH) + self.positions[: ids.shape[1]])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits ``(B, T, V)``."""
        hidden = self.body(self.embed(source), self.embed(target), tgt_mask=self.future, tgt_is_causal=True)
        return linear(hidden, self.embedding.weight)
