"""Every recipe under configs/, found by glob: readable, self-contained, buildable, and really trainable."""

import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from repro.data.sets.dialogue.dialogue_data import Talk
from repro.evidence.declared.equality import hashes
from repro.evidence.declared.fair_tests import FairTest, RowRuns, load_tests
from repro.evidence.declared.gate import UNTRAINED, kind_of
from repro.evidence.published import Metric, load_paper, load_papers
from repro.recipe import (
    SCALES,
    Recipe,
    differing_keys,
    experiments,
    load_recipe,
    recipe_files,
    scales_of,
)
from repro.tasks.costs.measuring import Measuring
from repro.yamls import flatten, short
from tests.experiment.meta_recipes import one_of_each_set
from tests.recipe_tables import (
    ABLATION_KEYS,
    APART,
    BEST,
    IDLE,
    MEASURED,
    MEASURED_OTHERWISE,
    OTHER_SIZE,
    QUANTITIES,
    SELECTED_ON,
    SYMBOLS,
    TRAINED_BASELINES,
)
from tests.shrunk import make_texts, shrunk
from tests.workshop import PROJECT, Workshop

CONFIGS = PROJECT / "configs"
FILES = sorted(CONFIGS.glob("*/*.yaml"))
MAX_LINES = 200


def relative(path: Path) -> str:
    return path.relative_to(CONFIGS).as_posix()


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(CONFIGS))
    monkeypatch.delenv("REPRO_RESULTS", raising=False)


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the small texts of :func:`~tests.shrunk.make_texts`. Do not change it."""
    folder = tmp_path_factory.mktemp("texts")
    make_texts(folder)
    return folder


def every_run() -> list[tuple[str, str]]:
    """Every experiment, points of grids included, at each of its scales."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CONFIGS", str(CONFIGS))
        return [(experiment, scale) for experiment in experiments() for scale in scales_of(experiment)]


def shape_of(recipe: Recipe) -> str:
    """Returns the keys and classes of a recipe, which decide how it is built, without its numbers.

    How much data there are and how often something is dropped are numbers of which a missing one is one, too. Lengths
    that are measured are in the names of what is measured.
    """
    flat = {k: v for k, v in flatten(recipe.sections).items() if not IDLE.fullmatch(k) or isinstance(v, bool)}
    return json.dumps(
        [
            f"{k}={v}" if k.endswith(("class_path", "order", ".lengths", "model.init_args.shortest")) else k
            for k, v in sorted(flat.items())
        ]
    )


