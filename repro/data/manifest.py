"""The manifest of a store: the origin of its data, its content, and the hashes that prove it complete."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro import __version__
from repro.paths import data_dir

MANIFEST = "manifest.json"
STORE_SCHEMA = 2  # 1 had a file for each column


class OlderVersion(ValueError):
    """A manifest that an older version of this package wrote."""


@dataclass
class Manifest:
    """The description of a store, kept in the store.

    Attributes:
        name: of the data set.
        variant: how it was tokenised, ``bpe8000``.
        title: of the data set.
        licence: under which terms the data may be used.
        source: how it was obtained: ``kind`` (hub, files, generated), ``id``, ``revision`` (None: unpinned).
        parts: columns of each split (languages).
        aliases: other names of splits, ``{"test": "test_2016_flickr"}``.
        missing_splits: splits of the data set that were not available.
        counts: ``{split: {"examples": n, "tokens": {part: n}}}``, end symbols not counted.
        tokenizer: ``kind``, ``size``, ``file``, ``sha256``.
        row: what a row of the text's column is, ``document``, ``sentence`` or ``split``; empty for other data.
        columns: ``{table: {column: {"rows": n, "sha256": hex}}}``: the hash of the content, whatever file holds it.
        files: ``{file: {"bytes": n, "sha256": hex}}``.
    """

    name: str
    variant: str
    title: str
    licence: str
    source: dict[str, Any]
    parts: list[str]
    aliases: dict[str, str]
    missing_splits: list[str]
    counts: dict[str, dict[str, Any]]
    tokenizer: dict[str, Any]
    row: str = ""
    columns: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    package_version: str = __version__
    schema_version: int = STORE_SCHEMA

    def to_json(self) -> bytes:
        """The manifest with a SHA-256 over itself, so that a damaged one is noticed."""
        body = dataclasses.asdict(self)
        body["self_sha256"] = _digest_of(body)
        return (json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes) -> "Manifest":
        """Reads a manifest.

        Raises:
            OlderVersion: it has an older schema.
            ValueError: not a manifest of this schema, or changed since it was written; says which.
        """
        try:
            body = json.loads(content)
        except ValueError:
            raise ValueError(f"{MANIFEST} is not JSON") from None
        version = body.get("schema_version") if isinstance(body, dict) else None
        if isinstance(version, int) and version < STORE_SCHEMA:
            raise OlderVersion
        if version != STORE_SCHEMA:
            raise ValueError(f"{MANIFEST} has schema_version {version!r}, this version reads {STORE_SCHEMA}")
        if body.pop("self_sha256", None) != _digest_of(body):
            raise ValueError(f"{MANIFEST} was changed after it was written")
        return cls(**body)


def _digest_of(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def store_path(name: str, variant: str) -> Path:
    """The folder of a store."""
    return data_dir() / name / variant


def variants(name: str) -> list[str]:
    """The finished stores of a data set below the data folder, sorted."""
    return sorted(p.parent.name for p in (data_dir() / name).glob(f"[!.]*/{MANIFEST}"))
