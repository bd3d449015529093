import pytest

from repro.report.site.html import (
    Html,
    bullets,
    columns,
    escape,
    join,
    leaf,
    outside,
    scroll,
    tag,
    verbatim,
    void,
)
from tests.report.markup import read

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "x onmouseover=alert(1)",
    "x/onmouseover=alert(1)",
    "`a`b=c",
    "=x",
    "Tom & Jerry &lt;",
    "--><b>",
    "]]><b>",
    "a\nb\x00\x1b[31m",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(("make", "name"), [(tag, "b"), (leaf, "path"), (void, "img")])
def test_an_attribute_ends_where_it_should(text, make, name):
    (made,) = read(make(name, title=text, id="next")).walk()
    assert set(made.attributes) == {"title", "id"}
    assert made.get("title").replace("\N{REPLACEMENT CHARACTER}", "") == " ".join(
        text.replace("\x00", "").replace("\x1b", "").split()
    )
    assert made.get("id") == "next"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_child_is_a_text(text):
    (made,) = read(tag("p", text)).walk()
    assert made.name == "p"
    assert made.text.startswith(text.split()[0][:3])


def test_markup_is_taken_as_it_is():
    assert tag("p", tag("b", "x & y")) == "<p><b>x &amp; y</b></p>"
    assert escape(Html("<b>")) == "<b>"


def test_blanks_at_the_ends_stay():
    assert escape(" a  b ") == " a b "
    assert escape("  ") == ""


def test_attributes_are_named_and_left_out():
    assert (
        tag("a", cls="x", data_v="a b", open=True, id=None, hidden=False)
        == '<a class=x data-v="a b" open></a>'
    )


def test_end_tags_that_html_can_do_without():
    said = tag("table", tag("tr", tag("td", "a"), tag("td", "b")), tag("tr", tag("td", "c")))
    assert "</td>" not in said
    rows = read(said).all("tr")
    assert [[cell.text for cell in row.all("td")] for row in rows] == [["a", "b"], ["c"]]


def test_a_leaf_ends_after_a_bare_attribute():
    assert leaf("path", d="M0", cls="x") == "<path d=M0 class=x />"
    assert leaf("path", d="M0 1") == '<path d="M0 1"/>'


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", " https://a.b", "file:///etc", "https:///x"]
)
def test_only_addresses_of_the_web_are_followed(url):
    assert read(outside(url)).all("a") == []
    assert read(outside(url)).text == url.strip()


def test_an_address_of_the_web_is_a_link():
    (link,) = read(outside('https://a.b/"><b>')).walk()
    assert (link.name, link.get("href"), link.get("rel")) == ("a", 'https://a.b/"><b>', "noreferrer")


def test_verbatim_keeps_lines_and_indents_only():
    assert verbatim("a:\n  b: <c>\x1b\n") == "a:\n  b: &lt;c&gt;\N{REPLACEMENT CHARACTER}\n"


def test_lists_and_tables():
    assert bullets([], "x") == ""
    assert [li.text for li in read(bullets(["a", "b"], "x")).all("li")] == ["a", "b"]
    made = read(scroll("Name", columns(["a", "b"], frozenset({"b"})))).one("div")
    assert (made.get("role"), made.get("tabindex"), made.get("aria-label")) == ("region", "0", "Name")
    assert [(th.get("scope"), th.get("class")) for th in made.all("th")] == [("col", None), ("col", "n")]


def test_join():
    assert join([Html("<b>"), Html("<i>")], " < ") == "<b> &lt; <i>"
