"""Training ends early by its rule."""

import math

import pytest

from repro.training.callbacks import Curves
from repro.training.early_stop import EarlyStop, StopRule
from tests.tasks.toy import train


def last_step(rule: StopRule, values: list[float]) -> int:
    """The last of 8 updates, each validated to one of these values."""
    curves = Curves()

    class Values(Curves):
        def on_validation_end(self, trainer, pl_module):  # type: ignore[no-untyped-def]
            step = trainer.global_step
            curves._keep(step, {"val/loss": values[step - 1]})

    return train([Values(), EarlyStop(rule, curves)], steps=8, val_check_interval=1).global_step


@pytest.mark.parametrize(
    ("validations", "values", "step"),
    [
        (1, [0, 1, 2, 0, 0, 0, 0, 0], 3),
        (2, [2, 0, 3, 2, 0, 0, 0, 0], 4),
        (3, [2, 2, 0, 2, 2, 0, 2, 2], 8),
        (3, [0, 0, 0, 0, 0, 2, 2, 2], 8),
    ],
)
def test_training_ends_where_enough_validations_in_a_row_are_good(
    validations: int, values: list[float], step: int
) -> None:
    assert last_step(StopRule("val/loss", 2.0, validations), values) == step


@pytest.mark.parametrize(
    ("patience", "values", "step"),
    [
        (1, [5, 4, 4, 0, 0, 0, 0, 0], 3),  # an equal value is no improvement
        (2, [5, 4, 6, 3, 4, 3, 0, 0], 6),
        (3, [5, 6, 6, 4, 6, 6, 3, 9], 8),
        (7, [1, 2, 2, 2, 2, 2, 2, 2], 8),
        (2, [math.nan, 6, 5, 4, 5, math.nan, 0, 0], 6),  # what is no number is no best one
    ],
)
def test_training_ends_where_it_no_longer_improves(patience: int, values: list[float], step: int) -> None:
    assert last_step(StopRule("val/loss", patience=patience), values) == step


@pytest.mark.parametrize("values", [[95.0, math.nan], [math.nan, 95.0]])
def test_a_validation_that_is_no_number_is_not_good(values: list[float]) -> None:
    assert not StopRule("val/accuracy", at_least=90.0, validations=2).is_met(values)


def test_a_rule_without_a_validation_is_refused() -> None:
    with pytest.raises(ValueError, match="0"):
        StopRule("val/accuracy", 99.9, 0)
    with pytest.raises(ValueError, match="patience"):
        StopRule("val/loss", patience=0)


def test_a_rule_has_one_reason_to_stop() -> None:
    with pytest.raises(ValueError, match=r"stop\.validations 7 goes with at_least"):
        StopRule("val/loss", patience=3, validations=7)
    for rule in ({}, {"at_least": 1.0, "patience": 2}):
        with pytest.raises(ValueError, match="at_least"):
            StopRule("val/loss", **rule)
