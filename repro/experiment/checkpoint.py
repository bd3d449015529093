"""Checkpoints of runs: the one that a run resumes from, the run they belong to, the average, the final model file."""

import hashlib
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from repro.errors import ReproError, UserError
from repro.events import EVENTS_FILE
from repro.recipe import Config, differing_keys
from repro.record import write_atomic
from repro.tasks.ranks import by_rank_0
from repro.training.callbacks import Curves
from repro.training.checkpoints import checkpoint_path, checkpoints, fault, read, step_of
from repro.training.saving import StepCheckpoints, best_path

# Key of a checkpoint under which this package stores facts of the run.
STAMP = "repro"


@dataclass
class Resume:
    """The place where a run resumes.

    Attributes:
        path: the checkpoint; None to begin anew.
        step: its step; 0 to begin anew.
        damaged: unusable files, each with the reason; one whose curves are gone from the events is unusable.
        later: sound checkpoints that come after it and are made again.
    """

    path: Path | None = None
    step: int = 0
    damaged: dict[Path, str] = field(default_factory=dict)
    later: list[Path] = field(default_factory=list)


def find(saver: StepCheckpoints, max_steps: int, early: bool = False) -> Resume:
    """The newest valid checkpoint from which the final model can still be made: an average, or the best so far.

    Nothing is changed.

    Args:
        saver: has the folder, and which checkpoints are averaged in the end.
        max_steps: of the whole run.
        early: whether the run may end before, at the newest checkpoint or at any step behind it.
    """
    resume = Resume()

    @cache
    def sound(path: Path) -> bool:
        wrong = fault(path)
        if wrong is not None and path.exists():
            resume.damaged[path] = wrong
        return wrong is None

    known = saver.folder.with_name(EVENTS_FILE)
    known_bytes = known.stat().st_size if known.exists() else math.inf  # without events it is refused later
    files = checkpoints(saver.folder)
    for path in reversed(files):
        if not sound(path):
            continue
        loaded = read(path, mmap=True)
        if loaded.get("callbacks", {}).get(Curves().state_key, {}).get("events", 0) > known_bytes:
            resume.damaged[path] = f"{EVENTS_FILE} is shorter than when it was written"
            continue
        step = step_of(path)
        earliest = step if path == files[-1] else step + 1
        averaged = saver.plan.averaged(earliest if early else max_steps)
        needed = [checkpoint_path(saver.folder, s) for s in averaged if s < step]
        if saver.plan.best is not None and (best := saver.best_in(loaded)) is not None:
            needed.append(best_path(saver.folder, best[0]))
        if all(sound(p) for p in needed):
            resume.path, resume.step = path, step
            break
        resume.later.append(path)
    return resume


def stamp(signature: Config, vocabulary: str | None, origin: dict[str, str] | None = None) -> dict[str, Any]:
    """The part of a checkpoint or a final model that identifies its run.

    Args:
        signature: of the recipe.
        vocabulary: hash of the vocabulary that token ids mean.
        origin: the run or published weights it started from, and their hash.
    """
    return {"signature": signature, "vocabulary_sha256": vocabulary, "origin": origin}


def refuse_changes(path: Path, before: dict[str, str], now: dict[str, str]) -> None:
    """Refuses to resume with other code, packages, data or another device than those that wrote the checkpoint.

    Args:
        path: the checkpoint.
        before: what wrote it.
        now: of this process.

    Raises:
        UserError: names what differs.
    """
    pairs = {name: (before.get(name, "none"), now.get(name, "none")) for name in before | now}
    changed = [f"{name} {old} → {new}" for name, (old, new) in pairs.items() if old != new]
    if changed:
        raise UserError(
            f"{path} was written with other code, packages or data, or on another device ({'; '.join(changed)}); go "
            "back to them, continue with --accept-changes (the record is then `mixed` and not judged), or remove the "
            "run's folder to begin anew"
        )


def check_stamp(
    path: Path,
    loaded: dict[str, Any],
    signature: Config | None,
    vocabulary: str | None,
    seed: int | None = None,
) -> None:
    """Refuses a checkpoint of another run.

    Raises:
        UserError: another signature (the differing keys are named), another vocabulary or another seed.
    """
    match loaded.get(STAMP):
        case {"signature": dict(before), "vocabulary_sha256": str() | None as known}:
            pass
        case _:
            raise UserError(f"{path} was not written by repro, so its run is unknown; give one that was")
    if signature is not None and before != signature:
        keys = differing_keys(before, signature)
        more = f" and {len(keys) - 4} more" if len(keys) > 4 else ""
        raise UserError(f"{path} belongs to another configuration; it differs in {'; '.join(keys[:4])}{more}")
    if vocabulary is not None and known not in (None, vocabulary):
        raise UserError(
            f"{path} was trained with another vocabulary ({known[:8]}, here {vocabulary[:8]}); "
            "prepare the data it was trained on, or train again"
        )
    if seed is not None and (other := loaded[STAMP].get("seed", seed)) != seed:
        raise UserError(
            f"{path} is of seed {other}, not {seed}: a copy; remove the run's folder to begin anew"
        )


def average(paths: Sequence[Path]) -> dict[str, torch.Tensor]:
    """The mean of the models in several checkpoints, added in float64; tensors not of floats are those of the last.

    Rank 0 verifies the files for all ranks.

    Source: Vaswani et al. 2017, section 6.1.

    Raises:
        ReproError: one is missing or damaged; started again, the run goes back to before it.
    """
    total: dict[str, torch.Tensor] = {}
    last: dict[str, torch.Tensor] = {}
    for path in paths:
        wrong = by_rank_0(partial(fault, path))
        if wrong is not None:
            raise ReproError(
                f"{path} cannot be used: {wrong}; the same command resumes from an earlier checkpoint"
            )
        last = read(path)["state_dict"]
        for name, value in last.items():
            if value.is_floating_point():
                total[name] = total[name] + value.double() if name in total else value.double()
    return last | {name: (value / len(paths)).to(last[name].dtype) for name, value in total.items()}


def write_model(path: Path, state_dict: dict[str, torch.Tensor], config: Config, mark: dict[str, Any]) -> str:
    """Writes the final model with its recipe; returns the file's SHA-256."""
    buffer = io.BytesIO()
    weights = {name: value.cpu() for name, value in state_dict.items()}
    torch.save({"state_dict": weights, "config": config, STAMP: mark}, buffer)
    data = buffer.getvalue()
    write_atomic(path, data)
    return hashlib.sha256(data).hexdigest()
