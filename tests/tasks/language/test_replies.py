"""Replies follow the distribution of training and depend on nothing but their seed and place."""

from functools import partial

import pytest
import torch

from repro.models import DecoderLM
from repro.nn import Blocks, FeedForward, NoPositions, PreNorm, RelativeAttention, TypedVocabulary
from repro.tasks.language.replies import Generation, Ids, replies, turns
from tests.tasks.language.dialogues import DOC, HOW, IDS, MEMORIES, WINDOW, by_hand, data, network


def test_utterances_of_a_row() -> None:
    one, two = DOC + 1, DOC + 2
    row = [DOC, 5, 2, one, 7, two, 8, 9, one, 4]
    assert turns(row, DOC, 1) == [(row[:6], [8, 9]), (row[:9], [4])]
    assert turns(row[3:], DOC, 0)[0] == ([one], [7])
    assert turns(row, DOC, 3) == []


def likeliest(net: DecoderLM, row: list[int], memory: bool) -> list[int]:
    """A reply of the likeliest tokens, each read anew with all that was said; the last block leaves room."""
    result: list[int] = []
    speaker = row[-1]
    while len(result) < HOW.max_new:
        room = HOW.max_new - 1 - len(result)
        filled = torch.tensor([*row, *result, *[0] * room])  # what follows is seen by nothing before it
        with torch.no_grad():
            hidden = by_hand(net, filled, memory)[0][len(row) + len(result) - 1]
        probs = net.vocabulary.log_probs(hidden).exp()
        end = probs[2] + probs[DOC:].sum()
        probs[[0, 1, 2]], probs[DOC:] = 0.0, 0.0
        if result and end > probs.max():
            break
        result.append(int(probs.argmax()))
    assert speaker > DOC
    return result


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_small_nucleus_is_the_likeliest_reply(memory: bool) -> None:
    net, rows, ended = network(memory), [], 0
    for row in data().examples("test", torch.arange(4).numpy(), None).inputs.tolist()[:2]:
        rows += [turn.before for turn in turns(row, DOC, 0)]
    result = replies(net, rows, IDS, WINDOW, memory, Generation(top_p=1e-9, max_new=4), (1, 2))
    for row, reply in zip(rows, result, strict=True):
        assert reply == likeliest(net, row, memory)
        ended += len(reply) < 4
    assert len({tuple(reply) for reply in result}) > 2
    assert ended < len(result)
    assert ended or not memory, "some end early"


def test_a_short_row_has_the_same_memory_beside_a_longer_one() -> None:
    torch.manual_seed(1)
    mixer = partial(RelativeAttention, n_heads=2, mem_len=8)
    blocks = Blocks([mixer], partial(FeedForward, d_ff=32), sublayer=PreNorm)
    net = DecoderLM(16, 2, partial(TypedVocabulary, size=40, scaled=False), blocks, NoPositions).double()
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    rows, ids = [[36, 5, 6, 38], [36, *range(3, 30), 38]], Ids(0, 1, 2, 36)
    how = Generation(max_new=6, history=0, temperature=8.0)
    alone = replies(net, rows[:1], ids, 16, True, how, (1, 3))
    assert replies(net, rows, ids, 16, True, how, (1, 3))[:1] == alone


def test_a_reply_does_not_depend_on_how_many_there_are() -> None:
    net, rows = network(True), [[DOC, 5, 6, 2, DOC + 1], [DOC, 7, 8, 9, 2, DOC + 1, 4, DOC + 2], [DOC + 1]]
    how = Generation(max_new=5, temperature=4.0)
    every = [replies(net, rows[:n], IDS, WINDOW, True, how, (3, 4)) for n in (1, 2, 3)]
    assert every[2][:2] == every[1]
    assert every[1][:1] == every[0]
    assert (
        replies(net, rows, IDS, WINDOW, True, how, (3, 5))
        != every[2]
        != replies(net, rows, IDS, WINDOW, True, how, (4, 4))
    )
    assert replies(net, [], IDS, WINDOW, True, how, (3, 4)) == []
