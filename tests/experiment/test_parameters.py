"""Parameter counts: shared ones once, and what is said of a difference."""

import pytest

from repro.experiment.parameters import count, describe, unit_of
from repro.paths import PROJECT
from repro.recipe import load_recipe


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    monkeypatch.setenv("REPRO_RESULTS", str(PROJECT / "results"))


def test_what_layers_share_counts_once_in_every_sum() -> None:
    counted = count(load_recipe("transformer-xl/enwik8-12l"))
    layers, width, heads, ff, size = 12, 512, 8 * 64, 2048, 204
    layer = 5 * width * heads + 2 * width * ff + ff + width + 4 * width
    assert counted["total"] == layers * layer + size * (width + 1) + 2 * heads, "u and v are there once"
    assert sum(counted["parts"].values()) == sum(counted["kinds"].values()) == counted["total"]


@pytest.mark.parametrize(
    ("experiment", "said"),
    [
        ("transformer-xl/enwik8-12l", "equal to the printed count within its rounding"),
        ("transformer-xl/wt103-large", "the header of the recipe says why"),
        ("attention-is-all-you-need/base", "a vocabulary of about 40,745"),
    ],
)
def test_a_difference_is_explained(experiment: str, said: str) -> None:
    assert said in describe(count(load_recipe(experiment)))


def test_the_unit_of_a_printed_count() -> None:
    assert [unit_of(n) for n in (65_000_000, 41_100_000, 123)] == [10**6, 10**5, 1]
