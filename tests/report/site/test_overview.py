from tests.report.fakes import PUBLISHED
from tests.report.pages import cells, tree_of
from tests.report.test_render import fill


def test_counts_by_verdict_lead_to_what_they_count(house):
    fill(house)
    tree = tree_of(house)
    head, line = tree.one("table", cls="counts").all("tr")[1:]
    assert cells(head) == ["Paper", "Numbers", "reproduced", "near", "gap", "reduced scale", "not run", "no config",
                           "holds", "does not", "undecided"]  # fmt: skip
    assert cells(line) == ["A Toy Paper", "6", "1", "0", "1", "0", "1", "3", "0", "0", "2"]
    links = {a.text: a.get("href") for a in line.all("a")}
    assert links["A Toy Paper"] == "#paper-toy"
    assert links["3"] == "#?paper=toy&verdict=no-config"


def test_numbers_at_paper_scale_with_their_marks(house):
    fill(house)
    overview = tree_of(house).one("section", id="overview")
    region = overview.one("div", aria_label="Measured at paper scale")
    lines = {cells(line)[0]: line for line in region.all("tr")[1:]}
    assert list(lines) == ["BigA Toy Paper, Table 1", "BaseA Toy Paper, Table 1"]
    assert cells(lines["BigA Toy Paper, Table 1"])[3] == "30.00 ± 0.25n = 3, +0.00reproduced"
    base = lines["BaseA Toy Paper, Table 1"]
    assert [li.text for li in base.all("li")] == [
        "mixed commits (01234567, fedcba98)",
        "uncommitted changes (seed 0)",
        "2 of 3 seeds",
        "interval wider than 3 times the tolerance",
    ]
    assert base.one("svg").get("aria-hidden") == "true"
    assert "99.00" not in overview.text


def test_decided_claims_are_listed(house):
    for name, values in (
        ("big", [30.0, 30.1, 30.2]),
        ("base", [28.0, 28.1, 28.2]),
        ("small", [27.0, 27.1, 27.2]),
    ):
        house.run(house.recipe(name), values)
    (item,) = [li for li in tree_of(house).one("ul", cls="decided").all("li") if "Bigger" in li.text]
    assert item.text == "holdsBigger is better.A Toy Paper, paper scale"
    assert item.one("a").get("href") == "#claim-toy--bigger-is-better--paper"


def test_without_runs_it_says_so(house):
    overview = tree_of(house).one("section", id="overview")
    assert "No run at paper scale has been recorded yet." in overview.text
    assert "0 recorded runs." in overview.text


def test_the_legend_has_a_sentence_for_every_badge_of_the_page(house):
    house.publish(PUBLISHED)
    fill(house)
    tree = tree_of(house)
    legend = {d.one("dt").text: d.one("dd").text for d in tree.one("section", id="legend").all("div")}
    shown = {b.text for b in tree.all("b", cls="v")}
    assert shown <= set(legend)
    assert "unconfirmed" in legend
    assert all(len(said) > 30 for said in legend.values())
