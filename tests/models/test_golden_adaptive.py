"""With the same weights, ours equals the official code: adaptive vocabularies, and the models around them."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.models.decoder_lm import DecoderLM
from repro.nn import AdaptiveVocabulary
from repro.nn.mixer import detach
from tests.models import golden, golden_adaptive, golden_infused, golden_relative
from tests.nn.mixers import difference

XL = ["txl_adaptive_div1", "txl_adaptive_div4", "txl_embed_div1", "txl_embed_div2"]
SHORT = ["short_wiki103_plain", "short_wiki103_pia"]
CONTROL = 1e-2


class Case:
    """One golden file, batch first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.arrays, meta = golden.read(name)
        self.options, self.tolerance = meta["options"], meta["tolerance"]
        self.xl = name.startswith("txl")
        self.weights = golden.under("w/", self.arrays)
        ids = self.arrays["in/ids"].long()
        self.ids = ids.T if self.xl else ids
        self.parts = len(self.options["segment_lengths"]) if self.xl else self.options["blocks"]
        self.steps = self.options["tgt_len"] if self.xl else self.options["T"]

    def segment(self, i: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets ``(B, T)``."""
        rows = self.ids[:, i * self.steps : (i + 1) * self.steps + 1]
        return rows[:, :-1], rows[:, 1:]

    def out(self, i: int, what: str) -> Tensor:
        """An output of segment i, ``(B, T, ...)``."""
        value = self.arrays[f"out/{'seg' if self.xl else 'block'}{i}/{what}"]
        return value.transpose(0, 1) if self.xl else value

    def hidden(self, i: int) -> Tensor:
        """The input of the softmax in segment i."""
        return self.out(i, f"hidden{self.options['n_layer']}" if self.xl else "features")

    def vocabulary(self) -> AdaptiveVocabulary:
        return golden_adaptive.vocabulary(self.name, self.weights, self.options)

    def ours(self, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Weights, or gradients, of the whole model under our names."""
        if self.xl:
            return golden_relative.ours(theirs, self.options)
        words = golden_adaptive.vocabulary_weights(self.name, theirs, self.options)
        return golden_infused.ours(theirs, {}) | {f"vocabulary.{key}": value for key, value in words.items()}

    def model(self) -> DecoderLM:
        """The whole model: relative attention with a memory, or plain or infused attention."""
        if self.xl:
            return golden_relative.model(self.weights, self.options)
        vocabulary = golden_adaptive.maker(self.name, self.options)
        net = golden_infused.build(self.options, self.options["cache_len"] or None, vocabulary)
        golden_adaptive.fill(net, self.ours(self.weights))
        return net


@pytest.mark.parametrize("name", XL + SHORT)
@torch.no_grad()
def test_losses_of_the_official_hidden_states(name: str) -> None:
    case = Case(name)
    vocabulary = case.vocabulary()
    for i in range(case.parts):
        got = vocabulary.nll(case.hidden(i), case.segment(i)[1])
        assert difference(got, case.out(i, "nll")) < case.tolerance["out"]


@pytest.mark.parametrize("name", XL)
@torch.no_grad()
def test_embeddings(name: str) -> None:
    case = Case(name)
    for i in range(case.parts):
        got = case.vocabulary().embed(case.segment(i)[0])
        assert difference(got, case.out(i, "hidden0")) < case.tolerance["out"]


@torch.no_grad()
def test_embeddings_without_positions() -> None:
    case = Case("short_wiki103_pia")
    got = case.vocabulary().embed(case.segment(2)[0])
    assert difference(got, case.out(2, "inner_state0")) < case.tolerance["out"]


@pytest.mark.parametrize("name", SHORT)
@torch.no_grad()
def test_all_log_probs(name: str) -> None:
    case = Case(name)
    i = case.parts - 1
    got = case.vocabulary().log_probs(case.hidden(i))
    assert difference(got, case.out(i, "log_probs")) < case.tolerance["out"]


@pytest.mark.parametrize("name", XL + SHORT)
@torch.no_grad()
def test_control_gates_in_another_order_show(name: str) -> None:
    case = Case(name)
    vocabulary: Any = case.vocabulary()
    for parameter in vocabulary.gate.parameters():
        parameter.copy_(parameter.flip(0))
    got = vocabulary.nll(case.hidden(0), case.segment(0)[1])
    assert difference(got, case.out(0, "nll")) > CONTROL


@pytest.mark.parametrize("name", [*XL, "short_wiki103_pia"])
@torch.no_grad()
def test_control_another_scale_shows(name: str) -> None:
    case = Case(name)
    vocabulary, last = case.vocabulary(), case.parts - 1
    vocabulary.scale = 1.0
    expected = case.out(last, "hidden0" if case.xl else "inner_state0")
    assert difference(vocabulary.embed(case.segment(last)[0]), expected) > CONTROL


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("txl_adaptive_div1", {"bias": False}),
        ("txl_adaptive_div4", {"head_projection": False}),
        ("txl_embed_div1", {"tied_projections": True}),
        ("txl_embed_div2", {"tied_projections": True}),
    ],
)
@torch.no_grad()
def test_control_another_variant_shows(name: str, wrong: dict[str, Any]) -> None:
    case = Case(name)
    right: Any = case.vocabulary()
    other = golden_adaptive.maker(name, case.options, **wrong)(right.d_model, right.d_model).double()
    other.load_state_dict(right.state_dict(), strict=False)
    last = case.parts - 1
    ids, targets = case.segment(last)
    embedded = case.out(last, "hidden0" if case.xl else "inner_state0")
    errors = [
        difference(other.nll(case.hidden(last), targets), case.out(last, "nll")),
        difference(other.embed(ids), embedded),
    ]
    assert max(errors) > CONTROL


