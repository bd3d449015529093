"""The rows of `repro list`, as plain objects."""

from typing import Any

from repro.evidence.compare import Comparison
from repro.evidence.entries import Entry
from repro.recipe import SCALES, scales_of


def list_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """One object per published number, and one per row without numbers, for ``repro list``.

    ``measured`` is the mean at paper scale, else null; ``reduced`` holds the numbers of reduced scales.
    """
    return [_object(entry) for entry in comparison.entries.values()]


def _object(entry: Entry) -> dict[str, Any]:
    ours = entry.ours
    first = ours[0] if ours else entry.cells[0] if entry.cells else None
    best = next((cell for cell in ours if cell.estimate), None)
    shown = best or first
    scales = {s for cell in entry.cells for s in scales_of(cell.goal.experiment)}
    return {
        "paper": entry.paper.key,
        "table": entry.table.id,
        "row": entry.row.id,
        "label": entry.row.label,
        "experiment": shown.goal.experiment if shown else None,
        "scales": [scale for scale in SCALES if scale in scales],
        "metric": entry.metric.name if entry.metric else None,
        "unit": entry.metric.unit if entry.metric else None,
        "published": entry.published,
        "unconfirmed": entry.unconfirmed,
        "measured": best.estimate.mean if best and best.estimate else None,
        "n": best.estimate.n if best and best.estimate else 0,
        "verdict": entry.verdict,
        "reason": entry.reason,
        "why": shown.why if shown else "",
        "class": entry.rules.kind if entry.rules else None,
        "counted": entry.is_counted,
        "notes": list(shown.notes) if shown else [],
        "reduced": [
            {
                "scale": c.goal.scale,
                "mean": c.estimate.mean,
                "n": c.estimate.n,
                "experiment": c.goal.experiment,
            }
            for c in entry.reduced
            if c.estimate
        ],
    }
