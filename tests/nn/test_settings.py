"""Settings come back, whatever happens meanwhile."""

from typing import Any

import pytest
from torch import nn

from repro.nn.settings import having, replaced


def model() -> Any:
    made = nn.Sequential(nn.LayerNorm(2), nn.Linear(2, 2), nn.LayerNorm(2, eps=0.5))
    made[1].eps = "no number"  # type: ignore[assignment]
    return made


def test_modules_are_found_by_name_and_kind() -> None:
    made = model()
    assert having(made, "eps", float) == [made[0], made[2]]
    assert having(made, "nothing", float) == []


def test_each_gets_its_own_value_back() -> None:
    made = model()
    with replaced(having(made, "eps", float), "eps", 7.0):
        assert [made[0].eps, made[1].eps, made[2].eps] == [7.0, "no number", 7.0]
    assert [made[0].eps, made[2].eps] == [1e-5, 0.5]


def test_also_behind_an_error() -> None:
    made = model()
    with pytest.raises(RuntimeError), replaced([made[2]], "eps", 7.0):
        raise RuntimeError
    assert made[2].eps == 0.5
