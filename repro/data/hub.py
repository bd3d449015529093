"""Downloads from the hub, through the libraries ``datasets`` and ``huggingface_hub``, imported when they are used."""

import re
from collections.abc import Mapping
from importlib import import_module
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
    loaded = _call(data_set, "datasets", "load_dataset", hub.id, *filter(None, [hub.config]))
    absent = [split for split, name in hub.splits.items() if name not in loaded]
    if absent:
        raise UserError(f"{on_hub(data_set)} has no split {absent[0]}; {remedy(data_set)}")
    origin = {"kind": "hub", "id": hub.id, "revision": hub.revision or _resolved(loaded)}
    return {split: loaded[name] for split, name in hub.splits.items()}, origin


def download_file(data_set: DataSet, file: str) -> tuple[Path, dict[str, Any]]:
    """One file of a repository on the hub, and its origin for the manifest.

    Raises:
        UserError: the hub cannot be reached; names ``--from``.
    """
    hub = _hub(data_set)
    path = Path(_call(data_set, "huggingface_hub", "hf_hub_download", hub.id, file))
    # it keeps files below snapshots/<revision>/, also for a branch or tag
    came = path.parent.name if _REVISION.fullmatch(path.parent.name) else None
    return path, {"kind": "hub", "id": hub.id, "revision": hub.revision or came}


def _hub(data_set: DataSet) -> Hub:
    assert data_set.hub is not None  # `DataSet.check_files` has refused that
    return data_set.hub


def _call(data_set: DataSet, library: str, function: str, *names: str) -> Any:
    """Calls a function of a library for access to the hub.

    Raises:
        UserError: it is not installed, or the hub fails.
    """
    hub = _hub(data_set)
    try:
        return getattr(import_module(library), function)(*names, revision=hub.revision)
    except ImportError:
        raise UserError(
            f"the package `{library}` is not installed; install it, or {remedy(data_set)}"
        ) from None
    except Exception as error:  # the library raises many kinds: offline, not found, damaged download
        message = str(error).strip().split("\n", 1)[0]
        raise UserError(f"cannot get {hub.id} from the hub ({message:.160}); {remedy(data_set)}") from None


def _resolved(loaded: Mapping[str, object]) -> str | None:
    """The downloaded revision, if the library reports it: ``hf://datasets/<id>@<revision>/...``."""
    for rows in loaded.values():
        for url in getattr(getattr(rows, "info", None), "download_checksums", None) or ():
            match = re.search(rf"@({_REVISION.pattern})/", str(url))
            if match:
                return match[1]
    return None
