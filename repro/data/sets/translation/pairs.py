"""Sentence pairs that are held in memory as lines: from files, from the hub, or generated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.data.data_set import TEST, TRAIN, VAL, TokenSet
from repro.data.hub import download, on_hub, row_lines
from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.packed import AS, decoded, find_packed, read_packed, sha256_of
from repro.data.sets.translation import numbers
from repro.errors import UserError

if TYPE_CHECKING:
    from repro.data.store import StoreWriter

TRAIN_SIZE = 40_000
HELD_OUT_SIZES = {VAL: 500, TEST: 1000}


@dataclass
class RawText:
    """The raw lines of a data set.

    Attributes:
        lines: ``{split: {part: lines}}``; the parts of a split are equally long.
        origin: how it was obtained, for the manifest.
    """

    lines: dict[str, dict[str, list[str]]]
    origin: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SentencePairs(TokenSet):
    """Sentence pairs in files ``<split>.<part>``, or in columns of the hub.

    Attributes:
        stripped: SHA-256 with blanks stripped from the ends of lines, where that differs. Some copies on the hub are
            stored so; both forms are accepted from there.
    """

    stripped: dict[str, str] = field(default_factory=dict)

    def fill(self, writer: "StoreWriter", variant: str, options: Options) -> Manifest:
        raw = self.raw(options)
        for split, parts in raw.lines.items():
            for part, lines in parts.items():
                writer.text(split, part).add_lines(lines)
        # one vocabulary for all sides, from the training split only
        training = (line for part in self.parts for line in raw.lines[TRAIN][part])
        tokenizer = self.subwords(variant, options, training)
        counts = {split: writer.encode_split(split, self.parts, tokenizer) for split in raw.lines}
        return self.manifest(variant, raw.origin, counts, writer.write_tokenizer(tokenizer))

    def raw(self, options: Options) -> RawText:
        """The raw lines, their known hashes compared.

        Raises:
            UserError: a required file is missing, cannot be read, or is not the known content; sides differ in length;
                the hub cannot be reached.
        """
        raw = self._from_hub() if options.from_dir is None else self._from_files(options.from_dir)
        check_lengths(raw.lines)
        return raw

    def _from_files(self, folder: Path) -> RawText:
        hashes: dict[str, str] = {}
        raw = RawText({}, self.origin(sha256=hashes))
        for split in self.splits:
            candidates = {part: self.file(folder, f"{split}.{part}") for part in self.parts}
            paths = {part: path for part, path in candidates.items() if path is not None}
            absent = [f"{split}.{part}" for part in self.parts if part not in paths]
            if absent and (paths or split in self.required):
                raise UserError(f"--from {folder}: no {absent[0]}{AS}; needed: {', '.join(self.required)}")
            if not absent:
                raw.lines[split] = {
                    part: self.known_lines(f"{split}.{part}", path, hashes) for part, path in paths.items()
                }
        return raw

    def file(self, folder: Path, name: str) -> Path | None:
        """The file ``<split>.<part>`` of a folder; None where there is none."""
        return find_packed(folder, name)

    def known_lines(self, key: str, path: Path, hashes: dict[str, str]) -> list[str]:
        """The lines of a file, its hash compared and added to ``hashes``."""
        content = read_packed(path)
        hashes[key] = sha256_of([content])
        self.compare(key, hashes[key], str(path))
        return to_lines(content, str(path))

    def _from_hub(self) -> RawText:
        downloaded, origin = download(self)
        raw = RawText({}, {**origin, "sha256": {}})
        for split, rows in downloaded.items():
            raw.lines[split] = {}
            for part in self.parts:
                key = f"{split}.{part}"
                lines = raw.lines[split][part] = row_lines(self, key, rows[part])
                digest = raw.origin["sha256"][key] = sha256_of(f"{line}\n".encode() for line in lines)
                self.compare(key, digest, on_hub(self), self.stripped.get(key))
        return raw


@dataclass(frozen=True, kw_only=True)
class GeneratedNumbers(SentencePairs):
    """Spelled-out numbers, generated."""

    generated = True
    sizable = True

    def raw(self, options: Options) -> RawText:
        lines = {}
        for split, size in {TRAIN: options.size or TRAIN_SIZE, **HELD_OUT_SIZES}.items():
            pairs = numbers.generate(split, size)
            lines[split] = {part: [pair[side] for pair in pairs] for side, part in enumerate(self.parts)}
        return RawText(lines, self.generated_origin(str(numbers.GENERATOR_VERSION)))


def to_lines(content: bytes, where: str) -> list[str]:
    """The lines of some UTF-8 text; nothing but a line feed ends one.

    Raises:
        UserError: it is not UTF-8; says where it came from.
    """
    text = decoded(content, where)
    return text.removesuffix("\n").split("\n") if text else []


def check_lengths(splits: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    """Compares the sides of each split, ``{split: {part: lines}}``.

    Raises:
        UserError: they differ in length, or are empty.
    """
    for split, parts in splits.items():
        counts = {part: len(lines) for part, lines in parts.items()}
        if len(set(counts.values())) != 1 or 0 in counts.values():
            lengths = ", ".join(f"{split}.{part} has {n} lines" for part, n in counts.items())
            raise UserError(f"{lengths}; each side needs one line per example")
