"""A compressed memory around full attention: equal to a naive loop, in chunks, and in what its state promises."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.nn import (
    CompressedMemory,
    Compression,
    ConvolutionCompression,
    FullAttention,
    Layout,
    MaxCompression,
    MeanCompression,
)
from repro.nn.mixer import leaves, reset_rows, tree_map
from tests.nn.mixers import difference, feed, gradients, randomise
from tests.nn.reference_compressed import Row
from tests.nn.test_laws import TOLERANCE, same_gradients

D, BLOCK = 6, 4
KINDS: dict[str, Callable[[int], Compression]] = {
    "mean": partial(MeanCompression, rate=2),
    "max": partial(MaxCompression, rate=4),
    "convolution": partial(ConvolutionCompression, rate=2),
}
SHORT: dict[str, Callable[[int], nn.Module]] = {
    "full": lambda d: FullAttention(d, 3),
    "narrow": lambda d: FullAttention(d, 2, d_head=3, d_value=5, bias=False),
}
LENGTHS = [23, 20, 9]
RAGGED = [[3, 0, 2], [4, 3, 1], [7, 5, 0], [1, 1, 1], [5, 6, 3], [3, 5, 2]]


def build(kind: str = "convolution", short: str = "full", **options: Any) -> Any:
    torch.manual_seed(0)
    sizes = {"block": BLOCK, "compressed_len": 3, "compression": KINDS[kind]} | options
    return randomise(CompressedMemory(D, **({"short_term": SHORT[short]} | sizes)).double().eval())


def tokens(lengths: Sequence[int] = LENGTHS) -> list[Tensor]:
    draw = torch.Generator().manual_seed(1)
    return [torch.randn(n, D, generator=draw, dtype=torch.float64).requires_grad_() for n in lengths]


def in_calls(mixer: Any, x: Tensor, sizes: Sequence[int], state: Any = None) -> tuple[Tensor, Any]:
    """Outputs of ``x (B, T, D)`` in calls of those sizes, and the last state."""
    state, result = mixer.init_state(len(x)) if state is None else state, []
    for part in x.split(list(sizes), dim=1):
        mixed = mixer(part, state, Layout(True))
        result.append(mixed.y)
        state = mixed.state
    return torch.cat(result, dim=1), state


def by_loop(
    mixer: Any, rows: Sequence[Tensor], takes: Sequence[Sequence[int]], in_place: bool
) -> list[Tensor]:
    result = []
    for b, row in enumerate(rows):
        naive = Row(mixer, in_place)
        result.append(torch.cat([naive.call(part) for part in row.split([take[b] for take in takes])]))
    return result


@pytest.mark.parametrize("short", SHORT)
@pytest.mark.parametrize("kind", KINDS)
def test_ragged_calls_equal_the_naive_loop(kind: str, short: str) -> None:
    mixer, rows = build(kind, short), tokens()
    got, state = feed(mixer, rows, RAGGED, mixer.init_state(3))
    expected = by_loop(mixer, rows, RAGGED, in_place=False)
    for y, target in zip(got, expected, strict=True):
        assert difference(y, target) < TOLERANCE
    same_gradients(got, expected, rows, mixer)
    assert state["compressed_length"].min() > 0


@pytest.mark.parametrize("steps", [1, 7, 25])
@pytest.mark.parametrize("kind", KINDS)
def test_one_call_and_its_auxiliary_loss_equal_the_naive_loop(kind: str, steps: int) -> None:
    mixer, rows = build(kind, reconstruction=0.7).train(), tokens([steps, steps])
    mixed, naive = mixer(torch.stack(rows), None, Layout(True)), [Row(mixer) for _ in rows]
    expected = [row.call(x) for row, x in zip(naive, rows, strict=True)]
    assert mixed.state is None
    assert difference(mixed.y, torch.stack(expected)) < TOLERANCE
    same_gradients(list(mixed.y), expected, rows, mixer)
    if kind != "convolution":
        assert mixed.aux is None
        return
    losses = torch.stack([row.aux() for row in naive])
    assert difference(mixed.aux, losses) < TOLERANCE
    if steps == 25:
        assert bool((losses > 0).all())
        loss = mixed.aux @ torch.tensor([1.0, 3.0]).double()
        target = gradients(losses @ torch.tensor([1.0, 3.0]).double(), [], mixer.compression)
        for key, grad in gradients(loss, [], mixer.compression).items():
            assert difference(grad, target[key]) < TOLERANCE, key


def test_padded_queries_do_not_count_in_the_auxiliary_loss() -> None:
    mixer, x, lengths = build().train(), torch.stack(tokens([14, 14])), torch.tensor([14, 6])
    naive = [Row(mixer) for _ in lengths]
    for row, inputs, n in zip(naive, x, lengths, strict=True):
        row.call(inputs[:n])
    aux = mixer(x, None, Layout(True, lengths=lengths)).aux
    assert difference(aux, torch.stack([row.aux() for row in naive])) < TOLERANCE
    assert [len(row.losses) for row in naive] == [3, 1]


@pytest.mark.parametrize("sizes", [[4] * 6, [8, 4, 12], [20, 4]])
def test_law_1_calls_that_end_with_blocks_equal_the_whole(sizes: list[int]) -> None:
    mixer, (row,) = build(), tokens([24])
    expected = mixer(row[None], None, Layout(True)).y
    got, state = in_calls(mixer, row[None], sizes)
    assert difference(got, expected) < TOLERANCE
    same_gradients([got], [expected], [row], mixer)
    assert state["compressed_length"].tolist() == [3]
    short, _ = in_calls(mixer, row[None], [3] * 8)  # other blocks
    assert difference(short, expected) > 1e-3


@pytest.mark.parametrize("sizes", [[1] * 23, [8, 4] + [1] * 11, [3, 1, 2, 2] + [1] * 15])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_law_1_decoding_in_place_equals_blocks(kind: str, sizes: list[int]) -> None:
    mixer, x = build(kind), torch.stack(tokens([23, 23]))
    expected, _ = in_calls(mixer, x, [4] * 5 + [3])
    got, state = in_calls(mixer, x, sizes, mixer.init_state(2, capacity=30))
    assert difference(got, expected) < TOLERANCE
    assert all(leaf.shape[1] <= 2 * BLOCK for leaf in leaves(state) if leaf.dim() > 1)


@torch.no_grad()
def test_decoding_ragged_rows_in_place_equals_the_naive_loop() -> None:
    mixer, rows = build(), tokens([14, 12, 9])
    takes = [[3, 2, 0], *[[1, 1, 1]] * 9, [1, 1, 0], [1, 0, 0]]
    got, _ = feed(mixer, rows, takes, mixer.init_state(3, capacity=20))
    for y, expected in zip(got, by_loop(mixer, rows, takes, in_place=True), strict=True):
        assert difference(y, expected) < TOLERANCE


@pytest.mark.parametrize("token", [0, 5, 11])
@torch.no_grad()
def test_law_2_a_token_changes_nothing_before_it_and_what_follows_for_a_while(token: int) -> None:
    mixer, x = build("mean"), torch.stack(tokens([24, 24]))
    other = x.clone()
    other[:, token] += 3.0
    before, after = (mixer(each, None, Layout(True)).y for each in (x, other))
    assert torch.equal(before[:, :token], after[:, :token])
    # Three vectors of two tokens: one of a block's two is kept while the next two blocks are read.
    block = token // BLOCK + 1
    seen = (before - after).abs().amax((0, 2))
    assert bool((seen[BLOCK * block : BLOCK * (block + 1)] > 1e-7).all())
    assert not seen[BLOCK * (block + 2) :].any()


@pytest.mark.parametrize("capacity", [None, 20])
@torch.no_grad()
def test_without_compressed_vectors_it_is_the_short_term_mixer(capacity: int | None) -> None:
    mixer, x = build(), torch.stack(tokens([4, 4]))
    layout = Layout(True)
    mixed = mixer(x, mixer.init_state(2, capacity), layout)
    assert torch.equal(mixed.y, mixer.short(x, mixer.short.init_state(2, capacity), layout).y)
    assert torch.equal(mixer(x, None, layout).y, mixer.short(x, None, layout).y)
    # A row without them beside one that has some.
    state = reset_rows(mixed.state, torch.tensor([True, False]))
    y, state, *_ = mixer(x, state, layout)
    assert state["compressed_length"].tolist() == [0, 2]
    assert difference(y[0], mixer.short(x[:1], None, layout).y[0]) < TOLERANCE
    assert difference(y[1], mixer.short(x[1:], None, layout).y[0]) > 1e-3


@torch.no_grad()
def test_the_bias_falls_with_the_distance_and_reaches_compressed_vectors_only() -> None:
    """With equal scores, what a query finds is given by the bias alone."""
    mixer = build("max", short_term=lambda d: FullAttention(d, 2, d_head=3), compressed_len=2).double()
    for parameter in mixer.short.parameters():
        parameter.zero_()
    for layer, rows in ((mixer.short.qkv, slice(2 * D, None)), (mixer.short.out, slice(None))):
        layer.weight[rows] = torch.eye(D).double()
    x = torch.zeros(1, 3 * BLOCK, D).double()
    x[:, :BLOCK] = 1.0  # the older of two vectors
    y = mixer(x, None, Layout(True)).y[0, -BLOCK:].unflatten(1, (2, 3))
    for i in range(BLOCK):
        for head, slope in enumerate((1 / 16, 1 / 256)):
            far, near = (2.0 ** (-slope * (i + n) / torch.tensor(2.0).log().item()) for n in (2, 1))
            assert float(y[i, head, 0]) == pytest.approx(far / (far + near + i + 1), rel=1e-6)


@pytest.mark.parametrize("capacity", [None, 40])
@torch.no_grad()
def test_a_row_that_is_reset_starts_with_an_empty_memory(capacity: int | None) -> None:
    mixer, x = build(), torch.stack(tokens([28, 28]))
    _, state = in_calls(mixer, x[:, :12], [4] * 3, mixer.init_state(2, capacity))
    got, _ = in_calls(mixer, x[:, 12:], [4] * 4, reset_rows(state, torch.tensor([False, True])))
    on, fresh = (in_calls(mixer, part, [4] * (part.shape[1] // 4))[0] for part in (x, x[:, 12:]))
    assert difference(got[0], on[0, 12:]) < TOLERANCE
    assert difference(got[1], fresh[1]) < TOLERANCE
    assert difference(got[1], on[1, 12:]) > 1e-3


@pytest.mark.parametrize("n", [3, 4, 5])
def test_padding_takes_no_part_in_the_auxiliary_loss(n: int) -> None:
    mixer, (x, z) = build().train(), (torch.stack(tokens([8])) for _ in range(2))
    state = mixer(x, mixer.init_state(1), Layout(True)).state
    alone = mixer(z[:, :n], tree_map(torch.clone, state), Layout(True))
    padded = mixer(z, tree_map(torch.clone, state), Layout(True, lengths=torch.tensor([n])))
    assert float(alone.aux.detach()) > 0
    torch.testing.assert_close(padded.aux, alone.aux, rtol=1e-12, atol=0)
