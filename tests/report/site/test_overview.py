from repro.evidence.entries import VERDICTS
from repro.report.formats import headline
from repro.report.site import badges
from repro.verify import BIT_EQUAL, Outcome, keep
from tests.report.fakes import PUBLISHED
from tests.report.pages import cells, tree_of
from tests.report.test_render import fill


def test_counts_by_verdict_lead_to_what_they_count(house):
    fill(house)
    tree = tree_of(house)
    head, line = tree.one("table", cls="counts").all("tr")[1:]
    assert cells(head)[:2] == ["Paper", "Numbers"]
    assert cells(line)[:2] == ["A Toy Paper", "5"]
    counts = list(zip(cells(head), cells(line), strict=True))[2:]
    numbers, ordering = counts[: -len(badges.CLAIMS)], counts[-len(badges.CLAIMS) :]
    assert [pair for pair in numbers if pair[1] != "0"] == [
        ("reproduced", "1"),
        ("undecided", "1"),
        ("not run", "1"),
        ("no recipe", "2"),
    ]
    assert {"better", "worse", "at chance", "short budget", "reduced scale"} <= dict(numbers).keys()
    assert ordering == [
        ("holds", "0"),
        ("does not", "0"),
        ("undecided", "0"),
        ("incomplete", "2"),
        ("out of reach", "0"),
    ]
    links = [(a.text, a.get("href")) for a in line.all("a")]
    assert links[0] == ("A Toy Paper", "#paper-toy")
    assert links[-2:] == [("2", "#?paper=toy&verdict=no-recipe"), ("2", "#?paper=toy&verdict=incomplete")]


def test_counted_results_with_their_marks(house):
    fill(house)
    overview = tree_of(house).one("section", id="overview")
    region = overview.one("div", aria_label="Trained results at the paper's scale")
    lines = {cells(line)[0]: line for line in region.all("tr")[1:]}
    assert list(lines) == ["BigA Toy Paper, Table 1", "BaseA Toy Paper, Table 1"]
    assert cells(lines["BigA Toy Paper, Table 1"])[3] == "30.00 ± 0.25n = 3, +0.00reproduced"
    base = lines["BaseA Toy Paper, Table 1"]
    assert [li.text for li in base.all("li")] == [
        "mixed commits (01234567, fedcba98)",
        "uncommitted changes (seed 1)",
    ]
    assert cells(base)[3].startswith("26.25 ± 3.18n = 2, \N{MINUS SIGN}1.75undecided")
    assert "clean" in base.all("small")[-1].text
    assert base.one("svg").get("aria-hidden") == "true"
    assert "99.00" not in overview.text


def test_decided_claims_are_listed(house):
    for name, values in (
        ("big", [30.0, 30.1, 30.2]),
        ("base", [28.0, 28.1, 28.2]),
        ("small", [27.9, 28.0, 28.1]),
    ):
        house.run(house.recipe(name), values)
    (item,) = tree_of(house).one("ul", cls="decided").all("li")  # base-ties-small is part of it
    assert item.text == "holdsBigger is better.A Toy Paper, paper scale"
    assert item.one("a").get("href") == "#claim-toy--bigger-is-better--paper"


def test_without_runs_it_says_so(house):
    overview = tree_of(house).one("section", id="overview")
    assert "0 recorded runs." in overview.text
    assert [div.get("aria-label") for div in overview.all("div", role="region")] == [
        "Numbers and claims of each paper by verdict"
    ]


def test_the_legend_has_a_sentence_for_every_badge_of_the_page(house):
    house.publish(PUBLISHED)
    fill(house)
    tree = tree_of(house)
    legend = {d.one("dt").text: d.one("dd").text for d in tree.one("section", id="legend").all("div")}
    shown = {b.text for b in tree.all("b", cls="v")}
    assert shown <= set(legend)
    assert set(VERDICTS) | set(badges.CLAIMS) | {"unconfirmed", "see notes"} == set(legend)
    assert all(len(said.split()) > 4 and said.endswith(".") for said in legend.values())


def test_other_classes_have_a_line_and_no_place_among_the_results(house):
    house.publish(PUBLISHED.replace("bleu: {unit: BLEU", "bleu: {chance: 29.8, unit: BLEU", 1))
    house.run(house.recipe("big"), [30.0, 30.1, 30.2])
    house.run(house.recipe("base"), [28.0, 28.1, 28.2])
    overview = tree_of(house).one("section", id="overview")
    region = overview.one("div", aria_label="Trained results at the paper's scale")
    assert [cells(line)[0] for line in region.one("tbody").all("tr")] == ["BaseA Toy Paper, Table 1"]
    (line,) = [li.text for ul in overview.all("ul", cls="notes") for li in ul.all("li")]
    assert line.startswith(headline.CHANCE)
    assert "Big, bleu (toy, Table 1) 30.10 ± 0.25 beside 30, n = 3" in line


def test_records_that_were_run_again_are_listed(house):
    assert "run again" not in tree_of(house).one("section", id="overview").text
    (made,) = house.run(house.recipe("big"), [30.0])
    for same_build, detail in ((True, "4 numbers"), (None, "<b>none</b>")):
        keep(
            house.results, Outcome("2026-02-03T04:05:06Z", made.path, "0" * 64, BIT_EQUAL, same_build, detail)
        )
    region = tree_of(house).one("section", id="overview").one("div", aria_label="Records that were run again")
    assert [cells(line) for line in region.one("tbody").all("tr")] == [
        ["2026-02-03", made.path, "bit-equal", "yes", "4 numbers"],
        ["2026-02-03", made.path, "bit-equal", "\N{EN DASH}", "<b>none</b>"],
    ]
