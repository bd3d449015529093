"""Recipes: YAML in, one resolved configuration and its signature out. Needs no torch.

A recipe is one file, ``configs/<paper>/<name>.yaml``: a header, the sections of LightningCLI, then ``points`` and
``scales``, which are changes: mappings of dotted keys. They are applied in the order point, scale, point at the scale,
command line. An *experiment* is addressed as ``<paper>/<name>``, a point of a grid as ``<paper>/<name>@<point>``.
"""

import contextlib
import copy
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from repro.errors import UserError, nearest
from repro.paths import configs_dirs, files_in, published_files, runs_dir
from repro.seeds import judged_seeds, show_ranges
from repro.yamls import Config, Tree, flatten, parse_once, parse_yaml, read_text, set_key, short

SCALES = ("paper", "gpu", "small", "cpu")
HEADER = (
    "title", "ablates", "deviations", "hours", "devices", "hardware",
    "start_from", "pretrained", "start_with", "seeds",
)  # fmt: skip
# What a key of the header may be, and how an error message names it.
HEADER_TYPES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "hours": (lambda x: type(x) in (int, float) and x > 0, "a number above 0"),
    "devices": (lambda x: type(x) is int and x >= 0, "a whole number"),
    "deviations": (lambda x: isinstance(x, list) and all(isinstance(i, str) for i in x), "a list of texts"),
    **dict.fromkeys(("hardware", "ablates", "start_from", "pretrained"), (lambda x: isinstance(x, str), "a text")),
}  # fmt: skip
CHANGES = ("points", "scales")
# What may be taken over from where training begins; the first is the default.
TAKEN = {"start_from": ("weights", "everything", "body"), "pretrained": ("body", "statistics")}
SECTIONS = ("trainer", "model", "data", "checkpoints", "stop", "compile", "matmul_precision")
PLAIN = (str, int, float, list, dict, type(None))  # what YAML and JSON have in common
USUAL = {"compile": False, "matmul_precision": "highest"}  # as if the section were absent, in the hash too
MAPPINGS = tuple(name for name in SECTIONS if name not in USUAL)
# Where and how a run is executed; none of these keys, nor what is below them, changes what is computed.
INFRASTRUCTURE = (
    "trainer.accelerator.", "trainer.devices.", "trainer.num_nodes.", "trainer.strategy.", "trainer.logger.",
    "trainer.enable_progress_bar.", "trainer.enable_model_summary.", "trainer.log_every_n_steps.",
    "trainer.default_root_dir.", "trainer.accumulate_grad_batches.", "data.num_workers.",
)  # fmt: skip
# Keys of one quantity: a change of one also changes those of the others that had its value, if it does not set them.
LINKED = (
    ("trainer.max_steps", "model.schedule.steps"),
    ("model.net.d_model", "model.net.body.d_model", "model.against.d_model", "model.schedule.d_model", "data.width"),
    ("model.net.vocabulary.size", "model.against.vocabulary.size", "data.vocab_size"),
)  # fmt: skip
_POINT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # it names folders, and stands in job scripts

Overrides = list[tuple[str, Tree]]
Cell = Config  # a published number: table, row, metric and measured


