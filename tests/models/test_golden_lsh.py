"""With the same weights and rotations, ours equals the public codes: buckets, order, outputs and gradients."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.nn import Hashing, Layout, LocalAttention, LSHAttention
from repro.nn.attention.hashed.arrangement import Arrangement, arrange
from repro.nn.attention.hashed.hashing import bucket_ids
from repro.nn.attention.hashed.windows import attend_in_windows
from repro.nn.attention.relative.shared import key_scale
from tests.models import golden
from tests.nn import reference_lsh
from tests.nn.mixers import difference, valid

CONTROL = 1e-3
ROUNDS = [1, 2, 4]


def offset(ids: Tensor, count: int) -> Tensor:
    """Bucket ids ``(B, H, R, T)`` as the public codes number them: rounds do not share any."""
    return ids.long() + count * torch.arange(ids.shape[2])[:, None]


def sorted_places(arrangement: Arrangement) -> Tensor:
    """Which token of which round stands in each slot, ``(N, R·T)``, counted over all rounds."""
    order = arrangement.order.flatten(1)
    return order + torch.arange(order.shape[1]) // arrangement.steps * arrangement.steps


class Packaged:
    """The file of transformers' layer: projections, no output projection, no bucket mask, no correction."""

    def __init__(self, rounds: int, padded: bool) -> None:
        self.arrays, self.meta = golden.read("reformer_hf_lsh")
        options = self.meta["options"]
        self.key = f"h{rounds}/{'pad' if padded else 'nopad'}"
        self.count, chunk = options["num_buckets"], options["lsh_attn_chunk_length"]
        self.hashing = Hashing.across(rounds, chunk, self.count)
        self.mask = self.arrays["in/attention_mask"].bool()
        self.lengths = self.mask.sum(1) if padded else None
        self.shown = self.mask[..., None] if padded else torch.ones(2, 32, 1, dtype=torch.bool)
        self.x = self.arrays["in/hidden_states"].requires_grad_()
        self.weights = [self.arrays[f"w/{n}.weight"].requires_grad_() for n in ("query_key", "value")]
        self.rotations = self.arrays[f"in/h{rounds}/rotations"][None]

    def heads(self, weight: Tensor) -> Tensor:
        return (self.x @ weight.T).unflatten(-1, (2, -1)).transpose(1, 2)

    def ids(self) -> Tensor:
        return bucket_ids(self.heads(self.weights[0]), self.rotations, [self.count])

    def arranged(self, hashing: Hashing) -> Arrangement:
        return arrange(self.ids(), self.lengths, self.count, hashing, True)

    def output(self, hashing: Hashing, small: float = 1e-6) -> Tensor:
        """Their keys have something small within their norm."""
        query, value = (self.heads(weight) for weight in self.weights)
        scale = (query.square().mean(-1, keepdim=True) + small).rsqrt() / query.shape[-1] ** 0.5
        q, scale, v = (t.flatten(0, 1) for t in (query, scale, value))
        y = attend_in_windows(q, scale, v, self.arranged(hashing), 0.0, 0)
        return y.unflatten(0, (2, 2)).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("rounds", ROUNDS)
def test_buckets_and_sorted_order_of_transformers(rounds: int, padded: bool) -> None:
    run = Packaged(rounds, padded)
    buckets, order = (run.arrays[f"out/{run.key}/{name}"] for name in ("buckets", "sort_order"))
    ids = run.ids().long()
    if padded:  # padding lies in one more bucket
        ids = ids.masked_fill(~run.mask[:, None, None], run.count)
    assert torch.equal(offset(ids, run.count + padded), buckets.long())
    assert torch.equal(sorted_places(run.arranged(run.hashing)), order.flatten(0, 1).long())
    run.rotations = run.rotations.flip(2)  # control
    assert not torch.equal(offset(run.ids().long(), run.count), buckets.long())


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("rounds", ROUNDS)
def test_outputs_of_transformers(rounds: int, padded: bool) -> None:
    run = Packaged(rounds, padded)
    expected = run.arrays[f"out/{run.key}/hidden_states"].where(run.shown, 0.0)
    tolerance = run.meta["tolerance"]["out"]
    assert difference(run.output(run.hashing).where(run.shown, 0.0), expected) < tolerance
    controls = [{"see_self": True}, {"across_buckets": False}, {"chunk": 16}]
    controls += [{"average": True}, {"duplicates": False}] if rounds > 1 else []
    for mistake in controls:
        other = run.output(replace(run.hashing, **mistake)).where(run.shown, 0.0)  # type: ignore[arg-type]
        assert difference(other, expected) > CONTROL, mistake
    exact = run.output(run.hashing, small=0.0).where(run.shown, 0.0)
    assert tolerance < difference(exact, expected) < 1e-4


