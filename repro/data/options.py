"""The options of ``repro data prepare``, and the stores of subwords that they name. Standard library only."""

from dataclasses import dataclass
from pathlib import Path

from repro.data.variants import Variant, given_variant


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
        """As on the command line."""
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


def subword_options(variant: str) -> Options:
    """The options that make a store of subwords; a tokeniser that was given is called FILE."""
    learned = Variant.parse(variant)
    return (
        Options(vocab_size=learned.vocab_size, size=learned.size)
        if learned
        else Options(tokenizer=Path("FILE"))
    )


def given_variant_of(options: Options) -> str | None:
    """The name of a store whose tokeniser is given; None where none is.

    Raises:
        UserError: it cannot be read, or is not of subwords.
    """
    if options.tokenizer is None:
        return None
    from repro.data.tokenizers.loading import load_subwords

    tokenizer = load_subwords(options.tokenizer)
    return given_variant(tokenizer.kind, tokenizer.size, tokenizer.sha256)
