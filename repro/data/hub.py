"""Downloads from the hub, through the libraries ``datasets`` and ``huggingface_hub``, imported when they are used."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from repro.data.data_set import DataSet, Hub
from repro.errors import UserError

_REVISION = re.compile(r"[0-9a-f]{40}")


def remedy(data_set: DataSet) -> str:
    """Returns the remedy when the hub fails, for messages."""
    return f"put the files into a folder and give it: repro data prepare {data_set.name} --from DIR"


def on_hub(data_set: DataSet) -> str:
    """The origin of the content, for messages."""
    return f"{_hub(data_set).id} on the hub"


def download(data_set: DataSet) -> tuple[dict[str, Any], dict[str, Any]]:
    """Downloads through ``datasets``.

    Returns:
        The splits by our names, as the library gives them, and their origin for the manifest.

    Raises:
        UserError: the hub cannot be reached or lacks a split; names ``--from``.
    """
    hub = _hub(data_set)
    with _one_line(data_set):
        from datasets import load_dataset

        loaded = load_dataset(hub.id, *filter(None, [hub.config]), revision=hub.revision)
    absent = [split for split, name in hub.splits.items() if name not in loaded]
    if absent:
        raise UserError(f"{on_hub(data_set)} has no split {absent[0]}; {remedy(data_set)}")
    origin = {"kind": "hub", "id": hub.id, "revision": hub.revision or _resolved(loaded)}
    return {split: loaded[name] for split, name in hub.splits.items()}, origin


def download_file(data_set: DataSet, file: str) -> tuple[Path, dict[str, Any]]:
    """Downloads a file of a repository on the hub; returns its path, and its origin for the manifest.

    Raises:
        UserError: the hub cannot be reached; names ``--from``.
    """
    hub = _hub(data_set)
    with _one_line(data_set):
        from huggingface_hub import hf_hub_download

        path = Path(hf_hub_download(hub.id, file, revision=hub.revision))
    # it keeps files below snapshots/<revision>/, also for a branch or tag
    came = path.parent.name if _REVISION.fullmatch(path.parent.name) else None
    return path, {"kind": "hub", "id": hub.id, "revision": hub.revision or came}


def _hub(data_set: DataSet) -> Hub:
    assert data_set.hub is not None  # `DataSet.check_files` has refused that
    return data_set.hub


@contextlib.contextmanager
def _one_line(data_set: DataSet) -> Iterator[None]:
    """Turns any error of a library for access to the hub into one line."""
    try:
        yield
    except Exception as error:  # they raise many kinds: not installed, offline, not found, damaged download
        message = str(error).strip().split("\n", 1)[0]
        problem = f"cannot get {_hub(data_set).id} from the hub ({message:.160})"
        raise UserError(f"{problem}; {remedy(data_set)}") from None


def _resolved(loaded: Mapping[str, object]) -> str | None:
    """The downloaded revision, if the library reports it: ``hf://datasets/<id>@<revision>/...``."""
    for rows in loaded.values():
        for url in getattr(getattr(rows, "info", None), "download_checksums", None) or ():
            match = re.search(rf"@({_REVISION.pattern})/", str(url))
            if match:
                return match[1]
    return None