@pytest.mark.parametrize("padded", [False, True])
def test_gradients_of_transformers(padded: bool) -> None:
    run = Packaged(2, padded)
    loss = (run.output(run.hashing) * run.arrays["in/loss_weight"] * run.shown).sum()
    assert difference(loss, run.arrays[f"out/{run.key}/loss"]) < run.meta["tolerance"]["out"]
    got = torch.autograd.grad(loss, [run.x, *run.weights])
    names = ["gin/{}/hidden_states", "grad/{}/query_key.weight", "grad/{}/value.weight"]
    for grad, name in zip(got, names, strict=True):
        expected = run.arrays[name.format(run.key)]
        assert difference(grad, expected) < run.meta["tolerance"]["grad"], name
        assert expected.abs().max() > CONTROL


@pytest.mark.parametrize("padded", [False, True])
def test_the_layer_gives_the_same_but_for_their_norm(padded: bool) -> None:
    run = Packaged(4, padded)
    mixer = LSHAttention(12, 2, run.hashing, d_head=8).double()
    mixer.out = nn.Identity()  # type: ignore[assignment]
    mixer.load_state_dict({"qk_v.weight": torch.cat(run.weights)})
    y = mixer(run.x, None, Layout(True, lengths=run.lengths, bucket_replay=run.ids())).y.where(run.shown, 0.0)
    expected = run.arrays[f"out/{run.key}/hidden_states"].where(run.shown, 0.0)
    assert difference(y, expected) < 1e-4
    mixer.hashing = replace(run.hashing, unit_keys=False)  # control
    other = mixer(run.x, None, Layout(True, lengths=run.lengths, bucket_replay=run.ids())).y.where(
        run.shown, 0.0
    )
    assert difference(other, expected) > 1e-2


class Independent:
    """The file of reformer-pytorch's attention on given queries and values; N stands for rows, with one head each."""

    variants = {"across_dup": Hashing.across(1, 8, 4), "within_nodup": Hashing(1, 8, 4)}

    def __init__(self, rounds: int, variant: str) -> None:
        self.arrays, self.meta = golden.read("reformer_lsh_reformer_pytorch")
        self.hashing = replace(self.variants[variant], rounds=rounds)
        self.key, self.rounds = f"h{rounds}", rounds
        self.inputs = [self.arrays[f"in/{name}"].requires_grad_() for name in ("qk", "v")]
        self.rotations = self.arrays[f"in/h{rounds}/rotations"][:, None]
        self.tolerance: dict[str, float] = self.meta["tolerance"]

    def ids(self) -> Tensor:
        return bucket_ids(self.inputs[0][:, None], self.rotations, [4])

    def output(self, hashing: Hashing, scale: float = 1.0) -> Tensor:
        q, v = self.inputs
        return attend_in_windows(
            q, key_scale(q, True) * scale, v, arrange(self.ids(), None, 4, hashing, True), 0.0, 0
        )


@pytest.mark.parametrize("rounds", ROUNDS)
def test_buckets_and_sorted_order_of_reformer_pytorch(rounds: int) -> None:
    run = Independent(rounds, "across_dup")
    buckets, order = (run.arrays[f"out/{run.key}/{name}"].long() for name in ("buckets", "sort_order"))
    assert torch.equal(offset(run.ids(), 4).flatten(1), buckets)
    assert torch.equal(sorted_places(arrange(run.ids(), None, 4, run.hashing, True)), order)


