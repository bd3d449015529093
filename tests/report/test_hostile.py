"""Text of others cannot become markup, commands or control sequences, wherever it stands and in every format."""

import dataclasses
import re

import pytest

from repro.evidence.table import read_evidence
from repro.evidence.verified import DIFFERS, Verified, keep
from repro.record import Measurement, write_record
from repro.report.formats.terminal import diff_runs, render, show_run, terminal_table
from repro.report.render import drawn, figures_of, pages, tables
from repro.report.views.first_screen import COMMANDS
from repro.report.views.rows import list_grid, list_rows
from repro.report.views.tests import document_of_tests
from tests.report.fakes import HEAD, PUBLISHED, TEST, House, make_record
from tests.report.markup import read

TEXTS = {
    "element": "<script>alert('pwned')</script>",
    "end of script": "</script></style></svg></pre><script>alert('pwned')</script>",
    "attribute": '"\' onmouseover=pwned() x="',
    "comment": "--><img src=x onerror=pwned()><!--",
    "cdata": "]]><svg/onload=pwned()>",
    "entity": "&lt;img src=x onerror=pwned()&gt;",
    "address": "javascript:pwned()",
    "markdown": "](javascript:pwned()) ![x](http://x.y/z) `code` | cell\n\n# heading\n<b>",
    "latex": "\\input{/etc/passwd} \\write18{pwned} $x$ % & # _ ^ ~ {",
    "terminal": "\x1b]0;pwned\x07\x1b[2J\x9b31m\r\b\u202e",
    "sheet": "=cmd|' /C pwned'!A0",
    "placeholder": "<!--toy--big--paper.svg-->",
}
ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "nav", "main", "footer", "div", "p", "span", "img", "a", "code",
    "pre", "h1", "h2", "h3", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption",
}  # fmt: skip


def poison(house, text):
    """One text wherever a record, a recipe or a published file holds one."""
    quoted = "'" + re.sub(r"[\x00-\x1f\x7f-\x9f]", "", text).replace("'", "''") + "'"
    published = PUBLISHED
    for plain in (
        "A Toy Paper",
        "Ada Lovelace",
        "toy-text",
        "Toys are small.",
        "Bigger is better.",
        "'per word'",
        "Seeds",
    ):
        published = published.replace(plain, quoted)
    house.publish(re.sub(r"label: Big\b", lambda _: f"label: {quoted}", published))
    says = TEST.replace("Big has more BLEU than base after 100 updates.", quoted)
    says += f"    other_quantity: {quoted}\n    check: {quoted}\n"
    untested = (
        f"  {{base-ties-small: {{missing: {quoted}, why: {quoted}}}, lower-perplexity: {{why: {quoted}}}}}\n"
    )
    house.test(f"{HEAD}tests:{says}untested:\n{untested}")
    house.recipe("base", scale="small")
    house.recipe("big", scale="small")
    name = house.recipe("big")
    house.recipe("base")
    protocol = {text: text, "beam": 4}
    numbers = [
        Measurement("test/bleu", 30.0, text, text, protocol, 50),
        Measurement(text, 1.0, "BLEU", "test", {"sweep": "beam", "of": text, "beam": 4}),
    ]
    changes = {
        "config": {"trainer": {text: text}, "model": [text], "title": text},
        "command": text,
        "commit": text,
        "versions": {text: text},
        "hardware": {text: text},
        "precision": text,
        "data": {"name": text, "counts": {text: {text: text}}, text: [text]},
        "metrics": numbers,
        "curves": {f"val/{text}": [[0, 1.0], [1, 2.0]], "train/loss": [[0, 1.0], [1, 2.0]]},
        "deviations": [text],
        "wandb_url": text,
        "start_from": {"run_id": text},
        "code_sha256": text,
        "checkpoint_sha256": text,
    }
    made = dataclasses.replace(make_record(name, 1, 30.0), **changes)
    other = dataclasses.replace(made, seed=2, command=text + "2", experiment="toy/gone")
    small = [
        dataclasses.replace(make_record(f"toy/{row}", 1, 30.0, "small"), **(changes | {"metrics": numbers}))
        for row in ("big", "base")
    ]
    for record in (made, other, *small):
        write_record(record, house.results / "runs")
    damaged = dataclasses.replace(made, seed=3, finished=text)  # which no time is
    (house.results / "runs" / name / "damaged.json").write_text(damaged.to_json())
    keep(house.results, Verified(text, text, text, DIFFERS, False, text))
    return made


