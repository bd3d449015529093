"""Small models of conversations, with and without a memory, and the plain loop over single rows."""

from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from repro.batches import ExampleBatch, Examples
from repro.data.sets.dialogue.dialogue_data import GeneratedDialogueData, Talk
from repro.models import DecoderLM
from repro.nn import (
    Added,
    Blocks,
    ContinuousMemory,
    ContinuousSignal,
    FeedForward,
    FullAttention,
    LearnedPositions,
    PreNorm,
)
from repro.nn.settings import CallSettings
from repro.nn.vocabularies.typed import TypedVocabulary
from repro.tasks import Constant, DialogueModel
from repro.tasks.language.replies import Generation, Ids

WINDOW, EVAL = 8, 5
TALK = Talk(sections=3, section_words=3, topics=3, topic_words=2, questions=3, answer_words=2)
DOC = 4 + 3 + 6
IDS = Ids(0, 1, 2, DOC)
HOW = Generation(max_new=4, history=1, synonyms=False)
MEMORIES = [False, True]


def data(**changes: Any) -> GeneratedDialogueData:
    sizes = {"batch_size": 4, "window": WINDOW, "talk": TALK, "score_all": True, "eval_batch_size": 2}
    return GeneratedDialogueData(**(sizes | {"train_examples": 8, "eval_examples": EVAL} | changes))


def network(memory: bool, dropout: float = 0.0) -> DecoderLM:
    torch.manual_seed(2)
    mixer = partial(FullAttention, n_heads=2)
    if memory:
        signal = ContinuousSignal(8, (0.05, 0.1), 0.3, 0.5, samples=6, bins=5, kl_weight=0.01, normed=True)
        mixer = partial(ContinuousMemory, short_term=mixer, block=WINDOW, signal=signal)
    blocks = Blocks([mixer], partial(FeedForward, d_ff=12), partial(PreNorm, dropout=dropout))
    positions = partial(Added, table=partial(LearnedPositions, max_length=WINDOW), restart=True)
    vocabulary = partial(TypedVocabulary, size=DOC + 3, scaled=False)
    net = DecoderLM(8, 2, vocabulary, blocks, positions, dropout=dropout)
    for parameter in net.parameters():  # far from uniform, so that what is seen shows
        parameter.data.mul_(2.0)
    return net.double()


def task(net: DecoderLM, how: Generation | None = HOW) -> DialogueModel:
    return DialogueModel(net, partial(torch.optim.SGD, lr=0.05), Constant, how)


def cuts(length: int) -> list[slice]:
    """The blocks of a row, from its end."""
    edges = [0, *range(length % WINDOW or WINDOW, length + 1, WINDOW)]
    return [slice(a, b) for a, b in pairwise(edges)]


def by_hand(net: DecoderLM, row: Tensor, memory: bool, step: int = 0) -> tuple[Tensor, Tensor]:
    """Hidden states ``(T, D)`` of one row of ids, block after block, and the auxiliary loss."""
    types, mark = [], int(row[0])
    for token in row.tolist():
        mark = token if token >= DOC else mark
        types.append(mark)
    pairs = torch.stack([row, torch.tensor(types)], -1)[None]
    hidden, losses, state = [], [], None
    settings = CallSettings(first_draw=step << 20)
    if memory:
        state = net.init_state(1)
        padding = torch.zeros(1, -len(row) % WINDOW, 2, dtype=torch.long)
        with torch.no_grad():
            state = net(padding, state, None, settings).state if padding.shape[1] else state
    for block in cuts(len(row)):
        mixed = net(pairs[:, block], state, None, settings)
        state = detached(mixed.state)
        hidden.append(mixed.y[0])
        losses.append(torch.zeros(()) if mixed.aux is None else mixed.aux[0])
    return torch.cat(hidden), torch.stack(losses).mean()


def detached(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: detached(value) for key, value in state.items()}
    if isinstance(state, tuple | list):
        return type(state)(map(detached, state))
    return state if state is None else state.detach()


def ragged() -> tuple[Tensor, Tensor]:
    """Rows of several lengths, and these: whole blocks, one token more, less than a block."""
    ids, lengths = (
        data().examples("test", torch.arange(4).numpy(), None).inputs,
        torch.tensor([24, 17, 5, 28]),
    )
    assert ids.shape[1] >= 28
    ids = ids[:, :28].clone()
    ids[torch.arange(28) >= lengths[:, None]] = 0
    return ids, lengths


def batches() -> list[ExampleBatch]:
    return list(data().train_dataloader())


def alone(net: DecoderLM, examples: Examples, memory: bool, step: int = 0) -> tuple[Tensor, Tensor]:
    """Summed losses of the targets that count, and the mean auxiliary loss, a row at a time."""
    total, auxes = torch.zeros((), dtype=torch.float64), []
    for row, targets in zip(examples.inputs, examples.targets, strict=True):
        hidden, aux = by_hand(net, row, memory, step)
        counts = targets >= 0
        logits = net.vocabulary.logits(hidden[counts])
        total = total + nn.functional.cross_entropy(logits, targets[counts], reduction="sum")
        auxes.append(aux)
    return total, torch.stack(auxes).mean()
