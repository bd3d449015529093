"""Checkpoints on disk: averaging the last, the final model file, and refusing what belongs to another run.

Files are read with ``weights_only=True``, always.
"""

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from repro.errors import UserError
from repro.recipe import Config, differing_keys
from repro.record import write_atomic

# Key of a checkpoint under which this package keeps what it needs to know about the run.
STAMP = "repro"


def read(path: Path) -> dict[str, Any]:
    """Loads a checkpoint onto the CPU.

    Raises:
        UserError: missing, damaged, or holding more than tensors and plain values.
    """
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"no such checkpoint: {path}") from None
    except Exception as error:  # torch raises many kinds for damaged files
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{path} is not a readable checkpoint ({reason[:160]}); delete it to go on without"
        ) from None
    if not isinstance(loaded, dict) or "state_dict" not in loaded:
        raise UserError(f"{path} is not a checkpoint: it has no state_dict")
    return loaded


def stamp(signature: Config, vocabulary: str | None) -> dict[str, Any]:
    """What a checkpoint says about its run: the signature, and the hash of the vocabulary its ids mean."""
    return {"signature": signature, "vocabulary_sha256": vocabulary}


def check_stamp(path: Path, loaded: dict[str, Any], signature: Config | None, vocabulary: str | None) -> None:
    """Refuses a checkpoint of another run.

    Raises:
        UserError: another signature (the differing keys are named) or another vocabulary.
    """
    found = loaded.get(STAMP)
    if not isinstance(found, dict):
        raise UserError(f"{path} was not written by repro, so it cannot be told what it belongs to")
    if signature is not None and found["signature"] != signature:
        keys = differing_keys(found["signature"], signature)
        more = f" and {len(keys) - 4} more" if len(keys) > 4 else ""
        raise UserError(f"{path} belongs to another configuration; it differs in {'; '.join(keys[:4])}{more}")
    if vocabulary is not None and found["vocabulary_sha256"] not in (None, vocabulary):
        raise UserError(
            f"{path} was trained with another vocabulary ({found['vocabulary_sha256'][:8]}, here {vocabulary[:8]}); "
            "prepare the data it was trained on, or train anew"
        )


def average(paths: Sequence[Path]) -> dict[str, torch.Tensor]:
    """The mean of the models in several checkpoints, added in float64; what is no float is taken from the last.

    Source: Vaswani et al. 2017, section 6.1.
    """
    total: dict[str, torch.Tensor] = {}
    last: dict[str, torch.Tensor] = {}
    for path in paths:
        last = read(path)["state_dict"]
        for name, value in last.items():
            if value.is_floating_point():
                total[name] = total[name] + value.double() if name in total else value.double()
    return {
        name: (total[name] / len(paths)).to(value.dtype) if name in total else value
        for name, value in last.items()
    }


def write_model(path: Path, state_dict: dict[str, torch.Tensor], config: Config, mark: dict[str, Any]) -> str:
    """Writes the final model with its recipe; returns the file's SHA-256."""
    buffer = io.BytesIO()
    weights = {name: value.cpu() for name, value in state_dict.items()}
    torch.save({"state_dict": weights, "config": config, STAMP: mark}, buffer)
    data = buffer.getvalue()
    write_atomic(path, data)
    return hashlib.sha256(data).hexdigest()
