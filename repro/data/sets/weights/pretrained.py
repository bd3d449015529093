"""Pretrained weights, in the files in which they are published. Standard library only.

A network that takes them checks names and shapes (:mod:`repro.models.pretrained`).
"""

from dataclasses import dataclass
from math import prod
from pathlib import Path

from repro.data.data_set import DataSet, Hub
from repro.data.hub import download_file
from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.store import StoreWriter
from repro.errors import UserError


@dataclass(frozen=True, kw_only=True)
class PretrainedWeights(DataSet):
    """Weights in one file, as they were published: a ``model.safetensors``, of which a store has a copy and no table.

    Attributes:
        family: decides the names of tensors, ``gpt2``, ``bert`` or ``vit``.
        n_heads: H, which does not follow from shapes.
    """

    parts: tuple[str, ...] = ("weights",)
    levels: tuple[str, ...] = ("weights",)
    splits: tuple[str, ...] = ("weights",)
    files: tuple[str, ...] = ("model.safetensors",)
    family: str
    n_heads: int

    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        """Copies the file.

        Raises:
            UserError: it is missing, cut off or no safetensors, or not the known one.
        """
        file = self.files[0]
        path, origin = (
            download_file(self, file) if options.from_dir is None else (options.folder / file, self.origin())
        )
        if not path.is_file():
            raise UserError(
                f"--from {options.from_dir}: no {file} of {self.name} there; get the original file"
            )
        tensors, numbers = _sizes(path)
        writer.copy(path, file)
        digest = writer.files[file]["sha256"]
        self.compare(file, digest, str(path))
        counts = {"weights": {"examples": tensors, "parameters": numbers, "tokens": {}}}
        return self.manifest(variant, {**origin, "sha256": digest}, counts, {})


def _sizes(path: Path) -> tuple[int, int]:
    """The numbers of tensors and of values in a file; reads its header only."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118 - it is no dict
    except (SafetensorError, OSError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is not a complete file of weights ({reason:.160}); get it again") from None
    return len(shapes), sum(map(prod, shapes))


def _gpt2(name: str, description: str, size: str, n_heads: int) -> PretrainedWeights:
    """One of the sizes of GPT-2."""
    return PretrainedWeights(
        name=name,
        title=f"GPT-2 {description}, weights of the language model (Radford et al. 2019)",
        licence="modified MIT",
        size=size,
        hub=Hub(f"openai-community/{name}"),
        family="gpt2",
        n_heads=n_heads,
    )


WEIGHTS = (
    _gpt2("gpt2", "small: 12 layers of 768", "550 MB", 12),
    _gpt2("gpt2-medium", "medium: 24 layers of 1,024", "1.5 GB", 16),
    _gpt2("gpt2-large", "large: 36 layers of 1,280", "3.2 GB", 20),
    PretrainedWeights(
        name="bert-base-uncased",
        title="BERT base, uncased: 12 layers of 768, weights (Devlin et al. 2019)",
        licence="Apache-2.0",
        size="440 MB",
        hub=Hub("google-bert/bert-base-uncased"),
        family="bert",
        n_heads=12,
    ),
    PretrainedWeights(
        name="vit-base",
        title="ViT-Base/16 trained on ImageNet-21k: 12 layers of 768, weights in timm's form (Steiner et al. 2021)",
        licence="Apache-2.0",
        size="410 MB",
        hub=Hub("timm/vit_base_patch16_224.augreg_in21k"),
        family="vit",
        n_heads=12,
    ),
)
