"""Initial values of weighted shortcuts equal a naive loop, and a pass leaves nothing behind."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from repro.nn import Blocks, FeedForward, FullAttention, LayerPositions, Layout, PostNorm, WeightedPostNorm
from repro.nn.layers.shortcut import (
    begin,
    begin_by_variance,
    beginnings,
    shortcut_of,
    sublayers_of,
    variance,
    weighted_stacks,
)
from tests.nn.weighted import LENGTHS, SOURCE, TARGET, TARGET_LENGTHS, D, network, run


def population(x: Tensor) -> float:
    flat = x.flatten().tolist()
    mean = sum(flat) / len(flat)
    return sum((value - mean) ** 2 for value in flat) / len(flat)


def naive(stack: nn.Module, x: Tensor, states: dict[str, list[object]], layout: Layout) -> list[float]:
    """Omegas one by one, each sublayer spelled out; the stack's own omegas are not looked at."""
    w, result = 1.0, []
    for depth, layer in enumerate(stack.layers):  # type: ignore[arg-type]
        for name, sublayer in layer.items():
            past = states[name][depth] if name in states else None
            branch = sublayer.body(x, past, layout).y
            result.append(w)
            total = x * w + branch
            w = (population(x * w) + population(branch)) ** 0.5
            norm = sublayer.norm_out
            centred = total - total.mean(-1, keepdim=True)
            x = centred / (centred.square().mean(-1, keepdim=True) + norm.eps).sqrt()
            x = x * norm.weight + norm.bias
    result.append(x)  # type: ignore[arg-type]
    return result


@torch.no_grad()
def test_omegas_equal_a_naive_loop_with_padding_counted() -> None:
    net = network(omegas=False)
    result = begin_by_variance(net, lambda: run(net))
    x = net.positions(net.vocabulary.embed(SOURCE), torch.arange(5))
    *encoder, memory = naive(net.encoder, x, {}, Layout(False, lengths=LENGTHS))
    state = net.decoder.attend_to(memory, LENGTHS)
    x = net.positions(net.vocabulary.embed(TARGET), torch.arange(4))
    *decoder, _ = naive(net.decoder, x, state, Layout(True, lengths=TARGET_LENGTHS))
    assert result.keys() == {"encoder", "decoder"}
    assert result["encoder"] == pytest.approx(encoder, rel=1e-12)
    assert result["decoder"] == pytest.approx(decoder, rel=1e-12)
    assert (len(encoder), len(decoder)) == (6, 9)
    assert max(encoder) > 1.5
    # what is filled is what is told
    assert beginnings(net) == result
    for name, sublayers in weighted_stacks(net).items():
        omegas = [shortcut_of(sublayer).omega for sublayer in sublayers]
        assert [omega.tolist() for omega in omegas] == [[value] * D for value in result[name]]


def test_dropout_is_part_of_the_variance() -> None:
    net = network(dropout=0.5, omegas=False)
    torch.manual_seed(1)
    dropped = begin_by_variance(net, lambda: run(net))
    plain = begin_by_variance(net, lambda: run(net.eval()))
    assert dropped["encoder"][0] == plain["encoder"][0] == 1.0
    assert abs(dropped["encoder"][-1] - plain["encoder"][-1]) > 1e-2


def test_a_pass_ends_at_the_last_omega_and_leaves_no_hook() -> None:
    net = network(omegas=False)
    reached: list[int] = []
    net.vocabulary.register_forward_hook(lambda *_: reached.append(1))
    norms = [sublayer.norm_out for sublayer in sublayers_of(net.decoder)]
    norms[-1].register_forward_hook(lambda *_: reached.append(2))
    norms[-2].register_forward_hook(lambda *_: reached.append(3))
    begin_by_variance(net, lambda: run(net))
    assert reached == [3]
    first = run(net)
    before = beginnings(net)
    assert torch.equal(run(net), first)
    assert beginnings(net) == before
    assert first.requires_grad


def test_what_is_begun_can_be_handed_on() -> None:
    net, other = network(omegas=False), network(omegas=False)
    result = begin_by_variance(net, lambda: run(net))
    begin(other, result)
    assert torch.equal(run(net), run(other))
    with pytest.raises(ValueError, match="argument"):
        begin(other, {name: values[:-1] for name, values in result.items()})


def test_other_sublayers_have_no_share() -> None:
    made = Blocks(
        [partial(FullAttention, n_heads=2)],
        partial(FeedForward, d_ff=12),
        partial(WeightedPostNorm, dropout=0.0),
        positions=partial(LayerPositions, max_length=5),
    ).build(D, 2)
    assert len(sublayers_of(made)) == 6
    assert [len(result) for result in weighted_stacks(made).values()] == [4]
    assert weighted_stacks(network(sublayer=PostNorm)) == {}
    assert beginnings(network(sublayer=PostNorm)) == {}
    with pytest.raises(TypeError, match="Identity, not weighted"):
        shortcut_of(sublayers_of(made)[0])


def test_a_pass_that_does_not_come_to_every_sublayer_is_refused() -> None:
    net = network(omegas=False)
    with pytest.raises(ValueError, match="every sublayer of decoder"):
        begin_by_variance(net, lambda: net.encode(SOURCE, LENGTHS))


def test_numbers_that_are_not_finite_are_refused() -> None:
    net = network(omegas=False)
    with torch.no_grad():
        net.vocabulary.embedding.table.weight[4] = float("nan")
    with pytest.raises(ValueError, match="variance behind a branch is nan"):
        begin_by_variance(net, lambda: run(net))


def test_half_precision_is_summed_in_float32() -> None:
    x = torch.full((100, 100), 300.0, dtype=torch.float16)
    x[0, 0] = 200.0
    assert variance(x) == pytest.approx(100.0**2 * (1e-4 - 1e-8), rel=1e-4)