def by_shape() -> list[list[tuple[str, str]]]:
    """The experiments of a paper, each with a scale of its own, that differ in nothing but numbers."""
    result: dict[tuple[str, str], list[tuple[str, str]]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CONFIGS", str(CONFIGS))
        for experiment, scale in EVERY:
            shape = shape_of(load_recipe(experiment, scale))
            result.setdefault((experiment.partition("/")[0], shape), []).append((experiment, scale))
    return list(result.values())


EVERY = every_run()
SHAPES = by_shape()
RECIPES = sorted({(experiment.partition("@")[0], scale) for experiment, scale in EVERY})


def points_of(name: str, scale: str) -> list[str]:
    return [experiment for experiment, s in EVERY if experiment.partition("@")[0] == name and s == scale]


STUDIES = {"crossover"}  # our own, of no paper: nothing is published that they could be held against


@cache
def published(paper: str) -> Any:
    if paper in STUDIES:
        return {"tables": [], "claims": []}
    return yaml.safe_load((PROJECT / "results" / "published" / f"{paper}.yaml").read_text())


def declared_rows() -> list[tuple[FairTest, str, RowRuns]]:
    """Every row of every declared test, with the runs that stand for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("REPRO_RESULTS", raising=False)
        tests = [test for paper in load_papers() for test in load_tests(paper).tests]
        return [(test, row, run) for test in tests for row, run in test.rows.items()]


TESTED = declared_rows()


def is_todays(test: FairTest, run: RowRuns) -> bool:
    """Whether the runs of a row have the configuration that their recipe now has."""
    return load_recipe(run.run, test.scale).config_hash.startswith(run.config)


def is_last(test: FairTest) -> bool:
    """Whether a test is the last attempt at its claim."""
    return all(other.attempt <= test.attempt for other, *_ in TESTED if other.claim == test.claim)


@pytest.mark.parametrize(("test", "row", "run"), TESTED, ids=lambda one: getattr(one, "name", None))
def test_the_runs_of_a_declared_test_have_a_recipe_or_records(test: FairTest, row: str, run: RowRuns) -> None:
    assert (run.run, test.scale) in EVERY
    records = (PROJECT / "results" / "runs" / run.run).glob(f"{test.scale}-s*-{run.config[:8]}-*.json")
    assert is_todays(test, run) or any(records), "a pinned configuration is today's, or has records"
    if test.tuned == "nothing" and is_last(test):  # the gate refuses it after its runs
        assert load_recipe(run.run, test.scale).sections["trainer"]["max_steps"] == UNTRAINED


def column_of(paper: str, test: FairTest) -> Metric:
    """Returns the paper's column that a test cites."""
    cited = load_paper(paper)
    claim = cited.claims[test.claim]
    return cited.tables[claim.table].metrics[test.column or claim.metric]


def test_tests_of_arithmetic_have_a_recipe() -> None:
    pairs = [pair for paper in load_papers() for pair in load_tests(paper).arithmetic]
    assert pairs
    for pair in pairs:
        assert (pair.run, pair.scale) in EVERY
        assert len(set(hashes(pair))) == 2, "a setting changes the configuration"


def test_every_file_is_found_as_a_recipe() -> None:
    assert set(recipe_files().values()) == set(FILES)
    assert len(FILES) >= 40
    for experiment in recipe_files():
        assert set(scales_of(experiment)) <= set(SCALES)


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_file_is_short_and_opens_with_paper_and_command(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    header = [line for line in lines if line.startswith("#")]
    opening = lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))]
    assert len(lines) <= MAX_LINES
    assert opening, "opens with a comment"
    assert header
    text = "\n".join(opening)
    assert f"repro run {path.parent.name}/{path.stem}" in text
    assert re.search(r"\b(19|20)\d\d\b", text), "the paper's year"
    assert re.search(r"\b(section|table|appendix)", text, re.IGNORECASE), "where in the paper"
    assert re.search(r"\b(GPU|core)", text), "hardware"


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_commands_of_a_header_name_what_exists(path: Path) -> None:
    known = set(EVERY)
    for name, scale in re.findall(r"repro run (\S+)(?: --scale (\w+))?", path.read_text(encoding="utf-8")):
        assert (name, scale or "paper") in known


def test_every_run_of_a_published_file_is_an_experiment_at_its_scales() -> None:
    for paper in load_papers():
        for table in paper.tables.values():
            for one in table.ours:
                named = [one.row] if one.row else list(table.rows)
                result = [e for row in named if (e := one.run.replace("{row}", str(row))) in experiments()]
                assert result, (paper.key, table.id, one.run)
                assert set(one.scales) <= set(scales_of(result[0])), (paper.key, table.id, one.run)


def unprinted(table: dict[str, Any]) -> set[str]:
    """The metrics of which a table prints no number."""
    return {*table["metrics"]} - {metric for row in table["rows"] for metric in row["values"]}


@pytest.mark.parametrize(("name", "scale"), RECIPES)
def test_what_a_recipe_reproduces_is_published(name: str, scale: str) -> None:
    for experiment in points_of(name, scale):
        recipe = load_recipe(experiment, scale)
        cells = recipe.config["reproduces"]
        output = published(recipe.paper)
        rows = {  # of a chart no values are printed, nor are the losses behind a rank
            (t["id"], r["id"], metric)
            for t in output["tables"]
            for r in t["rows"]
            for metric in {*(r["values"] or t["metrics"]), *unprinted(t)}
        }
        control = recipe.config["title"].startswith("Control of ")
        scales = {test.scale for test, _, run in TESTED if run.run == experiment}
        claimed = scale in scales or (scale == "paper" and scales)  # which a smaller run begins with
        # at a reduced scale, where all points of a grid are there, one may stand for nothing
        assert cells or claimed or control or scale != "paper" or recipe.paper in STUDIES, (
            "reproduces a row or stands for one in a test"
        )
        for cell in cells:
            assert (cell["table"], cell["row"], cell["metric"]) in rows
            # declared before the run; a reduced scale is never judged against the row
            assert cell["measured"].startswith(MEASURED)
        assert recipe.config["title"]
        assert recipe.config["hours"] > 0
        if scale != "paper":
            assert any("Reduced scale" in text for text in recipe.config["deviations"])


