"""Generated conversations: answers have the topic of the section that is asked for; what is shown of documents."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from repro.data.sets.dialogue.dialogue_data import GeneratedDialogueData, Talk
from repro.errors import UserError

TALK = Talk(sections=3, section_words=5, topics=4, topic_words=2, questions=4, answer_words=3)
FIRST = 4 + 3  # word of a topic
DOC = FIRST + 8
EVERY = np.arange(40)


def data(**changes: Any) -> GeneratedDialogueData:
    sizes = {"batch_size": 4, "window": 12, "train_examples": 40, "eval_examples": 40, "talk": TALK}
    return GeneratedDialogueData(**(sizes | changes))


def whole(module: GeneratedDialogueData, split: str = "test", epoch: int | None = None) -> list[list[int]]:
    """The rows with their last tokens."""
    result = module.examples(split, EVERY, epoch)
    ends = result.targets[:, -1:].tolist()
    return [row + end for row, end in zip(result.inputs.tolist(), ends, strict=True)]


def topic(words: list[int]) -> int:
    """The one topic of some words."""
    (result,) = {(word - FIRST) // 2 for word in words}
    return result


def test_answers_have_the_topic_of_the_section() -> None:
    seen, words, asked = set(), set(), set()
    for row in whole(data()):
        assert (row[0], row[19], len(row)) == (DOC, 2, 20 + 4 * 6)
        topics = {}
        for section in range(3):
            name, *text = row[1 + 6 * section : 7 + 6 * section]
            assert name == 4 + section
            topics[name] = topic(text)
        for turn in range(4):
            one, name, other, *output = row[20 + 6 * turn : 26 + 6 * turn]
            assert (one, other) == (DOC + 1, DOC + 2)
            assert topic(output) == topics[name]
            asked.add(name)
            words |= set(output)
        seen.add(tuple(topics.values()))
    assert len(seen) > 20
    assert asked == {4, 5, 6}
    assert words == set(range(FIRST, DOC))


def test_what_is_shown_of_a_document() -> None:
    rows = whole(data())
    assert whole(data(document="none")) == [row[20:] for row in rows]
    assert whole(data(document="cut")) == [[DOC, *row[9:]] for row in rows], "12 tokens with both marks"
    assert whole(data(document="cut", window=50)) == rows


@pytest.mark.parametrize("document", ["none", "cut", "whole"])
@pytest.mark.parametrize("score_all", [False, True])
def test_targets_are_counted_without_reading_them(document: Any, score_all: bool) -> None:
    module = data(document=document, score_all=score_all)
    for epoch in (None, 1):
        result = module.examples("train", EVERY, epoch)
        assert module.targets_of("train", EVERY, epoch).tolist() == (result.targets >= 0).sum(1).tolist()
    spoken = module.examples("val", EVERY, None)
    assert (spoken.targets < DOC).all(), "no mark counts in evaluation"
    assert module.n_targets == 16


def test_splits_and_epochs_differ_and_repeat() -> None:
    module = data()
    every = [whole(module, "train", 0), whole(module, "train", 1), whole(module, "val"), whole(module)]
    assert len({tuple(row) for rows in every for row in rows}) == 160
    assert whole(data(), "train", 1) == every[1]
    assert module.manifest_sha256 != data(document="cut").manifest_sha256
    assert len({data().words([i]) for i in range(DOC + 3)}) == DOC + 3


@pytest.mark.parametrize("name", list(asdict(TALK)))
def test_sizes_below_1_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"{name} must be at least 1"):
        Talk(**(asdict(TALK) | {name: 0}))


def test_more_is_refused() -> None:
    with pytest.raises(UserError, match="not 2"):
        data(window=2)
