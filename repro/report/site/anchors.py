"""The anchors of the page. They are part of links that people share, so they must not change."""

import hashlib
import re

from repro.evidence.claims import Claim
from repro.evidence.entries import Cell
from repro.evidence.published import Paper, Row, Table
from repro.record import RunRecord


def slug(text: str) -> str:
    """A text as part of an address; where a character had to go, digits of its hash keep it apart from others."""
    plain = text.replace("/", "--")
    cleaned = re.sub(r"[^A-Za-z0-9._@-]+", "-", plain)
    return (
        cleaned
        if cleaned == plain
        else f"{cleaned}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:6]}"
    )


def paper(key: str) -> str:
    """Of a paper's section."""
    return f"paper-{slug(key)}"


def table(of: Paper, published: Table) -> str:
    """Of a published table."""
    return f"table-{slug(of.key)}--{slug(published.id)}"


def row(of: Paper, published: Table, line: Row) -> str:
    """Of a published row."""
    return f"row-{slug(of.key)}--{slug(published.id)}--{slug(line.id)}"


def claim(of: Claim) -> str:
    """Of a claim at one scale."""
    return f"claim-{slug(of.paper.key)}--{slug(of.trend.id)}--{of.scale or 'none'}"


def runs(experiment: str, scale: str) -> str:
    """Of the runs of an experiment at one scale."""
    return f"runs-{slug(experiment)}--{slug(scale)}"


def runs_of(cell: Cell) -> str:
    """Of the runs that a cell's number comes from."""
    return runs(cell.goal.experiment, cell.goal.scale)


def run(record: RunRecord) -> str:
    """Of one run: its experiment, scale and seed, and digits that distinguish it from other such runs."""
    digits = hashlib.sha256(record.file_stem.encode(errors="replace")).hexdigest()[:6]
    return f"run-{slug(record.experiment)}--{slug(record.scale)}-s{record.seed}-{digits}"