@dataclass(frozen=True)
class Recipe:
    """One experiment at one scale, resolved.

    Attributes:
        experiment: ``<paper>/<name>`` or ``<paper>/<name>@<point>``.
        scale: one of :data:`SCALES`.
        config: header and sections with all changes applied, and what the run ``reproduces``.
        overrides: settings given on the command line, one word each: ``--model.width=256``.
    """

    experiment: str
    scale: str
    config: Config
    overrides: tuple[str, ...] = ()

    @property
    def paper(self) -> str:
        return self.experiment.split("/", 1)[0]

    @property
    def sections(self) -> Config:
        """The sections of the configuration that are present."""
        present = {key: self.config[key] for key in SECTIONS if self.config.get(key) is not None}
        return {key: value for key, value in present.items() if USUAL.get(key) != value}

    @property
    def signature(self) -> Config:
        """The part of the configuration that decides the result: sections less infrastructure, flattened."""
        start = {} if self.origin is None else {self.origin: self.config[self.origin]}
        if self.start_with != TAKEN[self.origin or "start_from"][0]:
            start["start_with"] = self.start_with
        return start | {k: v for k, v in flatten(self.sections).items() if not _is_infrastructure(k)}

    @property
    def start_from(self) -> str | None:
        """The experiment whose final weights, at the same scale and seed, training begins with."""
        return self.config.get("start_from")

    @property
    def pretrained(self) -> str | None:
        """The source of published weights that training begins with, ``gpt2``."""
        return self.config.get("pretrained")

    @property
    def origin(self) -> str | None:
        """The key of the initial weights, one of :data:`TAKEN`, if any."""
        return next((key for key in TAKEN if self.config.get(key) is not None), None)

    @property
    def start_with(self) -> str:
        """The parts that are taken over; a UserError for an unknown word or where both keys are given."""
        fitting = TAKEN[self.origin] if self.origin else ("weights",)
        value = self.config.get("start_with") or fitting[0]
        if self.start_from is not None and self.pretrained is not None:
            raise UserError(f"{self.experiment} has start_from and pretrained; leave one of them out")
        if value not in fitting:
            ways = "; ".join(f"{key} takes {', '.join(words)}" for key, words in TAKEN.items())
            raise UserError(f"{self.experiment}: start_with: {value!r} does not fit; {ways}")
        return str(value)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The judged seeds, declared before they ran; see :func:`repro.seeds.judged_seeds`."""
        return judged_seeds(self.experiment, self.config)

    @property
    def seeds_declaration(self) -> tuple[str, str]:
        """The run id without a seed, and the judged seeds, as the ledger declares them."""
        return f"{self.experiment}/{self.scale}/{self.hash8}", show_ranges(self.seeds)

    @cached_property
    def config_hash(self) -> str:
        """SHA-256 over the signature."""
        return signature_hash(self.signature)

    @property
    def hash8(self) -> str:
        """The first eight hexadecimal digits of the hash."""
        return self.config_hash[:8]

    def run_id(self, seed: int) -> str:
        """``<paper>/<recipe>/<scale>/s<seed>-<hash8>``, also the run's folder below :func:`runs_dir`."""
        return f"{self.experiment}/{self.scale}/s{seed}-{self.hash8}"

    def run_dir(self, seed: int) -> Path:
        return runs_dir() / self.run_id(seed)

    def words(self, seed: int) -> list[str]:
        """The arguments of ``repro run`` for a seed."""
        return [self.experiment, "--scale", self.scale, "--seed", str(seed), *self.overrides]


