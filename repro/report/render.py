"""Every generated file: computed in memory, then written or compared with what is there."""

from collections.abc import Callable
from pathlib import Path

from repro import paths
from repro.errors import UserError
from repro.evidence import csv_table as sheet
from repro.evidence.claims import Claim, claims
from repro.evidence.compare import Comparison, compare
from repro.evidence.ledger import append_missing, check_records
from repro.evidence.published import validate_published
from repro.files import alone
from repro.paths import files_in, records_dirs, results_dir, results_dirs
from repro.recipe import forget_files
from repro.record import write_atomic
from repro.report import parity
from repro.report.crossover import crossover
from repro.report.crossover import document as crossover_document
from repro.report.crossover import picture as crossover_picture
from repro.report.formats import latex, markdown
from repro.report.formats.blocks import Document, Figure, Heading, Paragraph
from repro.report.formats.claims_document import claims_document
from repro.report.formats.documents import paper_document, runs_document
from repro.report.formats.headline import headline, summary, totals
from repro.report.parity import read_parity
from repro.report.plots import plots
from repro.report.plots.chart import Chart
from repro.report.plots.files import content, is_locked
from repro.report.plots.headlines import headlines, in_order, short_title
from repro.report.plots.plot import Plot
from repro.report.site import page

BEGIN, END = "<!-- headline:begin -->", "<!-- headline:end -->"
_SUFFIXES = (".md", ".tex", ".csv", ".svg", ".png")


def render_all(results: Path) -> dict[Path, bytes]:
    """Every generated file below ``results``: its path and its bytes; nothing is written.

    Raises:
        UserError: a published file, recipe or record that contradicts its schema.
    """
    validate_published()
    return _everything(results)[0]


def _everything(results: Path, check: bool = False) -> tuple[dict[Path, bytes], str]:
    """The generated files, and the README's block."""
    comparison = compare()
    judged = claims(comparison)
    return _files(comparison, judged, results, check), _block(comparison, judged)


def _files(comparison: Comparison, claims: list[Claim], results: Path, check: bool) -> dict[Path, bytes]:
    """The generated files. An existing figure that shows the same data is kept.

    A check draws every figure again, where the library that draws it has the locked version: then the bytes agree.
    """
    figures = _figures(comparison, claims)
    again = {library: check and is_locked(library) for library in ("matplotlib", "pillow")}
    there = files_in([folder / "plots" for folder in results_dirs()], "*")
    drawn = {
        p.name: content(p, there.get(p.name, results / "plots" / p.name), again[p.library]) for p in figures
    }
    files = {results / "plots" / name: data for name, data in drawn.items()}
    tables = results / "tables"
    for paper in comparison.papers:
        mine = [plot for plot in figures if plot.name.startswith(f"{paper.key}--")]
        document = paper_document(comparison, paper, mine)
        files[tables / f"{paper.key}.md"] = markdown.render(document).encode()
        files[tables / f"{paper.key}.tex"] = latex.render(document).encode()
        files[tables / f"{paper.key}.csv"] = sheet.render(comparison, paper).encode()
    files[tables / "README.md"] = markdown.render(_overview(comparison, claims)).encode()
    files[tables / "claims.md"] = markdown.render(claims_document(claims)).encode()
    if met := read_parity():
        files[tables / "parity.md"] = markdown.render(parity.document(met, _titles(comparison))).encode()
    if (study := crossover(comparison)) is not None:
        files[tables / "crossover.md"] = markdown.render(crossover_document(study)).encode()
    files[tables / "runs.md"] = markdown.render(runs_document(comparison)).encode()
    files[results / "index.html"] = page.render(comparison, claims, figures, drawn).encode()
    return files


def _figures(comparison: Comparison, claims: list[Claim]) -> list[Plot]:
    """Every figure; nothing is drawn yet."""
    study = crossover(comparison)
    ours = [crossover_picture(study)] if study and study.cells else []
    titles = [(paper.key, short_title(paper)) for paper in in_order(comparison.papers)]
    trained = parity.picture(read_parity(), titles)
    ours += [trained] if trained else []
    return [*headlines(comparison.papers, claims), *ours, *plots(comparison, *records_dirs())]


def render_headline() -> str:
    """The generated block of the project's README, without its markers."""
    comparison = compare()
    return _block(comparison, claims(comparison))


def _block(comparison: Comparison, claims: list[Claim]) -> str:
    document = summary(comparison, claims)
    if met := read_parity():
        document = [
            Figure(parity.PICTURE, parity.CAPTION),
            Paragraph(parity.SAYS),
            parity.summary(met, _titles(comparison)),
            Paragraph(totals(comparison)),
        ]
    return markdown.render(document, "results/plots", notice=False)


