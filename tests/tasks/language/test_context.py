"""Losses behind an exact context, and the relative effective context length."""

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from repro.errors import UserError
from repro.models import DecoderLM
from repro.nn import (
    AdaptiveVocabulary,
    Added,
    Blocks,
    FeedForward,
    FullAttention,
    InfusedAttention,
    LayerPositions,
    LearnedPositions,
    NoPositions,
    PreNorm,
    RelativeAttention,
    Vocabulary,
)
from repro.nn.settings import MemorySettings, Remembers
from repro.tasks.language import context as module
from repro.tasks.language.context import (
    longest_window,
    losses_with_context,
    relative_effective_context_length,
    relative_gains,
)

SYMBOLS = 11
TOKENS = np.random.default_rng(0).integers(0, SYMBOLS, 60).astype(np.uint16)
PLACES = np.array([7, 8, 20, 33, 59])


def network(
    mixer: Any, vocabulary: Any = Vocabulary, positions: Any = NoPositions, layered: Any = None
) -> DecoderLM:
    torch.manual_seed(0)
    blocks = Blocks(
        mixers=[partial(mixer, n_heads=2)],
        feed_forward=partial(FeedForward, d_ff=12),
        sublayer=partial(PreNorm, dropout=0.3),
        positions=layered,
    )
    net = DecoderLM(8, 2, partial(vocabulary, size=SYMBOLS), blocks, positions, dropout=0.3).double()
    for parameter in net.parameters():
        parameter.data.mul_(2.0)
    return net.train()


def far_reaching(mixer: Any) -> Any:
    """A maker of a mixer whose own memory would show, were it used."""

    def make(d_model: int, n_heads: int) -> nn.Module:
        made = mixer(d_model, n_heads, mem_len=2)
        made.memory = MemorySettings(2, 1, True) if mixer is RelativeAttention else MemorySettings(2)
        return made

    return make


NETWORKS = {
    "full": lambda: network(FullAttention, positions=Added),
    "relative": lambda: network(far_reaching(RelativeAttention)),
    "infused": lambda: network(far_reaching(InfusedAttention)),
    "adaptive": lambda: network(FullAttention, partial(AdaptiveVocabulary, cutoffs=[2, 6])),
}


def one_by_one(net: DecoderLM, context: int) -> list[float]:
    """Computes the losses a window at a time, from the whole distribution."""
    for mixer in net.modules():
        if isinstance(mixer, Remembers):
            mixer.memory = MemorySettings()
    net.eval()
    result = []
    with torch.no_grad():
        for place in PLACES.tolist():
            ids = torch.tensor([TOKENS[place - context : place].tolist()])
            result.append(-float(net.vocabulary.log_probs(net(ids).y)[0, -1, int(TOKENS[place])]))
    return result


@pytest.mark.parametrize("context", [1, 4, 7])
@pytest.mark.parametrize("kind", NETWORKS)
def test_losses_are_those_of_windows_read_one_by_one(kind: str, context: int) -> None:
    net = NETWORKS[kind]()
    result = losses_with_context(net, TOKENS, PLACES, context)
    assert result.dtype == torch.float64
    assert result.tolist() == pytest.approx(one_by_one(net, context), rel=1e-9)


