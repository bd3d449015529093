"""Training asks no device for a value: on ``meta``, which has none, forward, loss and backward run.

What must know numbers on the host asks :func:`repro.nn.device.host_ints`, which tests/meta.py answers. Whole recipes:
tests/experiment/test_meta.py.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import repro.nn
from repro.experiment.costs.step import ctc_backward
from repro.models import Body, Classifier, DecoderLM, EncoderDecoder, Transcriber
from repro.nn import (
    AdaptiveVocabulary,
    AxialPositions,
    BidirectionalLSTM,
    Blocks,
    CrossAttention,
    CtcHead,
    FeedForward,
    FullAttention,
    Hashing,
    Layout,
    LearnedPositions,
    LinearHead,
    LSHAttention,
    MixerOutput,
    PerceptronEmbedding,
    PerceptronHead,
    PixelVocabulary,
    PreNorm,
    ReversibleStack,
    State,
    VectorEmbedding,
    Vocabulary,
    device,
)
from repro.nn.mixer import Stateless, detach
from repro.nn.positions.positions import Added
from tests.meta import FAILURES, FAULTS, META, OneDevice, answers
from tests.nn.hashed import KINDS
from tests.nn.mixers import CAUSAL, D_MODEL, DIRECTIONS, MIXERS

BATCH, STEPS, SIZE = 3, 18, 30


def vectors(*shape: int) -> Tensor:
    return torch.randn(*shape, device=META, requires_grad=True)


def ids(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.long, device=META)


def backward(made: nn.Module, loss: Tensor, used: Callable[[str], bool] = lambda name: True) -> None:
    """Runs the backward pass; every parameter that is used gets a gradient of its shape, all of it on ``meta``."""
    assert loss.is_meta
    loss.sum().backward()
    for name, parameter in made.named_parameters():
        assert parameter.is_meta
        assert not used(name) or parameter.grad is not None, name


def layout(causal: bool, lengths: bool, start: bool = False) -> Layout:
    where = torch.arange(STEPS, device=META)
    valid = torch.full((BATCH,), STEPS, device=META) if lengths else None
    return Layout(causal, torch.zeros_like(valid) if start and valid is not None else None, valid, where)


@pytest.mark.parametrize("lengths", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize(("name", "causal"), DIRECTIONS)
def test_every_mixer(name: str, causal: bool, lengths: bool) -> None:
    made, x = MIXERS[name].make().to(META).train(), vectors(BATCH, STEPS, D_MODEL)
    y = made(x, None, layout(causal, lengths)).y
    assert y.shape == x.shape
    backward(made, y)


@pytest.mark.parametrize("lengths", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("name", CAUSAL)
def test_every_mixer_with_carried_state(name: str, lengths: bool) -> None:
    made = MIXERS[name].make().to(META).train()
    state = made.init_state(BATCH)
    for _ in range(3):  # beyond the memories that mixers have here
        mixed = made(vectors(BATCH, STEPS, D_MODEL), detach(state), layout(True, lengths, start=True))
        state = mixed.state
    backward(made, mixed.y)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_hashing_in_windows(kind: str, dropout: float) -> None:
    made = LSHAttention(D_MODEL, 2, KINDS[kind], dropout=dropout).to(META).train()
    mixed = made(vectors(BATCH, STEPS, D_MODEL), None, layout(True, True))
    assert mixed.bucket_replay.is_meta
    backward(made, mixed.y)


@pytest.mark.parametrize("lengths", [False, True])
def test_packed_sequences_ask_once(lengths: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch)
    made = BidirectionalLSTM(D_MODEL).to(META)
    backward(made, made(vectors(BATCH, STEPS, D_MODEL), None, layout(False, lengths)).y)
    assert len(asked) == int(lengths)


Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]
SCORES: dict[str, Loss] = {
    "nll": lambda made, h, t: made.nll(h, t),
    "score": lambda made, h, t: made.score(h, t).smoothed(0.1, SIZE),
    "padded score": lambda made, h, t: made.padded_score(h, t, 0).smoothed(0.1, SIZE),
    "log_probs": lambda made, h, t: made.log_probs(h).gather(-1, t[..., None]),
}
VOCABULARIES = {
    "tied": partial(Vocabulary, D_MODEL, D_MODEL, SIZE),
    "in chunks": partial(Vocabulary, D_MODEL, D_MODEL, SIZE, tied=False, loss_chunk=7),
    "pixels": partial(PixelVocabulary, D_MODEL, D_MODEL, size=SIZE),
}
PAIRS = [(name, loss) for name in VOCABULARIES for loss in SCORES if name != "pixels" or "score" not in loss]


@pytest.mark.parametrize(("name", "loss"), PAIRS)
def test_every_vocabulary(name: str, loss: str) -> None:
    made, targets = VOCABULARIES[name]().to(META), ids(BATCH, STEPS)
    hidden = made.embed(targets) + vectors(BATCH, STEPS, D_MODEL)
    backward(made, SCORES[loss](made, hidden, targets))


@pytest.mark.parametrize("div_value", [1, 2])
@pytest.mark.parametrize("loss", ["nll", "log_probs"])
def test_clusters_ask_once_to_embed_and_once_to_score(
    div_value: int, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answers(monkeypatch)
    made, targets = AdaptiveVocabulary(D_MODEL, D_MODEL, SIZE, [5, 12], div_value).to(META), ids(BATCH, STEPS)
    hidden = made.embed(targets) + vectors(BATCH, STEPS, D_MODEL)
    backward(made, SCORES[loss](made, hidden, targets))
    assert len(asked) == (2 if loss == "nll" else 1)


def test_a_single_cluster_asks_nothing() -> None:
    made, targets = AdaptiveVocabulary(D_MODEL, D_MODEL, SIZE, []).to(META), ids(BATCH, STEPS)
    backward(made, made.nll(made.embed(targets), targets))


@pytest.mark.parametrize("made", [LinearHead(D_MODEL, SIZE), PerceptronHead(D_MODEL, SIZE, [7])])
def test_every_head(made: LinearHead) -> None:
    made.to(META)
    backward(made, made.score(vectors(BATCH, STEPS, D_MODEL), ids(BATCH, STEPS)).nll)


def test_ctc_asks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch)
    blocks = Blocks([partial(FullAttention, n_heads=2)], None, partial(PreNorm, dropout=0.0))
    net = Transcriber(partial(VectorEmbedding, size=5), Body(D_MODEL, 1, blocks, causal=False), SIZE).to(META)
    lengths = ids(BATCH)
    with ctc_backward():
        backward(net, net.head.nll(net(vectors(BATCH, STEPS, 5), lengths), lengths, ids(BATCH, 3)))
    assert isinstance(net.head, CtcHead)
    assert len(asked) == 1


HASHED = partial(LSHAttention, n_heads=2, hashing=Hashing(2, 4), dropout=0.1)


def blocks(mixer: Callable[[int], nn.Module], reversible: bool = False) -> Blocks:
    made = Blocks(
        [mixer],
        partial(FeedForward, d_ff=20, dropout=0.1, chunk=5),
        PreNorm,
        cross=partial(CrossAttention, n_heads=2, dropout=0.1),
        final_norm=nn.LayerNorm,
    )
    if reversible:
        made.stack = partial(ReversibleStack, join="mean")  # type: ignore[assignment]
    return made


def table(width: int) -> nn.Module:
    return AxialPositions(width, [4, 5], [width // 2, width - width // 2])


@pytest.mark.parametrize("reversible", [False, True], ids=["residual", "reversible"])
@pytest.mark.parametrize(
    "mixer", [HASHED, partial(FullAttention, n_heads=2, dropout=0.1)], ids=["lsh", "full"]
)
def test_a_language_model(mixer: Callable[[int], nn.Module], reversible: bool) -> None:
    made_of, positions = blocks(mixer, reversible), partial(Added, table=table)
    net = DecoderLM(D_MODEL, 2, partial(Vocabulary, size=SIZE), made_of, positions).to(META).train()
    read = ids(BATCH, STEPS)
    backward(net, net.vocabulary.nll(net(read, lengths=ids(BATCH)).y, read))


@pytest.mark.parametrize("reversible", [False, True], ids=["residual", "reversible"])
def test_an_encoder_decoder(reversible: bool) -> None:
    made_of = blocks(partial(FullAttention, n_heads=2, dropout=0.1), reversible)
    net = EncoderDecoder(D_MODEL, 1, 1, partial(Vocabulary, size=SIZE), made_of).to(META).train()
    target = ids(BATCH, STEPS)
    hidden = net(ids(BATCH, 9), ids(BATCH), target, ids(BATCH)).y
    backward(net, net.vocabulary.score(hidden, target).smoothed(0.1, SIZE))


@pytest.mark.parametrize("lengths", [None, ids(BATCH)], ids=["whole", "padded"])
def test_a_classifier(lengths: Tensor | None) -> None:
    positions = partial(Added, table=partial(LearnedPositions, max_length=STEPS))
    body = Body(D_MODEL, 2, blocks(partial(FullAttention, n_heads=2)), positions)
    net = Classifier(partial(PerceptronEmbedding, size=5, hidden=[7]), body, 4, n_read=2).to(META).train()
    logits = net(vectors(BATCH, STEPS, 5), lengths)
    assert logits.shape == (BATCH, 2, 4)
    backward(net, logits.logsumexp(-1))


class Planted(Stateless):
    """A mixer with a fault."""

    def __init__(self, d_model: int, fault: Callable[[Tensor], Tensor | float]) -> None:
        super().__init__()
        self.fault = fault

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        return MixerOutput(x * self.fault(x), state)


@pytest.mark.parametrize("fault", FAULTS)
def test_control_faults_show(fault: str) -> None:
    made_of = blocks(partial(Planted, fault=FAULTS[fault]))
    net = DecoderLM(D_MODEL, 1, partial(Vocabulary, size=SIZE), made_of)
    net(torch.zeros(BATCH, STEPS, dtype=torch.long))  # nobody notices on a CPU
    net.to(META)
    with pytest.raises(FAILURES), OneDevice():
        net(ids(BATCH, STEPS))


def test_only_three_files_ask() -> None:
    folder = Path(repro.nn.__file__).parent
    asking = {path.name for path in folder.rglob("*.py") if "host_ints(" in path.read_text()}
    assert asking == {"device.py", "bidirectional.py", "clusters.py", "ctc.py"}


def test_what_the_device_lacks() -> None:
    with device.without_autocast(META), device.autocast_as_now(META)():
        assert not device.autocast_is_on(META)
    assert device.seeded(META, 1) is None
    assert device.accelerator(META) is device.accelerator(torch.device("cpu")) is None
    states = device.RandomStates(META)
    first = torch.rand(3)
    states.restore()
    assert torch.equal(torch.rand(3), first)


def test_autocast_as_it_was() -> None:
    cpu = torch.device("cpu")
    with torch.autocast("cpu", torch.bfloat16):
        assert device.autocast_is_on(cpu)
        again = device.autocast_as_now(cpu)
        with device.without_autocast(cpu):
            assert not device.autocast_is_on(cpu)
    with again():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    with device.autocast_as_now(cpu)():
        assert not device.autocast_is_on(cpu)


def test_a_seeded_generator_draws_the_same_each_time() -> None:
    cpu = torch.device("cpu")
    both = [torch.rand(3, generator=device.seeded(cpu, 5)) for _ in range(2)]
    assert torch.equal(*both)
