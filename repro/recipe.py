"""Recipes: YAML in, one resolved configuration and its signature out. Needs no torch.

A recipe is ``configs/<paper>/<name>.yaml`` (scale ``paper``) with overlays ``<name>.<scale>.yaml`` beside it.
An *experiment* is addressed as ``<paper>/<name>``, a point of a grid as ``<paper>/<name>@<point>``.
"""

import copy
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from repro.errors import UserError, nearest
from repro.nested import Config, Tree, flatten, laid_over, merge, replaced
from repro.paths import configs_dirs, files_in, runs_dir
from repro.seeds import judged_seeds
from repro.swaps import drop_unknown
from repro.tied import deviation, followers, require_agreement, short, words
from repro.yamls import parse_yaml, read_text

SCALES = ("paper", "gpu", "small", "cpu")
HEADER = (
    "title", "reproduces", "ablates", "deviations", "expects", "points",
    "start_from", "pretrained", "start_with", "seeds", "extended_to", "untied",
)  # fmt: skip
# What may be taken over from where training begins; the first is the default.
TAKEN = {"start_from": ("weights", "everything", "body"), "pretrained": ("body", "statistics")}
SECTIONS = ("trainer", "model", "data", "checkpoints", "stop", "compile")
# Where and how a run is executed; none of these keys changes what is computed.
INFRASTRUCTURE = (
    "trainer.accelerator", "trainer.devices", "trainer.num_nodes", "trainer.strategy", "trainer.logger",
    "trainer.enable_progress_bar", "trainer.enable_model_summary", "trainer.log_every_n_steps",
    "trainer.default_root_dir", "trainer.accumulate_grad_batches", "data.num_workers",
)  # fmt: skip
_POINT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # it names folders, and stands in job scripts

Overrides = list[tuple[str, Tree]]

# The points of a grid share one parse; its result is never handed out uncopied.
_parse_once = cache(parse_yaml)


@dataclass(frozen=True)
class Recipe:
    """One experiment at one scale, resolved.

    Attributes:
        experiment: ``<paper>/<name>`` or ``<paper>/<name>@<point>``.
        scale: one of :data:`SCALES`.
        config: everything the file says, overlays, point and overrides merged; header keys included.
        overrides: settings given beside the files, then those tied to them, one word each: ``--model.width=256``.
        notices: what the user should be told of settings; see :mod:`repro.swaps` and :func:`repro.tied.followers`.
    """

    experiment: str
    scale: str
    config: Config
    overrides: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def paper(self) -> str:
        return self.experiment.split("/", 1)[0]

    @property
    def sections(self) -> Config:
        """What is run: trainer, model, data, checkpoints, stop, compile."""
        given = {key: self.config[key] for key in SECTIONS if self.config.get(key) is not None}
        if given.get("compile") is False:  # as if it were absent, in the hash too
            del given["compile"]
        return given

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
        """Which of the two is given: one of :data:`TAKEN`."""
        return next((key for key in TAKEN if self.config.get(key) is not None), None)

    @property
    def start_with(self) -> str:
        """What is taken over from there; a UserError where that is no word of :data:`TAKEN`, or both are given."""
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
    def extended(self) -> bool:
        """Whether an undecided result was extended to more seeds, and is judged with 97.5 % intervals."""
        return self.config.get("extended_to") is not None

    @cached_property
    def config_hash(self) -> str:
        """SHA-256 over the signature."""
        return signature_hash(self.signature)

    @property
    def hash8(self) -> str:
        """Its first eight hexadecimal digits."""
        return self.config_hash[:8]

    def run_id(self, seed: int) -> str:
        """``<paper>/<recipe>/<scale>/s<seed>-<hash8>``, also the run's folder below :func:`runs_dir`."""
        return f"{self.experiment}/{self.scale}/s{seed}-{self.hash8}"

    def run_dir(self, seed: int) -> Path:
        return runs_dir() / self.run_id(seed)


