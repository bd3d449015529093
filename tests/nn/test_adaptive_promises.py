"""Further promises of the adaptive vocabulary: zero gradients, cost, precision, clear refusals."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from repro.nn import AdaptiveVocabulary
from repro.nn.vocabularies.adaptive import Projection, group
from tests.nn.adaptive import CUTOFFS, IDS, VARIANTS, D, V, build, hidden_states, place_of
from tests.nn.mixers import difference, randomise


@pytest.mark.parametrize("token", [0, 9, 14, 22])
@pytest.mark.parametrize(
    "name", ["full width", "narrow tails", "narrow tails, nothing tied", "one width, tied by cluster"]
)
def test_clusters_without_tokens_get_a_gradient_of_zero_and_not_none(name: str, token: int) -> None:
    v = build(**VARIANTS[name])
    ids = torch.full((1, 3), token)
    v.nll(v.embed(ids), ids).sum().backward()
    present, _ = place_of(token, CUTOFFS)
    for key, parameter in v.named_parameters():
        assert parameter.grad is not None, key
        if key.startswith("clusters.") and not key.startswith(("clusters.0.", f"clusters.{present}.")):
            assert not parameter.grad.any(), key
        if key.startswith("gate.") or key in ("clusters.0.bias", f"clusters.{present}.bias"):
            assert parameter.grad.any(), key


@pytest.mark.parametrize("name", ["full width", "narrow tails", "one cluster", "one width, narrower"])
@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_an_empty_batch(name: str, shape: tuple[int, ...]) -> None:
    v, ids = build(**VARIANTS[name]), torch.zeros(shape, dtype=torch.long)
    vectors = v.embed(ids)
    nll = v.nll(vectors, ids)
    assert vectors.shape == (*shape, D)
    assert nll.shape == shape
    assert v.log_probs(vectors).shape == (*shape, V)
    nll.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in v.parameters())


class Largest(TorchDispatchMode):
    """Remembers the largest number of rows of any tensor with that many columns."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.columns, self.rows = columns, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in out if isinstance(out, tuple | list) else [out]:
            if isinstance(one, Tensor) and one.ndim == 2 and one.shape[1] == self.columns:
                self.rows = max(self.rows, one.shape[0])
        return out


@pytest.mark.parametrize("div_value", [1, 2])
def test_a_tail_has_logits_for_its_own_tokens_alone(div_value: int) -> None:
    tail = 500
    v = AdaptiveVocabulary(D, D, 10 + tail, [10], div_value)
    targets = torch.arange(40) % 10
    targets[[3, 17]] = torch.tensor([10, 509])
    with Largest(tail) as seen:
        v.nll(torch.randn(40, D), targets).sum().backward()
    assert 2 <= seen.rows <= D  # two tokens; the weights themselves, transposed, have up to D rows
    with Largest(tail) as seen:
        v.log_probs(torch.randn(40, D))
    assert seen.rows == 40


def test_autocast_does_not_make_it_coarser() -> None:
    v = randomise(AdaptiveVocabulary(D, D, V, CUTOFFS, 2))
    h = torch.randn(2, 5, D)
    plain = v.embed(IDS), v.nll(h, IDS), v.log_probs(h)
    with torch.autocast("cpu", torch.bfloat16):
        coarse = v.nll(h.bfloat16(), IDS)
        for got, expected in zip((v.embed(IDS), v.nll(h, IDS), v.log_probs(h)), plain, strict=True):
            assert got.dtype == torch.float32
            assert torch.equal(got, expected)
    assert coarse.dtype == torch.float32
    assert torch.equal(coarse, v.nll(h.bfloat16().float(), IDS))


def test_half_precision_weights_are_scored_in_float32() -> None:
    v = randomise(AdaptiveVocabulary(D, D, V, CUTOFFS)).bfloat16()
    h = torch.randn(10, D)
    assert v.nll(h, IDS.flatten()).dtype == torch.float32
    sums = v.log_probs(h).double().exp().sum(-1)
    assert torch.allclose(sums, torch.ones(10, dtype=torch.float64), atol=1e-5)


def test_dropout_of_all_hides_the_hidden_states_in_training() -> None:
    v, h = build(div_value=2, dropout=1.0), hidden_states(2, 5)
    nothing = build(div_value=2).nll(torch.zeros_like(h), IDS)
    assert difference(v.nll(h, IDS), nothing) < 1e-12
    assert difference(v.eval().nll(h, IDS), build(div_value=2).nll(h, IDS)) < 1e-12


def test_tail_dropout_of_all_leaves_tails_their_biases_and_the_head_as_it_was() -> None:
    v, h = build(div_value=2, tail_dropout=1.0), hidden_states(V)
    tokens = torch.arange(V)
    target = build(div_value=2).nll(h, tokens)
    got = v.nll(h, tokens)
    assert difference(got[:7], target[:7]) < 1e-12
    head = v._head(h).log_softmax(-1)
    for c, (low, high) in enumerate([(7, 12), (12, 16), (16, 23)]):
        cluster: Any = v.clusters[c + 1]
        expected = -head[low:high, 7 + c] - cluster.bias.log_softmax(0)
        assert difference(got[low:high], expected) < 1e-12
    assert difference(v.eval().nll(h, tokens), target) < 1e-12


