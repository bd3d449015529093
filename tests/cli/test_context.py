"""recl: how much context helps trained language models."""

from pathlib import Path

import pytest
import torch

from repro.experiment import context as module
from tests.experiment.finished import PAPER, finished, with_learned_positions
from tests.workshop import RECIPE, STREAM_RECIPE, Workshop, call

SMALL = ("--start", "2", "--step", "2", "--longest", "12", "--places", "20")
ONE, TWO = f"{PAPER}/one", f"{PAPER}/two"


@pytest.fixture
def two(workshop: Workshop) -> tuple[Path, Path]:
    """Two finished runs on one text."""
    return finished("one"), finished("two")


def test_a_group_is_one_array(two: tuple[Path, Path]) -> None:
    result = call("recl", ONE, str(two[1]), *SMALL, "--json").json()
    assert [one["run"].split("/")[1] for one in result] == ["one", "two"]
    assert all(list(one["recl"]) == ["0.1", "0.5", "1"] for one in result)
    other = call("recl", TWO, ONE, *SMALL, "--ratios", "1.0", "0.3", "1", "--json").json()
    assert list(other[0]["recl"]) == ["1", "0.3"]
    assert [one["recl"]["1"] for one in other] == [one["recl"]["1"] for one in reversed(result)]
    assert {one["split"] for one in result} == {"test"}
    assert call("recl", ONE, *SMALL, "--split", "val", "--json").json()[0]["split"] == "val"
    by_scale = call("recl", ONE, "--scale", "paper", "--run-seed", "1", *SMALL, "--json").json()
    assert by_scale[0]["run"] == result[0]["run"]
    call("recl", ONE, "--run-seed", "2", *SMALL).refused("no run")


def test_the_table(two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    reaches: dict[int, int] = {}

    def losses(net: object, tokens: object, places: list[int], context: int) -> torch.Tensor:
        reach = reaches.setdefault(id(net), 6 if not reaches else 99)
        return torch.full((len(places),), 9.0) - 0.1 * min(context, reach)

    monkeypatch.setattr(module, "losses_with_context", losses)
    output = call("recl", ONE, TWO, *SMALL, "--ratios", "0.5", "1")
    assert output.code == 0, output.err
    assert output.err == ""
    lines = output.out.splitlines()
    assert lines[0].split() == ["run", "parameters", "RECL", "r=0.5", "RECL", "r=1"]
    assert lines[2].split()[2:] == ["6", "6"]
    assert lines[3].split()[2:] == ["12+", "12+"]
    assert "--longest 12" in lines[4]
    assert "this group" in lines[5]
    reaches.clear()
    alone = call("recl", ONE, *SMALL, "--ratios", "0.5").out
    assert alone.splitlines()[2].split()[2:] == ["6"]
    assert "+" not in alone


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--start", "0"), ("start must be at least 1, not 0",)),
        (("--step", "0"), ("step must be at least 1, not 0",)),
        (("--longest", "3"), ("start and step together, 4, not 3",)),
        (("--ratios", "0"), ("ratio must be above 0 and at most 1, not 0",)),
        (("--ratios", "0.5", "1.5"), ("not 1.5",)),
        (("--ratios", "nan"), ("not nan",)),
        (("--ratios", "half"), ("invalid float value", "half")),
        (("--places", "0"), ("places must be at least 1, not 0",)),
        (("--split", "tset"), ("tset", "choose from")),
        ((), ("no run", "transformer-xl/one")),
    ],
    ids=lambda value: " ".join(value),
)
def test_bad_options_are_one_line(workshop: Workshop, words: tuple[str, ...], parts: tuple[str, ...]) -> None:
    output = call("recl", ONE, *SMALL, *words)
    output.refused(*parts)
    assert output.out == ""


def test_too_little_text_is_one_line(workshop: Workshop) -> None:
    finished("one")
    call("recl", ONE, *SMALL, "--places", "36").refused("83 tokens", "--places 36", "lower")
    call("recl", ONE, *SMALL, "--longest", "90").refused("83 tokens", "0 of them", "--longest")


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        (
            "lag",
            STREAM_RECIPE.replace("lag: 5", "lag: 7"),
            ("same text only", f"{PAPER}/one/", f"{PAPER}/lag/"),
        ),
        (
            "learned",
            with_learned_positions(11),
            ("/learned/", "11 positions", "--longest must be at most 11"),
        ),
        ("words", RECIPE, ("words", "Translation", "not a language model")),
    ],
    ids=["lag", "learned", "words"],
)
def test_runs_that_do_not_compare_are_one_line(
    workshop: Workshop, name: str, text: str, parts: tuple[str, ...]
) -> None:
    finished("one")
    finished(name, text)
    output = call("recl", ONE, f"{PAPER}/{name}", *SMALL)
    output.refused(*parts)
    assert output.out == ""


def test_a_run_is_needed(workshop: Workshop) -> None:
    call("recl").refused("RUN")


def test_an_empty_name_is_refused() -> None:
    call("recl", "").refused("no run ''")
