"""Hostile texts must not break a format, and must still be legible."""

import csv
import io
import re

import pytest

from repro.evidence import csv_table
from repro.evidence.compare import compare
from repro.report.formats import latex, markdown
from repro.report.formats.blocks import Bullets, Grid, Heading, Paragraph
from repro.text import clean
from tests.report.fakes import PUBLISHED

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
    said = clean(text)
    assert said == " ".join(said.split())
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", said)


def test_clean_keeps_words():
    assert clean("a\tb\nc") == "a b c"
    assert clean("Łukasz ∞ ±") == "Łukasz ∞ ±"


def test_markdown_tables_keep_their_columns():
    lines = markdown.render(BLOCKS).split("\n")
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + len(HOSTILE)
    for row in rows:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3


def test_markdown_has_no_markup_of_the_texts():
    said = markdown.render(BLOCKS, notice=False)
    assert not re.search(r"<(?!!--)", said)
    assert not re.search(r"(?<!\\)\]\(", said)
    assert not re.search(r"(?<!\\)[`~$]", said)
    assert not re.search(r"^(?:- )?(?:#+ (?=heading)|- item|1\. item)", said, re.M)
    assert len(re.findall(r"^# ", said, re.M)) == 1
    assert len(re.findall(r"^- ", said, re.M)) == len(HOSTILE)


def test_markdown_leaves_metric_names_legible():
    assert markdown.escape("test/bleu_compound_split") == "test/bleu_compound_split"
    assert markdown.escape("_em_") == "\\_em\\_"


def _latex_is_balanced(said):
    depth = 0
    for token in re.findall(r"\\.|[{}]", said, re.S):
        depth += {"{": 1, "}": -1}.get(token, 0)
        assert depth >= 0
    return depth == 0


def test_latex_escapes_what_is_special():
    said = latex.render(BLOCKS)
    body = "\n".join(line for line in said.split("\n") if not line.startswith("%"))
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
    assert latex.escape("中") == "{[}U+4E2D{]}"
    assert latex.escape("−5 ± 1 é") == "$-$5 $\\pm$ 1 é"  # noqa: RUF001


def test_csv_has_one_line_per_number_and_reduced_scale_in_columns_of_its_own(house):
    house.publish(PUBLISHED.replace("label: Big", 'label: "B,i\\"g\\n\\e[1m"'))
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    house.run(name, [30.0, 30.0, 30.0])
    house.run(name, [12.5], "cpu")
    comparison = compare()
    said = csv_table.render(comparison, comparison.papers[0])
    lines = list(csv.DictReader(io.StringIO(said)))
    big = [x for x in lines if x["row"] == "big" and x["metric"] == "bleu"]
    assert [(x["published"], x["mean"], x["reduced_mean"], x["reduced_scale"]) for x in big] == [
        ("30.0", "", "", ""),
        ("", "30.0", "", ""),
        ("", "", "12.5", "cpu"),
    ]
    assert [x["verdict"] for x in big] == ["reproduced", "reproduced", "reduced scale"]
    assert big[0]["label"].startswith('B,i"g')
    assert "\x1b" not in said
    assert {x["row"] for x in lines} == {"big", "base", "small", "drawn", "rival", "rerun"}
    assert next(x for x in lines if x["row"] == "rerun")["unconfirmed"] == "True"


@pytest.mark.parametrize("start", "=+-@")
def test_a_text_in_a_sheet_is_no_formula(house, start):
    house.publish(PUBLISHED.replace("label: Big", f"label: '{start}cmd|x!A0'"))
    said = csv_table.render(compare(), compare().papers[0])
    labels = {x["row"]: x["label"] for x in csv.DictReader(io.StringIO(said))}
    assert labels["big"] == f"'{start}cmd|x!A0"
    assert labels["base"] == "Base"
