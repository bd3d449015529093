"""Drawing with carried state against drawing anew, the distribution of what is drawn, and the clock."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from repro.models import DecoderLM
from repro.models import draw as drawing
from repro.models.draw import Drawing, draw, timed_drawing
from repro.nn import (
    Blocks,
    FeedForward,
    FullAttention,
    Hashing,
    LinearAttention,
    LSHAttention,
    PixelVocabulary,
)
from tests.models.tiny import language_model

N = 12
draw_anew = partial(draw, cached=False)
EVERYWHERE = Hashing(chunk=N, across_buckets=True)  # one chunk: everybody sees the whole past
MIXERS = [FullAttention, LinearAttention, partial(LSHAttention, hashing=EVERYWHERE)]


def painter(mixer: Callable[..., nn.Module] = FullAttention) -> DecoderLM:
    """In training mode, with dropout on: drawing has to turn it off. Its components are not too wide."""
    torch.manual_seed(0)
    blocks = Blocks([partial(mixer, n_heads=2)], partial(FeedForward, d_ff=16))
    vocabulary = partial(PixelVocabulary, n_mixtures=3)
    net = DecoderLM(8, 2, vocabulary, blocks, init=lambda model: None).double()
    with torch.no_grad():
        net.vocabulary.proj.weight.mul_(4.0)
        net.vocabulary.proj.bias[6:].fill_(-2.0)
    return net


def seeded(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    "known", [torch.tensor([0, 9, 255]), torch.tensor([[5, 80, 3], [0, 1, 2], [9, 9, 9]])]
)
@pytest.mark.parametrize("mixer", MIXERS)
def test_both_ways_draw_the_same_pictures(mixer: Callable[..., nn.Module], known: Tensor) -> None:
    net = painter(mixer)
    result = draw(net, known, N, seeded())
    assert net.training
    assert result.shape == (3, N)
    assert torch.equal(result[:, : N - 1], draw(net, known, N, seeded())[:, : N - 1])
    assert torch.equal(result, draw_anew(net, known, N, seeded()))
    assert not torch.equal(result, draw_anew(net, known, N, seeded(4)))
    first = known[:, None] if known.dim() == 1 else known
    assert torch.equal(result[:, : first.shape[1]], first)
    assert len(result[:, first.shape[1] :].unique()) > 9


def test_values_follow_the_mixture() -> None:
    """Chi-square over 16 bands of 16 levels: 99.99 % of correct samplers stay below 44.3."""
    net, count, prefix = painter().eval(), 8_000, [7, 200, 31]
    drawn = draw(net, torch.tensor([prefix] * count), 4, seeded())[:, 3]
    with torch.no_grad():
        probabilities = net.vocabulary.log_probs(net(torch.tensor([prefix])).y[0, -1]).softmax(-1)
    expected = probabilities.view(16, 16).sum(-1) * count
    seen = drawn.bincount(minlength=256).view(16, 16).sum(-1)
    assert expected.min() > 5
    assert ((seen - expected) ** 2 / expected).sum() < 44.3
    assert ((seen.flip(0) - expected) ** 2 / expected).sum() > 100


def test_a_low_temperature_draws_the_likeliest_values() -> None:
    net, known = painter().eval(), torch.tensor([[7, 3]])
    result = draw(net, known, 6, seeded(), temperature=1e-6)
    values = known
    with torch.no_grad():
        for _ in range(4):
            likeliest = net.vocabulary.log_probs(net(values).y[:, -1]).argmax(-1)
            values = torch.cat([values, likeliest[:, None]], dim=1)
    assert torch.equal(result, values)
    assert torch.equal(draw_anew(net, known, 6, seeded(), temperature=1e-6), values)


def test_the_vocabulary_may_be_an_ordinary_one() -> None:
    net = language_model(9)
    result = draw(net, torch.tensor([1, 2]), N, seeded())
    assert torch.equal(result, draw_anew(net, torch.tensor([1, 2]), N, seeded()))


@pytest.mark.parametrize("way", [draw, draw_anew])
def test_nothing_to_draw_and_nothing_known(way: object) -> None:
    for known, n in ((torch.zeros(2, 4, dtype=torch.long), 4), (torch.zeros(2, 0, dtype=torch.long), 4)):
        with pytest.raises(ValueError, match=f"of 4 values {known.shape[1]}"):
            way(painter(), known, n)  # type: ignore[operator]


# --- the clock ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "runs"),
    [
        (None, [(0, 783)]),
        (783, [(0, 783)]),
        (1, [(391, 1)]),
        (2, [(195, 1), (586, 1)]),
        (17, [(47, 3), (146, 2), (244, 2), (342, 2), (439, 2), (537, 2), (635, 2), (733, 2)]),
    ],
)
def test_where_drawing_is_timed(values: int | None, runs: list[tuple[int, int]]) -> None:
    assert drawing._runs(783, values) == runs


@pytest.mark.parametrize("values", range(1, 12))
def test_no_value_is_timed_twice_or_beyond_the_end(values: int) -> None:
    places = [place for start, length in drawing._runs(11, values) for place in range(start, start + length)]
    assert len(set(places)) == len(places) == values
    assert 0 <= min(places) <= max(places) < 11
    assert sum(places) / values == pytest.approx(5, abs=0.6), "they stand for the whole picture"


def test_the_mean_over_few_places_stands_for_the_whole_of_a_parabola() -> None:
    def cost(place: int) -> float:
        return 1.0 + place**2

    places = [start + i for start, length in drawing._runs(783, 16) for i in range(length)]
    few, all_of_it = sum(map(cost, places)) / 16, sum(map(cost, range(783))) / 783
    assert few == pytest.approx(all_of_it, rel=0.01)
    assert few != pytest.approx(cost(391), rel=0.1), "one place in the middle would not do"


class Clocked(nn.Module):
    """A network that notes how much it reads, and how far in the picture that is."""

    def __init__(self, net: DecoderLM) -> None:
        super().__init__()
        self.net = net
        self.vocabulary = net.vocabulary
        self.read: list[tuple[int, int]] = []

    def clock(self) -> float:
        """Goes on by a second for every token that is read."""
        return float(sum(read for read, _ in self.read))

    def init_state(self, batch: int, capacity: int | None = None) -> object:
        assert capacity == N - 1
        return self.net.init_state(batch, capacity)

    def decode(self, ids: Tensor, state: dict, lengths: Tensor | None = None) -> object:
        self.read.append((ids.shape[1], int(state["stream"]["start"][0])))
        return self.net.decode(ids, state, lengths)

    def forward(self, ids: Tensor) -> object:
        self.read.append((ids.shape[1], 0))
        return self.net(ids)


@pytest.fixture
def ticking() -> Clocked:
    return Clocked(painter())


def test_all_of_a_picture_is_timed(ticking: Clocked) -> None:
    result = timed_drawing(ticking, 3, N, cached=True, clock=ticking.clock)
    assert ticking.read == [(1, 0), (1, 1), *((1, place) for place in range(N - 1))]
    assert result == Drawing(3, N, N - 1, float(N - 1))
    assert not result.extrapolated
    assert result.images_per_s == 3 / (N - 1)
    assert result.seconds_per_image == (N - 1) / 3


def test_anew_every_value_reads_all_before_it(ticking: Clocked) -> None:
    result = timed_drawing(ticking, 2, N, cached=False, clock=ticking.clock)
    assert ticking.read[2:] == [(place, 0) for place in range(1, N)]
    assert result == Drawing(2, N, N - 1, float(sum(range(1, N))))


def test_a_part_stands_for_the_rest(ticking: Clocked) -> None:
    result = timed_drawing(ticking, 2, N, cached=False, values=3, clock=ticking.clock)
    places = [start + 1 for start, _ in drawing._runs(N - 1, 3)]
    assert ticking.read == [(read, 0) for read in [places[0], *places]]
    assert (result.measured, result.extrapolated, result.seconds) == (3, True, float(sum(places)))
    assert result.seconds_in_all == pytest.approx(sum(places) / 3 * (N - 1))
    assert result.images_per_s == pytest.approx(2 / result.seconds_in_all)
    assert result.seconds_in_all == pytest.approx(sum(range(1, N)), rel=0.1)


def test_reading_into_a_state_is_not_timed(ticking: Clocked) -> None:
    result = timed_drawing(ticking, 2, N, cached=True, values=2, clock=ticking.clock)
    starts = [start for start, _ in drawing._runs(N - 1, 2)]
    each = [[(start, 0), (1, start)] for start in starts]
    assert ticking.read == [*each[0], *each[0], *each[1]]
    assert result.seconds == 2.0
    assert result.seconds_in_all == N - 1


@pytest.mark.parametrize(
    ("images", "n", "values", "message"),
    [
        (0, 9, None, "images 0 must be at least 1"),
        (1, 1, None, "n_values 1 at least 2"),
        (1, 9, 0, "values 0 must be from 1 to 8"),
        (1, 9, 9, "values 9 must be from 1 to 8"),
    ],
)
def test_clocks_that_cannot_run(images: int, n: int, values: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        timed_drawing(painter(), images, n, True, values)
