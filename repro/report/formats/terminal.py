"""Rows and records in a terminal: the table after a run, one run in full, the difference of two."""

import itertools
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from functools import partial

from repro.evidence import text
from repro.evidence.published import Paper, load_paper, paper_keys
from repro.recipe import change_data, differing_keys, flatten
from repro.record import CurvePoint, Measurement, RunRecord, made_by
from repro.report.formats.blocks import Block, Bullets, Code, Document, Figure, Grid, Heading, Paragraph
from repro.report.views.runs import commit
from repro.report.views.words import at_scale

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60  # of a curve
WIDTH = 100  # of a line of words


def text_table(rows: Iterable[Iterable[str]], headers: Iterable[str]) -> str:
    """A table in text, as wide as the terminal; where there is no terminal, as wide as its longest line."""
    from tabulate import tabulate

    table = [list(headers), *([text.clean(cell) for cell in row] for row in rows)]
    if width := terminal_width():
        widths = _widths(table, width)
        fill = partial(textwrap.fill, break_on_hyphens=False, break_long_words=False)
        table = [list(map(fill, row, widths)) for row in table]
    # Numbers come as they must be shown; tabulate must not parse them again.
    return tabulate(table[1:], headers=table[0], tablefmt="simple", disable_numparse=True)


def terminal_width() -> int | None:
    """Columns of the terminal; None where standard output is a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _widths(table: Sequence[Sequence[str]], total: int) -> list[int]:
    """Widths of columns, two apart, in ``total``: the widest are cut first, down to their longest words."""
    padded = [name.replace(" ", "__ ") + "__" for name in table[0]]  # tabulate makes headings two wider
    columns = list(zip(padded, *table[1:], strict=True))
    widths = [max(map(len, column)) for column in columns]
    words = [max(len(word) for cell in column for word in cell.split(" ")) for column in columns]
    excess = sum(widths) + 2 * (len(widths) - 1) - total
    while excess > 0 and (wide := [i for i, width in enumerate(widths) if width > words[i]]):
        widths[max(wide, key=widths.__getitem__)] -= 1
        excess -= 1
    return widths


def terminal_table(record: RunRecord, most: int | None = None) -> str:
    """Returns a table of the numbers of a run, with published numbers at paper scale on the recipe's data only.

    Args:
        record: of the run.
        most: the most numbers, one BLEU among them, unless its recipe names more in ``reproduces``, which come first; a
            last line counts the others. None for all.
    """
    key, goals = record.experiment.partition("/")[0], record.config.get("reproduces") or ()
    paper = load_paper(key) if key in paper_keys() else None  # none of the user's own
    named = [m for m in record.metrics if any(goal["measured"] == m.name for goal in goals)]
    metrics = [*named, *(m for m in record.metrics if m not in named)]
    brief = [m for m in metrics if m in named or "/bleu_" not in m.name]
    listed = metrics if most is None else brief[: max(most, len(named))]
    other = (
        "reduced scale" if record.scale != "paper" else "other data" if change_data(record.overrides) else ""
    )
    rows = []
    for m in listed:
        published = other or published_numbers(goals, m.name, paper)
        labels = (record.experiment, record.scale, str(record.seed), m.name)
        rows.append((*labels, text.number(m.value), m.unit, m.split, published))
    table = text_table(rows, ("experiment", "scale", "seed", "metric", "value", "unit", "split", "published"))
    left = len(metrics) - len(listed)
    return f"{table}\n{left} more numbers: --all shows them here, `repro show` any time" if left else table


def render(document: Document) -> str:
    """A document as text, without its figures."""
    return "\n\n".join(filter(None, map(_block, document)))


def _block(block: Block) -> str:
    match block:
        case Heading(_, words) | Paragraph(words):
            return textwrap.fill(text.clean(words), WIDTH)
        case Code(lines):
            return lines
        case Bullets(items):
            return "\n".join(f"- {text.clean(item)}" for item in items)
        case Grid(header, rows):
            return text_table((map(str, row) for row in rows), header)
        case Figure():
            return ""


def published_numbers(goals: Sequence[dict[str, str]], name: str, paper: Paper | None) -> str:
    """The published numbers that a recipe's ``reproduces`` compares with a measurement."""
    values = []
    for goal in goals:
        table = paper.tables.get(goal["table"]) if paper else None
        row = table.rows.get(goal["row"]) if table else None
        if goal["measured"] == name and table and row:
            value = text.printed(row.values.get(goal["metric"]))
            values.append(f"{value} ({table.number}, {row.label})")
    return "; ".join(values) or text.NOTHING


