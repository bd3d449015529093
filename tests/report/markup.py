"""Reads a page back, as a browser does: end tags that HTML can do without are put in."""

from html.parser import HTMLParser

VOID = {"meta", "input", "img", "br", "link"}
# Which open elements a start tag ends, as far as the page leaves their ends out.
ENDS = {
    "td": {"td", "th"}, "th": {"td", "th"}, "tr": {"td", "th", "tr"}, "li": {"li"}, "dt": {"dt", "dd"},
    "dd": {"dt", "dd"}, "option": {"option"}, "optgroup": {"option"}, "tbody": {"td", "th", "tr", "tbody", "thead"},
    "thead": set(),
}  # fmt: skip
OPTIONAL = {"td", "th", "tr", "li", "dt", "dd", "option", "tbody", "thead"}


class Element:
    def __init__(self, name, attributes, parent):
        self.name, self.attributes, self.parent = name, attributes, parent
        self.children = []

    def get(self, key):
        return self.attributes.get(key)

    def walk(self):
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child.walk()

    def all(self, name=None, **attributes):
        expected = {("class" if k == "cls" else k.replace("_", "-")): v for k, v in attributes.items()}
        return [
            e
            for e in self.walk()
            if (name is None or e.name == name) and all(_fits(e.get(k), k, v) for k, v in expected.items())
        ]

    def one(self, name=None, **attributes):
        (result,) = self.all(name, **attributes)
        return result

    def first(self, name=None, **attributes):
        return self.all(name, **attributes)[0]

    @property
    def raw(self):
        return "".join(c.raw if isinstance(c, Element) else c for c in self.children)

    @property
    def text(self):
        return " ".join(self.raw.split())

    def above(self, name):
        element = self.parent
        while element is not None and element.name != name:
            element = element.parent
        return element


def _fits(there, key, wanted):
    return wanted in (there or "").split() if key == "class" else there == wanted


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = Element("#root", {}, None)
        self.open = [self.root]

    def handle_starttag(self, tag, attrs, closed=False):
        while self.open[-1].name in ENDS.get(tag, ()):
            self.open.pop()
        assert len({name for name, _ in attrs}) == len(attrs), f"<{tag}> has an attribute twice: {attrs}"
        made = Element(tag, dict(attrs), self.open[-1])
        self.open[-1].children.append(made)
        if tag not in VOID and not closed:
            self.open.append(made)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs, closed=True)

    def handle_endtag(self, tag):
        while self.open[-1].name != tag:
            assert self.open[-1].name in OPTIONAL, f"</{tag}> within <{self.open[-1].name}>"
            self.open.pop()
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read(page):
    """The page as a tree; a tag that is not ended properly is an error."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == [reader.root], [e.name for e in reader.open]
    return reader.root