def signature_hash(signature: Config) -> str:
    """SHA-256 over the canonical JSON of a signature."""
    text = json.dumps(signature, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _is_infrastructure(key: str) -> bool:
    return f"{short(key)}.".startswith(INFRASTRUCTURE)


def change_results(overrides: Iterable[str]) -> bool:
    """Whether any setting given beside the recipe, ``--model.width=256``, decides what is computed."""
    return any(not _is_infrastructure(word.removeprefix("--").partition("=")[0]) for word in overrides)


def change_data(overrides: Iterable[str]) -> bool:
    """Whether any setting given beside the recipe, ``--data.store=mine/bytes``, decides what data are computed on."""
    return change_results(word for word in overrides if word.startswith("--data."))


@cache
def _files(folders: tuple[Path, ...]) -> dict[str, Path]:
    files = files_in(folders, "*/*.yaml")
    return {f"{path.parent.name}/{path.stem}": path for path in files.values()}


def forget_files() -> None:
    """Clears the cache of recipe files, which may change while a process runs for days."""
    _files.cache_clear()
    _experiments.cache_clear()


def recipe_files() -> dict[str, Path]:
    """The file of every recipe by its name, found by glob."""
    return _files(configs_dirs())


def experiments() -> tuple[str, ...]:
    """Returns the names of all experiments, points of grids included."""
    return _experiments(configs_dirs())


@cache
def _experiments(folders: tuple[Path, ...]) -> tuple[str, ...]:
    names: list[str] = []
    for name, path in _files(folders).items():
        points = _read(name, path)["points"]
        names.extend([f"{name}@{point}" for point in points] if points else [name])
    return tuple(names)


def scales_of(experiment: str) -> tuple[str, ...]:
    """The scales an experiment can be run at, largest first."""
    name = experiment.partition("@")[0]
    scales = _read(name, recipe_files()[name])["scales"]
    return tuple(scale for scale in SCALES if scale == "paper" or scale in scales)


def load_recipe(experiment: str, scale: str = "paper", overrides: Overrides | None = None) -> Recipe:
    """Reads a recipe and applies its changes; deviations of a scale are added to those of the file.

    Args:
        experiment: ``<paper>/<name>`` or ``<paper>/<name>@<point>``.
        scale: one of :data:`SCALES`.
        overrides: ``(dotted key, value)`` pairs, see :func:`repro.yamls.set_key`.

    Raises:
        UserError: unknown experiment (nearest names offered), scale or section; an override that is no JSON.
    """
    name, _, point = experiment.partition("@")
    files = recipe_files()
    if name not in files:
        close = nearest(experiment, experiments())
        raise UserError(f"unknown experiment {experiment!r}{close}; see `repro list`")
    file = _read(name, files[name])
    if scale not in scales_of(name):
        raise UserError(f"{name} has no scale {scale!r}; it has: {', '.join(scales_of(name))}")
    config = copy.deepcopy({key: value for key, value in file.items() if key not in CHANGES})
    entry = file["scales"].get(scale, {"set": {}, "points": {}})
    sections = {key: value for key, value in entry.items() if key not in ("set", "points", "deviations")}
    for change in (_point(file, entry, name, point), sections, entry["set"], entry["points"].get(point)):
        _change(config, change or {}, name)
    for section in MAPPINGS:
        if not isinstance(config.get(section), dict | None):
            raise UserError(
                f"{experiment} ({scale}): {section}: {config[section]!r} is not a mapping of settings"
            )
    for header in (config, entry):  # the scale's deviations are no part of the configuration yet
        _require_types(header, f"{experiment} ({scale})")
    _deviate(config, entry.get("deviations") or ())
    config["title"] = str(config.get("title") or "").replace("{point}", point)
    config["reproduces"] = reproduced(experiment, scale)
    for key, _ in overrides or ():
        if key.partition(".")[0] not in SECTIONS:
            raise UserError(f"--{key}: settings start with one of {', '.join(SECTIONS)}")
    _change(config, dict(overrides or ()), "command line")
    words = tuple(_word(key, value) for key, value in overrides or ())
    recipe = Recipe(experiment, scale, config, words)
    if named := [word for word in words if change_results([word])]:
        if recipe.signature == load_recipe(experiment, scale).signature:  # they are the recipe's own
            return replace(recipe, overrides=tuple(word for word in words if word not in named))
        _deviate(config, [f"Settings given on the command line: {' '.join(named)}"])
    return recipe


def _word(key: str, value: Tree) -> str:
    """An override as one word that the command line reads as the same value.

    Raises:
        UserError: a value that JSON cannot carry, like infinity.
    """
    with contextlib.suppress(TypeError, ValueError, UserError):
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if parse_yaml(text) == value:
            return f"--{key}={text}"
    raise UserError(
        f"--{key}: {value!r} cannot be written as JSON; give finite numbers, texts, lists or mappings"
    )


def _point(file: Config, entry: Config, name: str, point: str) -> Config | None:
    """The change of a point, which may exist at a scale alone."""
    points = {**file["points"], **{p: file["points"].get(p) for p in entry["points"]}}
    if not points and not point:
        return None
    if not points:
        raise UserError(f"{name} has no points, so {name}@{point} does not exist")
    if point not in points:
        wrong = f"'{name}@{point}' is not a point of {name}" if point else f"{name} is a grid of points"
        choices = ", ".join(f"{name}@{p}" for p in points)
        raise UserError(f"{wrong}; choose one of: {choices}")
    return points[point]


def _deviate(config: Config, lines: Iterable[str]) -> None:
    if lines:
        config["deviations"] = [*(config.get("deviations") or ()), *lines]


def _change(config: Config, change: Mapping[str, Tree], place: str) -> None:
    """Sets the keys of a change in place, with those that are linked to them."""
    flat = {short(key): value for name, tree in change.items() for key, value in flatten(tree, name).items()}
    before = _values(config) if any(key in flat for linked in LINKED for key in linked) else {}
    for key, value in change.items():
        _set(config, key, value, place)
    after = _values(config) if before else {}
    for linked in LINKED:
        for key in [key for key in linked if key in flat and key in before][:1]:
            same = [k for k in linked if k not in flat and before.get(k) == before[key] == after.get(k)]
            for other in same:
                _set(config, other, flat[key], place)


def _values(config: Config) -> Config:
    return {short(key): value for key, value in flatten(config).items()}


def _set(config: Config, key: str, value: Tree, place: str) -> None:
    if key.partition(".")[0] not in (*SECTIONS, *HEADER):
        raise UserError(f"{place}: {key}: settings start with one of {', '.join(SECTIONS)}")
    try:
        set_key(config, key, value)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


def _read(name: str, path: Path) -> Config:
    return _parsed(read_text(path), name, path)


@cache
def _parsed(text: str, name: str, path: Path) -> Config:
    """Reads and checks a recipe's file, with ``points`` and ``scales``. The result is cached; copy before changes."""
    file = parse_yaml(text, str(path))
    known = (*HEADER, *SECTIONS, *CHANGES)
    if not isinstance(file, dict):
        raise UserError(f"{path}: a recipe is a mapping of {', '.join(known)}")
    _require_known(file, known, str(path))
    for key, value in flatten(file).items():
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, PLAIN) or (isinstance(item, float) and not isfinite(item)):
                raise UserError(
                    f"{path}: {key}: {item} has no form in JSON; give a finite number, or a text in quotes"
                )
    scales = file.get("scales") or {}
    if not isinstance(scales, dict) or not all(isinstance(one, dict) for one in scales.values()):
        raise UserError(f"{path}: scales are names with what changes below; write `small: {{set: ...}}`")
    _require_known(scales, SCALES, f"{path}: scales")
    for scale, one in scales.items():
        _require_known(one, (*HEADER, "set", "points"), f"{path}: scales: {scale}")
        if not isinstance(one.get("set") or {}, dict):
            raise UserError(f"{path}: scales: {scale}: set is a mapping of dotted keys")
    made = {
        s: {**one, "set": one.get("set") or {}, "points": _points(one, name)} for s, one in scales.items()
    }
    return {**file, "points": _points(file, name), "scales": made}


