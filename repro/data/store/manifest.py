"""The manifest of a store: the origin of its data, its content, and the hashes that prove it complete."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from repro import __version__
from repro.data.store.data_set import DataSet
from repro.data.store.variants import MANIFEST

STORE_SCHEMA = 1


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
        missing_splits: splits of the data set that were not at hand.
        counts: ``{split: {"examples": n, "tokens": {part: n}}}``, end symbols not counted.
        tokenizer: ``kind``, ``size``, ``file``, ``sha256``.
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
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    package_version: str = __version__
    schema_version: int = STORE_SCHEMA

    @classmethod
    def of(
        cls,
        data_set: DataSet,
        variant: str,
        origin: dict[str, Any],
        counts: dict[str, dict[str, Any]],
        tokenizer: dict[str, Any],
        missing: list[str] | None = None,
    ) -> "Manifest":
        """The manifest of a store of a data set.

        Args:
            data_set: what is known of it: name, title, licence, parts, other names of splits.
            variant: name of the store.
            origin: how it was obtained.
            counts: of every split.
            tokenizer: what a token is; empty where there are none.
            missing: splits that were not at hand.
        """
        return cls(
            name=data_set.name,
            variant=variant,
            title=data_set.title,
            licence=data_set.licence,
            source=origin,
            parts=list(data_set.parts),
            aliases=dict(data_set.aliases),
            missing_splits=missing or [],
            counts=counts,
            tokenizer=tokenizer,
        )

    def to_json(self) -> bytes:
        """The manifest with a SHA-256 over itself, so that a damaged one is noticed."""
        body = dataclasses.asdict(self)
        body["self_sha256"] = _digest_of(body)
        return (json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes) -> "Manifest":
        """Reads a manifest.

        Raises:
            ValueError: not a manifest of this schema, or changed since it was written; says which.
        """
        try:
            body = json.loads(content)
        except ValueError:
            raise ValueError(f"{MANIFEST} is not JSON") from None
        if not isinstance(body, dict) or body.get("schema_version") != STORE_SCHEMA:
            version = body.get("schema_version") if isinstance(body, dict) else None
            raise ValueError(f"{MANIFEST} has schema_version {version!r}, this version reads {STORE_SCHEMA}")
        if body.pop("self_sha256", None) != _digest_of(body):
            raise ValueError(f"{MANIFEST} was changed after it was written")
        return cls(**body)


def _digest_of(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
