"""Records of the small house with their ledger."""

from repro.evidence.ledger import append_missing, check_records
from repro.record import LEDGER, write_record
from tests.report.fakes import make_record


def keep(house):
    """Three records, the first with decoded outputs, and their ledger; the folder."""
    name = house.recipe("big")
    write_record(make_record(name, 1, 30.0), house.results / "runs", outputs="ein Hund\n")
    for seed in (2, 3):
        house.record(name, seed, 30.0)
    append_missing(house.results / "runs")
    return house.results / "runs"


def record_of(runs, seed):
    (path,) = runs.glob(f"toy/big/paper-s{seed}-*.json")
    return path


def place(runs, path):
    return path.relative_to(runs).as_posix()


def lines_with(runs, path):
    return [line for line in (runs / LEDGER).read_text().splitlines() if place(runs, path) in line]


def the_problem(runs):
    (problem,) = check_records(runs)
    return problem
