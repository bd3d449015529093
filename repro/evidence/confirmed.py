"""Which published numbers could not be checked against the paper, from the words of a table's ``checked``.

``checked`` begins with ``unconfirmed``: then every cell of the table is unconfirmed, except those named by a later
clause ``...; <cells> confirmed by <source>``. A clause names cells by ``row <id>``, by the numbers themselves
(``16.64 and 16.61``) and by metrics in parentheses (``row x (F1, ROUGE)``); all must fit.
"""

import re


def is_unconfirmed(checked: str, row: str, metric: str, value: float) -> bool:
    """Whether the words of ``checked`` leave this cell unconfirmed; grammar: see the module's docstring."""
    first, *clauses = checked.split(";")
    if not first.strip().lower().startswith("unconfirmed"):
        return False
    return not any(_confirms(clause, row, metric, value) for clause in clauses)


def _confirms(clause: str, row: str, metric: str, value: float) -> bool:
    confirmed = re.search(r"\bconfirmed by", clause)  # the word border keeps "unconfirmed by" out
    if confirmed is None:
        return False
    subject = clause[: confirmed.start()]
    named_row = re.search(r"\brow ([\w.-]+)", subject)
    numbers = [float(n) for n in re.findall(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w-])", subject)]
    metrics = re.search(r"\(([^)]*)\)", subject)
    if not (named_row or numbers):
        return False
    fits_metric = metrics is None or any(
        metric.lower().startswith(name.strip().lower()) for name in metrics.group(1).split(",")
    )
    return (
        (named_row is None or named_row.group(1) == row) and (not numbers or value in numbers) and fits_metric
    )
