"""The interface of every data set: its facts, the options of ``repro data prepare``, and the names of its stores:
``bpe8000``, ``bpe512-n17200``, ``sp16000-1a2b3c4d``, ``words``, ``bytes-nonl``.

A kind of data is a subclass with a few fields of its own; ``data_sets.yaml`` has the data sets themselves.
Listing and completing names load these modules, so none of them imports torch.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from repro.data.store import Manifest, StoreWriter
from repro.data.tokenizers.loading import load_subwords
from repro.data.tokenizers.tokenizer import MIN_BYTE_BPE, ByteBpe, Gpt2Bpe, Subwords, load_gpt2
from repro.errors import UserError

TRAIN, VAL, TEST = SPLITS = ("train", "val", "test")
GPT2 = "gpt2"
MAX_VOCABULARY = 2**24  # the library that learns subwords reserves memory for all of them
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


def sized(base: str, size: int | None) -> str:
    """The name of a store of generated data at some size: ``lra`` by default, ``lra-n2000``."""
    return f"{base}-n{size}" if size else base


def unsized(variant: str) -> tuple[str, int | None]:
    """The parts that :func:`sized` joined."""
    match = _SIZED.fullmatch(variant)
    return (match[1], int(match[2])) if match else (variant, None)


def given_variant(kind: str, vocab_size: int, sha256: str) -> str:
    """The name of a store whose tokeniser was given: kind, size and the start of its hash."""
    return f"{'sp' if kind == 'sentencepiece' else 'given'}{vocab_size}-{sha256[:8]}"


def subword_options(variant: str) -> Options | None:
    """The options that make a store of subwords; None for another. A tokeniser that was given is called FILE."""
    base, size = unsized(variant)
    if learned := _LEARNED.fullmatch(base):
        return Options(vocab_size=int(learned[1]), size=size)
    return Options(tokenizer=Path("FILE")) if _GIVEN.fullmatch(variant) else None


@dataclass(frozen=True)
class Hub:
    """The location of a data set on the hub.

    Attributes:
        id: of the data set there.
        config: its configuration there, or None.
        revision: the pinned revision; None is shown as ``unpinned``.
        splits: our names of the available splits, and the hub's.
    """

    id: str
    config: str | None = None
    revision: str | None = None
    splits: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DataSet(ABC):
    """The facts of a data set, and how its stores are made.

    Attributes:
        name: as on the command line.
        title: a description.
        licence: its terms, as stated by its makers.
        size: approximate size, for people.
        parts: columns of each split (languages, or ``text``).
        levels: what a token may be, the default first; ``bpe`` stands for subwords that are learned or given, ``gpt2``
            for GPT-2's own subwords under its own numbers. For data that are not text, the name of the only store.
        vocab_size: default size of a learned vocabulary of subwords.
        splits: every split it has.
        optional: those that may be missing from its files.
        aliases: other names for splits (``test``).
        hub: where it is on the hub, or None.
        sha256: known SHA-256 of raw contents, by what the kind calls them.
        files: names of the files that are needed, for people.
        generated: it needs no files.
        sizable: it can be generated at any size.
    """

    name: str
    title: str
    licence: str
    size: str
    parts: tuple[str, ...]
    levels: tuple[str, ...] = ("bpe",)
    vocab_size: int = 8000
    splits: tuple[str, ...] = SPLITS
    optional: tuple[str, ...] = ()
    aliases: dict[str, str] = field(default_factory=dict)
    hub: Hub | None = None
    sha256: dict[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    generated: ClassVar[bool] = False
    sizable: ClassVar[bool] = False

    @property
    def obtained(self) -> str:
        """The source of the data in words: ``hub or --from``, ``--from``, ``generated`` or ``generated or --from``."""
        return "generated" if self.generated else "hub or --from" if self.hub else "--from"

    @property
    def revision(self) -> str:
        """The pinned revision, ``unpinned``, or ``-`` where there is nothing to pin."""
        return self.hub.revision or "unpinned" if self.hub else "-"

    # --- stores

    @property
    def default_variant(self) -> str:
        """The store that the name alone refers to."""
        return self.variant(Options())

    def learned(self, options: Options) -> int:
        """The size of the vocabulary to learn."""
        return options.vocab_size or self.vocab_size

    def variant(self, options: Options) -> str:
        """The store that these options refer to.

        Raises:
            UserError: a given tokeniser cannot be read.
        """
        if options.level == GPT2:
            return GPT2
        if options.tokenizer is not None:
            subwords = load_subwords(options.tokenizer)
            return given_variant(subwords.kind, subwords.size, subwords.sha256)
        level = options.level or ("bpe" if options.vocab_size else self.levels[0])
        return sized(f"bpe{self.learned(options)}" if level == "bpe" else level, options.size)

    def options_of(self, variant: str) -> Options:
        """The options that make a store."""
        if variant == GPT2:
            return Options(level=GPT2, tokenizer=Path("FILE"))
        level, size = unsized(variant)
        only = (level,) == self.levels
        return subword_options(variant) or Options(level=None if only else level, size=size)

    def check_variant(self, variant: str) -> None:
        """Refuses a store that no command makes.

        Raises:
            UserError: there is none of that name; names those there are.
        """
        level, size = unsized(variant)
        level = "bpe" if subword_options(variant) else level
        if variant == "bpe" or level not in self.levels or (size is not None and not self.sizable):
            known = (f"bpe{self.vocab_size}" if one == "bpe" else one for one in self.levels)
            raise UserError(f"{self.name} has no level {variant!r}; it has {', '.join(known)}")

    def command(self, variant: str) -> str:
        """The command that makes a store."""
        options = self.options_of(variant)
        if self.obtained == "--from":
            options = replace(options, from_dir=Path("DIR"))
        return f"repro data prepare {self.name} {options}".rstrip()

    # --- making one

    def check_options(self, options: Options) -> None:
        """Refuses options that contradict each other or the data set.

        Raises:
            UserError: they do; names the one to leave out.
        """
        for wrong, message in self.refusals(options):
            if wrong:
                raise UserError(message)

    def refusals(self, options: Options) -> Iterator[tuple[bool, str]]:
        """Yields possible errors in the options: whether each is there, and its message."""
        source, size, tokenizer, level = options.from_dir, options.size, options.tokenizer, options.level
        own = f"--tokenizer {tokenizer} brings its vocabulary"
        token, has_size = tokenizer is not None, size is not None
        words = str(Options(vocab_size=options.vocab_size, tokenizer=tokenizer))
        yield self.generated and source is not None, f"{self.name} is generated; leave out --from {source}"
        yield has_size and not self.sizable, f"{self.name} has its own size; leave out --size {size}"
        yield token and options.vocab_size is not None, f"{own}; leave out --vocab-size {options.vocab_size}"
        yield token and has_size, f"{own} at the default size; leave out --size {size}"
        known = ", ".join(self.levels)
        yield level not in (None, *self.levels), f"{self.name} has no --level {level}; it has {known}"
        if level == GPT2:
            own = "--level gpt2 has GPT-2's own subwords; give its tokenizer.json: --tokenizer FILE"
            yield not token, own
        elif words:
            yield "bpe" not in self.levels, f"{self.name} has the vocabulary of its data; leave out {words}"
            yield level not in (None, "bpe"), f"--level {level} counts its own vocabulary; leave out {words}"
        for name, least, most in (("size", 1, math.inf), ("vocab_size", MIN_BYTE_BPE, MAX_VOCABULARY)):
            value = getattr(options, name)
            given = Options(**{name: value})
            yield value is not None and value < least, f"{given} must be at least {least}"
            yield value is not None and value > most, f"{given} must be at most {most}"

    def check_files(self, variant: str, from_dir: Path | None) -> None:
        """Looks whether there is anything to make a store from.

        Raises:
            UserError: files are needed and none are given, or there is no such folder.
        """
        if from_dir is None and self.obtained == "--from":
            named = f" ({', '.join(self.files)})" if self.files else ""
            raise UserError(
                f"{self.name} cannot be downloaded here; get its files{named} and give their folder: "
                f"`{self.command(variant)}`"
            )
        if from_dir is not None and not from_dir.is_dir():
            raise UserError(f"--from {from_dir}: no such folder")

    @abstractmethod
    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        """Obtains the raw data, compares every known hash and writes the tables of a store.

        Args:
            writer: of the store.
            variant: its name.
            options: which were checked.

        Raises:
            UserError: a file is missing, damaged or not the known one; the hub cannot be reached.
        """

    def subwords(self, variant: str, options: Options, texts: Iterable[str]) -> Subwords | Gpt2Bpe:
        """The tokeniser of a store of subwords: the given one, or learned from the training text.

        Raises:
            UserError: the given file cannot be read, or the size cannot be reached.
        """
        if options.tokenizer is None:
            return ByteBpe.train(texts, self.learned(options))
        return load_gpt2(options.tokenizer) if variant == GPT2 else load_subwords(options.tokenizer)

    def compare(self, key: str, digest: str, origin: str, *also: str | None) -> str:
        """Compares the SHA-256 of some content with the known one, if there is one; returns it.

        Args:
            key: name of the known hash.
            digest: in hexadecimal.
            origin: source of the content, for messages.
            also: hashes of other accepted contents.

        Raises:
            UserError: it is not the known content.
        """
        known = self.sha256.get(key)
        if known is not None and digest not in (known, *also):
            raise UserError(
                f"{origin}: sha256 of the content is {digest:.16}…, that of {self.name} {key} is {known:.16}…; "
                "use the original files"
            )
        return digest

    def origin(self, **more: object) -> dict[str, Any]:
        """The origin of data from files, for the manifest."""
        name, revision = (self.hub.id, self.hub.revision) if self.hub else (None, None)
        return {"kind": "files", "id": name, "revision": revision, **more}

    def generated_origin(self, revision: str, **more: object) -> dict[str, Any]:
        """The origin of generated data, for the manifest."""
        return {"kind": "generated", "id": self.name, "revision": revision, **more}

    def manifest(
        self,
        variant: str,
        origin: dict[str, Any],
        counts: dict[str, dict[str, Any]],
        tokenizer: dict[str, Any],
        row: str = "",
    ) -> Manifest:
        """The manifest of a store.

        Args:
            variant: name of the store.
            origin: how it was obtained.
            counts: of every split that was available.
            tokenizer: what a token is; empty where there are none.
            row: what a row of a text is.
        """
        return Manifest(
            self.name,
            variant,
            self.title,
            self.licence,
            origin,
            list(self.parts),
            dict(self.aliases),
            [split for split in self.splits if split not in counts],
            counts,
            tokenizer,
            row,
        )

    # --- report on a new store

    def size_of(self, counts: dict[str, Any]) -> str:
        """The size of a split, from the manifest's counts."""
        return f"{counts['examples']:,}"

    def report(self, manifest: Manifest) -> list[str]:
        """Lines about a new store."""
        sizes = (f"{split} {self.size_of(counts)}" for split, counts in manifest.counts.items())
        lines = [f"made {self.name}/{manifest.variant}: {', '.join(sizes)}"]
        missing = manifest.missing_splits
        return [*lines, f"not available, left out: {', '.join(missing)}"] if missing else lines
