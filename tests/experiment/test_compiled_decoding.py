"""Compiled decoding gives the tokens of eager decoding, with few graphs; what cannot be compiled is refused."""

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from repro.errors import UserError
from repro.experiment import compiling
from repro.experiment.compiling import compile_decoding
from repro.experiment.pictures.attention import attention_sheet
from repro.models import DecoderLM
from repro.models.generate import Hypotheses, continue_prompt, translate
from repro.nn import (
    Blocks,
    FeedForward,
    FullAttention,
    LinearAttention,
    LSHAttention,
    RelativeAttention,
    Vocabulary,
)
from repro.nn.packed import LEAST_NUMBERS, LEAST_STEPS, packed
from tests.experiment.test_compiling import Graphs
from tests.models.tiny import translator

PROMPTS = [[3, 5, 2], [7], [1, 1, 4, 6]]
NEW = 30
MIXERS: dict[str, Any] = {
    "full": partial(FullAttention, n_heads=2),
    "linear": partial(LinearAttention, n_heads=2),
    "relative": partial(RelativeAttention, n_heads=2, mem_len=8),
}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def language_model(mixer: Any) -> DecoderLM:
    torch.manual_seed(0)
    blocks = Blocks(mixers=[mixer], feed_forward=partial(FeedForward, d_ff=16))
    return DecoderLM(8, 2, partial(Vocabulary, size=11), blocks).double()


@pytest.mark.parametrize("name", MIXERS)
def test_tokens_are_those_of_eager_decoding(name: str) -> None:
    model, backend = language_model(MIXERS[name]), Graphs()
    expected = continue_prompt(model, PROMPTS, NEW)
    compile_decoding(model, backend)
    require_equal(continue_prompt(model, PROMPTS, NEW), expected)
    made = backend.count
    assert 0 < made <= 4  # the prompt and a token
    require_equal(continue_prompt(model, PROMPTS, NEW), expected)
    assert backend.count == made


def test_translations_are_those_of_eager_decoding() -> None:
    model, backend = translator(12), Graphs()
    source, lengths = torch.randint(4, 12, (3, 6)), torch.tensor([6, 3, 5])
    search = partial(translate, model, source, lengths, 1, 2, 0, beam=3, max_extra=10)
    expected = search()
    compile_decoding(model, backend)
    require_equal(search(), expected)
    assert backend.count > 1


def test_attention_is_drawn_eagerly() -> None:
    """Weights that are captured are no graph's outputs."""
    model, backend = translator(12), Graphs()
    ids = [4, 5, 6], [7, 8]
    symbols: Any = SimpleNamespace(decode=lambda ids: str(ids), bos_id=1, eos_id=2, pad_id=0)
    expected = attention_sheet(model, symbols, *ids)
    compile_decoding(model, backend)
    assert attention_sheet(model, symbols, *ids) == expected
    assert backend.count == 0


def require_equal(got: Hypotheses, expected: Hypotheses) -> None:
    assert got.ids == expected.ids
    assert got.scores == pytest.approx(expected.scores, rel=1e-9)


def test_compiled_layers_are_not_laid_out_anew() -> None:
    net = nn.ModuleDict({"compiled": nn.Linear(256, LEAST_NUMBERS // 256), "plain": nn.Linear(256, 256)})
    net["compiled"].compile(backend=Graphs())
    with packed(net.modules(), LEAST_STEPS):
        assert ["forward" in vars(net[name]) for name in net] == [False, True]


def test_what_would_run_eagerly_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = language_model(partial(LSHAttention, n_heads=2))
    with pytest.raises(UserError, match="--compile: LSHAttention runs eagerly, since"):
        compile_decoding(model)
    monkeypatch.setattr(compiling, "which", lambda _: None)
    with pytest.raises(UserError, match=r"compile: no C\+\+ compiler"):
        compile_decoding(language_model(MIXERS["full"]))