def sparkline(points: Sequence[CurvePoint], width: int = _WIDTH) -> str:
    """Draws a curve as a line of block characters, at most ``width`` wide."""
    values = [point[1] for point in points if point[1] is not None]
    if not values:
        return ""
    if len(values) > width:
        # The mean over each of `width` equal parts: a single outlier does not vanish between two samples.
        edges = [round(i * len(values) / width) for i in range(width + 1)]
        parts = [values[a:b] for a, b in itertools.pairwise(edges)]
        values = [sum(part) / len(part) for part in parts]
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(_BARS[min(7, int((v - low) / span * 8))] for v in values)


def show_run(record: RunRecord) -> str:
    """Describes a run: facts, numbers, curves, configuration."""
    facts = [
        ("run", record.run_id),
        ("scale", at_scale(record.scale)),
        ("finished", record.finished),
        ("commit", commit(record)),
        ("hardware", text.mapping(record.hardware)),
        ("precision", record.precision),
        ("parameters", text.count(record.parameters or None)),
        ("updates", text.count(record.steps)),
        ("tokens", text.count(record.tokens)),
        ("wall time", text.duration(record.wall_seconds)),
        ("GPU hours", f"{record.gpu_hours:.2f}"),
        ("peak memory", text.size(record.peak_bytes) if record.peak_bytes else text.NOTHING),
        ("data", text.mapping(record.data)),
        ("versions", text.mapping(dict(record.versions))),
        ("W&B", record.wandb_url or text.NOTHING),
        ("command", record.command or text.NOTHING),
    ]
    facts += [("deviation", deviation) for deviation in record.deviations]
    for one in record.attempts if record.mixed else ():
        made = f"at commit {str(one['commit'])[:8]}, {text.mapping(made_by(one))}"
        facts.append(("mixed", f"updates after {one['first']} up to {one['last']} {made}"))
    stated = [f"{name:<12}{text.clean(value)}" for name, value in facts]
    curves = [curve_line(name, points) for name, points in sorted(record.curves.items()) if points]
    keys = flatten({k: v for k, v in record.config.items() if isinstance(v, dict)})
    settings = [text.clean(f"{key}: {value}") for key, value in keys.items()]
    return "\n\n".join(filter(None, map("\n".join, (stated, [terminal_table(record)], curves, settings))))


def curve_line(name: str, points: Sequence[CurvePoint]) -> str:
    """A line with the name of a curve, the curve and its ends."""
    first, last = points[0], points[-1]
    ends = f"{text.number(first[1])} at {first[0]:g}, {text.number(last[1])} at {last[0]:g}"
    return f"{text.clean(name):<24}{sparkline(points)}  {ends}"


def diff_runs(a: RunRecord, b: RunRecord) -> str:
    """Compares two runs: different configuration keys, then every number side by side."""
    keys = differing_keys(flatten(a.config), flatten(b.config))
    for name in ("scale", "seed", "commit", "dirty", "hardware", "precision", "parameters", "versions"):
        keys += differing_keys(*(flatten({name: getattr(run, name)}) for run in (a, b)))
    diff = "\n".join(text.clean(key) for key in keys) or "Same configuration, seed, commit and hardware."
    return f"{text.clean(a.run_id)}\n{text.clean(b.run_id)}\n\n{diff}\n\n{_numbers(a, b)}"


def _numbers(a: RunRecord, b: RunRecord) -> str:
    def key(m: Measurement) -> tuple[str, str, str, str]:
        return m.name, m.unit, m.split, text.mapping(m.protocol)

    old, new = {key(m): m.value for m in a.metrics}, {key(m): m.value for m in b.metrics}
    rows = []
    for k in sorted(old.keys() | new.keys()):
        change = text.signed(new[k] - old[k]) if k in old and k in new else text.NOTHING
        rows.append((*k[:3], text.number(old.get(k)), text.number(new.get(k)), change, k[3]))
    return text_table(rows, ("metric", "unit", "split", "first", "second", "second - first", "protocol"))
