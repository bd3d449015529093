"""Pretrained weights, in the files in which they are published. Standard library only.

A network that takes them checks names and shapes (:mod:`repro.models.pretrained`).
"""

from dataclasses import dataclass
from math import prod
from pathlib import Path

from repro.data.data_set import DataSet, Options
from repro.data.hub import download_file
from repro.data.store import Manifest, StoreWriter
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
        tensors, numbers = _sizes(path)
        writer.copy(path, file)
        digest = self.compare(file, writer.files[file]["sha256"], str(path))
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
