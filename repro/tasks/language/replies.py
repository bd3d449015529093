"""Replies of a model of conversations to each turn, by nucleus sampling."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from repro.models.decodable import evaluating
from repro.models.decoder_lm import DecoderLM
from repro.models.sampling import sample
from repro.nn.mixer import MixerOutput, State
from repro.tasks.language.reading import BlockPositions, empty_memory, read_blocks, token_types


@dataclass(frozen=True)
class Generation:
    """Settings with which replies are sampled and compared.

    Args:
        top_p: mass of the nucleus, in (0, 1].
        temperature: divides the log-probabilities, above 0.
        max_new: most tokens of a reply.
        history: number of earlier utterances that a reply needs, at least 0.
        synonyms: METEOR matches synonyms, from WordNet on disk.

    Raises:
        ValueError: a number out of range.
    """

    top_p: float = 0.9
    temperature: float = 1.0
    max_new: int = 50
    history: int = 2
    synonyms: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature must be above 0 and finite, not {self.temperature}")
        if self.max_new < 1 or self.history < 0:
            raise ValueError(
                f"max_new must be at least 1, not {self.max_new}, and history at least 0, not {self.history}"
            )


class Ids(NamedTuple):
    """Ids with a meaning.

    Attributes:
        pad: padding, never drawn.
        bos: begin symbol, never drawn.
        eos: end of a document; stands for the end of a reply.
        doc: the lowest of the marks, which are the highest ids. A reply ends where a mark would come.
    """

    pad: int
    bos: int
    eos: int
    doc: int


class Turn(NamedTuple):
    """An utterance of a conversation: the row up to its speaker's mark, and its tokens."""

    before: list[int]
    tokens: list[int]


def turns(row: list[int], doc: int, history: int) -> list[Turn]:
    """The utterances of a whole row that have at least ``history`` others in front of them."""
    marks = [place for place, token in enumerate(row) if token > doc]
    ends = [*marks[1:], len(row)]
    listed = [Turn(row[: place + 1], row[place + 1 : end]) for place, end in zip(marks, ends, strict=True)]
    return listed[history:]


class _Speaker:
    """The model for sampling: a network that reads the last block of each row again for every token.

    A drawn token has exactly the distribution of training, whatever the mixers are. The hidden states are
    log-probabilities already, with all ends of a reply in one symbol that is impossible at the first token.
    """

    def __init__(self, net: DecoderLM, ids: Ids) -> None:
        self.net, self.ids = net, ids
        self.vocabulary = self

    def log_probs(self, hidden: Tensor) -> Tensor:
        return hidden

    def modules(self) -> Iterator[nn.Module]:
        return self.net.modules()

    def decode(self, ids: Tensor, state: State, lengths: Tensor | None = None) -> MixerOutput:
        now = state["stream"]
        rows, length = torch.arange(len(ids), device=ids.device), now["length"]
        block = now["block"].index_put((rows, length), torch.stack([ids[:, 0], now["speaker"]], -1))
        y = self.net(block, now["memory"], length + 1).y[rows, length]
        log_probs = self._replies(self.net.vocabulary.log_probs(y), now["length"] == now["first"])
        stream = {**now, "block": block, "length": length + 1}
        return MixerOutput(log_probs[:, None], {"stream": stream, "memory": {}})

    def _replies(self, log_probs: Tensor, first: Tensor) -> Tensor:
        """Log-probabilities ``(R, V)`` of the next token, where a reply may not end at its ``first (R,)`` token."""
        pad, bos, eos, doc = self.ids
        end = torch.cat([log_probs[:, eos, None], log_probs[:, doc:]], -1).logsumexp(-1)
        scores = log_probs.clone()
        scores[:, [pad, bos]] = -torch.inf
        scores[:, doc:] = -torch.inf
        scores[:, eos] = end.masked_fill(first, -torch.inf)
        return scores


def replies(
    net: DecoderLM,
    rows: list[list[int]],
    ids: Ids,
    window: int,
    remembers: bool,
    generation: Generation,
    seed: tuple[int, int],
) -> list[list[int]]:
    """A reply to each of some rows, without the end symbol.

    A row and the longest reply to it are cut into blocks together, from their end.

    Args:
        net: in any mode; dropout is off meanwhile.
        rows: token ids up to the mark of the next speaker.
        ids: with a meaning.
        window: tokens of a block, more than ``generation.max_new``.
        remembers: whether the network has a memory.
        generation: settings of the sampling.
        seed: run and conversation: the reply to row i depends on these and on i, not on how many rows there are.
    """
    if not rows:
        return []
    padded, lengths = _padded(rows, ids.pad, next(net.parameters()).device)
    typed = torch.stack([padded, token_types(padded, ids.doc)], -1)
    last = padded.gather(1, lengths[:, None])[:, 0]
    cut = BlockPositions.from_lengths(
        lengths + generation.max_new, padded.shape[1] - 1 + generation.max_new, window
    )
    earlier = BlockPositions(cut.begins[:, :-1], cut.sizes[:, :-1], window)
    speaker, begins = _Speaker(net, ids), cut.begins[:, -1]
    with evaluating(speaker):
        memory = empty_memory(net, typed, cut, ids.pad) if remembers else None
        if remembers and earlier.sizes.shape[1]:
            memory = read_blocks(net, typed, earlier, True, ids.pad, memory=memory).state
        stream = {
            "block": cut.take(typed)[:, -1], "length": lengths - begins, "first": lengths - begins,
            "speaker": last, "memory": memory,
        }  # fmt: skip
        state = {"stream": stream, "memory": {}}
        search = partial(
            sample, temperature=generation.temperature, top_p=generation.top_p, generator=_generator(seed)
        )
        drawn = search(speaker, state, last, generation.max_new, ids.eos)
    pairs = zip(drawn.ids.tolist(), drawn.lengths.tolist(), strict=True)
    return [[token for token in row[:length] if token != ids.eos] for row, length in pairs]


def _padded(rows: list[list[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows filled up to the longest, ``(B, T)``, and the place of the last token of each, ``(B,)``."""
    longest = max(map(len, rows))
    padded = [[*row, *[pad] * (longest - len(row))] for row in rows]
    places = [len(row) - 1 for row in rows]
    return torch.tensor(padded, device=device), torch.tensor(places, device=device)


def _generator(seed: tuple[int, int]) -> torch.Generator:
    """Random numbers of the replies of one conversation in one run."""
    return torch.Generator().manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
