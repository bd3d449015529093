"""Greedy decoding and beam search of the base Transformer, 8 sources of 32 tokens, 32 new tokens, no early end.

All codes have the same weights and keep keys and values; the tokens that they find must be equal. `anew` is ours
without a state: it computes the whole target prefix again for each token.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness import Workload, size
from benchmarks.workloads import translators
from benchmarks.workloads.translators import BOS, EOS, VOCAB, Words
from repro.models import EncoderDecoder
from repro.models.sampling import greedy
from repro.models.search import beam_search
from repro.nn import MixerOutput, State

BATCH, SOURCE, STEPS, ALPHA = size(8), size(32), size(32, 2), 0.6


class Anew:
    """A decoder without carried state: its stream is the ids so far."""

    def __init__(self, model: EncoderDecoder) -> None:
        self.model, self.vocabulary = model, model.vocabulary

    def modules(self) -> Iterator[nn.Module]:
        return self.model.modules()

    def start(self, source: Tensor, lengths: None, capacity: int) -> State:
        memory = self.model.start(source, None)["memory"]
        return {"stream": {"ids": source.new_zeros(source.shape[0], 0)}, "memory": memory}

    def decode(self, ids: Tensor, state: State, lengths: Tensor | None = None) -> MixerOutput:
        prefix = torch.cat([state["stream"]["ids"], ids], dim=1)
        start = {"start": torch.zeros_like(prefix[:, 0]), **self.model.decoder.init_state(prefix.shape[0])}
        y = self.model.decode(prefix, {"stream": start, "memory": state["memory"]}).y
        return MixerOutput(y[:, -1:], {"stream": {"ids": prefix}, "memory": state["memory"]})


def source() -> Tensor:
    """Ids ``(B, S)``."""
    return torch.randint(3, VOCAB, (BATCH, SOURCE), generator=torch.Generator().manual_seed(1))


def ours(beam: int, anew: bool = False) -> Callable[[], Tensor]:
    """This library."""
    model: Any = translators.ours(0.0).eval()
    model, ids = Anew(model) if anew else model, source()

    def run() -> Tensor:
        with torch.inference_mode():
            state = model.start(ids, None, capacity=STEPS)
        first = torch.full((BATCH,), BOS)
        if beam == 1:
            return greedy(model, state, first, STEPS, None).ids
        return beam_search(model, state, first, STEPS, None, beam, ALPHA).ids

    return run


def marian(beam: int) -> Callable[[], Tensor]:
    """`transformers`."""
    model = translators.marian(0.0).eval()
    options = {"num_beams": beam, "max_new_tokens": STEPS, "do_sample": False}
    if beam > 1:
        options["length_penalty"] = ALPHA
    return lambda: model.generate(source(), **options)[:, 1:]


def fairseq(beam: int) -> Callable[[], Tensor]:
    """Its ``SequenceGenerator``; the end symbol, which it requires, is forbidden until the last place."""
    model = translators.fairseq(0.0).eval()
    from fairseq.sequence_generator import SequenceGenerator

    search = SequenceGenerator(
        [model], Words(), beam, max_len_b=STEPS, max_len=512, min_len=STEPS, len_penalty=ALPHA, eos=EOS
    )
    given = {"src_tokens": source(), "src_lengths": torch.full((BATCH,), SOURCE)}

    def run() -> Tensor:
        best = search.generate([model], {"net_input": given}, bos_token=BOS)
        return torch.stack([each[0]["tokens"][:STEPS] for each in best])

    return run


def sides(beam: int) -> dict[str, Callable[[], Any]]:
    """The codes."""
    makers = {"ours": ours, "Marian": marian, "fairseq": fairseq}
    return {name: partial(make, beam) for name, make in makers.items()}


WORKLOADS = [
    Workload(
        "decoding, greedy", sides(1) | {"ours, anew": partial(ours, 1, anew=True)}, "ms a step", STEPS, 0.0
    ),
    # fairseq adds the score of the end symbol that it requires
    Workload("decoding, beam 4", sides(4), "ms a step", STEPS, 0.0, ("Marian",)),
]