@pytest.mark.parametrize("scale", ["paper", "small"])
def test_mixers_are_compared_at_the_same_number_of_parameters_tokens_and_updates(scale: str) -> None:
    from repro.experiment.parameters import count

    recipes = [load_recipe(experiment, scale) for experiment in points_of("crossover/bytes", scale)]
    totals = [count(recipe)["total"] for recipe in recipes]
    assert len(totals) == 9
    assert max(totals) < 1.02 * min(totals)
    differing = {key for r in recipes[1:] for key in differing_keys(recipes[0].signature, r.signature)}
    net = "model.init_args.net.init_args."
    free = ("model.init_args.protocol", f"{net}blocks.mixers", f"{net}blocks.feed_forward", f"{net}positions")
    assert {key for key in differing if not key.startswith((*free, "data.init_args.seq_len"))} == set()


@pytest.mark.parametrize("paper", sorted(TRAINED_BASELINES))
def test_every_row_that_the_authors_trained_has_a_recipe(paper: str) -> None:
    recipes = [load_recipe(e) for e, scale in EVERY if scale == "paper" and e.startswith(f"{paper}/")]
    built = {(cell["table"], cell["row"]) for r in recipes for cell in r.config["reproduces"]}
    # of a curve without numbers the test of a claim is all there is
    figures = {c["id"]: c["table"] for c in published(paper)["claims"] if c["table"].startswith("figure")}
    built |= {(figures[test.claim], row) for test, row, _ in TESTED if test.claim in figures}
    own = {
        (table["id"], row["id"])
        for table in published(paper)["tables"]
        for row in table["rows"]
        if row["is_this_papers_model"]
        and table["id"] not in MEASURED_OTHERWISE[paper]
        and "no_recipe" not in row
    }
    assert (own | TRAINED_BASELINES[paper]) - built == set()


@pytest.mark.parametrize(("name", "scale"), RECIPES)
def test_a_recipe_builds_on_the_meta_device(name: str, scale: str) -> None:
    """All points; of those that are one before but for rates, rounds and frozen groups, the data only."""
    from repro.experiment.build import IMPORTABLE, build
    from repro.experiment.parameters import published_count

    built = set()
    for experiment in points_of(name, scale):
        recipe = load_recipe(experiment, scale)
        named = [value for key, value in flatten(recipe.sections).items() if key.endswith("class_path")]
        assert named
        assert all(value.startswith(tuple(f"{prefix}." for prefix in IMPORTABLE)) for value in named)
        flat = flatten({k: v for k, v in recipe.sections.items() if k != "data"})
        rest = json.dumps(
            {k: v for k, v in flat.items() if not k.endswith((".trained", ".lr", ".rounds"))}, sort_keys=True
        )
        if rest in built:
            data_of(recipe)
            continue
        built.add(rest)
        parts = build(recipe, meta=True)
        assert all(parameter.is_meta for parameter in parts.task.parameters())
        size = sum(parameter.numel() for parameter in parts.task.parameters())
        printed = published_count(recipe) or size
        assert abs(size - printed) <= 0.03 * printed or experiment.startswith(OTHER_SIZE)
        assert size > 50_000 or isinstance(parts.task, Measuring)
        assert parts.trainer["max_steps"] > 0
        assert parts.checkpoints is not None
        assert parts.checkpoints.average_last * parts.checkpoints.every_steps <= parts.trainer["max_steps"]
        if parts.checkpoints.best is not None:
            unit = getattr(parts.task, "token_unit", type(parts.task).__name__)
            metric = {"character": "bpc", "byte": "bpb", **BEST}.get(unit, "ppl")
            assert parts.checkpoints.best == f"val/{SELECTED_ON.get(name, metric)}"


