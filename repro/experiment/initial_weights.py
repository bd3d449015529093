"""The initial weights of a run: pretrained, or of another run, or the whole state of another run."""

from pathlib import Path
from typing import Any

from repro.data.sets.weights.weight_data import open_weights
from repro.errors import UserError
from repro.experiment import checkpoint
from repro.experiment.build import AnyTask
from repro.experiment.session import MODEL_FILE, Run
from repro.models.body import Body
from repro.models.decoder_lm import DecoderLM
from repro.models.pretrained import begin_with, fill
from repro.recipe import Recipe, load_recipe
from repro.record import finished_record
from repro.training.checkpoints import checkpoint_path, checkpoints, fault, read, step_of

_BODY = "net.body."


def begin_from(recipe: Recipe, seed: int, task: AnyTask, vocabulary: str | None) -> dict[str, str] | None:
    """Loads the weights with which training begins into a task, if its recipe names any; trains and writes nothing.

    Args:
        recipe: with ``start_from`` or ``pretrained``, or neither.
        seed: of the run, and of the one it starts from.
        task: freshly built; which of its parameters are frozen does not change.
        vocabulary: hash of the vocabulary that the data's token ids mean.

    Returns:
        That run and the hash of its model, or the name, hash and revision of the pretrained weights, for checkpoints
        and the record.

    Raises:
        UserError: that run is not finished here, a store of weights is missing or corrupt, or weights do not fit.
    """
    if recipe.pretrained is not None:
        return _from_store(recipe, str(recipe.pretrained), seed, task)
    if recipe.start_from is None:
        return None
    before = load_recipe(recipe.start_from, recipe.scale)
    folder = before.run_dir(seed)
    record = finished_record(folder)
    if record is None:
        raise UserError(
            f"{recipe.experiment} starts from {before.run_id(seed)}, which has not finished here; run it first: "
            f"repro run {before.experiment} --scale {before.scale} --seed {seed}"
        )
    loaded = read(folder / MODEL_FILE)
    known = None if recipe.start_with == "body" else vocabulary
    checkpoint.check_stamp(folder / MODEL_FILE, loaded, before.signature, known)
    weights: dict[str, Any] = loaded["state_dict"]
    try:
        if recipe.start_with == "body":
            body = {n.removeprefix(_BODY): value for n, value in weights.items() if n.startswith(_BODY)}
            if not body:
                raise ValueError("that run's network has no body")
            fill(_body_of(recipe, task), body)
        else:
            task.load_state_dict(weights)
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{recipe.experiment} cannot start from {before.run_id(seed)}: {reason}") from None
    return {"run_id": record.run_id, "checkpoint_sha256": str(record.checkpoint_sha256)}


def _body_of(recipe: Recipe, task: AnyTask) -> Body:
    body = dict(task.module.named_children()).get("body")
    if not isinstance(body, Body):
        raise UserError(
            f"{recipe.experiment}: {recipe.origin} gives weights to a body, which {type(task.net).__name__} does not "
            "have; repro.models.Classifier does, and repro.models.DecoderLM takes weights of GPT-2"
        )
    return body


def _from_store(recipe: Recipe, name: str, seed: int, task: AnyTask) -> dict[str, str]:
    """Begins with pretrained weights, or with random ones that share their statistics."""
    net = task.module if isinstance(task.module, DecoderLM) else _body_of(recipe, task)
    opened = open_weights(name)
    redraw = seed if recipe.start_with == "statistics" else None
    try:
        begin_with(net, opened.family, opened.tensors, opened.n_heads, redraw)
    except ValueError as error:
        raise UserError(f"{recipe.experiment} cannot begin with {name}: {error}") from None
    return {"weights": name, "sha256": opened.sha256, "revision": opened.revision or "unpinned"}


def go_on_from(current: Run) -> Path:
    """The last checkpoint of the run that this one continues (``start_with: everything``), with the same seed.

    Raises:
        UserError: it is missing or damaged, leaves nothing to train, or the average of the last checkpoints would begin
            before it.
    """
    recipe, seed, plan, early = current.recipe, current.seed, current.saver.plan, current.ends_early
    before = load_recipe(str(recipe.start_from), recipe.scale)
    folder = before.run_dir(seed) / "checkpoints"
    path = (checkpoints(folder) or [checkpoint_path(folder, 0)])[-1]
    wrong, step = fault(path), step_of(path)
    if wrong is not None:
        raise UserError(
            f"{recipe.experiment} continues {before.run_id(seed)}, whose last checkpoint cannot be used ({wrong}); "
            f"remove {folder.parent}, then: repro run {before.experiment} --scale {before.scale} --seed {seed}"
        )
    if step >= current.steps:
        raise UserError(
            f"{recipe.experiment} continues from step {step} of {before.run_id(seed)}: "
            f"set trainer.max_steps above it, not to {current.steps}"
        )
    first = plan.averaged(step + 1 if early else current.steps)[0]
    if first <= step:
        raise UserError(
            f"{recipe.experiment} continues from step {step} of {before.run_id(seed)} and would average its "
            f"checkpoints from step {first} on{' where `stop` ends it early' * early}; lower "
            f"checkpoints.average_last, {plan.average_last}, or checkpoints.every_steps, {plan.every_steps}"
            f"{', or leave `stop` out' * early}"
        )
    return path