class Run:
    """A whole model over the consecutive segments of its file, with detached memory where it has one."""

    def __init__(self, name: str, keep: bool = True, learn_embedding: bool = True) -> None:
        case = self.case = Case(name)
        self.net = case.model()
        if not learn_embedding:
            self.net.dropout.register_forward_hook(lambda _, __, x: x.detach())
        self.seen = golden.layer_outputs(self.net.stack)
        state = (
            self.net.init_state(2) if case.options.get("mem_len") or case.options.get("cache_len") else None
        )
        self.hidden: list[Tensor] = []
        self.nll: list[Tensor] = []
        for i in range(case.parts):
            ids, targets = case.segment(i)
            mixed = self.net(ids, state)
            if state is not None and keep:
                state = detach(mixed.state)
            self.hidden.append(mixed.y)
            self.nll.append(self.net.vocabulary.nll(mixed.y, targets))

    def criterion(self, i: int) -> Tensor:
        """The official training loss of a segment, a sum.

        fairseq's takes the second token of every tail for padding and leaves out its ``-log p(w | tail)``; only the
        logit of the tail remains, which is the log of the sum over the tail's tokens.
        """
        vocabulary: Any = self.net.vocabulary
        total = self.nll[i].sum()
        if self.case.xl:
            return total
        _, targets = self.case.segment(i)
        log_probs = vocabulary.log_probs(self.hidden[i])
        for low, high in pairwise(vocabulary.edges[1:]):
            slipped = targets == low + 1
            total = total - (self.nll[i] + log_probs[..., low:high].logsumexp(-1))[slipped].sum()
        return total

    def loss(self) -> Tensor:
        """The scalar whose gradients the file holds: a mean over each segment, summed."""
        sums = [self.criterion(i) for i in range(self.case.parts)]
        return torch.stack(sums).sum() / (2 * self.case.steps)


@pytest.mark.parametrize("name", XL + SHORT)
def test_losses_and_hidden_states_of_whole_models(name: str) -> None:
    run = Run(name)
    case, tolerance = run.case, run.case.tolerance["out"]
    for i in range(case.parts):
        assert difference(run.hidden[i], case.hidden(i)) < tolerance
        assert difference(run.nll[i], case.out(i, "nll")) < tolerance
        if case.xl:
            assert difference(run.seen[2 * i], case.out(i, "hidden1")) < tolerance
        else:
            assert difference(run.criterion(i), case.out(i, "criterion_sum_ignore_index_1")) < tolerance


@pytest.mark.parametrize("name", XL + SHORT)
def test_every_gradient_of_whole_models(name: str) -> None:
    run = Run(name)
    case = run.case
    loss = run.loss()
    assert difference(loss, case.arrays["out/loss"]) < case.tolerance["out"]
    loss.backward()
    expected = case.ours(golden.under("grad/", case.arrays))
    got = {key: p.grad for key, p in run.net.named_parameters() if p.grad is not None}
    assert got.keys() == expected.keys()
    for key, grad in got.items():
        assert difference(grad, expected[key]) < case.tolerance["grad"], key
    assert max(float(grad.abs().max()) for grad in expected.values()) > 0.1


def test_control_the_official_slip_shows() -> None:
    run = Run("short_wiki103_plain")
    expected = [run.case.out(i, "criterion_sum_ignore_index_1") for i in range(run.case.parts)]
    assert max(difference(nll.sum(), w) for nll, w in zip(run.nll, expected, strict=True)) > CONTROL


@pytest.mark.parametrize("name", [*XL, "short_wiki103_pia"])
@torch.no_grad()
def test_control_a_dropped_memory_shows(name: str) -> None:
    run = Run(name, keep=False)
    assert difference(run.hidden[1], run.case.hidden(1)) > CONTROL


@pytest.mark.parametrize("name", XL + SHORT)
def test_control_a_tied_matrix_that_learns_from_the_softmax_alone_shows(name: str) -> None:
    run = Run(name, learn_embedding=False)
    run.loss().backward()
    expected = run.case.ours(golden.under("grad/", run.case.arrays))
    for c in range(len(run.net.vocabulary.clusters)):
        grad = run.net.vocabulary.clusters[c].table.weight.grad
        assert difference(grad, expected[f"vocabulary.clusters.{c}.table.weight"]) > CONTROL