def _require_known(mapping: Config, known: tuple[str, ...], place: str) -> None:
    for key in mapping:
        if key not in known:
            raise UserError(f"{place}: unknown key {key!r}{nearest(str(key), known)}")


def _require_types(header: Config, place: str) -> None:
    for key, (fits, words) in HEADER_TYPES.items():
        if header.get(key) is not None and not fits(header[key]):
            raise UserError(f"{place}: {key}: {header[key]!r} is not {words}")


def _points(mapping: Config, name: str) -> Config:
    """The points of a grid by name, as text so that ``512:`` names one; empty where there is none."""
    points = mapping.get("points") or {}
    if not isinstance(points, dict) or not all(v is None or isinstance(v, dict) for v in points.values()):
        raise UserError(f"{name}: points are names with dotted keys below; write `l128: {{data.x: 1}}`")
    for point in points:
        if type(point) not in (str, int):
            raise UserError(f"{name}: YAML reads the name of a point as {point!r}; quote it, like 'on'")
        if not _POINT.fullmatch(str(point)):
            raise UserError(
                f"{name}: {point!r} cannot name a point; use letters, digits and . _ -, like l128-e50"
            )
    return {str(point): keys for point, keys in points.items()}


def differing_keys(a: Config, b: Config) -> list[str]:
    """The keys in which two signatures differ, as ``key: a → b``, sorted."""
    both = {key: (a.get(key, "(not set)"), b.get(key, "(not set)")) for key in sorted(a.keys() | b.keys())}
    return [f"{key}: {old} → {new}" for key, (old, new) in both.items() if old != new]


def reproduced(experiment: str, scale: str) -> list[Cell]:
    """The published cells that an experiment reproduces at a scale, in the order of the published file.

    They stand in ``ours`` of each table of ``results/published/<paper>.yaml``, whose schema is
    :class:`repro.evidence.published.Reproduction`.

    Raises:
        UserError: the file cannot be read.
    """
    path = published_files().get(experiment.partition("/")[0])
    if path is None:
        return []
    entries = _cells_by_run(path, path.stat().st_mtime_ns).get(experiment, [])
    return [{**cell} for scales, cell in entries if not scales or scale in scales]


@cache
def _cells_by_run(path: Path, changed: int) -> dict[str, list[tuple[list[str], Cell]]]:
    cells: dict[str, list[tuple[list[str], Cell]]] = {}
    try:
        for table in parse_once(read_text(path), str(path))["tables"]:
            for entry in table.get("ours", ()):
                for row in [entry["row"]] if "row" in entry else [row["id"] for row in table["rows"]]:
                    named = cells.setdefault(entry["run"].replace("{row}", row), [])
                    for metric, measured in entry["measured"].items():
                        cell = {"table": table["id"], "row": row, "metric": metric, "measured": measured}
                        named.append((entry.get("scales", []), cell))
    except (TypeError, KeyError, AttributeError):
        raise UserError(f"{path}: not a file of published numbers; `repro list` shows the error") from None
    return cells
