"""Markup that cannot be injected into: whatever is not :class:`Html` is escaped where it enters a tree.

End tags and quotes that HTML can do without are left out: of a page that is mostly tables they are a fifth.
"""

import html
import re

from repro.report.text import clean

Attribute = str | int | bool | None
# Each begins a line, so that two versions of the page can be compared line by line.
_LINES = frozenset(
    ("html", "head", "body", "header", "main", "footer", "section", "details", "tbody", "tr", "figure", "svg", "form",
     "ul", "ol", "li", "dl", "style")
)  # fmt: skip
_OPEN = frozenset(
    ("td", "th", "tr", "thead", "tbody", "li", "dt", "dd", "option")
)  # the next start tag ends these
_BARE = re.compile(r"[A-Za-z0-9_.#@-]+")


class Html(str):
    """Markup, to be shown as it is. Made by the functions of this module, from texts that they escaped."""

    __slots__ = ()


def escape(text: str) -> Html:
    """A text that HTML shows as it is, also within an attribute; a blank at either end stays."""
    if isinstance(text, Html):
        return text
    said = clean(text)
    before, after = (" " if said and end.isspace() else "" for end in (text[:1], text[-1:]))
    return Html(f"{before}{html.escape(said, quote=True)}{after}")


def tag(name: str, /, *children: str, **attributes: Attribute) -> Html:
    """An element.

    Args:
        name: of the element.
        children: texts, which are escaped, and markup.
        attributes: ``data_v`` becomes ``data-v``, ``cls`` becomes ``class``; None and False leave one out, True gives
            it no value.
    """
    inner = "".join(map(escape, children))
    line = "\n" if name in _LINES else ""
    end = "" if name in _OPEN else f"</{name}>"
    return Html(f"{line}<{name}{_attributes(attributes)}>{inner}{end}")


def void(name: str, /, **attributes: Attribute) -> Html:
    """An element without content, such as ``img``."""
    return Html(f"<{name}{_attributes(attributes)}>")


def leaf(name: str, /, **attributes: Attribute) -> Html:
    """An element of SVG without content, such as ``path``."""
    said = _attributes(attributes)
    return Html(f"<{name}{said}{'' if said.endswith(chr(34)) else ' '}/>")


def _attributes(attributes: dict[str, Attribute]) -> str:
    said = []
    for key, value in attributes.items():
        name = "class" if key == "cls" else key.replace("_", "-")
        if value is True:
            said.append(f" {name}")
        elif value is not None and value is not False:
            words = escape(str(value))
            said.append(f" {name}={words}" if _BARE.fullmatch(words) else f' {name}="{words}"')
    return "".join(said)


def verbatim(text: str) -> Html:
    """Lines as they stand, for ``pre``: line breaks and indents stay, other control characters are replaced."""
    return Html("\n".join(_indented(line) for line in text.split("\n")))


def _indented(line: str) -> str:
    words = line.lstrip(" ")
    return " " * (len(line) - len(words)) + escape(words)


def outside(url: str, text: str | None = None) -> Html:
    """A link to another site where the address is one of the web; else its text: no ``javascript:`` is followed."""
    if re.match(r"https?://[^\s/]", url):
        return tag("a", text or url, href=url, rel="noreferrer")
    return escape(text or url)


def join(parts: list[Html], between: str = "") -> Html:
    """Pieces of markup in a row."""
    return Html(escape(between).join(parts))


def columns(titles: "tuple[str, ...] | list[str]", right: frozenset[str]) -> Html:
    """The head of a table; the titles in ``right`` stand above numbers."""
    return tag(
        "thead", tag("tr", *(tag("th", t, scope="col", cls="n" if t in right else None) for t in titles))
    )


def scroll(name: str, *content: str, cls: str | None = None) -> Html:
    """A table that scrolls within itself, by keyboard, too."""
    return tag(
        "div", tag("table", *content, cls=cls), cls="scroll", tabindex=0, role="region", aria_label=name
    )


def bullets(items: "list[str] | tuple[str, ...]", cls: str) -> Html:
    """A list; nothing where it is empty."""
    return tag("ul", *(tag("li", item) for item in items), cls=cls) if items else Html()
