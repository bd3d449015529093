"""``python -m tests.parity.sizes``: counts parameters beside every printed count, and writes ``results/sizes.json``."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

from repro.evidence.goals import goals_of
from repro.evidence.official import SIZES as FILE
from repro.evidence.official import Size
from repro.evidence.published import load_papers
from repro.experiment.parameters import count, unit_of
from repro.recipe import experiments, load_recipe, scales_of

ROOT = Path(__file__).parents[2]
# Why counts differ: names of experiments, the printed count (None: any), and a sentence. The first that fits counts.
EXPLANATIONS = (
    (
        "attention-is-all-you-need/*",
        None,
        "The paper does not state the vocabulary of its counts: 40,200 to 41,900 subwords would give those of all rows "
        "but big, 35,800 that of big; ours are 37,000 for German and 32,000 for French.",
    ),
    # README of openai/gpt-2: "our original parameter counts were wrong"
    (
        "frozen-pretrained-transformer/*",
        117_000_000,
        "The printed count is OpenAI's first figure for GPT-2 small, which has 124.4 M; 38.6 M of them are its "
        "table of tokens, which is not used.",
    ),
    (
        "frozen-pretrained-transformer/*",
        345_000_000,
        "The printed count is OpenAI's first figure for GPT-2 medium, which has 354.8 M; 51.5 M of them are its "
        "table of tokens, which is not used.",
    ),
    (
        "frozen-pretrained-transformer/*",
        774_000_000,
        "The printed count is that of GPT-2 large; 64.3 M of them are its table of tokens, which is not used.",
    ),
    (
        "shortformer/tbc*",
        None,
        "The printed count has the matrix that embedding and softmax share (appendix A.5) twice: with it 260.9 M.",
    ),
    (
        "transformer-xl/half-and-shaw@shaw-norec*",
        None,
        "The table prints one count for all its rows; Shaw's learned vectors of distances need no projection, which "
        "sinusoids have.",
    ),
    (
        "transformer-xl/lm1b-large",
        None,
        "0.8 B is printed, with one digit; 1.6 M of ours project the head's embeddings, as only the PyTorch code does.",
    ),
    (
        "transformer-xl/lm1b@base",
        None,
        "An author told 20 layers, width 1,024 and 6,144 inner channels, and counts 0.47 B (issue 69 of the official "
        "code); the paper prints 0.46 B.",
    ),
    (
        "transformer-xl/lm1b@shaw",
        None,
        "About 0.3 B is printed for three rows, whose widths were not released; Shaw's vectors of distances need no "
        "projection, which is 19.6 M here.",
    ),
    (
        "transformer-xl/lm1b@*",
        None,
        "About 0.3 B is printed for three rows, whose widths were not released.",
    ),
    (
        "transformer-xl/wt103-large",
        None,
        "The released configuration does not have the printed count; with 16 of its 18 layers and no projection before "
        "the head it has 256.9 M.",
    ),
)


class PublishedRows(NamedTuple):
    """A row with a printed count, and an experiment that reproduces more than its speed at the paper's scale."""

    paper: str
    experiment: str
    table: str
    row: str
    published: int


def printed() -> list[PublishedRows]:
    """All of them, in order."""
    papers = {paper.key: paper for paper in load_papers()}
    result = set()
    for experiment in experiments():
        recipe = load_recipe(experiment) if "paper" in scales_of(experiment) else None
        paper = papers.get(recipe.paper) if recipe else None
        for goal in goals_of(recipe) if recipe and paper else ():
            table = paper.tables[goal.table]
            size, timed = table.rows[goal.row].params, table.metrics[goal.metric].rules.kind == "timed"
            if size is not None and not timed:
                result.add(PublishedRows(paper.key, experiment, goal.table, goal.row, size))
    return sorted(result)


def compare(row: PublishedRows) -> Size:
    """Counts the experiment's parameters on the meta device."""
    ours, unit = _ours(row.experiment), unit_of(row.published)
    agrees = abs(ours - row.published) <= unit // 2
    return Size(*row, ours, unit, agrees, None if agrees else explanation(row))


@cache
def _ours(experiment: str) -> int:
    return int(count(load_recipe(experiment, "paper"))["total"])


def explanation(row: PublishedRows) -> str | None:
    """Why the count differs; None where :data:`EXPLANATIONS` has no sentence for it."""
    return next(
        (
            sentence
            for names, published, sentence in EXPLANATIONS
            if fnmatchcase(row.experiment, names) and published in (None, row.published)
        ),
        None,
    )


def summary(sizes: Sequence[Size]) -> list[str]:
    """For each paper how many counts agree and how many differences are explained."""
    lines = []
    for paper in sorted({size.paper for size in sizes}):
        mine = [size for size in sizes if size.paper == paper]
        agree = sum(size.agrees for size in mine)
        explained = sum(size.explanation is not None for size in mine)
        other = len(mine) - agree - explained
        lines.append(f"{paper}: {len(mine)} rows, {agree} agree, {explained} explained, {other} unexplained")
    return lines


def main() -> int:
    """Counts every row and writes the file."""
    sizes = [compare(row) for row in printed()]
    lines = ",\n".join(json.dumps(asdict(size)) for size in sizes)
    (ROOT / "results" / FILE).write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print("\n".join(summary(sizes)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
