"""Forests of effects as matplotlib draws them, read back from the SVG."""

import pytest

from repro.evidence.declared.outcomes import Effect
from repro.report.plots.chart import Forest
from repro.report.plots.drawing import svg
from tests.report.svg import root_of, words

SMALL = Effect(("big", "base"), 5.0, 4.0, 6.0, 7.0)
HUGE = Effect(("base", "small"), -300.0, -500.0, 20.0, None)
ALONE = Effect(("a", "b"), 1.0, None, None, None)


def drawn(*groups):
    return svg(Forest(groups), "c", "0" * 64).decode()


def used(shown):
    """Fill, stroke and x of every marker."""
    found = []
    for one in root_of(shown).iter():
        if one.tag.endswith("}use"):
            style = dict(part.strip().split(": ") for part in one.get("style").split(";") if part)
            found.append((style.get("fill"), style.get("stroke"), float(one.get("x"))))
    return found


def test_each_pair_is_a_line_with_its_numbers():
    said = words(
        drawn(("Bigger is better. Scale small: same order.", True, [SMALL, HUGE]), ("Alone.", False, [ALONE]))
    )
    assert {"big over base", "base over small", "a over b"} <= set(said)
    assert {"+5.0 [+4.0, +6.0], paper +7.0", "-300.0 [-500.0, +20.0]", "+1.0"} <= set(said)
    assert {"Bigger is better. Scale small: same order.", "Alone."} <= set(said)
    assert {"ours, of a test that counts", "ours, of one that does not", "the paper's"} <= set(said)


@pytest.mark.parametrize(("counts", "hollow"), [(True, 1), (False, 2)])
def test_marks_of_tests_that_do_not_count_are_hollow(counts, hollow):
    found = used(drawn(("says", counts, [SMALL])))
    assert (
        sum(fill == "#ffffff" for fill, stroke, _ in found if stroke == "#00639c") == hollow
    )  # one is the key's


def test_what_reaches_too_far_is_cut_at_the_edge():
    shown = drawn(("says", True, [SMALL, HUGE]))
    values = sorted(x for _, _, x in used(shown)[-10:])
    width = float(root_of(shown).get("width"))
    assert all(0 < x < width for x in values)
    assert "-100" in words(shown)
    assert "-300" not in words(shown)


def test_a_long_sentence_has_several_lines_and_the_figure_grows():
    def height(*groups):
        return float(root_of(drawn(*groups)).get("height"))

    short, long = ("says", True, [SMALL]), ("a long sentence " * 20, True, [SMALL])
    assert height(short) < height(long) < height(long, short)


def test_hostile_words_are_text():
    assert "<b> & $x$" in words(drawn(("<b> & $x$", True, [SMALL])))
