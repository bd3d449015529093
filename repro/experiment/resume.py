"""Where a run begins: at its newest sound checkpoint, with the weights of another run, or anew."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from repro.checkpoints import checkpoint_path, checkpoints, fault, read, step_of
from repro.errors import UserError
from repro.experiment import checkpoint
from repro.experiment.session import MODEL_FILE, RECORD_FILE
from repro.recipe import Recipe, load_recipe
from repro.record import RunRecord
from repro.tasks.saving import StepCheckpoints


@dataclass
class Resume:
    """Where a run goes on.

    Attributes:
        path: the checkpoint; None to begin anew.
        step: its step; 0 to begin anew.
        damaged: files that cannot be used, and why.
        later: sound checkpoints that come after it and are made again.
    """

    path: Path | None = None
    step: int = 0
    damaged: dict[Path, str] = field(default_factory=dict)
    later: list[Path] = field(default_factory=list)

    @property
    def unusable(self) -> list[Path]:
        """What must not be found again."""
        return [*self.damaged, *self.later]


def find(saver: StepCheckpoints, max_steps: int) -> Resume:
    """The newest checkpoint that is sound, and from which the final average can still be made.

    Every rank looks for itself, before ranks have met, and comes to the same answer; nothing is changed.

    Args:
        saver: knows the folder and which checkpoints are averaged in the end.
        max_steps: of the whole run.
    """
    found = Resume()

    @cache
    def sound(path: Path) -> bool:
        wrong = fault(path)
        if wrong is not None and path.exists():
            found.damaged[path] = wrong
        return wrong is None

    for path in reversed(checkpoints(saver.folder)):
        if not sound(path):
            continue
        step = step_of(path)
        before = [checkpoint_path(saver.folder, s) for s in saver.plan.averaged(max_steps) if s < step]
        if all(sound(p) for p in before):
            found.path, found.step = path, step
            break
        found.later.append(path)
    return found


def go_on_from(recipe: Recipe, seed: int, max_steps: int) -> Resume:
    """The last checkpoint of the run that a recipe starts from, for one that continues it (``start_with: everything``).

    Raises:
        UserError: it is not there any more, or damaged, or leaves nothing to train.
    """
    before = load_recipe(str(recipe.start_from), recipe.scale)
    folder = before.run_dir(seed) / "checkpoints"
    there = checkpoints(folder)
    path = there[-1] if there else checkpoint_path(folder, 0)
    wrong = fault(path)
    if wrong is not None:
        raise UserError(
            f"{recipe.experiment} goes on from {before.run_id(seed)}, whose last checkpoint cannot be used ({wrong}); "
            f"run it again: repro run {before.experiment} --scale {before.scale} --seed {seed}"
        )
    if step_of(path) >= max_steps:
        raise UserError(
            f"{recipe.experiment} goes on from step {step_of(path)} of {before.run_id(seed)}: "
            f"set trainer.max_steps above it, not to {max_steps}"
        )
    return Resume(path, step_of(path))


def begin_from(recipe: Recipe, seed: int, task: Any, vocabulary: str | None) -> dict[str, str] | None:
    """Gives a task the final weights of the run that its recipe starts from, if it names one.

    Returns:
        That run and the hash of its model, for checkpoints and the record.

    Raises:
        UserError: that run is not finished here, or its weights do not fit.
    """
    if recipe.start_from is None:
        return None
    before = load_recipe(recipe.start_from, recipe.scale)
    folder = before.run_dir(seed)
    if not (folder / RECORD_FILE).is_file():
        raise UserError(
            f"{recipe.experiment} starts from {before.run_id(seed)}, which has not finished here; run it first: "
            f"repro run {before.experiment} --scale {before.scale} --seed {seed}"
        )
    text = (folder / RECORD_FILE).read_text(encoding="utf-8")
    record = RunRecord.from_json(text, str(folder / RECORD_FILE))
    path = folder / MODEL_FILE
    loaded = read(path)
    checkpoint.check_stamp(path, loaded, before.signature, vocabulary)
    try:
        task.load_state_dict(loaded["state_dict"])
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{recipe.experiment} cannot start from {before.run_id(seed)}: {reason}") from None
    return {"run_id": record.run_id, "checkpoint_sha256": str(record.checkpoint_sha256)}
