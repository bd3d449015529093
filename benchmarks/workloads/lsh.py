"""Hashed attention: one layer, forward and backward with projections, beside other codes and exact attention.

4 heads, width 256, one causal row, chunks of 64 which look back one chunk. What the sides mask differs, so their
outputs are not compared: ours has the paper's masks (one's own bucket only, a pair that several rounds bring together
counted once), ``across`` has neither, as `transformers`, and reformer-pytorch as it comes; it has both as options
(``paper's masks``).
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.harness import Workload, size
from repro.nn import FullAttention, Hashing, Layout, LSHAttention

D_MODEL, HEADS, CHUNK = 256, 4, 64
Layer = Callable[[Tensor], Tensor]


def mixed(mixer: nn.Module) -> Layer:
    """A mixer of this library on one causal row."""
    return lambda x: mixer(x, None, Layout(True)).y


def transformers(length: int, rounds: int) -> Layer:
    """The layer of the package transformers, with the output projection that it keeps elsewhere."""
    from transformers import ReformerConfig
    from transformers.models.reformer.modeling_reformer import LSHSelfAttention

    config = ReformerConfig(
        hidden_size=D_MODEL, num_attention_heads=HEADS, attention_head_size=D_MODEL // HEADS,
        lsh_attn_chunk_length=CHUNK, num_hashes=rounds, num_buckets=buckets_of(length), is_decoder=True,
        lsh_attention_probs_dropout_prob=0.0, max_position_embeddings=length,
    )  # fmt: skip
    attention, out = LSHSelfAttention(config), nn.Linear(D_MODEL, D_MODEL, bias=False)
    return lambda x: out(attention(x).hidden_states)


def buckets_of(length: int) -> int | list[int]:
    """Two for each chunk, factorised as the package does above its limit."""
    power = (2 * length // CHUNK).bit_length() - 1
    return 2**power if 2**power <= 2 * CHUNK else [2 ** (power // 2), 2 ** (power - power // 2)]


def reformer(rounds: int, masks: bool) -> Layer:
    """The layer of reformer-pytorch."""
    from reformer_pytorch import LSHSelfAttention

    options = {"attend_across_buckets": not masks, "allow_duplicate_attention": not masks}
    return LSHSelfAttention(
        D_MODEL, HEADS, CHUNK, rounds, causal=True, random_rotations_per_head=True, **options
    )


def layer(make: Callable[[int, int], Layer], length: int, rounds: int) -> Callable[[], None]:
    """One side: forward and backward."""
    run = make(length, rounds)
    x = torch.randn(1, length, D_MODEL).requires_grad_()
    return lambda: run(x).square().mean().backward()


MAKERS: dict[str, Callable[[int, int], Layer]] = {
    "ours": lambda _, rounds: mixed(LSHAttention(D_MODEL, HEADS, Hashing(rounds, CHUNK))),
    "ours, across": lambda _, rounds: mixed(LSHAttention(D_MODEL, HEADS, Hashing.across(rounds, CHUNK))),
    "exact": lambda *_: mixed(FullAttention(D_MODEL, HEADS, bias=False)),
    "transformers": transformers,
    "reformer-pytorch": lambda _, rounds: reformer(rounds, False),
    "reformer-pytorch, paper's masks": lambda _, rounds: reformer(rounds, True),
}
WORKLOADS = [
    Workload(
        f"LSH, {length:,} tokens, rounds {rounds}",
        {name: partial(layer, make, length, rounds) for name, make in MAKERS.items()},
        tolerance=None,
        turns=5,
    )
    for length, rounds in (
        (size(4096, 2 * CHUNK), 1),
        (size(4096, 2 * CHUNK), 4),
        (size(16384, 2 * CHUNK), 1),
    )
]
