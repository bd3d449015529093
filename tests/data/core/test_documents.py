"""Text that is read document by document: blocks lie in one document, each target is read once, rows go on in order."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch

from repro.batches import Evaluation, StreamBatch, TextCut, scored_places
from repro.data import StreamData
from repro.data.core.orders import DocumentRows
from repro.errors import UserError
from tests.data.running import placed

LENGTHS = [1, 9, 2, 4, 5, 13, 3, 8, 1, 1, 21, 5]  # tokens of the documents; one token has no target
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
N = int(OFFSETS[-1])
FIRST = set(OFFSETS[:-1].tolist())  # tokens that begin a document


class Books(StreamData):
    """Token i is the number i; the same documents in each split."""

    store_name = "books"
    vocab_size = N

    def tokens(self, split: str) -> Any:
        return np.arange(N)

    def documents(self, split: str) -> Any:
        return OFFSETS

    @property
    def manifest_sha256(self) -> str:
        return "0"


def scored(batch: StreamBatch) -> list[int]:
    result: list[int] = scored_places(batch.targets.flatten(), batch.scored).tolist()
    return result


def document_of(token: int) -> int:
    return int(np.searchsorted(OFFSETS, token, side="right"))


@pytest.mark.parametrize("seq_len", [1, 3, 4, 50])
def test_blocks_lie_in_one_document_each(seq_len: int) -> None:
    starts, lengths, first = DocumentRows(OFFSETS, seq_len).blocks
    targets = [[*range(a, a + n)] for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
    assert sorted(t + 1 for block in targets for t in block) == sorted(set(range(N)) - FIRST)
    assert all(0 < len(block) <= seq_len for block in targets)
    for block, begins in zip(targets, first, strict=True):
        assert len({document_of(token) for t in block for token in (t, t + 1)}) == 1
        assert begins == (block[0] in FIRST)


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("tokens", [None, 40])
def test_evaluation_counts_each_target_once_over_all_ranks(rows: int, world: int, tokens: int | None) -> None:
    evaluation, module = Evaluation("val", "", TextCut(4, rows, tokens=tokens, documents=True)), Books(24, 4)
    considered = N - 1 if tokens is None else tokens
    seen = []
    for rank in range(world):
        placed(module, rank, world)
        for batch in module.evaluation_loader(evaluation):
            seen += scored(batch)
            assert batch.step_targets == len(scored(batch))
    assert len(seen) == len(set(seen)) == module.expected(evaluation)["tokens"]
    inside = set(range(1, considered + 1)) - FIRST
    assert set(seen) <= inside
    assert len(inside) - len(seen) < 4 * rows
    if rows == 1:
        assert seen == sorted(inside)


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("world", [1, 2])
def test_training_rows_go_on_in_order_over_ranks_and_micro_batches(world: int, micro_batches: int) -> None:
    whole = list(pickle.loads(pickle.dumps(Books(16, 4, order="documents").plan_epoch(0))))
    assert len(whole) == Books(16, 4, order="documents").steps_per_epoch
    for rank in range(world):
        module = Books(16, 4, order="documents")
        placed(module, rank, world, micro_batches)
        segments = list(module.plan_epoch(0))
        assert len(segments) == len(whole) * micro_batches
        for i, segment in enumerate(segments):
            step = whole[i // micro_batches]
            rows = segment.indices
            assert (segment.targets == step.targets[rows]).all()
            assert (segment.begins == step.begins[rows]).all()
            assert segment.step_targets == int(step.lengths.sum())
            assert segment.reset_memory == (i < micro_batches)
    for row in range(4):
        read = [t for s in whole for t in s.targets[row, : s.lengths[row]].tolist()]
        assert read == sorted(read)
    for segment in whole:
        assert segment.begins.tolist() == [int(row[0]) in FIRST for row in segment.targets]


def test_batches_say_what_is_padding_and_where_documents_begin() -> None:
    batches = list(Books(8, 4).evaluation_loader(Evaluation("val", "", TextCut(4, documents=True))))
    assert [scored(batch) for batch in batches[:4]] == [[2, 3, 4, 5], [6, 7, 8, 9], [11], [13, 14, 15]]
    assert [batch.lengths.tolist() for batch in batches[:4] if batch.lengths is not None] == [
        [4],
        [4],
        [1],
        [3],
    ]
    begins = [None if batch.begins is None else batch.begins.tolist() for batch in batches[:4]]
    assert begins == [[True], None, [True], [True]]
    assert [batch.reset_memory for batch in batches[:3]] == [True, False, False]
    assert all(batch.ids.shape == (1, 4) for batch in batches)
    assert torch.equal(batches[2].targets, torch.tensor([[11, -1, -1, -1]]))


def test_counts_say_what_is_left_out() -> None:
    module = Books(16, 4, order="documents")
    trained = sum(scored_rows for segment in module.plan_epoch(0) for scored_rows in segment.lengths.tolist())
    assert module.counts["train"]["dropped"] == N - 1 - trained > len(LENGTHS) - 1


def test_what_cannot_be_read_by_document_is_refused() -> None:
    with pytest.raises(UserError, match="books has no documents: use order stream"):
        StreamData.documents(Books(16, 4), "train")
    with pytest.raises(UserError, match="17 blocks of at most 4 tokens, too few for 100 rows"):
        _ = Books(400, 4, order="documents").steps_per_epoch
    for changes in ({"context": 1}, {"shards": 2}):
        with pytest.raises(UserError, match="documents"):
            Books(16, 4, order="documents", **changes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="leave out stride 4"):
        TextCut(4, stride=4, documents=True)
