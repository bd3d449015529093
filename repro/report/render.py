"""Generated files: computed in memory, then written, or compared with the existing ones.

git keeps the evidence, the tables, README's block and the figures that documents show, which ``.gitignore`` names. The
page and all other figures are built; nothing checks them.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from repro import paths
from repro.errors import UserError
from repro.evidence.ledger import append_missing, check_records
from repro.evidence.official import read_parity
from repro.evidence.table import FILE, Evidence, as_json, read_evidence, table
from repro.files import alone
from repro.paths import files_in, results_dir, results_dirs
from repro.recipe import forget_files
from repro.record import read_records, write_atomic
from repro.report import crossover, parity
from repro.report.formats import documents as formats
from repro.report.formats.blocks import Document
from repro.report.plots import tested
from repro.report.plots.files import content
from repro.report.plots.plot import Plot
from repro.report.plots.recorded import curves, memories, sweeps
from repro.report.views.first_screen import overview, summary
from repro.report.views.own import OwnPage, own_list, own_pages
from repro.report.views.papers import paper_document
from repro.report.views.rows import as_csv
from repro.report.views.runs import runs_document
from repro.report.views.tests import document_of_tests, name_of, one_test

BEGIN, END = "<!-- headline:begin -->", "<!-- headline:end -->"
OVERVIEW = "README"
_SUFFIXES = (".md", ".tex", ".csv", ".svg", ".png", ".html")

Files = dict[Path, bytes]


def tables(evidence: Evidence, results: Path) -> Files:
    """The generated files that git keeps, less figures, and the project's README with its block."""
    folder, flat = results / "tables", table(evidence)
    files = {results / FILE: as_json(flat)}
    for name, document in documents(evidence).items():
        files[folder / f"{name}.md"] = formats.markdown(document)
        if name in evidence.files:
            files[folder / f"{name}.tex"] = formats.latex(document)
            files[folder / f"{name}.csv"] = as_csv([row for row in flat["numbers"] if row["paper"] == name])
    files |= _readme(block(evidence))
    return {path: text.encode() for path, text in files.items()}


def documents(evidence: Evidence, figures: Collection[Plot] = ()) -> dict[str, Document]:
    """Returns every document by name; without ``figures`` only with figures that git keeps."""
    titles = {paper.key: paper.title for paper in evidence.papers}
    named = {OVERVIEW: overview(evidence, figures), "tests": document_of_tests(evidence)}
    named |= {paper.key: paper_document(evidence, paper, figures) for paper in evidence.papers}
    if comparisons := read_parity():
        named["parity"] = parity.document(comparisons, titles.__getitem__)
    if study := crossover.crossover(evidence.comparison):
        named["crossover"] = crossover.document(study)
    return {**named, "runs": runs_document(evidence)}


def pages(found: Evidence, results: Path, figures: Mapping[str, Plot], own: Sequence[OwnPage] = ()) -> Files:
    """The site: ``index.html``, and a page for each document, each test and each recipe of one's own runs."""
    named = documents(found, figures.values())
    links = [("Overview", "../index.html"), *((name, f"{name}.html") for name in named if name != OVERVIEW)]
    for one in found.tests:
        named[name_of(one)] = one_test(found, one, figures.values())
    named |= {one.name: one.document for one in own}
    named[OVERVIEW][1:1] = own_list(own)
    made = {
        results / "pages" / f"{name}.html": formats.page(document, links).encode()
        for name, document in named.items()
        if name != OVERVIEW
    }
    first = [(name, f"pages/{address}") for name, address in links[1:]]
    index = formats.page(named[OVERVIEW], first, plots="plots", pages="pages/")
    return {results / "index.html": index.encode(), **made}


def figures_of(evidence: Evidence) -> dict[str, Plot]:
    """Returns the data of every figure by name, each kind in the order of a page."""
    titles = [(paper.key, paper.short_title) for paper in evidence.papers]
    study = crossover.crossover(evidence.comparison)
    every = [
        *tested.pictures(evidence),
        parity.picture(read_parity(), titles),
        *tested.effects(evidence),
        *tested.each_test(evidence),
        *sweeps(evidence.comparison),
        *curves(evidence.comparison),
        *memories(evidence.comparison),
        crossover.picture(study) if study and study.cells else None,
    ]
    return {plot.name: plot for plot in every if plot}


