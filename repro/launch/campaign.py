"""A campaign: checks, short measurements and runs on one machine, one after the other, until the time is up.

``configs/campaign-NAME.yaml`` lists them. Every step is a process of its own; what became of it is a line of
``steps.jsonl`` in the campaign's folder, and a step that succeeded is not done again.
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from repro.dotted import flatten
from repro.errors import EXIT_OK, UserError, nearest
from repro.files import write_atomic
from repro.launch.targets import Recorded, RunSpec, named_experiments, recorded, resolve_targets
from repro.paths import configs_dirs, files_in, runs_dir
from repro.recipe import load_recipe, scales_of
from repro.seeds import TUNING, SeedChoice
from repro.stop import StopRequest
from repro.yamls import read_yaml

PREFIX = "campaign-"
STEPS = "steps.jsonl"
GRACE_S = 120.0  # for a checkpoint, once a step was asked to stop
POLL_S = 0.2
EXIT_NOT_FOUND = 127  # as a shell says of a command that cannot be started
REHEARSED = {"trainer.max_steps": 2, "trainer.accelerator": "cpu"}


@dataclass(frozen=True)
class Check:
    """A command, run in the working folder, and what it shows.

    Attributes:
        rehearsal: the command that stands for it in a rehearsal, where that must be another.
    """

    says: str
    command: str
    minutes: float
    rehearsal: str | None = None


@dataclass(frozen=True)
class Measure:
    """One experiment's speed with several settings.

    Attributes:
        moves: the number that a variant is meant to move.
        steps: updates of each variant.
        minutes: of each variant.
        variants: settings by name; the first is what recipes do today.
    """

    experiment: str
    moves: str
    steps: int
    minutes: float
    variants: dict[str, dict[str, Any]]
    scale: str = "paper"


@dataclass(frozen=True)
class Runs:
    """Runs that are recorded and judged.

    Attributes:
        targets: as of ``repro run`` or ``repro submit``.
        minutes: of each run.
        seeds: as of ``--seeds``.
    """

    targets: list[str]
    says: str
    minutes: float
    scale: str = "paper"
    seeds: str = "3"
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One process of a campaign.

    Attributes:
        part: ``checks``, ``measures`` or ``runs``.
        key: names it among all steps.
        says: what it shows, or which number it is to move.
        words: the command.
        minutes: estimated.
        environment: that it gets besides this process's.
        folder: of its run; None of a check.
        done: its run has a record.
    """

    part: str
    key: str
    says: str
    words: tuple[str, ...]
    minutes: float
    environment: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None
    done: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a step: its exit code, seconds, and the last line that it printed."""

    key: str
    code: int
    seconds: float
    line: str


@dataclass(frozen=True)
class Campaign:
    """What is to be done, in order, and where it is kept.

    Attributes:
        rehearsal: every experiment makes two updates at scale ``cpu`` on the CPU, and nothing enters the results.
    """

    name: str
    rehearsal: bool
    checks: tuple[Check, ...]
    measures: tuple[Measure, ...]
    runs: tuple[Runs, ...]

    @property
    def folder(self) -> Path:
        """Where outcomes, outputs and the report are."""
        return runs_dir().absolute() / f"{PREFIX}{self.name}{'-rehearsal' * self.rehearsal}"

    def steps(self) -> list[Step]:
        """All steps in order.

        Raises:
            UserError: a target or a setting that does not exist.
        """
        steps = []
        for check in self.checks:
            command = (self.rehearsal and check.rehearsal) or check.command
            steps.append(Step("checks", command, check.says, _words(command), check.minutes))
        for measure in self.measures:
            for name, settings in measure.variants.items():
                given = {"trainer.max_steps": measure.steps} | settings
                specs = self._specs([measure.experiment], measure.scale, f"{TUNING}-{TUNING}", given)
                steps += [self._step("measures", spec, name, measure.minutes) for spec in specs]
        done = recorded()
        for runs in self.runs:
            seeds = "1" if self.rehearsal else runs.seeds
            specs = self._specs(runs.targets, runs.scale, seeds, runs.settings, done)
            steps += [self._step("runs", spec, runs.says, runs.minutes) for spec in specs]
        return steps

    def _specs(
        self,
        targets: list[str],
        scale: str,
        seeds: str,
        settings: dict[str, Any],
        done: Recorded = frozenset(),
    ) -> list[RunSpec]:
        chosen = SeedChoice.parse(seeds)
        if not self.rehearsal:
            return resolve_targets(targets, scale, chosen, list(settings.items()), done)
        names = [name for name in named_experiments(targets) if "cpu" in scales_of(name)]
        shortened = {name: list((settings | _rehearsed(name)).items()) for name in names}
        return [spec for n in names for spec in resolve_targets([n], "cpu", chosen, shortened[n], done)]

    def _step(self, part: str, spec: RunSpec, says: str, minutes: float) -> Step:
        """A run; what is not to be judged stays below the campaign's folder, where no table or claim sees it."""
        run = ("run", spec.experiment, "--scale", spec.scale, "--seed", str(spec.seed), *spec.settings)
        words = (sys.executable, "-m", "repro", *run)
        if part == "runs" and not self.rehearsal:
            return Step(part, spec.run_id, says, words, minutes, folder=spec.run_dir, done=spec.done)
        places = {"REPRO_RUNS": str(self.folder / "runs"), "REPRO_RESULTS": str(self.folder / "results")}
        folder = self.folder / "runs" / spec.run_id
        return Step(part, spec.run_id, says, words, minutes, places | {"WANDB_MODE": "disabled"}, folder)


