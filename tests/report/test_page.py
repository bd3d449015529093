"""The page as a whole: safe, legible, the same from the same records."""

import base64
import hashlib
import re
from itertools import pairwise

import pytest

from repro.evidence.compare import compare
from repro.paths import PROJECT
from repro.report.plots import plots
from repro.report.render import write_tables
from repro.report.site import badges, page
from tests.report.fakes import PUBLISHED
from tests.report.markup import read
from tests.report.pages import page_of, tree_of
from tests.report.test_plots import fill as every_kind
from tests.report.test_render import fill

STYLE = page.read(page.STYLE)


def both(house):
    """The small house with every kind of record and figure."""
    fill(house)
    every_kind(house)
    write_tables()
    return page_of(house)


def test_the_same_records_give_the_same_bytes(house):
    assert both(house) == page_of(house)


def test_every_link_within_the_page_leads_somewhere(drawn):
    tree = read(both(drawn))
    places = [e.get("id") for e in tree.walk() if e.get("id")]
    assert len(places) == len(set(places))
    links = {e.get("href") for e in tree.walk() if (e.get("href") or "").startswith("#")}
    assert {
        link for link in links if link.removeprefix("#") not in places and not link.startswith("#?")
    } == set()
    assert len(links) > 20


def test_every_other_link_is_a_file_of_the_results_or_of_the_web(house):
    tree = read(both(house))
    others = {a.get("href") for a in tree.all("a") if not a.get("href").startswith("#")}
    assert others == {"tables/toy.csv", "tables/toy.tex", "tables/toy.md", "https://arxiv.org/abs/2001.00001"}


def test_it_needs_nothing_but_the_figures_beside_it(house):
    said = both(house)
    sources = {e.get("src") for e in read(said).walk() if e.get("src")}
    names = {f"plots/{plot.name.replace('@', '%40')}" for plot in plots(compare(), house.results / "runs")}
    assert sources == names
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest|import\(", said)
    assert "<link" not in said
    assert "<object" not in said


def test_the_figure_of_a_headline_is_part_of_the_page_and_the_others_load_when_seen(drawn, monkeypatch):
    drawn.publish(f"{PUBLISHED}headline: {{trend: bigger-is-better, curve: val/bleu}}\n")
    every_kind(drawn)
    fill(drawn)
    write_tables()
    first, *others = tree_of(drawn).all("figure")
    assert first.one("svg").get("aria-label") == first.one("figcaption").text
    assert first.all("style") == []
    assert len(others) > 3
    for figure in others:
        image = figure.one("img")
        assert (image.get("loading"), image.get("alt")) == ("lazy", figure.one("figcaption").text)
        assert int(image.get("width")) * int(image.get("height")) > 0
    monkeypatch.setattr(page, "INLINE", 1000)
    assert read(page_of(drawn)).all("svg", role="img") == []


def test_the_page_of_the_checkout_is_small():
    assert (PROJECT / "results" / "index.html").stat().st_size <= 2_000_000


def test_nothing_but_its_own_style_and_script_is_allowed(house):
    said = both(house)
    policy = next(m.get("content") for m in read(said).all("meta") if m.get("http-equiv"))
    for kind in ("style", "script"):
        (content,) = re.findall(rf"<{kind}>(.*?)</{kind}>", said, re.S)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "img-src 'self'" in policy
    assert "unsafe" not in policy


def test_no_element_has_a_style_or_a_handler_of_its_own(drawn):
    names = {name for e in read(both(drawn)).walk() for name in e.attributes}
    assert {name for name in names if name.startswith("on") or name == "style"} == set()


def test_it_is_open_to_all_readers(drawn):
    tree = read(both(drawn))
    assert tree.one("html").get("lang") == "en"
    assert tree.one("title").text
    assert (
        len(tree.all("main"))
        == len(tree.all("header"))
        == len(tree.all("footer"))
        == len(tree.all("h1"))
        == 1
    )
    assert {th.get("scope") for th in tree.all("th")} <= {"row", "col", "colgroup"}
    assert all(image.get("alt") for image in tree.all("img"))
    assert all(svg.get("aria-label") or svg.get("aria-hidden") == "true" for svg in tree.all("svg"))
    assert all(
        region.get("tabindex") == "0" and region.get("aria-label") for region in tree.all("div", cls="scroll")
    )
    assert all(field.above("label") for name in ("select", "input") for field in tree.all(name))
    assert tree.first("a").get("href") == "#main"


def test_headings_go_down_one_step_at_a_time(house):
    levels = [int(e.name[1]) for e in read(both(house)).walk() if re.fullmatch(r"h[1-6]", e.name)]
    assert levels[0] == 1
    assert all(below <= above + 1 for above, below in pairwise(levels))


def test_filters_offer_what_there_is(house):
    both(house)
    form = tree_of(house).one("form", id="filters")
    options = {s.get("name"): [o.get("value") for o in s.all("option")] for s in form.all("select")}
    assert options["paper"] == ["", "toy"]
    assert options["scale"] == ["", "paper", "cpu"]
    assert options["verdict"] == ["", *map(badges.key, badges.NUMBERS), *map(badges.key, badges.CLAIMS)]
    assert form.get("class") == "js"  # without the script it is not shown


def test_figures_stand_where_they_belong(house):
    both(house)
    tree = tree_of(house)
    captions = [f.one("figcaption").text for f in tree.all("figure")]
    assert len(captions) == len(plots(compare(), house.results / "runs"))
    assert len(captions) == len(set(captions))
    within = {f.one("figcaption").text for d in tree.all("details", cls="runs") for f in d.all("figure")}
    kinds = ("learning curves", "drawn from", "continuous memories")
    assert all(any(kind in words for kind in kinds) for words in within)
    assert any("by rounds" in words for words in set(captions) - within)


def variables():
    """Colours of the page in light and in dark."""
    return {
        name: (light, dark)
        for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", STYLE)
    }


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


TEXTS = (
    [
        (ink, paper)
        for paper in ("back", "raised", "ours", "target")
        for ink in ("text", "faint", "link", "close")
    ]
    + [(name, f"{name}-back") for name in ("good", "close", "bad", "small")]
    + [("none", "back"), ("none", "ours")]
)
DRAWN = [(f"k{i}", "back") for i in range(6)] + [
    ("edge", "back"),
    ("edge", "raised"),
    ("link", "back"),
    ("k0", "raised"),
]


def test_the_contrast_is_computed_as_the_guidelines_say():
    assert contrast("#000000", "#ffffff") == 21
    assert round(contrast("#777777", "#ffffff"), 2) == 4.48


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("pair", "least"), [*((p, 4.5) for p in TEXTS), *((p, 3.0) for p in DRAWN)])
def test_contrast(pair, least, theme):
    ink, paper = (variables()[name][theme] for name in pair)
    assert contrast(ink, paper) >= least


