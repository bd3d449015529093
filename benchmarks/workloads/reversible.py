"""Reformer: a training step of a reversible language model of 6 hashed layers, beside other codes.

4,096 tokens in one row, width 256, 4 heads, chunks of 64, feed-forward 1,024, 256 symbols, no dropout, no optimiser.
`ordinary` is ours without undoing. What the sides mask differs (benchmarks/lsh.py), so losses are not compared; that
ours computes what transformers' does is the business of tests/models/test_golden_reversible.py.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.harness import Workload, size
from benchmarks.workloads.lsh import CHUNK, D_MODEL, HEADS, buckets_of
from repro.models import DecoderLM
from repro.nn import (
    Added,
    AxialPositions,
    Blocks,
    FeedForward,
    Hashing,
    LSHAttention,
    PreNorm,
    ResidualStack,
    ReversibleStack,
    Vocabulary,
)

D_FF, VOCAB, LENGTH, LAYERS = 1024, 256, size(4096, 2 * CHUNK), 6
Loss = Callable[[Tensor], Tensor]


def ours(rounds: int, hashing: Callable[[int, int], Hashing] = Hashing, stack: Any = ReversibleStack) -> Loss:
    """This library."""
    blocks = Blocks(
        mixers=[partial(LSHAttention, n_heads=HEADS, hashing=hashing(rounds, CHUNK))],
        feed_forward=partial(FeedForward, d_ff=D_FF),
        sublayer=partial(PreNorm, dropout=0.0),
        final_norm=nn.LayerNorm,
        stack=stack,
    )
    table = partial(AxialPositions, shape=[64, LENGTH // 64], widths=[64, 192])
    vocabulary = partial(Vocabulary, size=VOCAB, tied=False, scaled=False)
    net = DecoderLM(D_MODEL, LAYERS, vocabulary, blocks, partial(Added, table=table), dropout=0.0)
    return lambda ids: net.vocabulary.nll(net(ids[:, :-1]).y, ids[:, 1:]).mean()


def transformers(rounds: int) -> Loss:
    """ReformerModelWithLMHead."""
    from transformers import ReformerConfig, ReformerModelWithLMHead

    config = ReformerConfig(
        hidden_size=D_MODEL, num_attention_heads=HEADS, attention_head_size=D_MODEL // HEADS, feed_forward_size=D_FF,
        attn_layers=["lsh"] * LAYERS, lsh_attn_chunk_length=CHUNK, num_hashes=rounds, num_buckets=buckets_of(LENGTH),
        is_decoder=True, use_cache=False, hidden_dropout_prob=0.0, lsh_attention_probs_dropout_prob=0.0,
        axial_pos_shape=[64, LENGTH // 64], axial_pos_embds_dim=[64, 192], max_position_embeddings=LENGTH,
        vocab_size=VOCAB,
    )  # fmt: skip
    net = ReformerModelWithLMHead(config)
    return lambda ids: cross_entropy(net(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())


def reformer(rounds: int, masks: bool) -> Loss:
    """ReformerLM of reformer-pytorch, with a table of positions."""
    from reformer_pytorch import reformer_pytorch as theirs

    net = theirs.ReformerLM(
        VOCAB, D_MODEL, LAYERS, LENGTH, heads=HEADS, dim_head=D_MODEL // HEADS, bucket_size=CHUNK, n_hashes=rounds,
        ff_chunks=1, causal=True, ff_activation=nn.ReLU, random_rotations_per_head=True, absolute_position_emb=True,
    )  # fmt: skip
    for module in net.modules():
        if isinstance(module, theirs.LSHAttention):
            module._attend_across_buckets = module._allow_duplicate_attention = not masks
    return lambda ids: cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def step(make: Callable[[int], Loss], rounds: int) -> Callable[[], None]:
    """One side: forward and backward."""
    loss = make(rounds)
    ids = torch.randint(VOCAB, (1, LENGTH + 1), generator=torch.Generator().manual_seed(1))
    return lambda: loss(ids).backward()


MAKERS: dict[str, Callable[[int], Loss]] = {
    "ours": ours,
    "ours, across": partial(ours, hashing=Hashing.across),
    "ordinary": partial(ours, stack=ResidualStack),
    "transformers": transformers,
    "reformer-pytorch": partial(reformer, masks=False),
    "reformer-pytorch, paper's masks": partial(reformer, masks=True),
}
WORKLOADS = [
    Workload(
        f"Reformer, training step, rounds {rounds}",
        {name: partial(step, make, rounds) for name, make in MAKERS.items()},
        tolerance=None,
        turns=3,
    )
    for rounds in (1, 4)
]
