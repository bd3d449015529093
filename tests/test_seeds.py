"""Seeds as they are typed and declared; those of every recipe of the project."""

import pytest

from repro.errors import UserError
from repro.recipe import experiments, load_recipe, scales_of
from repro.seeds import JUDGED, SeedChoice, parse_seeds, show_ranges, unjudged
from tests.workshop import PROJECT


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("11-15", (11, 12, 13, 14, 15)),
        ("101-103", (101, 102, 103)),
        ("1-3,7", (1, 2, 3, 7)),
        ("7, 1-2", (7, 1, 2)),
        ("7", (7,)),
        ("7-7", (7,)),
        ("0-1", (0, 1)),
        ("4294967295", (2**32 - 1,)),
    ],
)
def test_ranges_and_lists(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds
    assert parse_seeds(show_ranges(seeds)) == seeds


@pytest.mark.parametrize(
    "text",
    ["15-11", "1-3,2", "7,7", "-1", "1-", "-", "", ",", "1,,2", "1--3", "1-2-3", "one", "1.5", "1e3", "\uff13", "0x1",
     "4294967296,1", "1-99999", "9" * 5000, "1-6000,6001-12000", "!"],
)  # fmt: skip
def test_what_names_no_seeds_is_refused(text: str) -> None:
    for read in (parse_seeds, SeedChoice.parse):
        with pytest.raises(UserError) as caught:
            read(text)
        assert repr(text) in str(caught.value)


def test_a_plain_number_is_a_count_of_judged_seeds() -> None:
    assert SeedChoice.parse("1").select(JUDGED) == (1,)
    choice = SeedChoice.parse("3")
    assert choice.select(JUDGED) == (1, 2, 3)
    assert choice.select((11, 12, 13, 14)) == (11, 12, 13)
    assert choice.select((11, 12)) == (11, 12)
    for text in ("0", "00"):
        with pytest.raises(UserError, match=f"not {text}$"):
            SeedChoice.parse(text)
    with pytest.raises(UserError, match="write 101-101 for seed 101"):  # which is none of judged seeds
        SeedChoice.parse("101")


def test_named_seeds_do_not_depend_on_the_recipe() -> None:
    for text, seeds in (("11-12", (11, 12)), ("7-7", (7,)), ("3,1", (3, 1))):
        assert SeedChoice.parse(text).select(JUDGED) == SeedChoice.parse(text).select((4,)) == seeds


def test_the_order_of_seeds_is_shown() -> None:
    assert show_ranges([1, 2, 3, 7, 9, 8]) == "1-3,7,9,8"
    assert show_ranges([]) == ""


def test_seeds_that_are_not_judged() -> None:
    assert unjudged("a/b", [1, 5], JUDGED) == []
    others, tuning = unjudged("a/b", [4, 6, 7, 100], JUDGED)
    assert ("6-7" in others, "1-5" in others) == (True, True)
    assert "seed 100" in tuning


def test_every_recipe_declares_seeds_that_can_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    for experiment in experiments():
        for scale in scales_of(experiment):
            assert len(load_recipe(experiment, scale).seeds) >= 3
