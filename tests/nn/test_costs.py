"""Costs of the linear-time mixers: counted multiply-adds equal formulas that are linear in the length."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.nn import Hashing, Layout, LinearAttention, LSHAttention
from repro.nn.attention.full import spelled_out
from repro.nn.attention.hashed.hashing import factors
from repro.tasks.costs.operations import OperationCounter, flops_in

ROWS, HEADS, E, CHUNK = 2, 2, 8, 16
D_MODEL = HEADS * E
LENGTHS = [512, 1024, 4096]


def counted(work: Callable[[], Any]) -> int:
    """Multiply-adds of all matrix products; a flop is half of one."""
    with OperationCounter() as counter:
        work()
    flops = flops_in(counter.operations)
    assert flops % 2 == 0
    return flops // 2


def both_ways(mixer: nn.Module, steps: int) -> tuple[int, int]:
    """Multiply-adds of a forward pass, and of the pass back to input and weights."""
    x = torch.randn(ROWS, steps, D_MODEL).requires_grad_()
    outputs: list[Tensor] = []
    there = counted(lambda: outputs.append(mixer(x, None, Layout(True)).y))
    return there, counted(lambda: outputs[0].sum().backward())


def projections(steps: int, per_token: int) -> tuple[int, int]:
    """Multiply-adds of ``per_token`` weights on every token: once forward, twice backward."""
    once = ROWS * steps * per_token
    return once, 2 * once


def linear_formula(steps: int, chunk: int) -> tuple[int, int]:
    """Weights within a chunk, sums of each chunk, running sums over 16 chunks at a time; a value has a 1 behind it."""
    tokens = ROWS * HEADS * steps
    running = 16 * E * (E + 1)  # one of n · n products for each chunk and each number of s and z
    there = tokens * (chunk * (2 * E + 1) + 2 * E * (E + 1)) + tokens // chunk * running
    back = tokens * (chunk * (5 * E + 2) + 5 * E * (E + 1)) + 2 * (tokens // chunk) * running
    once, twice = projections(steps, 4 * D_MODEL * D_MODEL)
    return there + once, back + twice


def lsh_formula(steps: int, rounds: int, buckets: int) -> tuple[int, int]:
    """Every query of every round sees two chunks."""
    tokens = ROWS * HEADS * steps * rounds
    there = tokens * 2 * CHUNK * 2 * E + tokens * E * sum(factors(buckets)) // 2
    back = tokens * 2 * CHUNK * 5 * E
    once, twice = projections(steps, 3 * D_MODEL * D_MODEL)
    return there + once, back + twice


@pytest.mark.parametrize("chunk", [CHUNK, 32])
@pytest.mark.parametrize("steps", LENGTHS)
def test_linear_attention_costs_what_the_formula_says(steps: int, chunk: int) -> None:
    mixer = LinearAttention(D_MODEL, HEADS, chunk=chunk)
    assert both_ways(mixer, steps) == linear_formula(steps, chunk)


def test_a_token_more_than_a_chunk_does_not_cost_a_whole_one() -> None:
    mixer = LinearAttention(D_MODEL, HEADS, chunk=32)
    assert both_ways(mixer, 33)[0] < both_ways(mixer, 32)[0]  # two chunks of 17


@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize("steps", LENGTHS)
def test_hashed_attention_costs_what_the_formula_says(steps: int, rounds: int) -> None:
    mixer = LSHAttention(D_MODEL, HEADS, Hashing(rounds, CHUNK, buckets=64))
    assert both_ways(mixer, steps) == lsh_formula(steps, rounds, 64)


def test_the_formulas_are_linear_in_the_length_and_exact_attention_is_not() -> None:
    for formula in (lambda n: linear_formula(n, CHUNK), lambda n: lsh_formula(n, 4, 64)):
        per_token = {tuple(part / n for part in formula(n)) for n in LENGTHS}  # type: ignore[no-untyped-call]
        assert len(per_token) == 1
    q = torch.randn(1, 1, 1024, E)
    exact = [counted(lambda: spelled_out(*[q[:, :, :n]] * 3, None, True, 0.0)) for n in (512, 1024)]  # noqa: B023
    assert exact == [512**2 * 2 * E, 1024**2 * 2 * E]


def test_hashing_into_two_buckets_a_chunk_grows_as_the_root_of_the_length() -> None:
    """Rotations have a column for two buckets: few compared with a window, once the hash has two factors."""
    columns = {steps: sum(factors(Hashing(1, 64).count(steps))) // 2 for steps in (2**12, 2**14, 2**16)}
    assert columns == {2**12: 64, 2**14: 24, 2**16: 48}


@torch.no_grad()
def test_a_generated_token_costs_the_same_at_every_place() -> None:
    mixer = LinearAttention(D_MODEL, HEADS)
    state, token, costs = mixer.init_state(ROWS, 1), torch.randn(ROWS, 1, D_MODEL), set()

    def step(state: Any) -> Any:
        return mixer(token, state, Layout(True)).state

    for _ in range(20):
        costs.add(counted(lambda: step(state)))  # noqa: B023
        state = step(state)
    once, _ = projections(1, 4 * D_MODEL * D_MODEL)
    assert costs == {once + ROWS * HEADS * (E * E + E)}
