"""What is known about a source of data. Standard library only."""

from dataclasses import dataclass, field
from typing import Literal

Layout = Literal["splits", "whole", "folder", "library"]
Kind = Literal["pairs", "text", "images", "trees", "proteins", "speech", "treebank", "weights"]


@dataclass(frozen=True)
class Text:
    """How text for language models is found, cut into splits and read.

    Attributes:
        levels: what a token may be, the default first: ``words``, ``words-min3`` (words seen at least three times in
            training, the others are the unknown word), ``bytes``, ``bytes-nonl`` (newlines left out), ``chars``,
            ``bpe``.
        layout: ``splits`` (files for each split), ``whole`` (one file, cut at given bytes), ``folder`` (any .txt files)
            or ``library`` (the running Python's standard library).
        files: names that people have for the files of each split (or of ``whole``), without ``.gz``, ``.xz`` or
            ``.zip``; may be patterns.
        shards: how many files a pattern must find, by split.
        folders: folders below the given one to look in as well.
        cut: bytes of each split, in order, for ``whole``.
        prefix: a longer file is cut off after the last split.
        line_end: word that stands for the end of a line.
        unknown: word that stands for words out of the vocabulary.
        sentences: a line is a sentence whose neighbours mean nothing; the store knows where each begins.
        seen_bytes: only bytes that occur in training are symbols; else all 256 are.
        strip_lines: blanks at the ends of lines are no characters.
        vocabulary: names of a file with the official words, which ``words`` needs.
        hub_column: of the text on the hub.
        hub_blank: what an empty line there is in the original files.
    """

    levels: tuple[str, ...]
    layout: Layout
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    shards: dict[str, int] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    cut: dict[str, int] = field(default_factory=dict)
    prefix: bool = False
    line_end: str = "<eos>"
    unknown: str = "<unk>"
    sentences: bool = False
    seen_bytes: bool = False
    strip_lines: bool = False
    vocabulary: tuple[str, ...] = ()
    hub_column: str = "text"
    hub_blank: str = ""


@dataclass(frozen=True)
class Parallel:
    """How a large corpus of sentence pairs is found, read and cleaned, one pair after another, never whole.

    Attributes:
        documents: for each split the documents it consists of, and for each document the names of its files, the
            recipe's own first; another one in its place is a deviation. ``{part}`` stands for the language,
            ``{role}`` for ``src`` or ``ref``. ``.sgm`` and ``.xml`` are read as segments, ``train.tags.*`` as
            talks with tags.
        ready: names of files that are a whole split already, which go first.
        folders: patterns of folders below the given one to look in as well.
        lines: known numbers of pairs, by split.
        max_words: longer training pairs (words and punctuation marks, on either side) are dropped; 0: none are.
        ratio: training pairs with more words on one side, by this factor, are dropped; 0: none are.
        lower: all text is lower-cased.
        straight: in segments, a curly apostrophe is read as a straight one.
        held_every: every n-th clean training pair is for validation, where there are no files for it.
        vocabulary_every: the vocabulary is learned from every n-th training pair.
        hub_column: of the pairs on the hub.
        deviations: from the recipe, for the manifest.
    """

    documents: dict[str, tuple[tuple[str, ...], ...]]
    ready: dict[str, tuple[str, ...]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    lines: dict[str, int] = field(default_factory=dict)
    max_words: int = 0
    ratio: float = 0.0
    lower: bool = False
    straight: bool = False
    held_every: int = 0
    vocabulary_every: int = 1
    hub_column: str = "translation"
    deviations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """Where a data set comes from and what is known about it.

    Attributes:
        name: as on the command line.
        title: what it is, for people.
        licence: its terms, as stated by its makers.
        size: approximate size, for people.
        parts: columns of each split (languages, or ``text``).
        splits: every split the source has, the required ones first.
        required: splits that must be at hand.
        aliases: other names for splits (``test``).
        obtained: ``hub`` (or files), ``files``, or ``generated``.
        hub_id: data set on the hub, or None.
        hub_config: its configuration there, or None.
        revision: its pinned revision; None is shown as ``unpinned``.
        hub_splits: names of the splits there.
        sha256: known SHA-256 of the raw content of ``<split>.<part>``, or of ``whole``.
        sha256_stripped: the same with blanks stripped from the ends of lines, where that differs. Some copies
            on the hub are stored so; both forms are accepted from there.
        vocab_size: default size of a learned vocabulary.
        text: how it is read as text for language models; None for all else.
        parallel: how it is read where it is too large to be held as lines; None for all else.
        kind: what it holds.
        variant: the name of its only store; empty where tokenisation makes several.
        files: names of the files that are needed, where they do not follow from splits and parts;
            those of a generated source may be given in place of what would be generated.
    """

    name: str
    title: str
    licence: str
    size: str
    parts: tuple[str, ...]
    splits: tuple[str, ...]
    required: tuple[str, ...] = ()
    aliases: dict[str, str] = field(default_factory=dict)
    obtained: str = "hub"
    hub_id: str | None = None
    hub_config: str | None = None
    revision: str | None = None
    hub_splits: dict[str, str] = field(default_factory=dict)
    sha256: dict[str, str] = field(default_factory=dict)
    sha256_stripped: dict[str, str] = field(default_factory=dict)
    vocab_size: int = 8000
    text: Text | None = None
    parallel: Parallel | None = None
    kind: Kind = "pairs"
    variant: str = ""
    files: tuple[str, ...] = ()
