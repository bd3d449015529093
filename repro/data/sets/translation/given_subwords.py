"""Sentence pairs that are published as subwords, with the merges that cut them."""

from dataclasses import dataclass

from repro.data.data_set import TRAIN, Options
from repro.data.packed import decoded, find_packed, need_packed, read_packed, sha256_of
from repro.data.sets.translation.pairs import Bitext, SentencePairs
from repro.data.tokenizers.loading import AnyTokenizer
from repro.data.tokenizers.merges import MergedWords, joined, read_merges

GIVEN = "given"


@dataclass(frozen=True, kw_only=True)
class GivenSubwords(SentencePairs):
    """Sentence pairs that are published cut into blank-separated subwords, with the merges that cut them.

    There is one store. Its lines are words; its tokens are the given subwords.

    Attributes:
        merges: possible names of the file of merges.
    """

    levels: tuple[str, ...] = (GIVEN,)
    merges: tuple[str, ...]

    def given_tokenizer(self, bitext: Bitext, options: Options) -> AnyTokenizer:
        """Subwords as they are given; turns the lines into words, of which the merges make these subwords again.

        Raises:
            UserError: no merges.
        """
        paths = (find_packed(options.folder, name) for name in self.merges)
        path = next(filter(None, paths), None) or need_packed(
            options.folder, self.merges[-1], "it holds the merges of the subwords"
        )
        content = read_packed(path)
        bitext.origin["sha256"]["merges"] = self.compare("merges", sha256_of([content]), str(path))
        training = (line for part in self.parts for line in bitext.lines[TRAIN][part])
        tokenizer = MergedWords.from_text(training, read_merges(decoded(content, str(path))))
        for parts in bitext.lines.values():
            parts |= {part: list(map(joined, lines)) for part, lines in parts.items()}
        return tokenizer
