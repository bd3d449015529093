"""What is written down of the sources of sentence pairs fits together."""

import pytest

from repro.data.pair_sources import PAIR_SOURCES
from repro.data.registry import SOURCES
from repro.data.source import Source

LARGE = [source for source in PAIR_SOURCES if source.parallel is not None]


def test_every_source_of_pairs_is_registered() -> None:
    assert [source.name for source in PAIR_SOURCES] == [
        "multi30k", "wmt14-en-de", "wmt14-en-fr", "iwslt14-de-en", "numbers-en-de",
    ]  # fmt: skip
    assert all(SOURCES[source.name] is source for source in PAIR_SOURCES)
    assert {source.name for source in LARGE} == {"wmt14-en-de", "wmt14-en-fr", "iwslt14-de-en"}


@pytest.mark.parametrize("source", LARGE, ids=lambda source: source.name)
def test_every_split_of_a_large_source_can_be_found(source: Source) -> None:
    rules = source.parallel
    assert rules is not None
    for split in source.splits:
        documents, ready = rules.documents.get(split, ()), rules.ready.get(split, ())
        assert documents or (split == "val" and rules.held_every and ready)
        for name in (*ready, *(name for names in documents for name in names)):
            assert {name.format(part=part, role="src") for part in source.parts} != {name}
    assert set(source.aliases.values()) <= set(source.splits) == set(source.required)
    assert set(rules.lines) <= set(source.splits) - {"train"}
    assert {key.rpartition(".")[0] for key in source.sha256} <= set(rules.lines)
    assert source.obtained == "files" or set(source.hub_splits) == set(source.splits)
    assert any("byte-level BPE" in told for told in rules.deviations)


def test_rules_are_those_of_the_recipes() -> None:
    told = {}
    for source in LARGE:
        rules = source.parallel
        assert rules is not None
        told[source.name] = (rules.max_words, rules.ratio, rules.lower, rules.held_every, source.vocab_size)
        if source.name.startswith("wmt14"):
            assert rules.lines == {"newstest2013": 3000, "newstest2014": 3003}
    assert told == {
        "wmt14-en-de": (256, 0.0, False, 0, 37000),
        "wmt14-en-fr": (250, 1.5, False, 0, 32000),
        "iwslt14-de-en": (175, 1.5, True, 23, 10000),
    }
