"""Names of the stores of one data set: ``bpe8000``, ``bpe512-n17200``, ``sp16000-1a2b3c4d``, ``words``, ``bytes-nonl``.

Standard library only.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from repro.paths import data_dir

MANIFEST = "manifest.json"
_GIVEN = re.compile(r"(sp|given)\d+-[0-9a-f]{8}$")
_SIZED = re.compile(r"(?P<variant>.+)-n(?P<size>[1-9]\d*)$")
_BPE = re.compile(r"bpe(?P<vocab>\d+)(-n(?P<size>\d+))?$")


@dataclass(frozen=True)
class Variant:
    """How a data set was tokenised and, when it is generated, at which size.

    Attributes:
        vocab_size: of the vocabulary learned from the training text.
        size: training pairs of a generated data set, None for its default.
    """

    vocab_size: int
    size: int | None = None

    @property
    def name(self) -> str:
        return f"bpe{self.vocab_size}" + (f"-n{self.size}" if self.size else "")

    @classmethod
    def parse(cls, name: str) -> "Variant | None":
        """The variant of that name, or None when its tokeniser was given as a file."""
        match = _BPE.match(name)
        if not match:
            return None
        return cls(int(match["vocab"]), int(match["size"]) if match["size"] else None)


def given_variant(kind: str, size: int, sha256: str) -> str:
    """The name of a variant whose tokeniser was given: kind, size and the start of its hash."""
    return f"{'sp' if kind == 'sentencepiece' else 'given'}{size}-{sha256[:8]}"


def is_subwords(variant: str) -> bool:
    """Whether a variant's tokens are subwords, learned or given."""
    return Variant.parse(variant) is not None or _GIVEN.match(variant) is not None


def sized(variant: str, size: int | None) -> str:
    """The name of a generated data set's only store at some size: ``lra`` by default, ``lra-n2000``."""
    return f"{variant}-n{size}" if size else variant


def unsized(variant: str) -> tuple[str, int | None]:
    """The parts that :func:`sized` joined."""
    match = _SIZED.match(variant)
    return (match["variant"], int(match["size"])) if match else (variant, None)


def store_path(name: str, variant: str) -> Path:
    """The folder of a store."""
    return data_dir() / name / variant


def variants(name: str) -> list[str]:
    """The finished stores of a data set below the data folder, sorted."""
    return sorted(p.parent.name for p in (data_dir() / name).glob(f"[!.]*/{MANIFEST}"))
