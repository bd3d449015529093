"""Pretrained weights, and the tensors that their files hold. Standard library only."""

import math
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from repro.data.data_set import Hub, OneStore
from repro.data.hub import download_file
from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.store import StoreWriter
from repro.errors import UserError

Family = Literal["gpt2", "bert", "vit"]
Shapes = dict[str, tuple[int, ...]]
_FLOATS = ("F16", "BF16", "F32", "F64")

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


def plain_name(name: str) -> str:
    """A tensor's official name without the prefix of the whole model, in the newer spelling of norms."""
    name = name.removeprefix("transformer.").removeprefix("bert.")
    return re.sub(
        r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
    )


def numbers_in(shapes: Shapes) -> int:
    """The number of values in tensors of these shapes."""
    return sum(math.prod(shape) for shape in shapes.values())


@dataclass(frozen=True, kw_only=True)
class PretrainedWeights(OneStore):
    """Weights in one file, as they were published: a ``model.safetensors``, of which a store has a copy and no table.

    Attributes:
        architecture: what they are of.
    """

    parts: tuple[str, ...] = ("weights",)
    levels: tuple[str, ...] = ("weights",)
    splits: tuple[str, ...] = ("weights",)
    files: tuple[str, ...] = ("model.safetensors",)
    architecture: Architecture

    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        """Copies the file.

        Raises:
            UserError: beside what is said there, a tensor is missing, or of another shape or kind; names it.
        """
        file, needed = self.files[0], self.architecture.shapes()
        path, origin = (
            download_file(self, file) if options.from_dir is None else (options.folder / file, self.origin())
        )
        if not path.is_file():
            raise UserError(
                f"--from {options.from_dir}: no {file} of {self.name} there; get the original file"
            )
        check_file(path, needed)
        with path.open("rb") as theirs, writer.stream(file) as ours:
            shutil.copyfileobj(theirs, ours, 1 << 20)
        digest = writer.files[file]["sha256"]
        self.compare(file, digest, str(path))
        counts = {"weights": {"examples": len(needed), "parameters": numbers_in(needed), "tokens": {}}}
        return self.manifest(variant, {**origin, "sha256": digest}, counts, {})


def check_file(path: Path, needed: Shapes) -> None:
    """Compares a file's header with the needed tensors; reads none of them.

    Raises:
        UserError: the file is cut off or no safetensors, or a tensor is missing, or of another shape or kind.
    """
    from safetensors import SafetensorError, safe_open

    tensors: dict[str, tuple[tuple[int, ...], str]] = {}
    try:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 - it is no dict
                tensor = file.get_slice(name)
                tensors[plain_name(name)] = tuple(tensor.get_shape()), tensor.get_dtype()
    except (SafetensorError, OSError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is not a complete file of weights ({reason:.160}); get it again") from None
    for name, shape in needed.items():
        if name not in tensors:
            raise UserError(f"{path}: {name} {list(shape)} is missing; use the original file")
        actual, kind = tensors[name]
        if actual != shape:
            raise UserError(
                f"{path}: {name} is {list(actual)}, needed is {list(shape)}; use the original file"
            )
        if kind not in _FLOATS:
            raise UserError(f"{path}: {name} holds {kind}, needed is one of {', '.join(_FLOATS)}")


_GPT2 = "GPT-2 {}, weights of the language model (Radford et al. 2019)"
WEIGHTS = (
    PretrainedWeights(
        name="gpt2",
        title=_GPT2.format("small: 12 layers of 768"),
        licence="modified MIT",
        size="550 MB",
        hub=Hub("openai-community/gpt2"),
        architecture=Architecture("gpt2", 768, 12, 12, 1024, 50257),
    ),
    PretrainedWeights(
        name="gpt2-medium",
        title=_GPT2.format("medium: 24 layers of 1,024"),
        licence="modified MIT",
        size="1.5 GB",
        hub=Hub("openai-community/gpt2-medium"),
        architecture=Architecture("gpt2", 1024, 24, 16, 1024, 50257),
    ),
    PretrainedWeights(
        name="gpt2-large",
        title=_GPT2.format("large: 36 layers of 1,280"),
        licence="modified MIT",
        size="3.2 GB",
        hub=Hub("openai-community/gpt2-large"),
        architecture=Architecture("gpt2", 1280, 36, 20, 1024, 50257),
    ),
    PretrainedWeights(
        name="bert-base-uncased",
        title="BERT base, uncased: 12 layers of 768, weights (Devlin et al. 2019)",
        licence="Apache-2.0",
        size="440 MB",
        hub=Hub("google-bert/bert-base-uncased"),
        architecture=Architecture("bert", 768, 12, 12, 512, 30522),
    ),
    PretrainedWeights(
        name="vit-base",
        title="ViT-Base/16 trained on ImageNet-21k: 12 layers of 768, weights in timm's form (Steiner et al. 2021)",
        licence="Apache-2.0",
        size="410 MB",
        hub=Hub("timm/vit_base_patch16_224.augreg_in21k"),
        architecture=Architecture("vit", 768, 12, 12),
    ),
)
