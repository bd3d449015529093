"""Settings that the golden files do not have, against the layers of transformers themselves."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.nn import Hashing, Layout, LocalAttention, LSHAttention
from repro.nn.attention.hashed.hashing import bucket_ids
from tests.nn.mixers import difference, gradients, randomise, valid

# Their keys have 1e-6 beside the mean square of the query.
TOLERANCE, KEYS, CONTROL = 1e-12, 1e-4, 1e-3
LENGTHS = torch.tensor([24, 21, 18])  # each of three chunks of 8


def config(**settings: Any) -> Any:
    from transformers import ReformerConfig

    usual: dict[str, Any] = {
        "hidden_size": 12, "num_attention_heads": 2, "attention_head_size": 6, "is_decoder": False,
        "local_attn_chunk_length": 8, "lsh_attn_chunk_length": 8, "local_attention_probs_dropout_prob": 0.0,
        "lsh_attention_probs_dropout_prob": 0.0, "hash_seed": 3, "use_cache": False,
    }  # fmt: skip
    return ReformerConfig(**(usual | settings))


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 24, 12, generator=generator, dtype=torch.float64).requires_grad_()
    return x, valid(LENGTHS, 24)


def hashed(factors: tuple[int, ...]) -> tuple[Any, LSHAttention, Tensor]:
    """Their layer, ours with its weights, and the rotations that it draws."""
    from transformers.models.reformer.modeling_reformer import LSHSelfAttention

    torch.manual_seed(0)
    official = randomise(LSHSelfAttention(config(num_buckets=list(factors), num_hashes=3)).double())
    mixer = LSHAttention(12, 2, Hashing(3, 8, factors, across_buckets=True, duplicates=True)).double()
    mixer.out = nn.Identity()  # type: ignore[assignment]
    mixer.load_state_dict({"qk_v.weight": torch.cat([official.query_key.weight, official.value.weight])})
    torch.manual_seed(3)
    return official, mixer, torch.randn(2, 6, 3, sum(factors) // 2, dtype=torch.float64)[None]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("factors", [(2, 4), (4, 2, 6)])
def test_a_hash_of_chosen_factors(factors: tuple[int, ...], padded: bool) -> None:
    official, mixer, rotations = hashed(factors)
    x, mask = inputs()
    expected = official(x, attention_mask=mask if padded else None)
    lengths = LENGTHS if padded else None
    query = mixer.qk_v(x).split(mixer.widths, -1)[0].unflatten(-1, (2, 6)).transpose(1, 2)
    ids = bucket_ids(query, rotations, factors)
    count = mixer.hashing.count(24)
    own = ids.long().masked_fill(~mask[:, None, None], count) if padded else ids.long()
    offsets = (count + padded) * torch.arange(3)[:, None]
    assert torch.equal((own + offsets).flatten(2), expected.buckets.flatten(2))
    y = mixer(x, None, Layout(False, lengths=lengths, bucket_replay=ids)).y
    displayed = mask[..., None] if padded else torch.ones(1, 1, 1, dtype=torch.bool)
    assert difference(y.where(displayed, 0.0), expected.hidden_states.where(displayed, 0.0)) < KEYS
    assert not torch.equal(bucket_ids(query, rotations, factors[::-1]), ids)  # control


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("before", "after"), [(1, 0), (1, 1), (0, 2), (2, 2)])
def test_local_attention_around_the_ends(before: int, after: int, padded: bool) -> None:
    from transformers.models.reformer.modeling_reformer import LocalSelfAttention

    torch.manual_seed(0)
    settings = config(local_num_chunks_before=before, local_num_chunks_after=after)
    official = randomise(LocalSelfAttention(settings).double())
    mixer = LocalAttention(12, 2, 8, before, after, wrap=True).double()
    mixer.out = nn.Identity()  # type: ignore[assignment]
    names = ("query", "key", "value")
    mixer.load_state_dict({"qkv.weight": torch.cat([official.get_submodule(n).weight for n in names])})
    x, mask = inputs()
    displayed = mask[..., None] if padded else torch.ones(1, 1, 1, dtype=torch.bool)
    target = official(x, attention_mask=mask if padded else None).hidden_states.where(displayed, 0.0)
    layout = Layout(False, lengths=LENGTHS if padded else None)
    y = mixer(x, None, layout).y.where(displayed, 0.0)
    assert difference(y, target) < TOLERANCE
    weights = torch.randn(y.shape, dtype=y.dtype)
    got = gradients((y * weights).sum(), [x], mixer)
    expected = gradients((target * weights).sum(), [x], official)
    assert difference(got["input 0"], expected["input 0"]) < TOLERANCE
    stacked = torch.cat([expected[f"{name}.weight"] for name in names])
    assert difference(got["qkv.weight"], stacked) < TOLERANCE
    mixer.wrap = False  # control
    assert difference(mixer(x, None, layout).y.where(displayed, 0.0), target) > CONTROL