@pytest.mark.parametrize("bound", ["TOKENS_AT_ONCE", "PAIRS_AT_ONCE"])
def test_losses_do_not_depend_on_how_many_windows_are_read_at_once(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, sizes = NETWORKS["full"](), []
    whole = losses_with_context(net, TOKENS, PLACES, 4)
    monkeypatch.setattr(module, bound, 8 if bound == "TOKENS_AT_ONCE" else 32)
    net.register_forward_hook(lambda _, given, out: sizes.append(tuple(given[0].shape)))
    torch.testing.assert_close(losses_with_context(net, TOKENS, PLACES, 4), whole, rtol=1e-12, atol=0)
    assert sizes == [(2, 4), (2, 4), (1, 4)]


def test_longer_context_is_seen_and_nothing_beyond_it_is() -> None:
    net = NETWORKS["relative"]()
    before = losses_with_context(net, TOKENS, PLACES[1:2], 5)
    for place, seen in ((2, False), (3, True), (7, True), (9, False)):
        changed = TOKENS.copy()
        changed[place] = (changed[place] + 1) % SYMBOLS
        after = losses_with_context(net, changed, PLACES[1:2], 5)
        assert bool((after - before).abs() > 1e-6) is seen, place


def test_a_network_is_left_as_it_was() -> None:
    net = NETWORKS["relative"]()
    net.stack.layers[1].eval()
    before = [(m.training, m.memory if isinstance(m, Remembers) else None) for m in net.modules()]
    losses_with_context(net, TOKENS, PLACES, 3)
    assert [(m.training, m.memory if isinstance(m, Remembers) else None) for m in net.modules()] == before
    assert len(losses_with_context(net, TOKENS, PLACES[:0], 3)) == 0


@pytest.mark.parametrize("where", ["input", "layers"])
def test_learned_positions_have_an_end(where: str) -> None:
    table = partial(LearnedPositions, max_length=6)
    if where == "input":
        net = network(FullAttention, positions=partial(Added, table=table))
    else:
        net = network(FullAttention, layered=partial(LayerPositions, max_length=6))
    assert longest_window(net) == 6
    assert len(losses_with_context(net, TOKENS, PLACES, 6)) == len(PLACES)
    with pytest.raises(UserError, match=r"7 tokens.*learned 6 positions"):
        losses_with_context(net, TOKENS, PLACES, 7)
    assert longest_window(NETWORKS["full"]()) is None


@pytest.mark.parametrize(("places", "context"), [([3], 4), ([5, 60], 4), ([5], 0), ([-1], 1)])
def test_places_without_their_context_are_refused(places: list[int], context: int) -> None:
    with pytest.raises(UserError):
        losses_with_context(NETWORKS["full"](), TOKENS, np.array(places), context)


# --- the length -------------------------------------------------------------------------------------------------


def test_gains_by_hand() -> None:
    short = torch.tensor([[1.0, 2, 3, 4], [2, 1, 4, 3]])  # b = 1 1 3 3
    long = torch.tensor([[0.0, 0, 2, 5], [9, 9, 3, 1]])
    by_hand = {
        0.1: (3 - 2, 3 - 3),  # one place, the earlier of the two hardest
        0.5: (3 - 2.5, 3 - 2.0),
        1.0: (2 - 1.25, 2 - 1.5),
    }
    for ratio, falls in by_hand.items():
        expected = [1 - math.exp(-fall) for fall in falls]
        assert relative_gains(short, long, ratio).tolist() == pytest.approx(expected, rel=1e-6), ratio
        other_way = relative_gains(short.flip(0), long.flip(0), ratio).tolist()
        assert other_way == pytest.approx(expected[::-1], rel=1e-6)


def test_a_ratio_is_the_nearest_number_of_places() -> None:
    short = torch.arange(10.0, 0.0, -1)[None]
    for ratio, places in ((0.01, 1), (0.24, 2), (0.26, 3), (0.999, 10)):
        long = short.clone()
        long[0, 0] -= 1  # only the hardest place gains: the mean tells how many there are
        gain = float(relative_gains(short, long, ratio))
        assert gain == pytest.approx(1 - math.exp(-1 / places), rel=1e-5), ratio


def test_ratios_have_lengths_of_their_own() -> None:
    """One of ten places gains up to 500, one to 400, one to 300, with 0.04 nats a step; the others gain nothing.

    1 of 1 is a gain of 3.9 %, 2 of 5 of 1.6 %, 1 of 5 of 0.8 %, 3 of 10 of 1.2 %, 2 of 10 of 0.8 %.
    """
    reach = torch.tensor([100.0, 500, 100, 100, 400, 100, 300, 100, 100, 100])
    hardness = torch.tensor([1.0, 10, 2, 7, 9, 3, 8, 6, 4, 5])

    def losses(context: int) -> Tensor:
        return (hardness - 0.04 / 100 * reach.clamp(max=context))[None]

    result = {r: relative_effective_context_length(losses, r, 100, 100) for r in (0.1, 0.5, 1.0)}
    assert result == {0.1: [500], 0.5: [400], 1.0: [300]}


def curve(reach: int, worse: float = 0.0) -> Any:
    """Losses at three places that fall by 0.1 nats for each 100 tokens of context up to ``reach``."""
    return lambda context: torch.full((3,), 5.0 + worse - 0.001 * min(context, reach), dtype=torch.float64)


GROUP = {"a": curve(300), "b": curve(500), "c": curve(2000, worse=0.15)}


def lengths(names: Sequence[str], **settings: Any) -> dict[str, int]:
    asked: list[int] = []

    def losses(context: int) -> Tensor:
        asked.append(context)
        return torch.stack([GROUP[name](context) for name in names])

    result = relative_effective_context_length(losses, settings.pop("ratio", 1.0), 100, 100, **settings)
    assert len(asked) == len(set(asked)), "losses are asked for once for each context"
    assert max(asked) <= settings.get("longest", 1000)
    return dict(zip(names, result, strict=True))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_lengths_are_those_of_the_group_in_any_order(size: int) -> None:
    """Alone, c gains for ever; beside a or b it is never below what they reach with a step less."""
    known = {"a": 300, "b": 500, "c": 1000 if size == 1 else 100}
    for names in itertools.permutations(GROUP, size):
        expected = {name: known[name] for name in names}
        for ratio in (0.1, 0.5, 1.0):
            assert lengths(names, ratio=ratio) == expected, (names, ratio)


def test_threshold_and_end() -> None:
    assert lengths(["b"], threshold=0.0951) == {"b": 500}  # a step gains 1 - exp(-0.1) = 0.09516
    assert lengths(["b"], threshold=0.0952) == {"b": 100}
    assert lengths(["c"], longest=450) == {"c": 400}
    assert lengths(["b"], longest=600) == {"b": 500}
    assert lengths(["b"], longest=200) == {"b": 200}


def slowly(tables: dict[int, list[list[float]]], ratio: float, step: int, longest: int) -> list[int]:
    """The definition, word by word."""
    result = []
    for i in range(len(tables[1])):
        c = 1
        while True:
            if c + step > longest:
                break
            b = [min(row[t] for row in tables[c]) for t in range(len(tables[c][0]))]
            order = sorted(range(len(b)), key=lambda t: (-b[t], t))
            chosen = order[: max(1, round(ratio * len(b)))]
            f = [sum(min(b[t], tables[k][i][t]) for t in chosen) / len(chosen) for k in (c, c + step)]
            if (math.exp(f[0]) - math.exp(f[1])) / math.exp(f[0]) < 0.01:
                break
            c = c + step
        result.append(c)
    return result


@pytest.mark.parametrize("models", [1, 2, 3])
@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0])
def test_lengths_equal_a_slow_loop(models: int, ratio: float) -> None:
    draw = torch.Generator().manual_seed(10 * models + int(10 * ratio))
    seen = set()
    for _ in range(40):
        falls = 0.06 * torch.rand(8, models, 17, generator=draw, dtype=torch.float64) ** 3
        noise = 0.01 * torch.randn(8, models, 17, generator=draw, dtype=torch.float64)
        hard = 4 * torch.rand(17, generator=draw, dtype=torch.float64).round(decimals=1)
        apart = 0.02 * torch.rand(models, 1, generator=draw, dtype=torch.float64)
        tables = hard + apart - falls.cumsum(0) + noise
        by_context = {1 + 2 * k: tables[k].tolist() for k in range(8)}
        result = relative_effective_context_length(lambda c, t=tables: t[c // 2], ratio, 1, 2, longest=15)  # type: ignore[misc]
        assert result == slowly(by_context, ratio, 2, 15)
        seen |= set(result)
    assert len(seen) > 2, "cases all alike show nothing"


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"start": 0}, "start must be at least 1, not 0"),
        ({"step": -3}, "step must be at least 1, not -3"),
        ({"longest": 199}, "start and step together, 200, not 199"),
        ({"ratio": 0.0}, "ratio must be above 0 and at most 1, not 0"),
        ({"ratio": 1.01}, "not 1.01"),
        ({"ratio": math.nan}, "not nan"),
        ({"losses": lambda c: torch.zeros(3)}, "(models, places), not (3,)"),
        ({"losses": lambda c: torch.zeros(3, 0)}, "not (3, 0)"),
        (
            {"losses": lambda c: torch.tensor([[1.0, math.inf if c > 100 else 1.0]])},
            "context 200 are not all finite",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], part: str) -> None:
    given = {"losses": lambda c: torch.ones(1, 2), "ratio": 0.5, "start": 100, "step": 100, **settings}
    with pytest.raises(UserError) as caught:
        relative_effective_context_length(**given)
    assert part in str(caught.value)
