"""Stores of pretrained weights: a ``model.safetensors`` as published, checked on import and on use."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.data.registry import DATA_SETS, find_data_set
from repro.data.store.hub import download_file
from repro.data.store.manifest import Manifest
from repro.data.store.options import Options
from repro.data.store.store import open_store, verify
from repro.data.store.store_writer import StoreWriter
from repro.data.weights.weight_sources import Architecture, PretrainedWeights, Shapes, numbers_in, plain_name
from repro.errors import UserError

_FLOATS = ("F16", "BF16", "F32", "F64")


@dataclass(frozen=True)
class Weights:
    """Opened pretrained weights.

    Attributes:
        architecture: what they are of.
        tensors: everything in the file, on the CPU, under its official names.
        sha256: of the file.
        revision: at which it was obtained; None where that is not known.
    """

    architecture: Architecture
    tensors: dict[str, Any]
    sha256: str
    revision: str | None


def fill_weights(
    data_set: PretrainedWeights, writer: StoreWriter, variant: str, options: Options
) -> Manifest:
    """Copies a file of weights; see ``DataSet.fill``.

    Raises:
        UserError: beside what is said there, a tensor is missing, or of another shape or kind; names it.
    """
    file, needed = data_set.files[0], data_set.architecture.shapes()
    if options.from_dir is None:
        path, origin = download_file(data_set, file)
    else:
        path, origin = options.folder / file, data_set.origin()
    if not path.is_file():
        raise UserError(
            f"--from {options.from_dir}: no {file} of {data_set.name} there; get the original file"
        )
    check_file(path, needed)
    with path.open("rb") as theirs, writer.stream(file) as ours:
        shutil.copyfileobj(theirs, ours, 1 << 20)
    digest = writer.files[file]["sha256"]
    data_set.compare(file, digest, str(path))
    counts = {"weights": {"examples": len(needed), "parameters": numbers_in(needed), "tokens": {}}}
    return Manifest.of(data_set, variant, {**origin, "sha256": digest}, counts, {})


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


def open_weights(name: str) -> Weights:
    """Reads pretrained weights from their store, whose hash is checked.

    Raises:
        UserError: no such weights, or their store is missing or corrupt; names the command that makes it.
    """
    data_set = find_data_set(name)
    if not isinstance(data_set, PretrainedWeights):
        those = ", ".join(item.name for item in DATA_SETS.values() if isinstance(item, PretrainedWeights))
        raise UserError(f"{name} holds no weights; those that do: {those}")
    store = open_store(name, data_set.default_variant)
    verify(store)
    from safetensors.torch import load_file

    file, manifest = data_set.files[0], store.manifest
    tensors = load_file(store.path / file)
    return Weights(
        data_set.architecture, tensors, manifest.files[file]["sha256"], manifest.source["revision"]
    )