def test_every_colour_is_a_variable_with_both_themes():
    used = set(re.findall(r"var\(--([\w-]+)\)", STYLE)) - {"bar"}
    assert used <= set(variables())
    rest = re.sub(r":root \{.*?\}", "", STYLE, count=1, flags=re.S)
    assert set(re.findall(r"#[0-9a-f]{3,6}\b(?=[;,) ])", rest)) <= {
        "#fff"
    }  # behind pictures, which are of no theme


def test_every_verdict_has_a_shape_of_its_own():
    signs = {}
    for names, sign in re.findall(r"((?:\.v-[\w-]+::before(?:, )?)+) \{ content: \"(.)\"", STYLE):
        signs |= dict.fromkeys(re.findall(r"\.v-([\w-]+)", names), sign)
    words = {badges.key(word) for word in (*badges.NUMBERS, *badges.CLAIMS)}
    assert set(re.findall(r"\.v-([\w-]+)", STYLE)) == words  # each has a colour, and no other word has one
    alike = {}
    for word in sorted(words):
        alike.setdefault(signs.get(word, "default"), []).append(word)
    assert sorted(found for found in alike.values() if len(found) > 1) == [
        ["agrees", "holds", "reproduced"],
        ["derived", "no-recipe", "timed"],  # no verdict, and no sign
        ["differs", "does-not"],
        ["incomplete", "no-value", "not-run", "out-of-reach"],
    ]


def test_the_script_knows_only_elements_that_are_there(house):
    names = set(re.findall(r'getElementById\("(\w+)"\)', page.read(page.SCRIPT)))
    places = {e.get("id") for e in tree_of(house).walk()}
    assert names <= places
    assert len(names) >= 5