def drawn(figures: Mapping[str, Plot], results: Path) -> Files:
    """Returns the files of figures; existing files with the same data are kept."""
    present = files_in([folder / "plots" for folder in results_dirs()], "*")
    folder = results / "plots"
    return {folder / name: content(plot, present.get(name, folder / name)) for name, plot in figures.items()}


def block(evidence: Evidence) -> str:
    """The generated block of the project's README, without its markers."""
    return formats.markdown(summary(evidence), "results/plots", "results/tables/", notice=False)


def write_tables(site: bool = False) -> list[Path]:
    """Writes every generated file that differs and removes generated files that nothing needs.

    First, missing lines are appended to the ledger. The README's block is written only with the checkout's own
    results. Processes do this one after the other.

    Args:
        site: whether the page and all figures are built, too.

    Returns:
        The paths that were written or removed.
    """
    forget_files()
    results = results_dir()
    with alone(results):
        return _write_tables(results, site)


def _write_tables(results: Path, site: bool) -> list[Path]:
    ledger = append_missing(results / "runs")  # runs.md shows its reasons
    evidence = read_evidence()
    files = tables(evidence, results)
    if site:
        trials = paths.trials_dir()
        is_own = trials != results or paths.project() != paths.PROJECT  # else they are the checkout's results
        own = own_pages(read_records(trials / "runs").good) if is_own else []
        figures = figures_of(evidence) | {one.plot.name: one.plot for one in own if one.plot}
        files |= pages(evidence, results, figures, own) | drawn(figures, results)
    changed = [ledger] if ledger else []
    for path, data in files.items():
        if not _same(path, data):
            write_atomic(path, data)
            changed.append(path)
    folders = ("tables", "plots", "pages") if site else ("tables",)
    for path in _leftovers(results, files, folders):
        path.unlink(missing_ok=True)
        changed.append(path)
    return changed


def check_tables() -> list[str]:
    """Returns the problems of records and ledger, and the tables that differ; empty without problems."""
    results = results_dir()
    evidence = read_evidence()
    problems = check_records(results / "runs")
    files = tables(evidence, results)
    for path, data in files.items():
        name = path.relative_to(results).as_posix() if path.is_relative_to(results) else path.name
        if not path.is_file():
            problems.append(f"{name} is missing")
        elif not _same(path, data):
            problems.append(f"{name} differs from the records{_first_difference(path.read_bytes(), data)}")
    leftovers = _leftovers(results, files, ("tables",))
    return problems + [f"{path.relative_to(results).as_posix()} belongs to no record" for path in leftovers]


def _same(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def _first_difference(current: bytes, expected: bytes) -> str:
    old, new = current.decode(errors="replace").split("\n"), expected.decode(errors="replace").split("\n")
    lines = (i for i, (a, b) in enumerate(zip(old, new, strict=False), 1) if a != b)
    return f" (line {next(lines, min(len(old), len(new)) + 1)})"


def _leftovers(results: Path, files: Files, folders: tuple[str, ...]) -> list[Path]:
    existing = [path for folder in folders for path in (results / folder).glob("*")]
    return sorted(p for p in existing if p not in files and p.suffix in _SUFFIXES)


def _readme(block: str) -> dict[Path, str]:
    """The README with its block; none where it is not these results' README.

    Raises:
        UserError: the README has not exactly one pair of markers.
    """
    path = paths.PROJECT / "README.md"
    if not path.is_file() or results_dir().resolve() != (paths.PROJECT / "results").resolve():
        return {}
    current = path.read_text(encoding="utf-8")
    before, begin, tail = current.partition(BEGIN)
    _, end, after = tail.partition(END)
    if not (begin and end) or BEGIN in tail or END in before + after:
        raise UserError(f"{path}: needs one line {BEGIN!r} and one line {END!r} below it")
    return {path: f"{before}{BEGIN}\n{block}{END}{after}"}