@pytest.mark.parametrize("variant", Independent.variants)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_outputs_and_gradients_of_reformer_pytorch(rounds: int, variant: str) -> None:
    run = Independent(rounds, variant)
    expected = run.arrays[f"out/{run.key}/{variant}/out"]
    y = run.output(run.hashing)
    # Counting a pair once they add 1e-9 to the count, which changes the weight of a pair by up to 1e-9: see below.
    assert difference(y, expected) < (
        run.tolerance["out"] if run.hashing.duplicates or rounds == 1 else 3e-10
    )
    got = torch.autograd.grad((y * run.arrays["in/loss_weight"]).sum(), run.inputs)
    for grad, name in zip(got, ("qk", "v"), strict=True):
        assert difference(grad, run.arrays[f"gin/{run.key}/{variant}/{name}"]) < run.tolerance["grad"], name
    controls: list[tuple[dict[str, Any], float]] = [
        ({}, 8**-0.5),
        ({"see_self": True}, 1.0),
        ({"chunk": 4}, 1.0),
    ]
    controls += [({"across_buckets": not run.hashing.across_buckets}, 1.0)]
    controls += [({"duplicates": not run.hashing.duplicates}, 1.0)] if rounds > 1 else []
    for mistake, scale in controls:
        assert difference(run.output(replace(run.hashing, **mistake), scale), expected) > CONTROL, mistake


@pytest.mark.parametrize("rounds", [2, 4])
def test_what_reformer_pytorch_adds_to_the_count_is_all_the_difference(rounds: int) -> None:
    run = Independent(rounds, "within_nodup")
    q, v = run.inputs
    outputs = {}
    for small in (0.0, 1e-9):
        rows = []
        for query, values, ids in zip(q, v, run.ids()[:, 0], strict=True):
            met = reference_lsh.instances(ids, 32, run.hashing, True)
            keys = query / query.norm(dim=-1, keepdim=True)
            for t in range(32):
                counts = Counter(other for one in met for other in one[t] if other != t)
                weights = {other: n / (n + small) for other, n in counts.items()} or {t: 1.0}
                rows.append(reference_lsh.weigh(query[t], keys, values, weights)[0])
        outputs[small] = torch.stack(rows).view_as(v)
    expected = run.arrays[f"out/{run.key}/within_nodup/out"]
    # the rest: their scores of tokens that see only themselves lie near -5e4, where float64 is 7e-12 apart
    assert difference(outputs[1e-9], expected) < run.tolerance["out"] / 10
    assert difference(outputs[0.0], run.output(run.hashing)) < 1e-14
    assert difference(outputs[0.0], expected) > run.tolerance["out"]


def test_local_attention_of_transformers() -> None:
    arrays, meta = golden.read("reformer_hf_local")
    mixer = LocalAttention(12, 2, chunk=meta["options"]["local_attn_chunk_length"], d_head=8).double()
    mixer.out = nn.Identity()  # type: ignore[assignment]
    names = ("query", "key", "value")
    mixer.load_state_dict({"qkv.weight": torch.cat([arrays[f"w/{name}.weight"] for name in names])})
    x, mask = arrays["in/hidden_states"].requires_grad_(), arrays["in/attention_mask"].bool()
    lengths = mask.sum(1)
    assert torch.equal(mask, valid(lengths, 24))
    y = mixer(x, None, Layout(True, lengths=lengths)).y
    displayed, expected = mask[..., None], arrays["out/hidden_states"]
    assert difference(y.where(displayed, 0.0), expected.where(displayed, 0.0)) < meta["tolerance"]["out"]
    loss = (y * arrays["in/loss_weight"]).sum()
    assert difference(loss, arrays["out/loss"]) < meta["tolerance"]["out"]
    grad, weight = torch.autograd.grad(loss, [x, mixer.qkv.weight])
    assert difference(grad, arrays["gin/hidden_states"]) < meta["tolerance"]["grad"]
    for part, name in zip(weight.chunk(3), names, strict=True):
        assert difference(part, arrays[f"grad/{name}.weight"]) < meta["tolerance"]["grad"]
    mixer.before = 0  # control
    other = mixer(x, None, Layout(True, lengths=lengths)).y
    assert difference(other.where(displayed, 0.0), expected.where(displayed, 0.0)) > CONTROL
