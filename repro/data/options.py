"""The options of ``repro data prepare``, and the names of the stores that they make: ``bpe8000``, ``bpe512-n17200``,
``sp16000-1a2b3c4d``, ``words``, ``bytes-nonl``. Standard library only.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_LEARNED = re.compile(r"bpe(\d+)")
_GIVEN = re.compile(r"(sp|given)\d+-[0-9a-f]{8}")
_SIZED = re.compile(r"(.+)-n([1-9]\d*)")


@dataclass(frozen=True)
class Options:
    """The options of ``repro data prepare``, None where they are left out.

    Attributes:
        from_dir: folder with the data set's files.
        vocab_size: of a vocabulary to learn, specials included.
        size: training examples of a generated data set.
        tokenizer: a tokeniser file to use instead of learning one.
        level: what a token of a text is.
    """

    from_dir: Path | None = None
    vocab_size: int | None = None
    size: int | None = None
    tokenizer: Path | None = None
    level: str | None = None

    def __str__(self) -> str:
        """The options in the form of the command line."""
        names = ("level", "vocab_size", "size", "tokenizer", "from_dir")
        values = {name: value for name in names if (value := getattr(self, name)) is not None}
        flags = {name: "--" + name.removesuffix("_dir").replace("_", "-") for name in values}
        return " ".join(f"{flags[name]} {value}" for name, value in values.items())

    @property
    def folder(self) -> Path:
        """The folder of a data set that comes from files only."""
        assert self.from_dir is not None  # `DataSet.check_files` has refused that
        return self.from_dir

    @property
    def vocabulary(self) -> str:
        """The options that choose a vocabulary, as on the command line."""
        return str(Options(vocab_size=self.vocab_size, tokenizer=self.tokenizer))


def sized(base: str, size: int | None) -> str:
    """The name of a store of generated data at some size: ``lra`` by default, ``lra-n2000``."""
    return f"{base}-n{size}" if size else base


def unsized(variant: str) -> tuple[str, int | None]:
    """The parts that :func:`sized` joined."""
    match = _SIZED.fullmatch(variant)
    return (match[1], int(match[2])) if match else (variant, None)


def learned_variant(vocab_size: int, size: int | None = None) -> str:
    """The name of a store whose subwords are learned."""
    return sized(f"bpe{vocab_size}", size)


def given_variant(kind: str, vocab_size: int, sha256: str) -> str:
    """The name of a store whose tokeniser was given: kind, size and the start of its hash."""
    return f"{'sp' if kind == 'sentencepiece' else 'given'}{vocab_size}-{sha256[:8]}"


def subword_options(variant: str) -> Options | None:
    """The options that make a store of subwords; None for another. A tokeniser that was given is called FILE."""
    base, size = unsized(variant)
    if learned := _LEARNED.fullmatch(base):
        return Options(vocab_size=int(learned[1]), size=size)
    return Options(tokenizer=Path("FILE")) if _GIVEN.fullmatch(variant) else None
