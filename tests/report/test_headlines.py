import pytest

from repro.errors import UserError
from repro.evidence.claims import claims, evidence
from repro.evidence.compare import compare
from repro.evidence.published import load_papers, validate_published
from repro.report.plots.headlines import OVERVIEW, headline_of, headlines
from repro.report.plots.plot import HEADLINES
from repro.report.render import check_tables, write_tables
from tests.report.fakes import PUBLISHED
from tests.report.grids import swept
from tests.report.pages import tree_of

CURVE = "headline: {trend: lower-perplexity, curve: val/ppl}\n"
GOAL = "{table: table1, row: %s, metric: ppl, measured: test/bleu}"
FALLING = {"val/ppl": [[50, 9.0], [100, 5.0]]}


def run(house, scale="", mean=5.0, **changes):
    """Three seeds of both rows of the claim: big is better by 1 %."""
    for row, shift in (("big", -0.4), ("base", 0.0)):
        name = house.recipe(row, GOAL % row)
        if scale:
            house.recipe(row, GOAL % row, scale=scale, width=2)
        values = [mean + shift + step for step in (-0.01, 0.0, 0.01)]
        house.run(name, values, scale or "paper", **({"curves": FALLING} | changes))


def drawn():
    comparison = compare()
    return {plot.name: plot for plot in headlines(comparison.papers, claims(comparison))}


def test_a_panel_has_a_curve_for_each_row_of_the_claim(house):
    house.publish(PUBLISHED + CURVE)
    run(house)
    one, overview = (drawn()[name] for name in ("toy--headline.svg", OVERVIEW))
    assert (one.kind, overview.kind) == (HEADLINES, HEADLINES)
    (panel,) = one.content.panels
    assert [words.split()[0] for _, words in panel.notes] == ["Big", "Base"]
    assert panel.notes[0][1] == "Big 4.600 ± 0.025"
    assert {line.look for line in panel.lines} == {0, 1}
    assert [line.points for line in panel.lines if not line.thin] == [[(50, 9.0), (100, 5.0)]] * 2
    (same,) = overview.content.panels
    assert same.lines == panel.lines
    assert same.title.split("\n\n")[0] == "A Toy Paper (2020)"
    assert "Bigger is surer." in same.title
    assert "Holds (n = 3, paper scale)" in same.title


def test_rows_that_one_experiment_serves_are_one_line_without_a_name(house):
    house.publish(PUBLISHED + "headline: {trend: lower-perplexity, sweep: test/accuracy}\n")
    name = house.recipe("big", GOAL % "big", GOAL % "base")
    for record_seed in (1, 2, 3):
        metrics = [*house_metrics(), *swept("rounds", "test/accuracy", {1: 50.0, 2: 60.0, "exact": 70.0})]
        house.record(name, record_seed, 5.0, metrics=metrics)
    (panel,) = drawn()["toy--headline.svg"].content.panels
    assert not panel.notes
    assert [line.points for line in panel.lines] == [
        [(1, 50.0), (2, 60.0)]
    ]  # words that were set are left out
    assert (panel.x_label, panel.y_label) == ("rounds", "test/accuracy (percent)")


def house_metrics():
    from repro.record import Measurement

    return [Measurement("test/bleu", 5.0, "perplexity", "test")]


@pytest.mark.parametrize("headline", ["", CURVE])
def test_without_a_headline_or_records_nothing_is_drawn(house, headline):
    house.publish(PUBLISHED + headline)
    house.recipe("big", GOAL % "big")
    assert drawn() == {}


def test_the_scale_that_says_most_is_shown(house):
    house.publish(
        PUBLISHED.replace(
            "order_best_first: [big, base]}",
            "order_best_first: [big, base], at: {small: {mechanism: built so}}}",
        )
    )

    def best():
        return evidence(claims(compare()), "toy", "lower-perplexity")

    run(house, "cpu", curves={})
    assert (best().scale, best().verdict) == ("cpu", "holds")  # before `paper`, which was not run
    run(house, "small", curves={})
    assert best().scale == "cpu"  # before a mechanism check at a larger scale
    house.run("toy/big", [4.0, 6.0, 5.5])
    house.run("toy/base", [5.0, 5.1, 5.2])
    assert best().scale == "cpu"  # before an undecided one at a larger scale
    assert evidence(claims(compare()), "toy", "nothing") is None


def test_the_page_begins_with_the_panels(house):
    house.publish(PUBLISHED + CURVE)
    run(house, "cpu")
    write_tables()
    overview = tree_of(house).one("section", id="overview")
    (panel,) = overview.one("div", cls="panels").all("article")
    assert panel.one("h3").text == "A Toy Paper 2020"
    links = {a.text: a.get("href") for a in panel.all("a")}
    assert links == {"A Toy Paper": "#paper-toy", "Bigger is surer.": "#claim-toy--lower-perplexity--cpu"}
    assert panel.one("p", cls="meta").text == "holds n = 3, reduced scale: cpu, toy-text"
    assert "toy · cpu: Bigger is surer." in panel.one("svg").get("aria-label")


def test_a_headline_without_records_says_so_and_has_no_figure(house):
    house.publish(PUBLISHED + CURVE)
    house.recipe("big", GOAL % "big")
    panel = tree_of(house).one("div", cls="panels").one("article")
    assert panel.one("p", cls="meta").text == "not run no records, paper scale"
    assert panel.all("figure") == []


def test_the_picture_of_all_is_checked(house):
    house.publish(PUBLISHED + CURVE)
    run(house)
    write_tables()
    assert check_tables() == []
    path = house.results / "plots" / OVERVIEW
    path.write_text(path.read_text() + " ")
    assert [problem for problem in check_tables() if OVERVIEW in problem]


@pytest.mark.parametrize(
    ("headline", "part"),
    [
        ("{trend: lower-perplexiti, curve: val/ppl}", "lower-perplexity"),
        ("{trend: lower-perplexity}", "headline"),
        ("{trend: lower-perplexity, curve: val/ppl, sweep: test/x}", "headline"),
    ],
)
def test_a_wrong_headline_is_refused(house, headline, part):
    house.publish(f"{PUBLISHED}headline: {headline}\n")
    with pytest.raises(UserError, match=part):
        validate_published()


def test_every_paper_of_the_checkout_has_a_headline_and_a_figure_where_its_rows_have_records(monkeypatch):
    for name in ("REPRO_RESULTS", "REPRO_CONFIGS"):
        monkeypatch.delenv(name, raising=False)
    papers = load_papers()
    assert all(paper.headline for paper in papers)
    comparison = compare()
    judged = claims(comparison)
    measured = [p for p in papers if any(s.estimate for s in headline_of(judged, p).standings)]
    assert len(measured) >= 5
    assert len(headlines(comparison.papers, judged)) == len(measured) + 1
