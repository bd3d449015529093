"""Downloads from the hub, through the libraries ``datasets`` and ``huggingface_hub``, imported when they are used."""

import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from repro.data.data_set import DataSet, Hub
from repro.errors import UserError

_REVISION = re.compile(r"[0-9a-f]{40}")


def remedy(data_set: DataSet) -> str:
    """What to do when the hub fails, for messages."""
    return f"put the files into a folder and give it: repro data prepare {data_set.name} --from DIR"


def on_hub(data_set: DataSet) -> str:
    """The origin of the content, for messages."""
    return f"{_hub(data_set).id} on the hub"


def unreachable(data_set: DataSet, error: Exception) -> UserError:
    """The error to raise when the hub fails, in one line."""
    message = str(error).strip().split("\n", 1)[0]
    return UserError(f"cannot get {_hub(data_set).id} from the hub ({message:.160}); {remedy(data_set)}")


def library(name: str, data_set: DataSet) -> ModuleType:
    """A library for access to the hub.

    Raises:
        UserError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError:
        raise UserError(f"the package `{name}` is not installed; install it, or {remedy(data_set)}") from None


def download(data_set: DataSet, streaming: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Downloads through ``datasets``.

    Args:
        data_set: one that is on the hub.
        streaming: the splits give rows as they come, and nothing is kept.

    Returns:
        The splits by our names, as the library gives them, and their origin for the manifest.

    Raises:
        UserError: the hub cannot be reached or lacks a split; names ``--from``.
    """
    datasets, hub = library("datasets", data_set), _hub(data_set)
    which = (hub.id,) if hub.config is None else (hub.id, hub.config)
    how = {"streaming": True} if streaming else {}
    try:
        # a stream does not give its revision, so that is looked up first
        revision = hub.revision or (_latest(hub) if streaming else None)
        loaded = datasets.load_dataset(*which, revision=revision, **how)
    except Exception as error:  # the library raises many kinds: offline, not found, damaged download
        raise unreachable(data_set, error) from None
    absent = [split for split, theirs in hub.splits.items() if theirs not in loaded]
    if absent:
        raise UserError(f"{on_hub(data_set)} has no split {absent[0]}; {remedy(data_set)}")
    origin = {"kind": "hub", "id": hub.id, "revision": revision or _resolved(loaded)}
    return {split: loaded[theirs] for split, theirs in hub.splits.items()}, origin


def download_file(data_set: DataSet, file: str) -> tuple[Path, dict[str, Any]]:
    """One file of a repository on the hub, and its origin for the manifest.

    Raises:
        UserError: the hub cannot be reached; names ``--from``.
    """
    hub = _hub(data_set)
    huggingface_hub = library("huggingface_hub", data_set)
    try:
        path = Path(huggingface_hub.hf_hub_download(hub.id, file, revision=hub.revision))
    except Exception as error:  # the library raises many kinds: offline, not found, no space
        raise unreachable(data_set, error) from None
    # it keeps files below snapshots/<revision>/, also for a branch or tag
    came = path.parent.name if _REVISION.fullmatch(path.parent.name) else None
    return path, {"kind": "hub", "id": hub.id, "revision": hub.revision or came}


def row_lines(data_set: DataSet, key: str, rows: Iterable[object]) -> list[str]:
    """The lines of a column; none holds a line break.

    Raises:
        UserError: one does.
    """
    lines = [str(row).removesuffix("\n") for row in rows]
    if any("\n" in line for line in lines):
        raise UserError(f"{on_hub(data_set)}: a line of {key} holds a line break; {remedy(data_set)}")
    return lines


def _hub(data_set: DataSet) -> Hub:
    if data_set.hub is None:
        raise UserError(f"{data_set.name} is not on the hub; {remedy(data_set)}")
    return data_set.hub


def _latest(hub: Hub) -> str | None:
    """The newest revision on the hub."""
    from huggingface_hub import HfApi

    return HfApi().dataset_info(hub.id).sha


def _resolved(loaded: Mapping[str, object]) -> str | None:
    """The downloaded revision, if the library reports it: ``hf://datasets/<id>@<revision>/...``."""
    for rows in loaded.values():
        for url in getattr(getattr(rows, "info", None), "download_checksums", None) or ():
            match = re.search(rf"@({_REVISION.pattern})/", str(url))
            if match:
                return match[1]
    return None