def test_tail_dropout_comes_after_the_projection() -> None:
    v = build(div_value=2, tail_dropout=0.5)
    seen: list[int] = []
    v.tail_dropout.register_forward_hook(lambda _, given, __: seen.append(given[0].shape[-1]))
    v.nll(hidden_states(2, 5), IDS)
    assert seen == [4, 2, 1]


@pytest.mark.parametrize("token", [-1, V, V + 5])
def test_a_token_outside_the_vocabulary_is_named(token: int) -> None:
    ids = torch.tensor([[1, 2, token]])
    with pytest.raises(ValueError, match=rf"{token}.*{V}") as caught:
        build().embed(ids)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=rf"{token}"):
        build().nll(hidden_states(1, 3), ids)


@pytest.mark.parametrize("token", [-1, V])
def test_a_token_outside_a_single_cluster_raises(token: int) -> None:
    v, ids = build(cutoffs=[]), torch.tensor([1, token])
    with pytest.raises(IndexError):
        v.embed(ids)
    with pytest.raises(RuntimeError):
        v.nll(hidden_states(2), ids)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cutoffs": [12, 7]}, r"between 0 and the vocabulary's size 23, not \[12, 7\]"),
        ({"cutoffs": [7, 7]}, r"cutoffs must increase .* not \[7, 7\]"),
        ({"cutoffs": [7, 23]}, r"not \[7, 23\]"),
        ({"cutoffs": [7, 30]}, r"not \[7, 30\]"),
        ({"cutoffs": [0, 7]}, r"not \[0, 7\]"),
        ({"div_value": 0}, r"div_value must be at least 1, not 0"),
        ({"div_value": 3}, r"widths \[8, 2, 0, 0\]; take fewer cutoffs or a smaller div_value"),
        ({"d_embed": 0}, r"widths \[0, 0, 0, 0\]"),
        ({"tied_projections": [False, True]}, r"each of 4 clusters, not \[False, True\]"),
        ({"token_width": 6}, r"not 6 in and 8 out; set tied_projections: false"),
        ({"token_width": 6, "tied_projections": [True, False, False, False]}, r"not 6 in and 8 out"),
        ({"d_embed": 6, "head_projection": False}, r"6 channels for 8, .* set head_projection: true"),
        (
            {"div_value": 2, "head_projection": False, "tied_projections": [True] * 4},
            r"8 channels for 8, tied_projections \[True, .* set head_projection: true",
        ),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        build(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("d_model", "div_value", "expected"),
    [
        # 267,735 words: 410 wide each, biases and three gates; nothing else.
        (410, 1, 267_735 * 411 + 3 * 411),
        # 1024, 256, 64 and 16 wide; projections of all four, and the head's own.
        (1024, 4, 20_000 * 1024 + 20_000 * 256 + 160_000 * 64 + 67_735 * 16 + 267_735
         + 3 * 1025 + 1024 * (1024 + 256 + 64 + 16) + 1024 * 1024),
    ],
)  # fmt: skip
def test_parameters_are_counted_on_the_meta_device(d_model: int, div_value: int, expected: int) -> None:
    with torch.device("meta"):
        v = AdaptiveVocabulary(d_model, d_model, 267_735, [20_000, 40_000, 200_000], div_value)
    assert all(p.device.type == "meta" for p in v.parameters())
    assert sum(p.numel() for p in v.parameters()) == expected
    assert not list(v.buffers())


def test_projections_can_be_told_from_other_layers() -> None:
    result = {name for name, module in build(div_value=2).named_modules() if isinstance(module, Projection)}
    assert result == {f"clusters.{c}.up" for c in range(4)} | {"clusters.0.down"}
    assert not [m for m in build().modules() if isinstance(m, Projection)]
    assert sum(isinstance(m, Projection) for m in build(d_embed=5).modules()) == 2, "all tails share one"


def test_groups_cover_every_id_once() -> None:
    ids = torch.tensor([9, 0, 22, 7, 6, 9])
    groups = group(ids, [0, 7, 12, 16, 23])
    assert groups.cluster.tolist() == [1, 0, 3, 1, 0, 1]
    assert [rows.tolist() for rows in groups.rows] == [[1, 4], [0, 3, 5], [], [2]]
    assert [local.tolist() for local in groups.local] == [[0, 6], [2, 0, 2], [], [6]]
    assert groups.order.tolist() == [1, 4, 0, 3, 5, 2]


@pytest.mark.parametrize("name", ["narrow tails", "one width, tied by cluster"])
def test_a_state_dict_comes_back(name: str) -> None:
    v, other, h = build(**VARIANTS[name]), build(**VARIANTS[name]), hidden_states(2, 5)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.5)
    assert difference(other.nll(h, IDS), v.nll(h, IDS)) > 1e-2
    other.load_state_dict(v.state_dict())
    assert torch.equal(other.nll(h, IDS), v.nll(h, IDS))