@pytest.fixture(params=TEXTS.values(), ids=TEXTS, scope="module")
def poisoned(tmp_path_factory, request):
    """The text, a record that holds it, and every generated file."""
    root = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_RESULTS", str(root / "results"))
        patch.setenv("REPRO_CONFIGS", str(root / "configs"))
        house = House(root)
        made = poison(house, request.param)
        result = read_evidence()
        figures = figures_of(result)
        files = (
            tables(result, house.results)
            | pages(result, house.results, figures)
            | drawn(figures, house.results)
        )
        yield (
            request.param,
            made,
            {p.relative_to(house.results).as_posix(): d.decode() for p, d in files.items()},
        )


def controls(said):
    return re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", said)


def test_no_format_holds_a_control_character(poisoned):
    for name, output in poisoned[2].items():
        assert controls(output) == [], name


def test_the_page_has_no_element_attribute_or_address_of_it(poisoned):
    text, _, files = poisoned
    words = max(re.findall(r"[a-z]{4,}", text), key=len)
    displayed = 0
    for name in (name for name in files if name.endswith(".html")):
        tree = read(files[name])
        assert {e.name for e in tree.walk()} <= ELEMENTS
        assert "pwned" not in tree.one("style").raw
        names = {name for e in tree.walk() for name in e.attributes}
        assert {name for name in names if name.startswith("on") or name in ("style", "srcdoc", "x=")} == set()
        addresses = [e.get(key) for e in tree.walk() for key in ("href", "src") if e.get(key)]
        assert all(
            re.match(r"(\.\./)?(plots/|pages/)?[\w.%#@-]+$|https://arxiv\.org/", a) for a in addresses
        ), addresses
        displayed += tree.raw.count(words)
    assert displayed > 40  # it is shown, as text


def test_figures_are_well_formed_and_hold_only_shapes(poisoned):
    from xml.etree import ElementTree

    figures = {name: output for name, output in poisoned[2].items() if name.endswith(".svg")}
    assert figures
    for output in figures.values():
        root = ElementTree.fromstring(output)
        assert {e.tag.rpartition("}")[2] for e in root.iter()} <= {
            "svg", "style", "defs", "clipPath", "rect", "text", "g", "path", "use", "title",
            "metadata", "RDF", "Work", "type", "format", "creator", "Agent",
        }  # fmt: skip
        assert not any(name.startswith("on") for e in root.iter() for name in e.attrib)


def test_markdown_has_no_markup_of_it(poisoned):
    for name, output in poisoned[2].items():
        if name.endswith(".md"):
            body = output.split("\n", 1)[1].replace(f"```sh\n{COMMANDS}\n```", "")
            assert not re.search(r"<(?!!--)", body), name
            assert not re.search(r"(?<!\\)\]\((?!\.\./plots/|tests\.md#|toy\.md\))", body), name
            assert not re.search(r"(?<!\\)`", body), name
            assert not re.search(r"^# heading", body, re.M), name


def test_latex_has_no_command_of_it(poisoned):
    output = "\n".join(line for line in poisoned[2]["tables/toy.tex"].split("\n") if not line.startswith("%"))
    commands = set(re.findall(r"\\([a-zA-Z]+)", output))
    assert not commands & {"input", "write", "include", "def", "immediate"}
    depth = 0
    for token in re.findall(r"\\.|[{}]", output, re.S):
        depth += {"{": 1, "}": -1}.get(token, 0)
        assert depth >= 0
    assert depth == 0


def test_a_sheet_has_its_columns_and_no_formula(poisoned):
    import csv
    import io

    lines = list(csv.reader(io.StringIO(poisoned[2]["tables/toy.csv"])))
    assert len({len(line) for line in lines}) == 1
    assert not any(re.match(r"[=@\t\r]", cell) for line in lines for cell in line)


def test_a_terminal_gets_no_sequence_of_it(poisoned):
    _, made, _ = poisoned
    other = dataclasses.replace(made, commit="x", precision="y")
    for output in (
        show_run(made),
        terminal_table(made),
        diff_runs(made, other),
        render([list_grid(list_rows(read_evidence()))]),
        render(document_of_tests(read_evidence())),
    ):
        assert controls(output) == []
