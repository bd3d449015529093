"""The facts about the sources of sentence pairs are consistent."""

import pytest

from repro.data.registry import DATA_SETS
from repro.data.sets.translation.pairs import SentencePairs

LARGE = [one for one in DATA_SETS.values() if isinstance(one, SentencePairs) and one.cleaning]


@pytest.mark.parametrize("corpus", LARGE, ids=lambda corpus: corpus.name)
def test_every_split_of_a_large_corpus_can_be_found(corpus: SentencePairs) -> None:
    files = corpus
    for split in corpus.splits:
        documents, ready = files.names.get(split, ()), files.ready.get(split, ())
        assert documents or (split == "val" and corpus.held_every and ready)
        for name in (*ready, *(name for names in documents for name in names)):
            assert {name.format(part=part, role="src") for part in corpus.parts} != {name}
    assert set(corpus.aliases.values()) <= set(corpus.splits)
    assert corpus.optional == ()
    assert set(files.lines) <= set(corpus.splits) - {"train"}
    assert {key.rpartition(".")[0] for key in corpus.sha256} <= set(files.lines)
    assert corpus.hub is None or set(corpus.hub.splits) == set(corpus.splits)
    assert any("byte-level BPE" in messages for messages in corpus.deviations)


def test_rules_are_those_of_the_recipes() -> None:
    messages = {}
    for one in LARGE:
        rules = one.cleaning
        assert rules is not None
        messages[one.name] = (rules.max_words, rules.ratio, rules.lower, one.held_every, one.vocab_size)
        if one.name.startswith("wmt14"):
            assert one.lines == {"newstest2013": 3000, "newstest2014": 3003}
    assert messages == {
        "wmt14-en-de": (256, 0.0, False, 0, 37000),
        "wmt14-en-fr": (250, 1.5, False, 0, 32000),
        "iwslt14-de-en": (175, 1.5, True, 23, 10000),
    }
