"""Assembles and writes the record of a run that was just tested."""

import contextlib
import hashlib
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from repro import tracking
from repro.data.core.datamodule import DataModule
from repro.experiment import facts
from repro.experiment.build import AnyTask
from repro.experiment.pictures.attention import attention_sheet, short_sample
from repro.experiment.pictures.memory_pictures import profiles, read_example
from repro.experiment.session import Run
from repro.models import EncoderDecoder
from repro.paths import results_dir
from repro.pictures import sheet_of
from repro.record import RECORD_FILE, RunRecord, write_atomic, write_record
from repro.tasks.translation import Translation
from repro.tracking import labels
from repro.tracking.background import BackgroundLogger


def record(
    current: Run, command: str, digest: str | None, published: Mapping[str, float] | None = None
) -> RunRecord:
    """Assembles the record on every rank; rank 0 writes it, with the decoded outputs, as the last step.

    Args:
        current: the run, tested.
        command: as typed.
        digest: SHA-256 of the model file.
        published: what the paper prints, by the measurement's name.
    """
    outputs = current.parts.task.outputs()
    result = assemble(current, command, digest, outputs)
    if current.trainer.is_global_zero:
        result.wandb_url = tracking.url(current.logger)
        result.profiles = profiles_of(current)
        write_record(result, results_dir() / "runs", outputs)
        write_atomic(current.folder / RECORD_FILE, (result.to_json() + "\n").encode())
        current.status.write("done", step=result.steps, max_steps=result.steps)
        close_tracking(current.logger, result, current.parts.task, outputs, published or {})
    return result


def assemble(current: Run, command: str, digest: str | None, outputs: str | None) -> RunRecord:
    """Everything there is to know about a run that was just tested."""
    recipe, task, trainer, curves = current.recipe, current.parts.task, current.trainer, current.curves
    wall = curves.wall_seconds
    devices, device = trainer.num_devices * trainer.num_nodes, trainer.strategy.root_device
    return RunRecord(
        experiment=recipe.experiment,
        scale=recipe.scale,
        seed=current.seed,
        run_id=recipe.run_id(current.seed),
        command=command,
        config=recipe.config,
        config_hash=recipe.config_hash,
        commit=current.source.commit,
        dirty=current.source.dirty,
        versions=facts.versions(),
        hardware=facts.hardware(devices, trainer.num_nodes, device),
        precision=str(trainer.precision),
        data=data_facts(current.parts.data),
        parameters=sum(p.numel() for p in task.parameters()),
        steps=trainer.max_steps,
        tokens=curves.tokens,
        wall_seconds=round(wall, 1),
        gpu_hours=round(wall / 3600 * devices, 4) if device.type == "cuda" else 0.0,
        peak_bytes=facts.peak_bytes(),
        metrics=task.measurements(),
        curves=curves.thinned(),
        checkpoint_sha256=digest,
        outputs_sha256=None if outputs is None else hashlib.sha256(outputs.encode()).hexdigest(),
        finished=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        deviations=list(recipe.config.get("deviations") or []),
        start_from=current.stamper.origin,
        code_sha256=current.source.sha256,
        overrides=list(recipe.overrides),
    )


def profiles_of(current: Run) -> dict[str, list[float]]:
    """Profiles of the network's continuous memories for one example; an error here does not lose the run."""
    try:
        return profiles(read_example(current.parts.task, current.parts.data))
    except Exception as error:
        print(f"no profiles of memories: {type(error).__name__}: {error}", file=sys.stderr)
        return {}


def data_facts(data: DataModule) -> dict[str, Any]:
    """The description of a datamodule: name, hash of its manifest, counts."""
    return {"name": data.store_name, "manifest_sha256": data.manifest_sha256, "counts": data.counts}


def known_at_start(current: Run) -> dict[str, Any]:
    """The facts sent to W&B before training, besides the recipe; none names a path, a host or a user."""
    trainer = current.trainer
    return {
        "commit": current.source.commit,
        "dirty": current.source.dirty,
        "data": data_facts(current.parts.data),
        "start_from": current.stamper.origin,
        "versions": facts.versions(),
        "hardware": facts.hardware(
            trainer.num_devices * trainer.num_nodes, trainer.num_nodes, trainer.strategy.root_device
        ),
        "precision": str(trainer.precision),
    }


def close_tracking(
    logger: BackgroundLogger | None,
    result: RunRecord,
    task: AnyTask,
    outputs: str | None,
    published: Mapping[str, float],
) -> None:
    """Logs final metrics, samples, the summary and the record with its sources on W&B, and ends its run."""
    if logger is None:
        return
    with contextlib.suppress(Exception):
        values = {
            m.name: m.value for m in reversed(result.metrics)
        }  # of two of one name the first, as in the tables
        logger.log_metrics(values, step=result.steps)
        columns, rows = task.samples()
        if rows:
            logger.log_table("samples", columns=columns, data=rows)
        sheet = sheet_of(outputs)
        if sheet is not None:
            logger.log_picture("drawn", sheet, result.run_id)
        logger.log_summary({**values, **{f"published/{name}": value for name, value in published.items()}})
        for artifact in artifacts(result, outputs):
            logger.log_artifact(artifact)
        if isinstance(task, Translation) and isinstance(task.module, EncoderDecoder):
            tokenizer = task.data.tokenizer
            sample = short_sample(task.translated(), tokenizer)
            if sample is not None:
                logger.log_picture(
                    "attention", attention_sheet(task.module, tokenizer, *sample), result.run_id
                )
    tracking.finish(logger)


def artifacts(result: RunRecord, outputs: str | None) -> list[dict[str, Any]]:
    """Artifacts of a run: its weights, by their hash alone, and its record, with the decoded outputs if small."""
    name = tracking.wandb_id(result.run_id)
    facts = {"run_id": result.run_id, "steps": result.steps, "parameters": result.parameters}
    files = {RECORD_FILE: result.to_json() + "\n"}
    if outputs is not None and len(outputs.encode()) <= labels.OUTPUTS_LIMIT:
        files["outputs.txt"] = outputs
    built = [labels.artifact("record", f"record-{name}", {**facts, "finished": result.finished}, files=files)]
    if result.checkpoint_sha256 is not None:
        weights = {**facts, "sha256": result.checkpoint_sha256, "start_from": result.start_from}
        built.insert(0, labels.artifact("model", f"model-{name}", weights))
    return built
