"""Assembles and writes the record of a run that was just tested."""

import contextlib
import hashlib
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from repro.events import Event, attempts, read
from repro.experiment import facts
from repro.experiment.build import AnyTask
from repro.experiment.pictures.attention import attention_sheet, short_sample
from repro.experiment.pictures.memory_pictures import profiles, read_example
from repro.experiment.session import Run
from repro.mirror import labels, mode, url
from repro.models import EncoderDecoder
from repro.paths import records_dirs, results_dir, trials_dir
from repro.recipe import change_results
from repro.record import ATTEMPT, RECORD_FILE, RunRecord, read_records, withdrawn, write_atomic, write_record
from repro.seeds import TUNING
from repro.tasks.drawn_pictures import sheet_of
from repro.tasks.translation import Translation


def is_trial(current: Run) -> bool:
    """Whether a run counts for nothing: a seed for tuning, other settings, or a run that has a record already."""
    recipe = current.recipe
    if current.seed >= TUNING or change_results(recipe.overrides):
        return True
    left_out = withdrawn(*records_dirs())
    known = read_records(*(folder / recipe.experiment for folder in records_dirs())).good
    on_gpu = current.trainer.strategy.root_device.type == "cuda"
    facts = (recipe.scale, current.seed, recipe.config_hash, on_gpu)
    same = [one for one in known if (one.scale, one.seed, one.config_hash, one.on_gpu) == facts]
    return any(f"{recipe.experiment}/{one.path}" not in left_out for one in same)


def record(current: Run, command: str, digest: str | None, keep: bool) -> RunRecord:
    """Assembles the record on every rank; rank 0 writes it, with the decoded outputs.

    The copy in the run's folder comes last: a run that is killed before is tested and recorded by the same command.

    Args:
        current: the run, tested.
        command: as typed.
        digest: SHA-256 of the model file.
        keep: whether the record is added to the results, too, those of trials for a trial.

    Raises:
        ReproError: a file cannot be written, or the run's events are gone.
    """
    outputs = current.parts.task.outputs()
    result = assemble(current, command, digest, outputs)
    if current.trainer.is_global_zero:
        current.events.sync()
        result.wandb_url = url(current.folder)
        result.profiles = profiles_of(current)
        result.attempts = attempts(read(current.events.path), result.steps, ATTEMPT)
        if mode() != "disabled":
            with contextlib.suppress(Exception):  # they do not lose the run
                write_last_events(current, result, outputs)
        if keep:
            results = trials_dir() if is_trial(current) else results_dir()
            write_record(result, results / "runs", outputs)
        current.events.append("state", result.steps, {"state": "done"})
        write_atomic(current.folder / RECORD_FILE, (result.to_json() + "\n").encode())
    return result


def assemble(current: Run, command: str, digest: str | None, outputs: str | None) -> RunRecord:
    """Assembles the facts of a run that was just tested."""
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
        deviations=[*(recipe.config.get("deviations") or []), *current.stamper.eager_layers(task)],
        overrides=list(recipe.overrides),
        **known_at_start(current),
    )


def profiles_of(current: Run) -> dict[str, list[float]]:
    """Profiles of the network's continuous memories for one example; an error here does not lose the run."""
    try:
        return profiles(read_example(current.parts.task, current.parts.data))
    except Exception as error:
        print(f"no profiles of memories: {type(error).__name__}: {error}", file=sys.stderr)
        return {}


def known_at_start(current: Run) -> dict[str, Any]:
    """Fields of the record that are known before training; none names a path, a host or a user."""
    trainer, data = current.trainer, current.parts.data
    devices = trainer.num_devices * trainer.num_nodes
    return {
        "commit": current.source.commit,
        "dirty": current.source.dirty,
        "code_sha256": current.source.sha256,
        "data": {"name": data.store_name, "manifest_sha256": data.manifest_sha256, "counts": data.counts},
        "start_from": current.stamper.origin,
        "versions": facts.versions(),
        "hardware": facts.hardware(devices, trainer.num_nodes, trainer.strategy.root_device),
        "precision": str(trainer.precision),
    }


def first_event(current: Run) -> dict[str, Any]:
    """The first event of an attempt."""
    recipe, known, job = current.recipe, known_at_start(current), slurm_job()
    return {
        "run": recipe.run_id(current.seed),
        "max_steps": current.steps,
        "job": job,
        "wandb": mode(),
        "wandb_id": wandb_id(read(current.events.path)),
        "published": current.published,
        "group": labels.group(recipe, current.seed),
        "tags": labels.tags(recipe, current.seed),
        "config": {
            "recipe": recipe.config, "seed": current.seed, "hash": recipe.hash8, "job": job,
            "paper": recipe.paper, "scale": recipe.scale, "max_steps": current.steps,
            "overrides": list(recipe.overrides), **known,
        },
    }  # fmt: skip


def wandb_id(events: Sequence[Event]) -> str:
    """The id of a run on W&B: of its earlier attempts, else of the sweep's agent that started it, else a new one."""
    known = [str(event["wandb_id"]) for event in events if event.get("wandb_id")]
    of_sweep = os.environ.get("WANDB_RUN_ID") if os.environ.get("WANDB_SWEEP_ID") else None
    return known[0] if known else of_sweep or secrets.token_hex(8)


def slurm_job() -> str | None:
    """The Slurm job of this process, ``<array>_<task>`` or a plain id; None outside Slurm."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def write_last_events(current: Run, result: RunRecord, outputs: str | None) -> None:
    """Adds the final numbers, samples of outputs, and pictures, which are files beside the events."""
    log, task, published = current.events, current.parts.task, current.published
    # of two of one name the first, as in the tables
    values = {m.name: m.value for m in reversed(result.metrics)}
    log.append("test", result.steps, values)
    columns, rows = task.samples()
    if rows:
        log.append("note", result.steps, {"table": "samples", "columns": columns, "rows": rows})
    costs = {"wall_seconds": result.wall_seconds, "gpu_hours": result.gpu_hours}
    summary = {**values, **costs, **{f"published/{name}": value for name, value in published.items()}}
    for cell in (result.config.get("reproduces") or [])[:1]:  # columns that runs of all papers have
        name = cell["measured"]
        numbers = [value for key, value in published.items() if key.partition("@")[0] == name]
        score = {"name": name, "ours": values.get(name), "published": next(iter(numbers), None)}
        summary |= {f"score/{key}": value for key, value in score.items() if value is not None}
    log.append("note", result.steps, {"summary": summary})
    for name, picture in pictures(task, outputs):
        file = log.path.with_name(f"{name}.png")
        write_atomic(file, picture)
        log.append("note", result.steps, {"picture": name, "file": file.name, "caption": result.run_id})


def pictures(task: AnyTask, outputs: str | None) -> Iterator[tuple[str, bytes]]:
    """Returns PNG files by name: drawn pictures, and the attention of a translation."""
    sheet = sheet_of(outputs)
    if sheet is not None:
        yield "drawn", sheet
    if isinstance(task, Translation) and isinstance(task.module, EncoderDecoder):
        sample = short_sample(task.translated(), task.data.tokenizer)
        if sample is not None:
            yield "attention", attention_sheet(task.module, task.data.tokenizer, *sample)
