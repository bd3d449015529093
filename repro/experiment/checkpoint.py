"""Checkpoints of runs: which run they belong to, the average of the last, the final model file."""

import hashlib
import io
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from repro.errors import ReproError, UserError
from repro.recipe import Config, differing_keys
from repro.record import write_atomic
from repro.tasks.ranks import by_rank_0
from repro.training.checkpoints import fault, read

# Key of a checkpoint under which this package stores facts of the run.
STAMP = "repro"


def stamp(
    signature: Config,
    vocabulary: str | None,
    origin: dict[str, str] | None = None,
    maker: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The part of a checkpoint that identifies its run.

    Args:
        signature: of the recipe.
        vocabulary: hash of the vocabulary that token ids mean.
        origin: the run or published weights it started from, and their hash.
        maker: :func:`repro.record.made_by`; None in a final model, whose bytes are those of weights and configuration.
    """
    facts = {"signature": signature, "vocabulary_sha256": vocabulary, "origin": origin}
    return facts if maker is None else {**facts, "made_by": maker}


def refuse_changes(path: Path, before: dict[str, str], now: dict[str, str]) -> None:
    """Refuses to resume with other code, packages or another device than those that wrote the checkpoint.

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
            f"{path} was written by other code, packages or on another device ({'; '.join(changed)}); go back to them, "
            "continue with --accept-changes (the record is then `mixed` and not judged), or remove the run's folder to "
            "begin anew"
        )


def check_stamp(path: Path, loaded: dict[str, Any], signature: Config | None, vocabulary: str | None) -> None:
    """Refuses a checkpoint of another run.

    Raises:
        UserError: another signature (the differing keys are named) or another vocabulary.
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
