"""Baselines of competence: scores of simple methods that a trained model must beat before a comparison says anything.

    python -m benchmarks.competence            data that results/competence.json lacks; their stores must be prepared
    python -m benchmarks.competence --again    all data

For each data set of the recipes at a reduced scale, and of published experiments that a CPU can run, simple methods are
scored with the metric, unit and items of the recipes: n-gram models, compressors, the most frequent class, a guess.
Published results of small models stand beside them. One thread, 2 GB.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from benchmarks import levels
from benchmarks.levels import Level
from repro.evidence.published import load_paper
from repro.experiment.build import build
from repro.files import write_atomic
from repro.paths import results_dir
from repro.recipe import SCALES, Recipe, experiments, load_recipe, scales_of

FILE = "competence.json"
REDUCED = SCALES[1:]
PUBLISHED = (  # at the paper's scale
    "attention-is-all-you-need/multi30k@en-de",
    "attention-is-all-you-need/shakespeare@l4-d128",
)
HIGHER = ("accuracy", "accuracy_hidden", "bleu", "bleu_given", "f1")  # is better


class Kind(NamedTuple):
    """A kind of data.

    Attributes:
        levels: scores the simple methods, of a task and its data.
        setting: what is scored, or how the data are generated, in words; reads no store.
    """

    levels: Callable[[Any, Any], Iterator[Level]]
    setting: Callable[[Any, Any], str] = lambda task, data: ""


def said(settings: dict[str, Any]) -> str:
    """Settings in words, but for those that are made of others."""
    plain = {name: value for name, value in settings.items() if isinstance(value, int | float | str)}
    return ", ".join(f"{name} {value}" for name, value in plain.items())


def generated(task: Any, data: Any) -> str:
    """The settings of a generator."""
    return said(data.settings)


def beginning(task: Any, data: Any) -> str:
    """How much of a text is scored."""
    tokens = task.tests()[0].selection.tokens
    return f"first {tokens} tokens" if tokens else ""


KINDS = {
    "TextData": Kind(levels.text, beginning),
    "TranslationData": Kind(
        levels.translation, lambda task, data: f"{data.source_language}-{data.target_language}"
    ),
    "ParsingData": Kind(levels.trees),
    "PatchData": Kind(levels.picture_classes),
    "PixelData": Kind(levels.pixels),
    "ListOpsData": Kind(levels.list_operations, lambda task, data: said(data.generated.settings)),
    "BitMemoryData": Kind(levels.bit_memory, generated),
    "BitXorData": Kind(levels.bit_xor, lambda task, data: said({"bits": data.bits})),
    "CopyData": Kind(levels.copying, generated),
    "DuplicationData": Kind(levels.duplication, generated),
    "SortingData": Kind(levels.sorting, generated),
    "EchoData": Kind(levels.echo, lambda task, data: said({"symbols": data.vocab_size, "lag": data.lag})),
    "GeneratedDialogueData": Kind(levels.dialogue, generated),
    "AlignmentData": Kind(levels.alignment, generated),
}
NOTHING_TO_LEARN = ("NoiseData",)


class Case(NamedTuple):
    """Data as a recipe scores them."""

    recipe: Recipe
    task: Any
    data: Any

    @property
    def key(self) -> tuple[str, str, str]:
        """Name of the data, setting, kind; the same for recipes whose levels are the same."""
        kind, data = type(self.data).__name__, self.data
        name = f"{data.store_name}/{data.variant}" if data.variant else data.store_name
        return name, KINDS[kind].setting(self.task, data), kind

    def rows(self) -> Iterator[dict[str, Any]]:
        """The levels of the data, with all that a reader needs to know of each."""
        name, setting, kind = self.key
        for level in (*KINDS[kind].levels(self.task, self.data), *published(self.recipe)):
            metric = level.metric.removesuffix("_sampled")  # has the unit of the exact one
            yield {
                "data": name,
                "setting": setting,
                "split": self.data.split("test"),
                "measured": f"test/{level.metric}",
                "metric": self.task.units[metric],
                "better": "higher" if metric in HIGHER else "lower",
                "method": level.method,
                "value": float(f"{level.value:.6g}"),
                "items": level.items,
                "data_sha256": self.data.manifest_sha256,
                "source": level.source,
            }


def published(recipe: Recipe) -> Iterator[Level]:
    """Confirmed results of others that a recipe reproduces."""
    for cell in recipe.config.get("reproduces", ()):
        table = load_paper(recipe.paper).tables[cell["table"]]
        row, metric = table.rows[cell["row"]], cell["metric"]
        if table.third_party and metric not in row.unconfirmed:
            measured, source = cell["measured"].partition("/")[2], f"{table.title}: {table.checked}"
            yield Level(measured, f"published: {row.label}", row.values[metric], None, source)


def cases() -> list[Case]:
    """One recipe for each data set and setting of the reduced scales, and the published experiments."""
    named = [(name, scale) for scale in REDUCED for name in experiments() if scale in scales_of(name)]
    recipes = {}
    for recipe in (load_recipe(*pair) for pair in (*named, *((name, "paper") for name in PUBLISHED))):
        recipes.setdefault(scored_by(recipe), recipe)
    found: dict[tuple[str, str, str], Case] = {}
    for recipe in recipes.values():
        parts = build(recipe, meta=True)
        if type(parts.data).__name__ not in NOTHING_TO_LEARN:
            case = Case(recipe, parts.task, parts.data)
            found.setdefault(case.key, case)
    return list(found.values())


def scored_by(recipe: Recipe) -> str:
    """All of a recipe that levels may depend on."""
    task = recipe.sections["model"]["init_args"]
    how = {key: task.get(key) for key in ("protocol", "segment", "unit")}
    return json.dumps([how, recipe.sections["data"]], sort_keys=True)


def main() -> None:
    """Computes levels, prints them, and writes the file."""
    path = results_dir() / FILE
    known: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in [] if "--again" in sys.argv[1:] else json.loads(path.read_text(encoding="utf-8")):
        known.setdefault((row["data"], row["setting"]), []).append(row)
    rows = []
    for key, alike in groupby(sorted(cases(), key=lambda case: case.key), lambda case: case.key[:2]):
        rows += known.get(key) or [row for case in alike for row in computed(case)]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    write_atomic(path, f"[\n{lines}\n]\n".encode())


def computed(case: Case) -> list[dict[str, Any]]:
    """Computes and prints the levels of one data set."""
    rows = []
    for row in case.rows():
        shown = [row[key] for key in ("data", "setting", "metric", "method", "value", "items")]
        print(*shown, f"{time.process_time():.0f} s", sep=" | ", flush=True)
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
