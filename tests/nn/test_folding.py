"""A folded network computes the same with plain post-norm sublayers, but for the first branch of each stack."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from repro.models.generate import translate
from repro.nn import (
    EluPlusOne,
    FullAttention,
    LayerPositions,
    LinearAttention,
    PreNorm,
    WeightedPostNorm,
    WeightedShortcut,
)
from repro.nn.layers.folding import fold
from repro.nn.layers.shortcut import shortcut_of, sublayers_of, weighted_stacks
from tests.nn.mixers import difference, gradients, valid
from tests.nn.weighted import LENGTHS, SOURCE, TARGET_LENGTHS, network, run


def test_a_folded_network_computes_the_same() -> None:
    net = network()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    folded = fold(net)
    seen = valid(TARGET_LENGTHS, 4)
    assert difference(run(folded), run(net)) < 1e-10, "at padding, too"
    assert difference(run(folded)[seen], run(net)[seen]) < 1e-10
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name]), "the network itself is left as it is"
    ones = network(omegas=False)
    assert difference(run(ones), run(net)) > 1e-2, "omegas matter"


def test_only_the_first_branch_of_each_stack_keeps_its_omega() -> None:
    folded = fold(network())
    assert {name: len(result) for name, result in weighted_stacks(folded).items()} == {
        "encoder": 1,
        "decoder": 1,
    }
    for stack in (folded.encoder, folded.decoder):
        first, *others = (sublayer.shortcut for sublayer in sublayers_of(stack))
        assert isinstance(first, WeightedShortcut)
        assert all(isinstance(shortcut, nn.Identity) for shortcut in others)
    again = fold(folded)
    assert again.state_dict().keys() == folded.state_dict().keys()
    assert difference(run(again), run(folded)) == 0.0


def test_translations_are_the_same() -> None:
    result = []
    for net in (network(), fold(network())):
        ids = translate(net, SOURCE, LENGTHS, bos=1, eos=2, pad=0, beam=3, alpha=0.6, max_extra=4).ids
        result.append(ids)
    assert result[0] == result[1]
    assert any(len(row) > 2 for row in result[0])


def test_gradients_of_what_is_left_follow() -> None:
    """Down to the embeddings: the folded network may be trained on."""
    result = []
    for net in (network(), fold(network())):
        got = gradients(run(net).sin().sum(), [], net)
        result.append({name: got[name] for name in ("vocabulary.embedding.table.weight",)})
    for name, grad in result[0].items():
        assert difference(result[1][name], grad) < 1e-10


@pytest.mark.parametrize("which", ["key", "cross memory", "gain"])
def test_control_a_part_that_is_not_folded_shows(which: str) -> None:
    folded = fold(network())
    omegas = [shortcut_of(sublayer).omega for sublayer in sublayers_of(network().decoder)]
    with torch.no_grad():
        if which == "key":
            sublayers_of(folded.decoder)[3].body.qkv.weight[8:16] *= omegas[3]
        elif which == "cross memory":
            sublayers_of(folded.decoder)[1].body.kv.weight /= omegas[1]
        else:
            sublayers_of(folded.decoder)[0].norm_out.weight /= omegas[1]
    assert difference(run(folded), run(network())) > 1e-3


def shared() -> Any:
    net = network()
    first, second = (sublayers_of(net.encoder)[i].body for i in (1, 3))
    second.inner.weight = first.inner.weight
    return net


def zero() -> Any:
    net = network()
    with torch.no_grad():
        shortcut_of(sublayers_of(net.encoder)[2]).omega[3] = 0.0
    return net


def bare() -> Any:
    net = network()
    sublayers_of(net.encoder)[0].norm_out = nn.LayerNorm(8, elementwise_affine=False, dtype=torch.float64)
    return net


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(network, mixers=[lambda d: LinearAttention(d, 2, feature_map=EluPlusOne)]), "LinearAttention"),
        (partial(network, positions=partial(LayerPositions, max_length=5)), "no norm with gain and bias"),
        (shared, "share weights"),
        (zero, "omega of 0"),
        (bare, "no norm with gain and bias"),
    ],
)  # fmt: skip
def test_what_cannot_be_folded_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fold(make())


def test_a_network_without_weighted_shortcuts_is_copied() -> None:
    net = network(sublayer=partial(PreNorm, dropout=0.0))
    folded = fold(net)
    assert folded is not net
    assert torch.equal(run(folded), run(net))
    assert FullAttention in map(type, folded.modules())
    assert WeightedPostNorm not in map(type, folded.modules())
