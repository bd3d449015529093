"""Sentence pairs that are published cut into subwords, with the merges that cut them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repro.data.data_set import TRAIN
from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.packed import decoded, find_packed, need_packed, read_packed, sha256_of
from repro.data.sets.translation.pairs import SentencePairs
from repro.errors import UserError

if TYPE_CHECKING:
    from repro.data.store import StoreWriter

GIVEN = "given"


@dataclass(frozen=True, kw_only=True)
class GivenSubwords(SentencePairs):
    """Sentence pairs in files ``<split>.<part>`` of blank-separated subwords, and a file of merges.

    There is one store. Its lines are words; its tokens are the given subwords.

    Attributes:
        prefix: beginning of the names of files where several pairs of languages share a folder.
        merges: possible names of the file of merges.
    """

    levels: tuple[str, ...] = (GIVEN,)
    prefix: str
    merges: tuple[str, ...]

    def variant(self, options: Options) -> str:
        return GIVEN

    def options_of(self, variant: str) -> Options:
        return Options()

    def needed_files(self) -> tuple[str, ...]:
        return (*(f"{split}.{part}" for split in self.required for part in self.parts), self.merges[-1])

    def fill(self, writer: "StoreWriter", variant: str, options: Options) -> Manifest:
        from repro.data.table import ids_of
        from repro.data.tokenizers.merges import MergedWords, joined, read_merges

        raw, path = self.raw(options), self._merges(options.folder)
        content = read_packed(path)
        digest = raw.origin["sha256"]["merges"] = sha256_of([content])
        self.compare("merges", digest, str(path))
        try:
            merges = read_merges(decoded(content, str(path)))
        except ValueError as error:
            raise UserError(f"{path}: {error}; get the file again") from None
        tokenizer = MergedWords.from_text(
            (line for part in self.parts for line in raw.lines[TRAIN][part]), merges
        )
        counts = {}
        for split, parts in raw.lines.items():
            tokens = {}
            for part, lines in parts.items():
                words = [joined(line) for line in lines]
                ids = [tokenizer.given_ids(line) for line in lines]
                if ids != tokenizer.encode_batch(words):
                    raise UserError(
                        f"{path} does not make the subwords of {split}.{part}; use the file that did"
                    )
                writer.text(split, part).add_lines(words)
                column = writer.column(split, part, ids_of(tokenizer.size))
                column.add_rows(ids)
                tokens[part] = column.values
            counts[split] = {"examples": len(lines), "tokens": tokens}
        return self.manifest(variant, raw.origin, counts, writer.write_tokenizer(tokenizer))

    def file(self, folder: Path, name: str) -> Path | None:
        return find_packed(folder, f"{self.prefix}{name}") or find_packed(folder, name)

    def _merges(self, folder: Path) -> Path:
        found = (find_packed(folder, name) for name in self.merges)
        return next((path for path in found if path), None) or need_packed(
            folder, self.merges[-1], "it holds the merges of the subwords"
        )