@pytest.mark.parametrize(("name", "scale"), RECIPES)
def test_keys_of_one_quantity_have_one_value(name: str, scale: str) -> None:
    """Lengths of training and of evaluation are different quantities, as are the width and the size of a part."""
    for experiment in points_of(name, scale):
        flat = {short(key): value for key, value in flatten(load_recipe(experiment, scale).sections).items()}
        for keys in QUANTITIES:
            result = {
                key: flat[key] for key in keys if flat.get(key) is not None and (name, key) not in APART
            }
            assert len(set(result.values())) <= 1, (experiment, result)
        ending = flat.get("model.schedule.steps", flat["trainer.max_steps"])
        early = ending < flat["trainer.max_steps"] and flat["model.schedule.last"] > 0
        assert early or ending == flat["trainer.max_steps"], (
            "the schedule ends with training, or before it and leaves a rate"
        )


def data_of(recipe: Recipe) -> Any:
    """The datamodule of a language model, without the configuration parser."""
    import repro.data

    given = dict(recipe.config["data"]["init_args"])
    if "stages" in given:
        given["stages"] = [repro.data.Stage(**stage) for stage in given["stages"]]
    if "talk" in given:
        given["talk"] = Talk(**given["talk"])
    return getattr(repro.data, recipe.config["data"]["class_path"].removeprefix("repro.data."))(**given)


@pytest.mark.parametrize(("name", "scale"), RECIPES)
def test_lengths_of_a_language_model_fit_each_other(name: str, scale: str) -> None:
    for experiment in points_of(name, scale):
        recipe = load_recipe(experiment, scale)
        if recipe.config["model"]["class_path"] != "repro.tasks.LanguageModel":
            continue
        flat, last = flatten(recipe.sections), "trainer.max_steps"
        data = recipe.config["data"]["init_args"]
        assert SYMBOLS.get(data.get("store"), data["vocab_size"]) == data["vocab_size"]
        assert (
            flat[last] % flat["trainer.val_check_interval"] == 0 or flat["trainer.val_check_interval"] == 7000
        )
        mixers = recipe.config["model"]["init_args"]["net"]["init_args"]["blocks"]["mixers"]
        memory = max(mixer.get("init_args", {}).get("mem_len", 0) for mixer in mixers)
        if memory:
            assert recipe.config["data"]["init_args"].get("order", "stream") != "shuffled", (
                "memory needs streams"
            )


@pytest.mark.parametrize("alike", one_of_each_set(SHAPES))
def test_a_recipe_trains_and_is_tested_in_small(
    workshop: Workshop, texts: Path, monkeypatch: pytest.MonkeyPatch, alike: list[tuple[str, str]]
) -> None:
    """The first of those that are alike is trained; all of them name only what it measures."""
    from repro.experiment.run import run

    monkeypatch.setenv("REPRO_CONFIGS", str(CONFIGS))
    recipe = shrunk(*alike[0], texts)
    if recipe.config["model"]["class_path"] != "repro.tasks.Translation":
        monkeypatch.setenv("REPRO_DATA", str(texts))
    record = run(recipe, 1, "test")
    assert record.steps == 1
    assert record.tokens > 0
    units = {m.name: m.unit for m in record.metrics}
    measured = set(units)
    measured |= {name.replace("_cpu_", "_gpu_") for name in measured}  # a speed is named by what measured it
    for experiment, scale in alike:
        rows = [one for one in TESTED if (one[2].run, one[0].scale) == (experiment, scale)]
        for test, row, runs in rows:
            if is_todays(test, runs) and is_last(test):  # the gate refuses it after its runs
                other = kind_of(units[test.measured_of(row)]) != kind_of(column_of(recipe.paper, test).unit)
                assert test.other_quantity or not other, f"{test.name}: {row} measures another quantity"
        claimed = {test.measured_of(row) for test, row, run in rows if is_todays(test, run)}
        cells = {cell["measured"] for cell in load_recipe(experiment, scale).config["reproduces"]}
        # at a reduced scale, where a test stands, cells of the paper may be in a unit that is not measured
        assert claimed | (cells if scale == "paper" or not rows else set()) <= measured
    assert len(workshop.records()) == 1


