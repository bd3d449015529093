"""Documents as Markdown, LaTeX and HTML: a template for each format.

Whatever a template shows is escaped for its format, unless it is marked as safe.

LaTeX is to be ``\\input``; it needs the packages booktabs and longtable. Pages are readable on a phone, in light and
dark, and on paper; they have no script and load nothing from elsewhere.
"""

import base64
import hashlib
import html
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from repro.evidence.text import NOTHING, clean
from repro.report.formats import blocks
from repro.report.formats.blocks import Document, Heading
from repro.report.views.words import WORDS

FOLDER = Path(__file__).with_name("templates")
HYPHEN = "\N{NON-BREAKING HYPHEN}"
_EXPONENT = re.compile(r"(?<=\de)-(?=\d)")
_ADDRESS = re.compile(r"(https://[^\s\"'<>]+[^\s\"'<>.,;)])")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{c: f"\\{c}" for c in "&%$#_"},
    **{c: f"{{{c}}}" for c in "[]-<>|\"'`*"},  # no optional argument, no ligature
    "\N{EN DASH}": "--", "\N{EM DASH}": "---", "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{MIDDLE DOT}": r"\textperiodcentered{}", "\N{HORIZONTAL ELLIPSIS}": r"\dots{}", "\N{MINUS SIGN}": "$-$",
}  # fmt: skip
_COMMANDS = "pm times infty le ge approx uparrow downarrow rightarrow alpha beta gamma varepsilon lambda mu sigma omega"
_LATEX |= {c: f"$\\{name}$" for c, name in zip("±×∞≤≥≈↑↓→αβγελμσω", _COMMANDS.split(), strict=True)}  # noqa: RUF001
_LAST_LATIN = 0x17F


def markdown(
    document: Document, plots: str = "../plots", tables: str | None = "", notice: bool = True
) -> str:
    """Renders a document as GitHub-flavoured Markdown.

    Args:
        document: its blocks.
        plots: path of the plots relative to the document.
        tables: path of the other documents relative to it, with a slash at the end; None where there are none.
        notice: whether the first line states that the file is generated.
    """
    return _template("md").render(document=document, plots=plots, tables=tables, notice=notice)


def latex(document: Document) -> str:
    """Renders a document as LaTeX, without its figures."""
    return _template("tex").render(document=document)


def page(
    document: Document, links: Sequence[tuple[str, str]] = (), plots: str = "../plots", pages: str = ""
) -> str:
    """Renders an HTML page; its title is the document's first heading.

    Args:
        document: its blocks.
        links: text and address of the links above the page.
        plots: path of the plots relative to the page.
        pages: path of the other pages relative to the page, with a slash at the end.
    """
    title = next((block.text for block in document if isinstance(block, Heading)), "")
    digest = base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()
    return _template("html").render(
        title=title, digest=digest, style=style(), links=links, document=document, plots=plots, pages=pages
    )


@cache
def style() -> str:
    """The style sheet, as included in each page."""
    return (FOLDER / "page.css").read_text(encoding="utf-8").strip()


def escape_markdown(text: object) -> str:
    """Text escaped for Markdown, also within a table cell."""
    words = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    words = re.sub(r"([\\`*\[\]|~$])", r"\\\1", words)
    # Underscores within a word never start emphasis; leaving them keeps metric names readable.
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", words)


def escape_latex(text: object) -> str:
    """Text escaped for LaTeX; a character that its fonts lack is named by its code point."""
    letters = (
        _LATEX.get(c, c if ord(c) <= _LAST_LATIN else f"{{[}}U+{ord(c):04X}{{]}}") for c in clean(text)
    )
    return "".join(letters)


def escape_html(text: object) -> str:
    """Text without control characters, escaped for HTML, also within an attribute."""
    return html.escape(clean(text))


ESCAPES: dict[str, Callable[[object], str]] = {
    "md": escape_markdown,
    "tex": escape_latex,
    "html": escape_html,
}


@cache
def _template(suffix: str) -> jinja2.Template:
    escape = ESCAPES[suffix]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else Markup(escape(value)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(vars(blocks), words=WORDS, nothing=NOTHING)
    environment.tests["a"] = isinstance
    environment.filters |= {
        "quoted": lambda address: Markup(quote(address, safe="/#")),
        "own_line": _own_line,
        "linked": _linked,
        "unbroken": lambda cell: Markup(_EXPONENT.sub(HYPHEN, escape(cell))),  # a browser would break 9e-11
    }
    return environment.get_template(f"document.{suffix}")


def _own_line(text: str) -> Markup:
    """Markdown on a line of its own, whose first characters must not start a heading, list or rule."""
    start = r"^(\d+(?=[.)](?:\s|$))|(?=[#+=-]))"
    return Markup(re.sub(start, r"\1\\", escape_markdown(text)))


def _linked(text: str) -> Markup:
    """HTML of a text whose web addresses become links."""
    parts = [html.escape(part) for part in _ADDRESS.split(clean(text))]  # every other one is an address
    return Markup("".join(f'<a href="{part}">{part}</a>' if i % 2 else part for i, part in enumerate(parts)))
