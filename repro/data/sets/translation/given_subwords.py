"""Sentence pairs that are published as subwords, with the merges that cut them."""

from dataclasses import dataclass, replace

from repro.data.data_set import TRAIN
from repro.data.options import Options
from repro.data.packed import decoded, find_packed, need_packed, read_packed, sha256_of
from repro.data.sets.translation.pairs import Bitext, SentencePairs
from repro.data.tokenizers.loading import AnyTokenizer
from repro.data.tokenizers.merges import MergedWords, joined, read_merges
from repro.errors import UserError

GIVEN = "given"


@dataclass(frozen=True, kw_only=True)
class GivenSubwords(SentencePairs):
    """Sentence pairs that are published cut into blank-separated subwords, with the merges that cut them.

    There is one store. Its lines are words; its tokens are the given subwords.

    Attributes:
        prefix: beginning of the names of files where several pairs of languages share a folder.
        merges: possible names of the file of merges.
    """

    levels: tuple[str, ...] = (GIVEN,)
    prefix: str
    merges: tuple[str, ...]

    def needed_files(self) -> tuple[str, ...]:
        needed = [split for split in self.splits if split not in self.optional]
        return (*(f"{split}.{part}" for split in needed for part in self.parts), self.merges[-1])

    def bitext(self, options: Options) -> Bitext:
        names = {split: ((f"{self.prefix}{split}.{{part}}", f"{split}.{{part}}"),) for split in self.splits}
        return replace(self, names=names)._from_files(options.folder)

    def given_tokenizer(self, bitext: Bitext, options: Options) -> AnyTokenizer:
        """Subwords as they are given; turns the lines into words.

        Raises:
            UserError: no merges, or they do not make the given subwords.
        """
        paths = (find_packed(options.folder, name) for name in self.merges)
        path = next(filter(None, paths), None) or need_packed(
            options.folder, self.merges[-1], "it holds the merges of the subwords"
        )
        content = read_packed(path)
        digest = bitext.origin["sha256"]["merges"] = sha256_of([content])
        self.compare("merges", digest, str(path))
        try:
            merges = read_merges(decoded(content, str(path)))
        except ValueError as error:
            raise UserError(f"{path}: {error}; get the file again") from None
        training = (line for part in self.parts for line in bitext.lines[TRAIN][part])
        tokenizer = MergedWords.from_text(training, merges)
        for split, parts in bitext.lines.items():
            for part, lines in parts.items():
                words = [joined(line) for line in lines]
                if [tokenizer.given_ids(line) for line in lines] != tokenizer.encode_batch(words):
                    raise UserError(
                        f"{path} does not make the subwords of {split}.{part}; use the file that did"
                    )
                parts[part] = words
        return tokenizer