def signature_hash(signature: Config) -> str:
    """SHA-256 over the canonical JSON of a signature."""
    text = json.dumps(signature, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _is_infrastructure(key: str) -> bool:
    return any(f"{short(key)}.".startswith(f"{k}.") for k in INFRASTRUCTURE)


def change_results(overrides: Iterable[str]) -> bool:
    """Whether any setting given beside the recipe, ``--model.width=256``, decides what is computed."""
    return any(not _is_infrastructure(word.removeprefix("--").partition("=")[0]) for word in overrides)


@cache
def _files(folders: tuple[Path, ...]) -> dict[str, dict[str, Path]]:
    by_name: dict[str, dict[str, Path]] = {}
    for path in files_in(folders, "*/*.yaml").values():
        name, _, scale = path.name.removesuffix(".yaml").partition(".")
        if scale and scale not in SCALES[1:]:
            raise UserError(f"{path}: {scale!r} is not a scale{nearest(scale, SCALES[1:])}; rename the file")
        by_name.setdefault(f"{path.parent.name}/{name}", {})[scale or "paper"] = path
    for name in (name for name, files in by_name.items() if "paper" not in files):
        raise UserError(f"{folders[0] / name}.yaml is missing, but it has overlays; write it or remove them")
    return by_name


def forget_files() -> None:
    """Makes the next look at the recipes read the folders again: a process may run for days while they change."""
    _files.cache_clear()
    _experiments.cache_clear()


def recipe_files() -> dict[str, dict[str, Path]]:
    """Every recipe file, found by glob: ``{experiment: {scale: path}}``."""
    return _files(configs_dirs())


def experiments() -> tuple[str, ...]:
    """Every experiment that can be named, points of grids included."""
    return _experiments(configs_dirs())


@cache
def _experiments(folders: tuple[Path, ...]) -> tuple[str, ...]:
    names: list[str] = []
    for name, files in _files(folders).items():
        points = _points(_read_recipe(files["paper"]), name)
        names.extend([f"{name}@{point}" for point in points] if points else [name])
    return tuple(names)


def scales_of(experiment: str) -> tuple[str, ...]:
    """The scales an experiment can be run at, largest first."""
    files = recipe_files()[experiment.partition("@")[0]]
    return tuple(scale for scale in SCALES if scale in files)


def load_recipe(experiment: str, scale: str = "paper", overrides: Overrides | None = None) -> Recipe:
    """Reads a recipe, lays the scale's overlay and the point over it, then the overrides; deviations add up.

    Args:
        experiment: ``<paper>/<name>`` or ``<paper>/<name>@<point>``.
        scale: one of :data:`SCALES`.
        overrides: ``(dotted key, value)`` pairs, see :func:`set_key`; they also set what :mod:`repro.tied`
            and drop what :mod:`repro.swaps` says.

    Raises:
        UserError: unknown experiment (nearest names offered), scale or section; two values for one quantity.
    """
    name, _, point = experiment.partition("@")
    files = recipe_files()
    if name not in files:
        close = nearest(experiment, experiments())
        raise UserError(f"unknown experiment {experiment!r}{close}; see `repro list`")
    if scale not in files[name]:
        raise UserError(f"{name} has no scale {scale!r}; it has: {', '.join(scales_of(name))}")
    config = _read_recipe(files[name]["paper"])
    if scale != "paper":
        overlay = _read_recipe(files[name][scale])
        deviations = [*(config.get("deviations") or ()), *(overlay.get("deviations") or ())]
        config = merge(config, overlay) | ({"deviations": deviations} if deviations else {})
    config = _choose_point(config, name, point)
    require_agreement(experiment, config)
    return Recipe(experiment, scale, config, *_override(config, overrides or []))


def _override(config: Config, overrides: Overrides) -> tuple[tuple[str, ...], tuple[str, ...]]:
    files = copy.deepcopy(config) if overrides else config
    for key, value in overrides:
        set_key(config, key, value)
    dropped = drop_unknown(files, config, overrides)
    also, notices = followers(config, overrides)
    for key, value in also:
        set_key(config, key, value)
    if shown := [pair for pair in overrides if not _is_infrastructure(pair[0])]:
        config["deviations"] = [*(config.get("deviations") or ()), deviation(shown, also)]
    return words([*overrides, *also]), (*dropped, *notices)


def _read_recipe(path: Path) -> Config:
    config = copy.deepcopy(_parse_once(read_text(path), str(path)))
    if not isinstance(config, dict):
        raise UserError(f"{path}: a recipe is a mapping of {', '.join(HEADER + SECTIONS)}")
    for key in config:
        if key not in HEADER + SECTIONS:
            raise UserError(f"{path}: unknown key {key!r}{nearest(str(key), HEADER + SECTIONS)}")
    return config


def _choose_point(config: Config, name: str, point: str) -> Config:
    points = _points(config, name)
    config.pop("points", None)
    if not points and not point:
        return config
    if not points:
        raise UserError(f"{name} has no points, so {name}@{point} does not exist")
    if point not in points:
        wrong = f"'{name}@{point}' is not a point of {name}" if point else f"{name} is a grid of points"
        choices = ", ".join(f"{name}@{p}" for p in points)
        raise UserError(f"{wrong}; choose one of: {choices}")
    for key, value in (points[point] or {}).items():
        if key in HEADER:
            config[key] = value
        else:
            set_key(config, key, value)
    # the rows of a grid are named after its points
    return {k: replaced(v, "{point}", point) if k in HEADER else v for k, v in config.items()}


def _points(config: Config, name: str) -> Config:
    """The points of a grid by name, as text so that ``512:`` names one; empty where there is none."""
    points = config.get("points") or {}
    if not isinstance(points, dict) or not all(v is None or isinstance(v, dict) for v in points.values()):
        raise UserError(f"{name}: points are names with dotted keys below; write `l128: {{data.x: 1}}`")
    for point in map(str, points):
        if not _POINT.fullmatch(point):
            raise UserError(
                f"{name}: {point!r} cannot name a point; use letters, digits and . _ -, like l128-e50"
            )
    return {str(point): keys for point, keys in points.items()}


def set_key(config: Config, key: str, value: Tree) -> None:
    """Sets a dotted key in place; ``init_args`` may be left out, list items are numbers.

    ``model.net.d_model`` reaches ``model.init_args.net.init_args.d_model``.

    Raises:
        UserError: when the key starts outside the recipe's sections or passes through a value.
    """
    parts = key.split(".")
    if parts[0] not in SECTIONS:
        raise UserError(f"--{key}: settings start with one of {', '.join(SECTIONS)}")
    node: Any = config
    for i, part in enumerate(parts):
        if isinstance(node, dict) and "class_path" in node and part not in ("class_path", "init_args"):
            node = node.setdefault("init_args", {})
        last = i == len(parts) - 1
        if isinstance(node, list) and part.isdigit() and int(part) < len(node):
            step: Any = int(part)
        elif isinstance(node, dict):
            step = part
        else:
            raise UserError(f"--{key}: {'.'.join(parts[:i])} is a value, it has no {part!r}")
        if last:
            node[step] = laid_over(node.get(step), value) if isinstance(node, dict) else value
        else:
            node = node.setdefault(step, {}) if isinstance(node, dict) else node[step]


def differing_keys(a: Config, b: Config) -> list[str]:
    """The keys in which two signatures differ, as ``key: a → b``, sorted."""
    both = {key: (a.get(key, "(not set)"), b.get(key, "(not set)")) for key in sorted(a.keys() | b.keys())}
    return [f"{key}: {old} → {new}" for key, (old, new) in both.items() if old != new]
