"""Known sources of data, from the lists by kind. Standard library only."""

from repro.data.example_sources import EXAMPLE_SOURCES
from repro.data.image_sources import IMAGE_SOURCES
from repro.data.pair_sources import PAIR_SOURCES
from repro.data.source import Source
from repro.data.speech_sources import SPEECH_SOURCES
from repro.data.text_sources import TEXT_SOURCES
from repro.data.treebank_sources import TREEBANK_SOURCES
from repro.data.weight_sources import WEIGHT_SOURCES
from repro.errors import UserError, nearest

__all__ = ["SOURCES", "Source", "find_source"]

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        *PAIR_SOURCES,
        *TEXT_SOURCES,
        *EXAMPLE_SOURCES,
        *WEIGHT_SOURCES,
        *IMAGE_SOURCES,
        *SPEECH_SOURCES,
        *TREEBANK_SOURCES,
    )
}


def find_source(name: str) -> Source:
    """The source of that name.

    Raises:
        UserError: there is none; offers the nearest names.
    """
    if name not in SOURCES:
        raise UserError(f"unknown data set {name!r}{nearest(name, SOURCES)}; see `repro data list`")
    return SOURCES[name]
