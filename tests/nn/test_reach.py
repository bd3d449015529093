"""Another reach for as long as a protocol wants it."""

import pytest
from torch import nn

from repro.nn import InfusedAttention, RelativeAttention
from repro.nn.reach import Reach, reaching


def mixers() -> nn.ModuleList:
    return nn.ModuleList(
        [RelativeAttention(8, 2, mem_len=3), nn.Linear(8, 8), InfusedAttention(8, 2, mem_len=5)]
    )


def test_every_mixer_with_a_memory_is_reached_and_gets_its_own_back() -> None:
    model = mixers()
    with reaching(model, Reach(7, clamp_len=4, same_length=True)):
        assert model[0].reach == model[2].reach == Reach(7, 4, True)
    assert (model[0].reach, model[2].reach) == (Reach(3), Reach(5))


def test_its_own_comes_back_after_a_failure_too() -> None:
    model = mixers()
    with pytest.raises(KeyError), reaching(model, Reach(7)):
        raise KeyError
    assert model[0].reach == Reach(3)


def test_none_changes_nothing() -> None:
    model = mixers()
    with reaching(model, None):
        assert model[0].reach == Reach(3)


def test_a_memory_needs_a_mixer_that_has_one() -> None:
    with (
        pytest.raises(ValueError, match="mem_len 4 is asked for, but no mixer"),
        reaching(nn.Linear(2, 2), Reach(4)),
    ):
        pass
    with reaching(nn.Linear(2, 2), Reach(0)):
        pass


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((-1,), "mem_len must be at least 0, not -1"), ((3, 0), "clamp_len must be at least 1, not 0"),
     ((0, None, True), "mem_len must be at least 1")],
)  # fmt: skip
def test_lengths_that_cannot_be(arguments: tuple[int, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Reach(*arguments)
