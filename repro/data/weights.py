"""Stores of pretrained weights: a ``model.safetensors`` as it was published, checked when it comes in and when used."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.data.manifest import Manifest
from repro.data.obtain import remedy
from repro.data.registry import find_source
from repro.data.source import Source
from repro.data.store import StoreWriter, open_store, verify
from repro.data.weight_sources import ARCHITECTURES, Architecture, Shapes, numbers_in, plain_name
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


def fill_weights(source: Source, variant: str, from_dir: Path | None, writer: StoreWriter) -> Manifest:
    """Copies a file of weights into a store.

    Args:
        source: of weights.
        variant: name of the store.
        from_dir: folder with the file; None asks the hub.
        writer: of the store.

    Raises:
        UserError: no file, one that is damaged or not the known one, or the hub cannot be reached; names the tensor
            where one is missing, or of another shape or kind.
    """
    path, origin = _downloaded(source) if from_dir is None else _given(source, from_dir)
    needed = ARCHITECTURES[source.name].shapes()
    check_file(path, needed)
    file = source.files[0]
    with path.open("rb") as theirs, writer.stream(file) as ours:
        shutil.copyfileobj(theirs, ours, 1 << 20)
    digest = writer.files[file]["sha256"]
    known = source.sha256.get(file, digest)
    if digest != known:
        raise UserError(
            f"{path}: its sha256 is {digest:.16}…, that of {source.name} is {known:.16}…; use the original file"
        )
    return Manifest.of(
        source,
        variant,
        {**origin, "sha256": digest},
        {"weights": {"examples": len(needed), "parameters": numbers_in(needed), "tokens": {}}},
        {},
    )


def _given(source: Source, folder: Path) -> tuple[Path, dict[str, Any]]:
    path = Path(folder) / source.files[0]
    if not Path(folder).is_dir():
        raise UserError(f"--from {folder}: no such folder")
    if not path.is_file():
        raise UserError(f"--from {folder}: no {source.files[0]} of {source.name} there")
    return path, {"kind": "files", "id": source.hub_id, "revision": source.revision}


def _downloaded(source: Source) -> tuple[Path, dict[str, Any]]:
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise UserError(
            f"the package `huggingface_hub` is not installed; install it, or {remedy(source)}"
        ) from None
    try:
        path = Path(hf_hub_download(str(source.hub_id), source.files[0], revision=source.revision))
    except Exception as error:  # the library raises many kinds: offline, not found, no space
        said = str(error).strip().split("\n", 1)[0]
        raise UserError(f"cannot get {source.hub_id} from the hub ({said:.160}); {remedy(source)}") from None
    # it keeps files below snapshots/<revision>/, whichever was asked for
    came = path.parent.name if re.fullmatch(r"[0-9a-f]{40}", path.parent.name) else None
    return path, {"kind": "hub", "id": source.hub_id, "revision": source.revision or came}


def check_file(path: Path, needed: Shapes) -> None:
    """Compares a file's header with what is needed; reads no tensor.

    Raises:
        UserError: the file is cut off or no safetensors, or a tensor is missing, or of another shape or kind.
    """
    from safetensors import SafetensorError, safe_open

    found: dict[str, tuple[tuple[int, ...], str]] = {}
    try:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 - it is no dict
                told = file.get_slice(name)
                found[plain_name(name)] = tuple(told.get_shape()), told.get_dtype()
    except (SafetensorError, OSError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is no whole file of weights ({reason:.160}); get it again") from None
    for name, shape in needed.items():
        if name not in found:
            raise UserError(f"{path}: {name} {list(shape)} is missing; use the original file")
        there, kind = found[name]
        if there != shape:
            raise UserError(
                f"{path}: {name} is {list(there)}, needed is {list(shape)}; use the original file"
            )
        if kind not in _FLOATS:
            raise UserError(f"{path}: {name} holds {kind}, needed is one of {', '.join(_FLOATS)}")


def open_weights(name: str) -> Weights:
    """Reads pretrained weights from their store, whose hash is checked.

    Raises:
        UserError: no such weights, or their store is missing or corrupt; names the command that makes it.
    """
    source = find_source(name)
    if source.kind != "weights":
        raise UserError(f"{name} holds no weights; those that do: {', '.join(ARCHITECTURES)}")
    store = open_store(name, source.variant)
    verify(store)
    from safetensors.torch import load_file

    file = source.files[0]
    origin = store.manifest.source
    tensors = load_file(store.path / file)
    return Weights(ARCHITECTURES[name], tensors, store.manifest.files[file]["sha256"], origin["revision"])
