"""Pages: safe, legible to all readers, and the same from the same document."""

import base64
import hashlib
import re

import pytest

from repro.report.formats.blocks import Bullets, Code, Figure, Grid, Heading, Link, Paragraph, VerdictWord
from repro.report.formats.documents import HYPHEN, page, style
from repro.report.views.words import WORDS
from tests.report.markup import read
from tests.report.test_formats import BLOCKS, HOSTILE

STYLE = style()
DOCUMENT = [
    Heading(1, "Title"),
    Paragraph("See https://arxiv.org/abs/2001.00001."),
    Bullets(("one", "two")),
    Grid(
        ("Row", "Ours", "Outcome"),
        (
            (
                Link("a test", "toy--a-1.html", "tests.md#a-attempt-1"),
                "1.0",
                VerdictWord("same order", "n = 3"),
            ),
        ),
        frozenset({1}),
        ("ours",),
    ),
    Figure("toy--a@b.svg", "curves"),
]


def rendered(**changes):
    return read(page(DOCUMENT, **changes))


def test_a_word_of_a_verdict_is_a_badge_that_explains_itself():
    badge = rendered().one("span", cls="v")
    assert (badge.text, badge.get("class")) == ("same order", "v v-same-order")
    assert badge.get("title") == WORDS["same order"]
    assert badge.parent.text == "same order n = 3"
    unknown = read(page([Grid(("a",), ((VerdictWord('x" y'),),))])).one("span", cls="v")
    assert (unknown.get("class"), unknown.get("title")) == ("v v-other", "")


def test_commands_keep_their_lines():
    assert "<code>repro a\nrepro &lt;b&gt;</code>" in page([Code("repro a\nrepro <b>")])


def test_links_lead_to_pages_and_to_the_web():
    tree = rendered(pages="pages/", links=[("Overview", "../index.html")])
    links = [(a.text, a.get("href")) for a in tree.all("a")]
    assert links == [
        ("Overview", "../index.html"),
        ("https://arxiv.org/abs/2001.00001", "https://arxiv.org/abs/2001.00001"),
        ("a test", "pages/toy--a-1.html"),
    ]
    assert tree.first("p").text == "See https://arxiv.org/abs/2001.00001."


def test_a_figure_is_loaded_when_it_is_seen_and_has_a_name():
    image = rendered(plots="plots").one("img")
    assert image.attributes == {"src": "plots/toy--a%40b.svg", "alt": "curves", "loading": "lazy"}
    assert rendered().one("figcaption").text == "curves"


def test_numbers_are_flush_right_and_ours_are_marked():
    (line,) = rendered().one("tbody").all("tr")
    assert line.get("class") == "ours"
    assert [e.get("class") for e in line.all("td")] == ["n", None]
    assert line.one("th").get("scope") == "row"
    assert [th.get("scope") for th in rendered().one("thead").all("th")] == ["col"] * 3


def test_a_power_of_ten_is_not_broken_at_its_sign():
    output = page([Grid(("a", "b"), (("x", "27 updates, 9e-11"),))])
    assert f"27 updates, 9e{HYPHEN}11" in output
    assert "2020-11" in page([Grid(("a", "b"), (("x", "2020-11"),))])


def test_each_page_is_open_to_all_readers():
    tree = rendered()
    assert tree.one("html").get("lang") == "en"
    assert tree.one("title").text == tree.one("h1").text == "Title"
    assert [len(tree.all(name)) for name in ("nav", "main", "footer")] == [1, 1, 1]
    assert tree.one("div", tabindex="0").first("table")
    assert tree.one("h1").get("id") == "title"


def test_nothing_but_its_own_style_is_allowed():
    tree = rendered()
    policy = next(m.get("content") for m in tree.all("meta") if m.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(tree.one("style").raw.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "img-src 'self'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"@import|url\(|<script|<link", page(DOCUMENT))


def test_hostile_texts_are_texts():
    tree = read(page([*BLOCKS, Paragraph("https://x.y/'\"><script>")]))
    assert {e.name for e in tree.one("main").walk()} <= {
        "h1", "h2", "p", "ul", "li", "div", "table", "thead", "tbody", "tr", "th", "td", "a",
    }  # fmt: skip
    names = {name for e in tree.walk() for name in e.attributes}
    assert {name for name in names if name.startswith("on") or name == "style"} == set()
    assert tree.one("main").raw.count("<script>alert(1)</script>") == 5
    assert len(tree.one("tbody").all("tr")) == len(HOSTILE)


def variables():
    """Colours in light and in dark."""
    result = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", STYLE)
    return {name: (light, dark) for name, light, dark in result}


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


INKS = [
    (ink, back)
    for back in ("back", "ours", "target")
    for ink in ("text", "faint", "link", "good", "close", "bad")
]
DRAWN = [("edge", "back")]


def test_the_contrast_is_computed_as_the_guidelines_say():
    assert contrast("#000000", "#ffffff") == 21
    assert round(contrast("#777777", "#ffffff"), 2) == 4.48


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("pair", "least"), [*((p, 4.5) for p in INKS), *((p, 3.0) for p in DRAWN)])
def test_contrast(pair, least, theme):
    ink, paper = (variables()[name][theme] for name in pair)
    assert contrast(ink, paper) >= least


def test_every_colour_is_a_variable_with_both_themes():
    assert set(re.findall(r"var\(--([\w-]+)\)", STYLE)) <= set(variables())
    rest = re.sub(r":root \{.*?\}", "", STYLE, count=1, flags=re.S)
    assert set(re.findall(r"#[0-9a-f]{3,6}\b(?=[;,) ])", rest)) <= {"#fff"}  # behind pictures


def test_the_style_colours_words_that_there_are():
    assert set(re.findall(r"\.v-([\w-]+)", STYLE)) <= {word.replace(" ", "-") for word in WORDS}
