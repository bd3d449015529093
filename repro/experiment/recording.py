"""Assembles and writes the record of a run that was just tested."""

import contextlib
import hashlib
from datetime import UTC, datetime
from typing import Any

import torch

from repro import tracking
from repro.experiment import facts
from repro.experiment.session import RECORD_FILE, Run
from repro.paths import results_dir
from repro.recipe import signature_hash
from repro.record import RunRecord, write_atomic, write_record


def record(current: Run, command: str, digest: str | None) -> RunRecord:
    """Assembles the record on every rank; rank 0 writes it, with the decoded outputs, last of all.

    Args:
        current: the run, tested.
        command: as typed.
        digest: SHA-256 of the model file.
    """
    outputs = current.parts.task.outputs()
    made = assemble(current, command, digest, outputs)
    if current.trainer.is_global_zero:
        made.wandb_url = tracking.url(current.logger)
        write_record(made, results_dir() / "runs", outputs)
        write_atomic(current.folder / RECORD_FILE, (made.to_json() + "\n").encode())
        current.status.write("done", step=made.steps, max_steps=made.steps)
        close_tracking(current.logger, made, current.parts.task)
    return made


def assemble(current: Run, command: str, digest: str | None, outputs: str | None) -> RunRecord:
    """Everything there is to know about a run that was just tested."""
    recipe, task, trainer, curves = current.recipe, current.parts.task, current.trainer, current.curves
    data: Any = current.parts.data
    wall = curves.wall_seconds
    cards = trainer.num_devices * trainer.num_nodes if torch.cuda.is_available() else 0
    return RunRecord(
        experiment=recipe.experiment,
        scale=recipe.scale,
        seed=current.seed,
        run_id=recipe.run_id(current.seed),
        command=command,
        config=recipe.config,
        config_hash=signature_hash(recipe.signature),
        commit=current.source.commit,
        dirty=current.source.dirty,
        versions=facts.versions(),
        hardware=facts.hardware(trainer.num_devices * trainer.num_nodes, trainer.num_nodes),
        precision=str(trainer.precision),
        data={"name": data.store_name, "manifest_sha256": data.manifest_sha256, "counts": data.counts},
        parameters=sum(p.numel() for p in task.parameters()),
        steps=trainer.max_steps,
        tokens=curves.tokens,
        wall_seconds=round(wall, 1),
        gpu_hours=round(wall / 3600 * cards, 4),
        peak_bytes=facts.peak_bytes(),
        metrics=task.measurements(),
        curves=curves.thinned(),
        checkpoint_sha256=digest,
        outputs_sha256=None if outputs is None else hashlib.sha256(outputs.encode()).hexdigest(),
        finished=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        deviations=list(recipe.config.get("deviations") or []),
        start_from=current.stamper.origin,
        code_sha256=current.source.sha256,
    )


def close_tracking(logger: Any, made: RunRecord, task: Any) -> None:
    """Puts final metrics and samples on W&B, and ends its run."""
    if logger is None:
        return
    with contextlib.suppress(Exception):
        logger.log_metrics({m.name: m.value for m in made.metrics}, step=made.steps)
        columns, rows = task.samples()
        logger.log_table("samples", columns=columns, data=rows)
    tracking.finish(logger)