def _titles(comparison: Comparison) -> Callable[[str], str]:
    """Titles of papers by their keys."""
    return {paper.key: paper.title for paper in comparison.papers}.__getitem__


def render_overview() -> str:
    """``results/tables/README.md``: the content of the README's block, and every result behind it."""
    comparison = compare()
    return markdown.render(_overview(comparison, claims(comparison)))


def _overview(comparison: Comparison, claims: list[Claim]) -> Document:
    return [Heading(1, "Overview"), *headline(comparison, claims)]


def write_tables() -> list[Path]:
    """Writes every generated file that differs and removes generated files that no record needs.

    Before that, the ledger of the records gets the lines that it lacks. The README's block is written only where the
    results are the checkout's own. Processes that end at the same time do this one after the other.

    Returns:
        The paths that were written or removed.
    """
    forget_files()
    results = results_dir()
    with alone(results):
        return _write_tables(results)


def _write_tables(results: Path) -> list[Path]:
    validate_published()
    ledger = append_missing(results / "runs")
    files, block = _everything(results)
    readme = _readme(block)
    changed = [ledger] if ledger else []
    for path, data in files.items():
        if not _same(path, data):
            write_atomic(path, data)
            changed.append(path)
    for path in _leftovers(results, files):
        path.unlink(missing_ok=True)
        changed.append(path)
    if readme is not None and readme[1] != readme[2]:
        write_atomic(readme[0], readme[2].encode())
        changed.append(readme[0])
    return changed


def write_pdfs(folder: Path) -> list[Path]:
    """Writes every chart as PDF into a folder, which is made; returns the paths."""
    from repro.report.plots.drawing import pdf

    comparison = compare()
    figures = _figures(comparison, claims(comparison))
    charts = [plot for plot in figures if isinstance(plot.content, Chart)]
    paths = [(folder / plot.name).with_suffix(".pdf") for plot in charts]
    for path, plot in zip(paths, charts, strict=True):
        assert isinstance(plot.content, Chart)
        write_atomic(path, pdf(plot.content))
    return paths


def check_tables() -> list[str]:
    """Problems of the records and their ledger, and generated files that differ; empty when all is in order."""
    results = results_dir()
    validate_published()
    problems = check_records(results / "runs")
    files, block = _everything(results, check=True)
    for path, data in files.items():
        name = path.relative_to(results).as_posix()
        if not path.is_file():
            problems.append(f"{name} is missing")
        elif not _same(path, data):
            problems.append(f"{name} differs from the records{_first_difference(path.read_bytes(), data)}")
            if path.parent.name == "plots":
                problems[-1] += "; if repro tables leaves it so, delete it first"
    leftovers = _leftovers(results, files)
    problems += [f"{path.relative_to(results).as_posix()} belongs to no record" for path in leftovers]
    readme = _readme(block)
    if readme is not None and readme[1] != readme[2]:
        problems.append("README.md: the headline block differs from the records")
    return problems


def _same(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def _first_difference(current: bytes, expected: bytes) -> str:
    if expected.startswith(b"\x89PNG"):
        return ""  # of a picture, lines mean nothing
    old, new = current.decode(errors="replace").split("\n"), expected.decode(errors="replace").split("\n")
    for i in range(min(len(old), len(new))):
        if old[i] != new[i]:
            return f" (line {i + 1})"
    return f" (line {min(len(old), len(new)) + 1})"


def _leftovers(results: Path, files: dict[Path, bytes]) -> list[Path]:
    existing = [*(results / "tables").glob("*"), *(results / "plots").glob("*")]
    return sorted(p for p in existing if p not in files and p.suffix in _SUFFIXES)


def _readme(block: str) -> tuple[Path, str, str] | None:
    """The README's current and its required text; None where it is not these results' README.

    Raises:
        UserError: the README has not exactly one pair of markers.
    """
    path = paths.PROJECT / "README.md"
    if not path.is_file() or results_dir().resolve() != (paths.PROJECT / "results").resolve():
        return None
    current = path.read_text(encoding="utf-8")
    before, begin, tail = current.partition(BEGIN)
    _, end, after = tail.partition(END)
    if not (begin and end) or BEGIN in tail or END in before + after:
        raise UserError(f"{path}: needs one line {BEGIN!r} and one line {END!r} below it")
    return path, current, f"{before}{BEGIN}\n{block}{END}{after}"
