"""Raw text of a source: from files on disk, from the hub, or generated. Every known SHA-256 is compared."""

import gzip
import hashlib
import lzma
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro.data import numbers
from repro.data.source import Source
from repro.errors import UserError

_OPENERS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.decompress, ".xz": lzma.decompress}
DEFAULT_TRAIN_SIZE = 40_000
_HELD_OUT_SIZES = {"val": 500, "test": 1000}


@dataclass
class RawText:
    """The raw lines of a source.

    Attributes:
        lines: ``{split: {part: lines}}``; the parts of a split are equally long.
        origin: how it was obtained, for the manifest.
        missing: splits of the source that were not there.
    """

    lines: dict[str, dict[str, list[str]]]
    origin: dict[str, Any]
    missing: list[str] = field(default_factory=list)


def from_files(source: Source, folder: Path) -> RawText:
    """Reads ``<split>.<part>``, plain or ``.gz`` or ``.xz``.

    Raises:
        UserError: a required file is missing, cannot be read, is not the known content, or sides differ in
            length.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"--from {folder}: no such folder")
    raw = RawText({}, {"kind": "files", "id": source.hub_id, "revision": source.revision})
    for split in source.splits:
        paths = {part: find_file(folder, f"{split}.{part}") for part in source.parts}
        absent = [f"{split}.{part}" for part, path in paths.items() if path is None]
        if absent and (split in source.required or len(absent) < len(paths)):
            raise UserError(f"--from {folder}: no {absent[0]}[.gz|.xz]; needed: {', '.join(source.required)}")
        if absent:
            raw.missing.append(split)
            continue
        content = {part: read_file(path) for part, path in paths.items() if path is not None}
        for part, found in content.items():
            compare(source, f"{split}.{part}", found, str(paths[part]), stripped_too=False)
        raw.lines[split] = {part: to_lines(found, str(paths[part])) for part, found in content.items()}
    check_lengths(raw.lines)
    return raw


def find_file(folder: Path, stem: str) -> Path | None:
    """The file of that name, plain, ``.gz`` or ``.xz``; None where there is none."""
    return next((folder / f"{stem}{end}" for end in _OPENERS if (folder / f"{stem}{end}").is_file()), None)


def read_file(path: Path) -> bytes:
    """The raw content of a file, whatever it is packed with.

    Raises:
        UserError: it cannot be read, or is damaged.
    """
    try:
        opener = _OPENERS[path.suffix if path.suffix in _OPENERS else ""]
        return opener(path.read_bytes())
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UserError(f"cannot read {path}: {error}; get the file again") from None


def to_lines(content: bytes, where: str) -> list[str]:
    """The lines of some UTF-8 text; nothing but a line feed ends one.

    Raises:
        UserError: it is not UTF-8; says where it came from.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{where} is not UTF-8 at byte {error.start}") from None
    return text.removesuffix("\n").split("\n") if text else []


def compare(source: Source, key: str, content: bytes, where: str, stripped_too: bool = False) -> None:
    """Compares the SHA-256 of some content with the known one, if there is one.

    Args:
        source: which knows the hashes.
        key: under which it knows this one.
        content: raw.
        where: it came from, for people.
        stripped_too: the content may also be the one whose lines are stripped.

    Raises:
        UserError: it is not the known content.
    """
    if key not in source.sha256:
        return
    known = [source.sha256[key]]
    if stripped_too and key in source.sha256_stripped:
        known.append(source.sha256_stripped[key])
    found = hashlib.sha256(content).hexdigest()
    if found not in known:
        raise UserError(
            f"{where}: sha256 of the content is {found:.16}…, that of {source.name} {key} is "
            f"{known[0]:.16}…; use the original files"
        )


def check_lengths(splits: dict[str, dict[str, list[str]]]) -> None:
    """Compares the sides of each split, ``{split: {part: lines}}``.

    Raises:
        UserError: they differ in length, or are empty.
    """
    for split, parts in splits.items():
        counts = {part: len(lines) for part, lines in parts.items()}
        if len(set(counts.values())) != 1 or 0 in counts.values():
            told = ", ".join(f"{split}.{part} has {n} lines" for part, n in counts.items())
            raise UserError(f"{told}; each side needs one line per example")


