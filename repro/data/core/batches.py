"""The global batch as a pure function of (lengths, budget, seed, epoch), and the tensors of one rank's share.

Planning is NumPy only; every rank plans the same global batches and takes its rows, so one recipe serves any
number of ranks. Lengths count the end symbol.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from repro.batches import PairBatch, SourceBatch
from repro.data.core.draws import Int64s, order_of, shuffled, stream
from repro.data.core.segments import Array, padded
from repro.data.core.shares import Share
from repro.data.tokenizers.tokenizer import BOS_ID, EOS_ID, PAD_ID
from repro.errors import UserError

Lengths = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]  # of 32 bits where there are millions
_SHORTER_SIDE_BUCKET = 4


def fitting(lengths: Lengths, budget_tokens: int, max_length: int | None = None) -> Int64s:
    """Indices ``(M,)`` of the pairs that training uses: no side longer than ``max_length`` or the budget.

    Raises:
        UserError: nothing fits.
    """
    limit = budget_tokens if max_length is None else min(budget_tokens, max_length)
    used = np.flatnonzero(lengths.max(axis=1, initial=0) <= limit).astype(np.int64)
    if used.size == 0:
        raise UserError(
            f"no training pair fits: every one is longer than max_length {max_length} or "
            f"batch_tokens {budget_tokens}"
        )
    return used


def token_batches(
    lengths: Lengths, budget_tokens: int, seed: int, epoch: int, max_length: int | None = None
) -> list[Int64s]:
    """Plans the global batches of one epoch.

    Pairs are sorted by their longer side, then roughly by the difference of the sides, then at random; the
    sorted list is cut so that rows x longest side stays within the budget; the order of the batches is
    shuffled. Only the random part depends on (seed, epoch), so every epoch has the same number of batches,
    which Trainers rely on.

    Args:
        lengths: ``(N, 2)`` source and target lengths, eos counted.
        budget_tokens: slots of a batch on its longer side, padding counted.
        seed: of the run.
        epoch: from 0.
        max_length: longer pairs are left out (see :func:`fitting`).

    Returns:
        Indices of the rows of each batch; every pair that fits is in exactly one.

    Raises:
        UserError: nothing fits.
    """
    used = fitting(lengths, budget_tokens, max_length)
    random = stream(seed, epoch)
    longer = lengths[used].max(axis=1)
    skew = (lengths[used, 0] - lengths[used, 1]) // _SHORTER_SIDE_BUCKET
    order = np.lexsort((random.random_raw(used.size), skew, -longer))
    edges = _cut(longer[order], budget_tokens)
    used = used[order]  # batches are views of it: one array instead of two
    batches = [used[start:end] for start, end in pairwise(edges)]
    return [batches[i] for i in order_of(random.random_raw(len(batches)))]


def shuffled_batches(
    lengths: Lengths, budget_tokens: int, seed: int, epoch: int, max_length: int | None = None
) -> list[Int64s]:
    """Plans the batches of one epoch as fairseq does; arguments and errors of :func:`token_batches`.

    Pairs are sorted by source, then by target; the list is cut so that rows x longest side stays within the budget, in
    multiples of eight rows; up to seven rows that are left to the next batch may exceed it with a longer one, as there.
    Batches are made once and have another order in every epoch.

    Source: fairseq, ``LanguagePairDataset.ordered_indices``, ``batch_by_size``, ``EpochBatchIterator``.
    """
    used = fitting(lengths, budget_tokens, max_length)
    order = np.lexsort((stream(seed, 0).random_raw(used.size), lengths[used, 1], lengths[used, 0]))
    used = used[order]
    edges = _cut_in_eights(lengths[used].max(axis=1).tolist(), budget_tokens)
    batches = [used[start:end] for start, end in pairwise(edges)]
    return [batches[i] for i in shuffled(len(batches), seed, epoch + 1)]


def _cut_in_eights(widths: Sequence[int], budget: int) -> list[int]:
    """Bounds of batches of at most so many slots; a full one of eight rows or more ends at a multiple of eight."""
    edges, widest = [0], 0
    for end, width in enumerate(widths):
        rows, widest = end - edges[-1], max(widest, width)
        if rows and (rows + 1) * widest > budget:
            edges.append(edges[-1] + (rows - rows % 8 or rows))
            widest = max(widths[edges[-1] : end + 1])
    return [*edges, len(widths)]


def _cut(widths: Lengths, budget: int) -> list[int]:
    """Bounds of batches in a list of descending widths; the first row of a batch is its widest."""
    edges = [0]
    while edges[-1] < len(widths):
        edges.append(min(len(widths), edges[-1] + max(1, budget // int(widths[edges[-1]]))))
    if len(edges) > 2 and edges[-1] - edges[-2] < edges[-2] - edges[-3]:
        # a small rest would weigh as much as a full batch: share it with the batch before
        edges[-2] = (edges[-1] + edges[-3] + 1) // 2
    return edges


def rank_rows(batch: Int64s, share: Share, micro_batch: int = 0) -> Int64s:
    """The rows of one rank and micro-batch; over all ranks and micro-batches every row comes up exactly once.

    Args:
        batch: indices of a global batch, ``(R,)``.
        share: this rank's place.
        micro_batch: of ``share.micro_batches``.

    Raises:
        UserError: fewer rows than ranks x micro-batches.
    """
    if len(batch) < share.world * share.micro_batches:
        raise UserError(
            f"a global batch of {len(batch)} rows cannot be shared by {share.world} ranks x {share.micro_batches} "
            f"micro-batches; raise batch_tokens, or use at most {len(batch)} of them"
        )
    return batch[share.examples(len(batch), micro_batch)]


def rank_part(batches: Sequence[Int64s], share: Share, micro_batch: int = 0) -> Int64s:
    """The rows of one rank and micro-batch where the global batch has been planned as several batches.

    Whole batches, where these can be shared evenly; else rows, by :func:`rank_rows`.
    """
    if len(batches) % (share.world * share.micro_batches) == 0:
        return np.concatenate(batches[share.examples(len(batches), micro_batch)])
    return rank_rows(np.concatenate(batches), share, micro_batch)


def eval_batches(lengths: Lengths, budget_tokens: int) -> list[Int64s]:
    """The fixed global list of evaluation batches, longest first; nothing is left out.

    A rank takes whole batches (``batches[rank::world]``): a sentence has the same batch mates at any world
    size. A pair longer than the budget is a batch of its own.

    Args:
        lengths: ``(N, 2)`` source and target lengths, eos counted.
        budget_tokens: slots of a batch on its longer side, padding counted.
    """
    longer = lengths.max(axis=1)
    order = np.lexsort((lengths[:, 0] - lengths[:, 1], -longer)).astype(np.int64)
    edges = _cut(longer[order], budget_tokens)
    return [order[start:end] for start, end in pairwise(edges)]


def source_batch(rows: Sequence[Sequence[int]], pad_id: int, eos_id: int) -> SourceBatch:
    """Source ids without eos, to a padded batch with eos."""
    return SourceBatch(*padded([np.array([*row, eos_id], np.int64) for row in rows], pad_id))


def pair_batch(
    sources: Sequence[Array], targets: Sequence[Array], index: Int64s, step_targets: int
) -> PairBatch:
    """Ids without specials, to a padded batch.

    Args:
        sources: ids of each source.
        targets: ids of each target.
        index: which examples they are, ``(B,)``.
        step_targets: target tokens of the whole global batch, eos counted.
    """
    begin, end = np.array([BOS_ID], np.int64), np.array([EOS_ID], np.int64)
    source, source_lengths = padded([np.concatenate([row, end]) for row in sources], PAD_ID)
    target_in, _ = padded([np.concatenate([begin, row]) for row in targets], PAD_ID)
    target_out, target_lengths = padded([np.concatenate([row, end]) for row in targets], PAD_ID)
    indices = torch.from_numpy(np.asarray(index, np.int64))
    return PairBatch(source, source_lengths, target_in, target_out, target_lengths, indices, step_targets)