def _words(command: str) -> tuple[str, ...]:
    """A command's words; ``python`` is the one that runs here, whatever PATH has."""
    words = shlex.split(command)
    return (sys.executable, *words[1:]) if words[:1] == ["python"] else tuple(words)


def _rehearsed(experiment: str) -> dict[str, Any]:
    """Settings with which an experiment makes two updates at scale cpu, into which warm-up and validation must fit."""
    config = flatten(load_recipe(experiment, "cpu").config)
    schedule = "model.init_args.schedule.init_args"
    settings = dict(REHEARSED)
    if f"{schedule}.steps" in config and config.get(f"{schedule}.warmup_steps", 0) > 1:
        settings["model.schedule.warmup_steps"] = 1
    if config.get("checkpoints.best") is not None:
        settings["trainer.val_check_interval"] = REHEARSED["trainer.max_steps"]
    return settings


def load_campaign(name: str, rehearsal: bool = False) -> Campaign:
    """Reads a campaign of the project or of the suite.

    Raises:
        UserError: no such file, or one that is not a campaign; names the entry.
    """
    files = files_in(configs_dirs(), f"{PREFIX}*.yaml")
    path = files.get(f"{PREFIX}{name}.yaml")
    if path is None:
        names = [Path(file).stem.removeprefix(PREFIX) for file in files]
        raise UserError(
            f"no campaign {name!r}{nearest(name, names)}; it would be configs/{PREFIX}{name}.yaml"
        )
    raw = read_yaml(path)
    kinds = {"checks": Check, "measures": Measure, "runs": Runs}
    try:
        parts = {kind: tuple(kinds[kind](**entry) for entry in entries) for kind, entries in raw.items()}
        return Campaign(name, rehearsal, **(dict.fromkeys(kinds, ()) | parts))
    except (TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: {error}; the file's head says what an entry holds") from None


def outcomes(folder: Path) -> dict[str, Outcome]:
    """The last outcome of each step that was begun; a line that was cut off, as by a kill, counts for nothing."""
    path = folder / STEPS
    found = {}
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if path.is_file() else []:
        with contextlib.suppress(ValueError, TypeError):
            one = Outcome(**json.loads(line))
            found[one.key] = one
    return found


def _note(folder: Path, found: Outcome) -> None:
    """Adds an outcome as a line of its own, whole or not at all."""
    path = folder / STEPS
    before = path.read_bytes() if path.is_file() else b""
    before += b"\n" * (before[-1:] not in (b"", b"\n"))
    write_atomic(path, before + f"{json.dumps(asdict(found), ensure_ascii=False)}\n".encode())


def work(campaign: Campaign, steps: Sequence[Step], hours: float, say: Callable[[str], None]) -> bool:
    """Does what is left, in order, until the time is up; a step that fails does not stop the next.

    A step is not begun where its estimate exceeds the time left. One that is at work when the time ends, or when this
    process is asked to stop, is asked to stop as well: a run saves a checkpoint and goes on the next time.

    Returns:
        Whether this process was asked to stop.
    """
    folder, end = campaign.folder, time.monotonic() + hours * 3600
    folder.mkdir(parents=True, exist_ok=True)
    with StopRequest() as request:
        for number, step in enumerate(steps, 1):
            before = outcomes(folder).get(step.key)
            if step.done or (before is not None and before.code == EXIT_OK):
                continue
            left = (end - time.monotonic()) / 60
            if step.minutes > left:
                say(
                    f"[{number} of {len(steps)}] left out: {step.key}: {step.minutes:g} min, {max(left, 0):.0f} left"
                )
                continue
            say(f"[{number} of {len(steps)}] {step.key} ({step.says}), about {step.minutes:g} min")
            found = _do(step, folder / "outputs" / f"{number:03}.txt", end, request)
            _note(folder, found)
            say(f"    {'done' if found.code == EXIT_OK else f'exit code {found.code}'}: {found.line}")
            if request.asked:
                return True
    return False


def _do(step: Step, output: Path, end: float, request: StopRequest) -> Outcome:
    output.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with open(output, "wb") as file:
        try:
            process = subprocess.Popen(
                step.words, stdout=file, stderr=subprocess.STDOUT, env=os.environ | step.environment
            )
        except OSError as error:
            return Outcome(step.key, EXIT_NOT_FOUND, 0.0, f"cannot start {step.words[0]}: {error.strerror}")
        asked = False
        while process.poll() is None:
            if not asked and (request.asked or time.monotonic() > end):
                asked = True
                process.send_signal(signal.SIGUSR1 if step.folder else signal.SIGTERM)
                end = time.monotonic() + GRACE_S
            elif asked and time.monotonic() > end:
                process.kill()
            time.sleep(POLL_S)
    printed = output.read_text(encoding="utf-8", errors="replace").split("\n")
    line = next((line.strip() for line in reversed(printed) if line.strip()), "")
    return Outcome(step.key, process.returncode, round(time.monotonic() - began, 1), line)