def remedy(source: Source) -> str:
    """What to do when the hub is of no help."""
    return f"put the files into a folder and give it: repro data prepare {source.name} --from DIR"


def unreachable(source: Source, error: Exception) -> UserError:
    """What to raise when the hub fails, in one line."""
    said = str(error).strip().split("\n", 1)[0]
    return UserError(f"cannot get {source.hub_id} from the hub ({said:.160}); {remedy(source)}")


def download(source: Source, streaming: bool = False) -> tuple[Any, dict[str, Any]]:
    """Downloads through ``datasets``.

    Args:
        source: which names a data set on the hub.
        streaming: the splits give rows as they come, and nothing is kept.

    Returns:
        The splits as the library gives them, and their origin for the manifest.

    Raises:
        UserError: the hub cannot be reached; names ``--from``.
    """
    try:
        import datasets
    except ImportError:
        raise UserError(f"the package `datasets` is not installed; install it, or {remedy(source)}") from None
    which = (source.hub_id,) if source.hub_config is None else (source.hub_id, source.hub_config)
    how = {"streaming": True} if streaming else {}
    try:
        # a stream does not tell which revision it is of, so that is asked first
        revision = source.revision or (_latest(source) if streaming else None)
        found = datasets.load_dataset(*which, revision=revision, **how)
    except Exception as error:  # the library raises many kinds: offline, not found, damaged download
        raise unreachable(source, error) from None
    return found, {"kind": "hub", "id": source.hub_id, "revision": revision or _resolved(found)}


def _latest(source: Source) -> str | None:
    """The newest revision on the hub."""
    from huggingface_hub import HfApi

    return HfApi().dataset_info(str(source.hub_id)).sha


def from_hub(source: Source) -> RawText:
    """Sentence pairs from the hub.

    Raises:
        UserError: the hub cannot be reached or its content is not the known one; names ``--from``.
    """
    found, origin = download(source)
    raw = RawText({}, origin)
    for split in source.splits:
        theirs = source.hub_splits.get(split)
        if theirs is None or theirs not in found:
            raw.missing.append(split)
            continue
        raw.lines[split] = {part: _column(source, found[theirs], split, part) for part in source.parts}
    absent = [split for split in source.required if split in raw.missing]
    if absent:
        raise UserError(f"{source.hub_id} on the hub has no split {absent[0]}; {remedy(source)}")
    check_lengths(raw.lines)
    return raw


def _column(source: Source, rows: Any, split: str, part: str) -> list[str]:
    lines = [str(line).removesuffix("\n") for line in rows[part]]
    content = "".join(f"{line}\n" for line in lines).encode()
    compare(source, f"{split}.{part}", content, f"{source.hub_id} on the hub", stripped_too=True)
    if any("\n" in line for line in lines):
        raise UserError(f"{source.hub_id} on the hub: a line of {split}.{part} holds a line break")
    return lines


def _resolved(found: Any) -> str | None:
    """The revision that was downloaded, as far as the library says: ``hf://datasets/<id>@<revision>/...``."""
    for rows in found.values():
        for url in getattr(getattr(rows, "info", None), "download_checksums", None) or ():
            match = re.search(r"@([0-9a-f]{40})/", str(url))
            if match:
                return match[1]
    return None


def generated(source: Source, size: int | None) -> RawText:
    """Generates a corpus.

    Args:
        source: a generated one.
        size: training pairs; None is 40,000.
    """
    sizes = {"train": size or DEFAULT_TRAIN_SIZE, **_HELD_OUT_SIZES}
    lines = {}
    for split, n in sizes.items():
        pairs = numbers.generate(split, n)
        lines[split] = {part: [pair[side] for pair in pairs] for side, part in enumerate(source.parts)}
    return RawText(
        lines, {"kind": "generated", "id": source.name, "revision": str(numbers.GENERATOR_VERSION)}
    )