ABLATIONS = [e for e, scale in EVERY if scale == "paper" and load_recipe(e).config.get("ablates")]


@pytest.mark.parametrize("name", sorted({experiment.partition("@")[0] for experiment in ABLATIONS}))
def test_an_ablation_changes_only_what_it_says(name: str) -> None:
    allowed, result = ABLATION_KEYS[name], set()
    for experiment in (e for e in ABLATIONS if e.partition("@")[0] == name):
        recipe = load_recipe(experiment)
        keys = differing_keys(load_recipe(recipe.config["ablates"]).signature, recipe.signature)
        print(experiment, *keys, sep="\n")
        assert keys
        result |= {key.split(": ")[0] for key in keys}
    assert [key for key in sorted(result) if not any(re.fullmatch(pattern, key) for pattern in allowed)] == []
    for pattern in allowed:
        assert any(re.fullmatch(pattern, key) for key in result), f"{pattern} does not differ"


@pytest.mark.parametrize(
    "name", ["logarithm-6", "logarithm-6-constant", "logarithm-18", "logarithm-18-constant"]
)
def test_given_shortcuts_are_those_of_the_closed_form(name: str) -> None:
    """n branches begin with ``sqrt((n + 1) / ln(n + 1) - 1)``: two a layer in an encoder, three in a decoder."""
    net = load_recipe(f"admin/wmt14-en-de-given@{name}").config["model"]["init_args"]["net"]["init_args"]
    for stack, blocks, each in (("encoder", "blocks", 2), ("decoder", "decoder_blocks", 3)):
        n = each * net[f"{stack}_layers"]
        given = net[blocks]["sublayer"]["init_args"]
        assert given["omega"] == round(math.sqrt((n + 1) / math.log(n + 1) - 1), 4)
        assert given.get("trained", True) == ("constant" not in name)


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """Returns the settings of a row of table 3 of the base paper in the form of a recipe."""
    model = recipe.config["model"]["init_args"]
    net = model["net"]["init_args"]
    blocks = net["blocks"]
    (mixer,) = blocks["mixers"]
    attention = mixer["init_args"]
    assert attention == blocks["cross"]["init_args"]
    assert net["encoder_layers"] == net["decoder_layers"]
    assert net["dropout"] == blocks["sublayer"]["init_args"]["dropout"]
    assert model["schedule"]["init_args"]["d_model"] == net["d_model"]
    width = attention.get("d_head", net["d_model"] // attention["n_heads"])
    return {
        "N": net["encoder_layers"], "d_model": net["d_model"], "d_ff": blocks["feed_forward"]["init_args"]["d_ff"],
        "h": attention["n_heads"], "d_k": width, "d_v": attention.get("d_value", width), "p_drop": net["dropout"],
        "eps_ls": model["label_smoothing"], "train_steps": recipe.config["trainer"]["max_steps"],
    }  # fmt: skip


def test_every_row_of_table_3_is_what_the_paper_prints_and_changes_nothing_else() -> None:
    paper = load_paper("attention-is-all-you-need")
    rows = paper.tables["table3"].rows
    base = load_recipe("attention-is-all-you-need/variations@base")
    assert len(rows) == 20
    for row in rows.values():
        name = "big@newstest2013" if row.id == "big" else f"variations@{row.id}"
        recipe = load_recipe(f"attention-is-all-you-need/{name}")
        assert settings_of(recipe) == {key: row.settings[key] for key in settings_of(base)}
        keys = {key.split(": ")[0] for key in differing_keys(base.signature, recipe.signature)}
        print(row.id, *sorted(keys), sep="\n")
        learned = any(".positions" in key for key in keys)
        assert learned == (row.id == "e-learned-pos")
        changed = {key for key in settings_of(base) if settings_of(base)[key] != settings_of(recipe)[key]}
        assert bool(changed) == (row.id not in ("base", "e-learned-pos"))
        assert len(changed) <= (3 if row.id != "big" else 8)
