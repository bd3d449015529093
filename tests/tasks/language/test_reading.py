"""Rows that are read in blocks equal a plain loop over single rows; types of tokens."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from repro.models import DecoderLM
from repro.models.pretrained import begin_with
from repro.nn import (
    Added,
    Blocks,
    FeedForward,
    FullAttention,
    LearnedPositions,
    PreNorm,
)
from repro.nn.vocabularies.typed import TypedVocabulary
from repro.tasks.language.reading import BlockPositions, read_blocks, token_types
from tests.tasks.language.dialogues import DOC, MEMORIES, WINDOW, by_hand, cuts, data, network, ragged


@pytest.mark.parametrize("memory", MEMORIES)
def test_rows_of_any_lengths_are_read_as_if_alone(memory: bool) -> None:
    net, (ids, lengths) = network(memory), ragged()
    cut = BlockPositions.from_lengths(lengths, 28, WINDOW)
    read = read_blocks(net, torch.stack([ids, token_types(ids, DOC)], -1), cut, memory, 0)
    for row, length in enumerate(lengths.tolist()):
        expected, aux = by_hand(net, ids[row, :length], memory)
        places = cut.places(torch.full((length,), row), torch.arange(length))
        torch.testing.assert_close(read.y.flatten(0, 2)[places], expected, rtol=0, atol=1e-9)
        assert (read.aux is not None) == memory
        if read.aux is not None:
            torch.testing.assert_close(read.aux[row], aux, rtol=1e-9, atol=0)


@pytest.mark.parametrize("memory", MEMORIES)
def test_blocks_see_all_before_them_through_a_memory_only(memory: bool) -> None:
    """Every token of an earlier block shows in each later one, the one right before it included."""
    net, ids = network(memory).eval(), data().examples("test", torch.arange(1).numpy(), None).inputs[:, :21]
    cut = BlockPositions.from_lengths(torch.tensor([21]), 21, WINDOW)

    def last(ids: Tensor) -> Tensor:
        typed = torch.stack([ids, torch.full_like(ids, DOC)], -1)
        return read_blocks(net, typed, cut, memory, 0).y[0, -1]

    for place in range(21 - WINDOW):
        changed = ids.clone()
        changed[0, place] = 4 + (ids[0, place] - 3) % 6
        assert torch.equal(last(ids), last(changed)) != memory, place


def test_a_cut_is_that_of_the_plain_loop() -> None:
    lengths = torch.tensor([1, 8, 9, 16, 23])
    cut = BlockPositions.from_lengths(lengths, 23, WINDOW)
    assert cut.sizes.shape == (5, 3)
    for row, length in enumerate(lengths.tolist()):
        there = cut.sizes[row] > 0
        begins, sizes = cut.begins[row, there].tolist(), cut.sizes[row, there].tolist()
        assert [slice(a, a + n) for a, n in zip(begins, sizes, strict=True)] == cuts(length)


def test_a_token_has_the_type_of_the_mark_before_it() -> None:
    one, two = DOC + 1, DOC + 2
    ids = torch.tensor([[DOC, 5, 2, two, 7, 8, one, two, 9], [one, 5, 5, one, 6, two, 4, 0, 0]])
    assert token_types(ids, DOC).tolist() == [
        [DOC, DOC, DOC, two, two, two, one, two, two],
        [one, one, one, one, one, two, two, two, two],
    ]


def test_a_typed_vocabulary_adds_the_vector_of_the_type() -> None:
    vocabulary = TypedVocabulary(4, 4, 9)
    pairs = torch.tensor([[[3, 8], [5, 5]]])
    expected = vocabulary.embedding(pairs[..., 0]) + vocabulary.embedding(pairs[..., 1])
    torch.testing.assert_close(vocabulary.embed(pairs), expected)
    with pytest.raises(ValueError, match="type"):
        vocabulary.embed(torch.tensor([[3, 8, 1]]))


def test_types_and_weights_are_those_of_the_library() -> None:
    """GPT-2 of transformers with ``token_type_ids``; our three marks lie behind its vocabulary."""
    transformers = pytest.importorskip("transformers")
    sizes = {
        "n_embd": 8,
        "n_layer": 2,
        "n_head": 2,
        "n_positions": 16,
        "vocab_size": DOC,
        "bos_token_id": 2,
        "eos_token_id": 2,
    }
    torch.manual_seed(0)
    official = transformers.GPT2Model(transformers.GPT2Config(**sizes)).eval()
    gelu = partial(nn.GELU, approximate="tanh")
    blocks = Blocks(
        [partial(FullAttention, n_heads=2)], partial(FeedForward, d_ff=32, activation=gelu),
        partial(PreNorm, dropout=0.0, eps=1e-5), final_norm=nn.LayerNorm,
    )  # fmt: skip
    positions = partial(Added, table=partial(LearnedPositions, max_length=16), restart=True)
    net = DecoderLM(
        8, 2, partial(TypedVocabulary, size=DOC + 3, scaled=False), blocks, positions, dropout=0.0
    )
    begin_with(net, "gpt2", official.state_dict(), 2)
    ids = torch.randint(DOC, (2, 9, 2))
    with torch.no_grad():
        expected = official(input_ids=ids[..., 0], token_type_ids=ids[..., 1]).last_hidden_state
        torch.testing.assert_close(net.eval()(ids).y, expected, rtol=0, atol=1e-5)
