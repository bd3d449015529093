"""A paper's document: its tables with ours below each row, tests, reduced numbers, figures."""

from repro.evidence.table import read_evidence
from repro.report.formats.blocks import Figure, Heading
from repro.report.formats.documents import markdown
from repro.report.plots.chart import Chart
from repro.report.plots.plot import CURVES, SWEEPS, Plot
from repro.report.views.papers import paper_document
from tests.report.fakes import GOAL, PUBLISHED
from tests.report.views.fair import fair

DASH = "\N{EN DASH}"


def document(*plots):
    result = read_evidence()
    return paper_document(result, result.papers[0], plots)


def said():
    return markdown(document())


def line(start):
    (result,) = [one for one in said().split("\n") if one.startswith(start)]
    return result.strip("| ").split(" | ")


def test_ours_stands_below_the_papers_row(house):
    house.run(house.recipe("big"), [29.9, 30.0, 30.1])
    lines = said().split("\n")
    paper = lines.index(next(one for one in lines if one.startswith("| Big |")))
    assert lines[paper].startswith(f"| Big | paper | 2,000 | 30 | 4 | {DASH} |")
    ours = "|  | **ours: toy/big** | **1,234** | **30.00 ± 0.25** |"
    assert lines[paper + 1] == f"{ours} {DASH} | {DASH} | **reproduced: +0.00, n = 3** |"


def test_a_row_whose_numbers_agree_in_their_verdict_has_it_once(house):
    assert line("| Big |")[-1] == "no recipe: neither a recipe nor a derivation"


def test_metrics_that_differ_in_their_verdict_are_named(house):
    house.run(house.recipe("base"), [28.0])
    text = "class: timed, description: 'while training'"
    house.publish(PUBLISHED.replace(text, f"{text}, no_recipe: 'only on one card'"))
    words = line("| Base |")[-1]
    assert "speed: no recipe: only on one card" in words
    assert "bleu" not in words


def test_two_experiments_have_a_line_each(house):
    house.run(house.recipe("big"), [25.0])
    house.run(house.recipe("big", GOAL % ("big", "ppl", ""), name="other"), [4.01, 4.01, 4.01])
    assert "**open: −5.00, n = 1, no number of seed 2-3**" in said()  # noqa: RUF001
    assert "**reproduced: +0.010, n = 3**" in said()


def test_an_experiment_of_two_metrics_names_both(house):
    goals = [GOAL % ("big", metric, "") for metric in ("bleu", "ppl")]
    house.run(house.recipe("big", *goals), [30.0])
    assert "**bleu: open: +0.00, n = 1, no number of seed 2-3; ppl: open" in said()


def test_a_reduced_scale_stands_nowhere_beside_the_papers_number(house):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    house.run(name, [77.7, 77.7, 77.7], "cpu")
    above, _, below = said().partition("## Numbers at reduced scales")
    assert "77.7" not in above
    assert line("| Big |")[-1].startswith("bleu: reduced scale: toy/big (cpu); ppl: no recipe")
    assert "| toy/big | cpu | test/bleu | 77.70 | 3 | BLEU |  |" in below


def test_rows_that_were_timed_with_different_threads_are_named(house):
    for row in ("big", "base"):
        house.recipe(row, GOAL % (row, "speed", ""))
        house.record(f"toy/{row}", 1, 900.0, hardware={"device": "CPU", "threads": 2})
    assert "not timed alike" not in said()
    house.record("toy/base", 3, 900.0, hardware={"device": "H100"}, gpu_hours=1.0)
    for name, threads in (("small", 4), ("other", 2)):
        house.recipe("small", GOAL % ("small", "bleu", ""), name=name)
        house.record(f"toy/{name}", 1, 27.8, hardware={"device": "CPU", "threads": threads})
    assert "not timed alike" not in said(), "neither a GPU nor a number that is not timed"
    house.record("toy/base", 2, 900.0, hardware={"device": "CPU", "threads": 1})
    assert "- speed: not timed alike, 2 threads (Big, Base); 1 thread (Base)." in said()


def test_others_numbers_are_said_to_be_others_and_unconfirmed(house):
    assert "Published by others, not by the paper." in said()
    assert line("| Rerun |")[:4] == ["Rerun", "others", DASH, "29 (unconfirmed)"]


def test_a_note_says_by_what_rule_a_column_is_judged(house):
    house.publish(PUBLISHED.replace("ppl: {unit", "ppl: {chance: 0, unit"))
    assert "- ppl: per word. Class: trained, margin 1 %, set 2026-01-01, chance 0." in said()
    assert "- speed: while training. Class: timed." in said()


def test_a_number_that_the_paper_does_not_print_is_unpublished(house):
    house.run(house.recipe("drawn"), [12.0])
    assert "**unpublished: n = 1**" in said()


def test_its_tests_and_its_claims_without_one(house):
    fair(house)
    below = said().partition("## Tests of its claims")[2].partition("## Table 1")[0]
    assert "](tests.md#bigger-is-better-attempt-1) | 1 of 1 | reduced scale: small | same order |" in below
    assert "| Base and small are alike. | not run |" in below
    assert "| 1 same order |" in said()


def test_figures_by_kind_and_those_of_the_paper_first(house):
    names = {"toy--big.svg": CURVES, "toy--sweep.svg": SWEEPS, "toy--effects.svg": CURVES, "toy--picture.svg": CURVES,
             "toy--test--bigger-is-better-1.svg": CURVES}  # fmt: skip
    blocks = document(*(Plot(name, kind, "a caption", Chart("", [], [])) for name, kind in names.items()))
    displayed = [block.name for block in blocks if isinstance(block, Figure)]
    assert displayed == ["toy--picture.svg", "toy--effects.svg", "toy--sweep.svg", "toy--big.svg"]
    assert [b.text for b in blocks if isinstance(b, Heading)][-3:] == [
        SWEEPS,
        CURVES,
        "Not in the published file",
    ]
    assert not [block for block in document() if isinstance(block, Figure)]
