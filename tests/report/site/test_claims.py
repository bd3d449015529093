from tests.report.fakes import PUBLISHED
from tests.report.pages import cells, tree_of


def claim(tree, name, scale="paper"):
    return tree.one("tr", id=f"claim-toy--{name}--{scale}")


def test_a_claim_with_its_rows_on_one_axis(house):
    for name, values in (
        ("big", [30.0, 30.1, 30.2]),
        ("base", [28.0, 28.1, 28.2]),
        ("small", [27.9, 28.0, 28.1]),  # the paper prints a tie with base
    ):
        house.run(house.recipe(name), values)
    line = claim(tree_of(house), "bigger-is-better")
    assert cells(line)[:3] == ["Bigger is better.Table 1, bleu", "paper", "holds"]
    rows = line.all("li")
    assert [li.text for li in rows] == [
        "big 30.10 ± 0.25 (n = 3)",
        "base 28.10 ± 0.25 (n = 3)",
        "small 28.00 ± 0.25 (n = 3)",
    ]
    dots = [float(li.one("circle").get("cx")) for li in rows]
    assert dots == sorted(dots, reverse=True)
    assert [li.one("a").get("href") for li in rows] == [
        f"#runs-toy--{n}--paper" for n in ("big", "base", "small")
    ]
    assert (line.get("data-k"), line.get("data-v"), line.get("data-s")) == ("c", "holds", "paper")


def test_a_claim_that_is_contradicted_comes_with_the_reason(house):
    house.run(house.recipe("big"), [20.0, 20.1, 20.2])
    house.run(house.recipe("base"), [28.0, 28.1, 28.2])
    house.run(house.recipe("small"), [27.9, 28.0, 28.1])
    line = claim(tree_of(house), "bigger-is-better")
    assert cells(line)[2] == "does not"
    assert "base is ahead of big" in line.one("ul", cls="marks").text
    assert line.all("div", cls="meta") == []


def test_a_claim_without_one_of_its_rows_says_which_and_shows_the_whole_order(house):
    house.run(house.recipe("big"), [20.0, 20.1, 20.2])
    house.run(house.recipe("base"), [28.0, 28.1, 28.2])
    line = claim(tree_of(house), "bigger-is-better")
    assert cells(line)[2] == "incomplete"
    assert "small" in line.one("ul", cls="marks").text
    assert line.one("div", cls="meta").text == "big > base > small"
    assert len(line.one("ol").all("li")) == 2


def test_nothing_is_drawn_of_a_single_number(house):
    house.run(house.recipe("big"), [20.0, 20.1, 20.2])
    line = claim(tree_of(house), "bigger-is-better")
    assert line.all("svg") == []
    assert line.first("li").text == "big20.10 ± 0.25 (n = 3)"


def test_claims_that_say_something_come_first(house):
    house.run(house.recipe("base"), [28.0, 28.1, 28.2])
    house.run(house.recipe("small"), [27.9, 28.0, 28.1])
    verdicts = [cells(line)[2] for line in tree_of(house).one("table", cls="claims").all("tr")[1:]]
    assert verdicts == ["holds", "incomplete", "no recipe"]
    assert cells(claim(tree_of(house), "lower-perplexity", "none"))[1] == "\N{EN DASH}"


def test_what_does_not_count_says_why_before_all_else(house):
    terms = "id: bigger-is-better, at: {paper: {mechanism: out of reach}}"
    house.publish(PUBLISHED.replace("id: bigger-is-better", terms))
    house.run(house.recipe("big"), [30.0, 30.1, 30.2], curves={"val/bleu": [[50, None]]})
    house.run(house.recipe("base"), [28.0, 28.1, 28.2])
    house.run(house.recipe("small"), [27.9, 28.0, 28.1])
    tree = tree_of(house)
    lines = [claim(tree, name) for name in ("bigger-is-better", "base-ties-small")]
    assert [cells(line)[2] for line in lines] == ["holds", "holds"]
    mechanism, part = ([li.text for li in line.one("ul", cls="marks").all("li")] for line in lines)
    assert "out of reach" in mechanism[0]
    assert "big: a curve that is not finite (seeds 1, 2, 3)" in mechanism[1:]
    assert "bigger-is-better" in part[0]
    assert tree.one("section", id="overview").all("ul", cls="decided") == []
    assert cells(tree.one("table", cls="counts").all("tr")[-1])[-4:] == ["0", "0", "0", "0"]
