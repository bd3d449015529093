"""``python -m tests.parity.write``: runs every comparison with official codes and writes ``results/parity.json``."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.parity.report import COMPARISONS, CURVES

ROOT = Path(__file__).parents[2]
FILE = ROOT / "results" / "parity.json"


def main() -> int:
    """Runs the tests in this process; writes nothing where one fails."""
    code = pytest.main(["-q", "-p", "no:xdist", str(ROOT / "tests/parity"), str(ROOT / "tests/models")])
    if code:
        return int(code)
    rows = sorted(
        (asdict(item) for item in COMPARISONS.values()), key=lambda row: (row["paper"], row["file"])
    )
    for row in rows:
        curve = CURVES.get(Path(row["file"]).name, ())
        row["curve"] = [[float(f"{loss:.6g}") for loss in losses] for losses in curve]
        row["differences"] = {kind: float(f"{value:.1e}") for kind, value in row["differences"].items()}
    FILE.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")
    print(f"{FILE.relative_to(ROOT)}: {len(rows)} comparisons")
    return 0


if __name__ == "__main__":
    sys.exit(main())
