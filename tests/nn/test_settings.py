"""Settings that travel with a call: what modules know, and that every way of calling hands them on."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from repro.models import Body, DecoderLM, EncoderDecoder
from repro.models.generate import continue_prompt
from repro.models.search import beam_search
from repro.nn import (
    Blocks,
    CrossAttention,
    FeedForward,
    FullAttention,
    Hashing,
    InfusedAttention,
    Layout,
    LinearAttention,
    LSHAttention,
    NoPositions,
    NormedLSTM,
    PreNorm,
    RelativeAttention,
    ReversibleStack,
    Vocabulary,
)
from repro.nn.settings import (
    AS_BUILT,
    CallSettings,
    MemorySettings,
    has_hashing,
    has_memory,
    has_memory_settings,
    rereads,
)

OTHER = CallSettings(MemorySettings(2), Hashing(0))


def test_what_a_model_knows() -> None:
    relative, infused = RelativeAttention(8, 2, mem_len=3), InfusedAttention(8, 2)
    hashed, full = LSHAttention(8, 2), FullAttention(8, 2)
    made = {"relative": relative, "infused": infused, "hashed": hashed, "full": full}
    assert {name for name, mixer in made.items() if has_memory(nn.ModuleList([mixer, full]))} == {"relative"}
    assert {n for n, mixer in made.items() if has_memory_settings(nn.Sequential(mixer))} == {
        "relative",
        "infused",
    }
    assert {name for name, mixer in made.items() if has_hashing(nn.Sequential(mixer))} == {"hashed"}


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (partial(RelativeAttention, n_heads=2, mem_len=5), True),
        (partial(InfusedAttention, n_heads=2), True),
        (partial(FeedForward, d_ff=12), True),  # no state
        (partial(InfusedAttention, n_heads=2, mem_len=5), False),
        (partial(LinearAttention, n_heads=2), False),
        (partial(FullAttention, n_heads=2), False),
        (NormedLSTM, False),
    ],
    ids=["relative", "infused", "none", "infused-memory", "linear", "full", "lstm"],
)
def test_no_state_may_hold_what_is_read_again(other: Any, expected: bool) -> None:
    nets = [as_built_with(memory) for memory in (3, 0)]
    for net in nets:
        net.stack.each()[1]["mix"].body = other(8)
    assert rereads(nets[0]) == expected
    assert rereads(nets[1]) or has_memory(nets[1])  # without a memory no state is carried


@pytest.mark.parametrize(
    ("arguments", "message"), [((-1,), "not -1"), ((3, 0), "not 0"), ((0, None, True), "mem_len")]
)
def test_lengths_that_cannot_be(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemorySettings(*arguments)


def model(mixer: object, stack: object = None) -> DecoderLM:
    torch.manual_seed(0)
    blocks = Blocks([mixer], partial(FeedForward, d_ff=12), partial(PreNorm, dropout=0.0))  # type: ignore[list-item]
    if stack is not None:
        blocks.stack = stack  # type: ignore[assignment]
    return DecoderLM(8, 2, partial(Vocabulary, size=11), blocks, NoPositions, dropout=0.0).eval()


def as_built_with(memory: int, stack: object = None) -> DecoderLM:
    return model(partial(RelativeAttention, n_heads=2, mem_len=memory), stack)


def fed(net: DecoderLM, settings: CallSettings, capacity: int | None) -> torch.Tensor:
    """Hidden states of three calls with carried state."""
    ids = torch.randint(11, (2, 12), generator=torch.Generator().manual_seed(1))
    state, result = net.init_state(2, capacity, settings), []
    for part in ids.split([6, 5, 1], dim=1):
        mixed = net(part, state, None, settings)
        state = mixed.state
        result.append(mixed.y)
    return torch.cat(result, dim=1)


@pytest.mark.parametrize("capacity", [None, 50])
@pytest.mark.parametrize(
    "stack", [None, partial(ReversibleStack, join="mean")], ids=["residual", "reversible"]
)
@torch.no_grad()
def test_a_call_with_settings_is_that_of_a_model_built_with_them(stack: object, capacity: int | None) -> None:
    expected = fed(as_built_with(2, stack), AS_BUILT, capacity)
    net = as_built_with(5, stack)
    assert torch.equal(fed(net, OTHER, capacity), expected)
    assert not torch.equal(fed(net, AS_BUILT, capacity), expected)  # and nothing stays behind


@torch.no_grad()
def test_hashing_of_a_call() -> None:
    net = model(partial(LSHAttention, n_heads=2, hashing=Hashing(1, 4)))
    exact = model(partial(LSHAttention, n_heads=2, hashing=Hashing(0)))
    ids = torch.randint(11, (1, 32), generator=torch.Generator().manual_seed(1))
    assert torch.equal(net(ids, settings=OTHER).y, exact(ids).y)
    assert not torch.equal(net(ids).y, exact(ids).y)
    state = net.init_state(1, 40, OTHER)
    assert "rotations" not in state["stream"]["mix"][0]
    assert torch.allclose(net.decode(ids, state, None, OTHER).y, exact(ids).y, atol=1e-5)


@torch.no_grad()
def test_a_body_hands_them_on() -> None:
    blocks = Blocks([partial(LSHAttention, n_heads=2, hashing=Hashing(1, 4))], None)
    body = Body(8, 1, blocks, NoPositions, dropout=0.0).eval()
    x = torch.randn(1, 32, 8)
    assert not torch.equal(body(x), body(x, settings=OTHER))
    assert torch.equal(body(x, settings=OTHER), body(x, settings=OTHER))  # exact: nothing is drawn


@pytest.mark.parametrize("search", [None, partial(beam_search, beam=2)], ids=["greedy", "beam"])
def test_prompts_are_read_and_continued_under_them(search: partial[object] | None) -> None:
    prompts, bound = [[3, 4, 5, 6, 7], [1, 2]], {} if search is None else {"search": search}
    expected = continue_prompt(as_built_with(2), prompts, 8, **bound)  # type: ignore[arg-type]
    net = as_built_with(30)
    assert continue_prompt(net, prompts, 8, settings=OTHER, **bound) == expected  # type: ignore[arg-type]
    assert continue_prompt(net, prompts, 8, **bound) != expected  # type: ignore[arg-type]


@torch.no_grad()
def test_training_of_a_reversible_stack_recomputes_under_them() -> None:
    grads = []
    for net, settings in ((as_built(Hashing(1, 4)), OTHER), (as_built(Hashing(0)), AS_BUILT)):
        with torch.enable_grad():
            ids = torch.randint(11, (1, 32), generator=torch.Generator().manual_seed(1))
            net.train()(ids, settings=settings).y.square().sum().backward()
        grads.append([p.grad for p in net.parameters() if p.grad is not None])
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def as_built(hashing: Hashing) -> DecoderLM:
    return model(partial(LSHAttention, n_heads=2, hashing=hashing), partial(ReversibleStack, join="mean"))


@torch.no_grad()
def test_both_stacks_of_an_encoder_decoder_are_told() -> None:
    hashed, exact = (partial(LSHAttention, n_heads=2, hashing=one) for one in (Hashing(1, 4), Hashing(0)))
    ids = torch.randint(11, (1, 32), generator=torch.Generator().manual_seed(1))
    nets = []
    for mixer in (hashed, exact):
        torch.manual_seed(0)
        blocks = Blocks(
            [mixer], None, partial(PreNorm, dropout=0.0), cross=partial(CrossAttention, n_heads=2)
        )
        nets.append(EncoderDecoder(8, 1, 1, partial(Vocabulary, size=11), blocks, NoPositions).eval())
    net, expected = nets[0], nets[1](ids, None, ids).y
    assert torch.equal(net(ids, None, ids, settings=OTHER).y, expected)
    state = net.start(ids, None, capacity=40, settings=OTHER)
    assert torch.allclose(net.decode(ids, state, None, OTHER).y, expected, atol=1e-5)


def test_a_layout_has_none_unless_it_is_said() -> None:
    assert Layout(True).settings == CallSettings(None, None)
