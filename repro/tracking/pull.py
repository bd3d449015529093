"""Reads run records that others' runs uploaded to W&B as artifacts. They are untrusted bytes, validated before use.

Files are read into memory, up to a limit, and never under the names that their uploaders gave them.
"""

import base64
import contextlib
import importlib.util
import os
import re
import time
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from repro.errors import ReproError, UserError
from repro.tracking.reach import has_key

if TYPE_CHECKING:
    from wandb import Api, Artifact
    from wandb.apis.public import File

RECORD_TYPE = "record"
TIMEOUT_S = 15  # of one question to W&B, its client's own retries included
FILE_S = 120.0  # of one file
# A record of ours has about 40 kB, decoded outputs of a test set about 500 kB.
MAX_RECORD = 2**21
MAX_OUTPUTS = 2**25
MAX_FILES = 16
_NAME = re.compile(r"[^/\\#?%:\x00-\x1f\x7f]{1,128}")  # of entities and projects, as W&B has it


@dataclass(frozen=True)
class Pulled:
    """One version of an artifact.

    Attributes:
        name: as its uploader called it, and the version.
        record: the bytes of its JSON file.
        outputs: those of the decoded test outputs, where it holds some.
        problem: why it was not read; None where it was.
    """

    name: str
    record: bytes = b""
    outputs: bytes | None = None
    problem: str | None = None


def split_target(target: str) -> tuple[str, str]:
    """``ENTITY/PROJECT`` in two.

    Raises:
        UserError: it is something else.
    """
    entity, slash, project = target.partition("/")
    if not (slash and _NAME.fullmatch(entity) and _NAME.fullmatch(project)):
        raise UserError(f"{target!r} is not ENTITY/PROJECT; write it as in the project's address on W&B")
    return entity, project


def connect() -> "Api":
    """W&B's own client for its public API.

    Raises:
        UserError: the package or a key is missing; the server refuses the key, or does not answer in time.
    """
    if importlib.util.find_spec("wandb") is None:
        raise UserError("wandb is not installed; run `pip install wandb`")
    import wandb

    base = os.environ.get("WANDB_BASE_URL") or str(wandb.setup().settings.base_url)
    host = urlsplit(base).hostname or base
    if not has_key(host):
        raise UserError(f"no key for {host}; set WANDB_API_KEY or run `wandb login`")
    try:
        api = wandb.Api(timeout=TIMEOUT_S)
        _ = api.default_entity  # sends a request to the server
        return api
    except Exception as error:
        raise UserError(_message(error)) from None


def pull(target: str) -> Iterator[Pulled]:
    """Every artifact of type ``record`` in a project, all versions, in W&B's order.

    Args:
        target: ``ENTITY/PROJECT``.

    Raises:
        UserError: see :func:`connect`; or no such project, or nothing of that type in it.
        ReproError: the server fails in between; what came until then is good.
    """
    entity, project = split_target(target)
    api = connect()
    try:
        kind = api.artifact_type(RECORD_TYPE, f"{entity}/{project}")
    except Exception as error:
        raise UserError(f"{target}: no such project, or no run uploaded a record: {_first(error)}") from None
    with plainly(target):
        for collection in kind.collections():
            for artifact in collection.artifacts():
                yield _read(artifact, api)


def _read(artifact: "Artifact", api: "Api") -> Pulled:
    name = str(artifact.name)
    try:
        files = _listed(artifact.files(per_page=MAX_FILES + 1))
        records = [f for f in files if f.name.endswith(".json") and "/" not in f.name]
        outputs = [f for f in files if f.name.endswith("outputs.txt") and "/" not in f.name]
        if len(records) != 1 or len(outputs) > 1:
            counts = f"{len(records)} JSON files and {len(outputs)} of outputs"
            return Pulled(
                name, problem=f"holds {counts}; a record is one JSON file, with its outputs or without"
            )
        record = _fetch(records[0], api, MAX_RECORD)
        return Pulled(name, record, _fetch(outputs[0], api, MAX_OUTPUTS) if outputs else None)
    except UserError as error:
        return Pulled(name, problem=str(error))


def _listed(files: Iterable["File"]) -> list["File"]:
    listed = []
    for file in files:
        listed.append(file)
        if len(listed) > MAX_FILES:
            raise UserError(f"holds more than {MAX_FILES} files")
    return listed


def _fetch(file: "File", api: "Api", limit: int) -> bytes:
    """A file's bytes.

    Raises:
        UserError: it is too large, whatever the server says of its size; or it cannot be had.
    """
    too_large = UserError(f"{file.name} is larger than {limit} bytes")
    if (file.size or 0) > limit:
        raise too_large
    base = str(api.settings["base_url"])
    url = urljoin(base + "/", str(file.direct_url or file.url or ""))
    if urlsplit(url).scheme not in ("http", "https"):
        raise UserError(f"{file.name} is stored at an external address, which is not opened")
    try:
        data = _get(url, _key_for(url, base, api), limit)
    except (OSError, HTTPException, ValueError) as error:
        raise UserError(f"{file.name} cannot be had: {_first(error)}") from None
    if len(data) > limit:
        raise too_large
    return data


def _get(url: str, key: str | None, limit: int) -> bytes:
    """At most one byte more than the limit."""
    request = urllib.request.Request(url)
    if key:
        word = base64.b64encode(f"api:{key}".encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {word}")
    data, until = b"", time.monotonic() + FILE_S
    with _opener().open(request, timeout=TIMEOUT_S) as answer:
        while len(data) <= limit:
            piece = answer.read1(min(2**16, limit + 1 - len(data)))
            if not piece:
                break
            data += piece
            if time.monotonic() > until:
                raise TimeoutError(f"not here after {FILE_S:.0f} s")
    return data


def _opener() -> urllib.request.OpenerDirector:
    """Opens web addresses, and follows redirections to such, but knows no files of this machine."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def _key_for(url: str, base: str, api: "Api") -> str | None:
    """The key, for W&B's own server; stores of others have an address that is signed."""
    ours, theirs = urlsplit(base), urlsplit(url)
    same = (ours.scheme, ours.netloc) == (theirs.scheme, theirs.netloc)
    return getattr(api, "api_key", None) if same else None


@contextlib.contextmanager
def plainly(action: str) -> Iterator[None]:
    """Turns any exception of W&B's client into a one-line error about ``action``."""
    try:
        yield
    except ReproError:
        raise
    except Exception as error:
        raise ReproError(f"{action}: W&B failed: {_first(error)}; run the same command again") from None


def _message(error: Exception) -> str:
    """Why no connection came about. The client words a server that does not answer as a busy service of its own."""
    words = _first(error)
    if "did not respond in time" in words:
        return f"W&B does not answer within {TIMEOUT_S} s; see WANDB_BASE_URL and the network"
    refused = re.search(r"error (401|403|404)", words)
    if refused:
        return f"W&B refuses the key (error {refused.group(1)}); set WANDB_API_KEY or run `wandb login --relogin`"
    return f"W&B: {words}"


def _first(error: BaseException) -> str:
    return (str(error).strip().partition("\n")[0] or type(error).__name__)[:200]
