"""Hostile texts must not break a format, and must still be legible."""

import re

import pytest

from repro.evidence.text import clean
from repro.report.formats.blocks import Bullets, Grid, Heading, Link, Paragraph, VerdictWord
from repro.report.formats.documents import escape_latex, escape_markdown, latex, markdown

HOSTILE = [
    "a | b",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "Tom & Jerry &lt;",
    "back\\slash \\input{/etc/passwd} \\\\",
    "50 % of $x$ #1 _em_ ~y~ ^z {a}",
    "\x1b[31mred\x1b[0m \x9b2J \x07",
    "two\nlines\r\nand\u2028more",
    "[link](javascript:alert(1)) ![x](y)",
    "`code` *bold* **b**",
    "# heading",
    "- item",
    "1. item",
    "\u202eoverride",
    "",
    "中文 ∞ ± β",
]
BLOCKS = [
    Heading(1, "Title"),
    *(Heading(2, h) for h in HOSTILE),
    *(Paragraph(h) for h in HOSTILE),
    Bullets(tuple(HOSTILE)),
    Grid(("a", "b | c"), tuple((h, h) for h in HOSTILE), kinds=tuple(["ours", "paper"] * 8)),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_clean_is_one_line_without_control_characters(text):
    output = clean(text)
    assert output == " ".join(output.split())
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", output)


def test_clean_keeps_words():
    assert clean("a\tb\nc") == "a b c"
    assert clean("Łukasz ∞ ±") == "Łukasz ∞ ±"


def test_markdown_tables_keep_their_columns():
    lines = markdown(BLOCKS).split("\n")
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + len(HOSTILE)
    for row in rows:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3


def test_markdown_has_no_markup_of_the_texts():
    output = markdown(BLOCKS, notice=False)
    assert not re.search(r"<(?!!--)", output)
    assert not re.search(r"(?<!\\)\]\(", output)
    assert not re.search(r"(?<!\\)[`~$]", output)
    assert not re.search(r"^(?:- )?(?:#+ (?=heading)|- item|1\. item)", output, re.M)
    assert len(re.findall(r"^# ", output, re.M)) == 1
    assert len(re.findall(r"^- ", output, re.M)) == len(HOSTILE)


def test_markdown_leaves_metric_names_legible():
    assert escape_markdown("test/bleu_compound_split") == "test/bleu_compound_split"
    assert escape_markdown("_em_") == "\\_em\\_"


def test_markdown_links_lead_to_the_tables():
    link = Link("a | [b]", "toy.html", "tests.md#a-b")
    output = markdown(
        [Grid(("a",), ((link,), (VerdictWord("open", "2 | 3 seeds"),)))], tables="results/tables/"
    )
    assert "| [a \\| \\[b\\]](results/tables/tests.md#a-b) |" in output
    assert "| open: 2 \\| 3 seeds |" in output
    assert "\n| a \\| \\[b\\] |" in markdown([Grid(("a",), ((link,),))], tables=None)


def test_the_anchor_of_a_heading_is_githubs():
    assert Heading(3, "sorting-8000, attempt 1").anchor == "sorting-8000-attempt-1"
    assert Heading(2, '"><script>').anchor == "script"


def _latex_is_balanced(said):
    depth = 0
    for token in re.findall(r"\\.|[{}]", said, re.S):
        depth += {"{": 1, "}": -1}.get(token, 0)
        assert depth >= 0
    return depth == 0


def test_latex_escapes_what_is_special():
    output = latex(BLOCKS)
    body = "\n".join(line for line in output.split("\n") if not line.startswith("%"))
    assert _latex_is_balanced(body)
    assert not re.search(r"(?<!\\)[%#_]", body)
    # ∞ ± β in each of a heading, a paragraph, a bullet and two cells: two signs each, all else escaped.
    assert body.count("$") == 2 * 3 * 5 + body.count(r"\$")
    commands = set(re.findall(r"\\([a-zA-Z]+)", body))
    assert "input" not in commands
    rows = body.split("\\midrule\n\\endhead\n")[1].split("\\bottomrule")[0].strip().split("\n")
    assert len(rows) == len(HOSTILE)
    for row in rows:
        assert row.endswith(r" \\")
        assert len(re.findall(r"(?<!\\)&", row)) == 1
        assert not row.startswith(("[", "*"))


def test_latex_names_what_its_fonts_lack():
    assert escape_latex("中") == "{[}U+4E2D{]}"
    assert escape_latex("−5 ± 1 é") == "$-$5 $\\pm$ 1 é"  # noqa: RUF001
