"""Pretrained weights from their store."""

from dataclasses import dataclass
from typing import Any

from repro.data.prepare import open_store
from repro.data.registry import find_of_class
from repro.data.sets.weights.pretrained import PretrainedWeights
from repro.data.store import verify


@dataclass(frozen=True)
class Weights:
    """Opened pretrained weights.

    Attributes:
        family: decides the names of tensors.
        n_heads: H.
        tensors: everything in the file, on the CPU, under its official names.
        sha256: of the file.
        revision: at which it was obtained; None where that is not known.
    """

    family: str
    n_heads: int
    tensors: dict[str, Any]
    sha256: str
    revision: str | None


def open_weights(name: str) -> Weights:
    """Reads pretrained weights from their store, whose hash is checked.

    Raises:
        UserError: no such weights, or their store is missing or corrupt; names the command that makes it.
    """
    data_set: PretrainedWeights = find_of_class(name, PretrainedWeights, "weights")
    store = open_store(name, data_set.default_variant)
    verify(store)
    from safetensors.torch import load_file

    file, manifest = data_set.files[0], store.manifest
    tensors = load_file(store.path / file)
    digest, revision = manifest.files[file]["sha256"], manifest.source["revision"]
    return Weights(data_set.family, data_set.n_heads, tensors, digest, revision)
