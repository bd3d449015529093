from tests.report.pages import cells, tree_of


def claim(tree, name, scale="paper"):
    return tree.one("tr", id=f"claim-toy--{name}--{scale}")


def test_a_claim_with_its_rows_on_one_axis(house):
    for name, values in (
        ("big", [30.0, 30.1, 30.2]),
        ("base", [28.0, 28.1, 28.2]),
        ("small", [27.0, 27.1, 27.2]),
    ):
        house.run(house.recipe(name), values)
    line = claim(tree_of(house), "bigger-is-better")
    assert cells(line)[:3] == ["Bigger is better.Table 1, bleu", "paper", "holds"]
    rows = line.all("li")
    assert [li.text for li in rows] == [
        "big 30.10 ± 0.25 (n = 3)",
        "base 28.10 ± 0.25 (n = 3)",
        "small 27.10 ± 0.25 (n = 3)",
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
    line = claim(tree_of(house), "bigger-is-better")
    assert cells(line)[2] == "does not"
    assert "base beats big" in line.all("ul")[0].text
    assert line.one("div", cls="meta").text == "big > base > small"  # a row is missing


def test_nothing_is_drawn_of_a_single_number(house):
    house.run(house.recipe("big"), [20.0, 20.1, 20.2])
    line = claim(tree_of(house), "bigger-is-better")
    assert line.all("svg") == []
    assert line.first("li").text == "big20.10 ± 0.25 (n = 3)"


def test_claims_that_say_something_come_first(house):
    house.run(house.recipe("big"), [30.0, 30.1])
    verdicts = [cells(line)[2] for line in tree_of(house).one("table", cls="claims").all("tr")[1:]]
    assert verdicts == ["undecided", "no config", "no config"]
    assert cells(claim(tree_of(house), "lower-perplexity", "none"))[1] == "\N{EN DASH}"
