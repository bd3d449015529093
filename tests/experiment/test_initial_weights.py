"""The initial weights of a run: another run's, or that run's whole state."""

from typing import Any

import pytest

from repro.errors import UserError
from repro.experiment.run import run
from repro.experiment.session import MODEL_FILE
from repro.recipe import load_recipe
from repro.training.checkpoints import checkpoint_path, read
from tests.experiment.runner import differences
from tests.workshop import PAPER, RECIPE, STREAM_RECIPE, TINY, Workshop

# --- starting from another run -------------------------------------------------------------------------------------


def second(workshop: Workshop, start_from: str = TINY) -> str:
    workshop.recipe(RECIPE + f"start_from: {start_from}\n", name="second")
    workshop.recipe("{}\n", name="second", scale="cpu")
    return f"{PAPER}/second"


def test_a_run_starts_from_the_final_weights_of_another(workshop: Workshop) -> None:
    name = second(workshop)
    with pytest.raises(UserError, match=rf"{TINY}/cpu/s3-.*repro run {TINY} --scale cpu --seed 3"):
        run(load_recipe(name, "cpu"), 3, "x")
    first = run(load_recipe(TINY, "cpu"), 3, "x")
    recipe = load_recipe(name, "cpu", [("model.optimizer.init_args.lr", 1e-30)])
    record = run(recipe, 3, "x")
    assert record.start_from == {"run_id": first.run_id, "checkpoint_sha256": first.checkpoint_sha256}
    before = read(load_recipe(TINY, "cpu").run_dir(3) / MODEL_FILE)["state_dict"]
    after = read(recipe.run_dir(3) / MODEL_FILE)["state_dict"]
    assert all(abs(after[k] - before[k]).max() < 1e-6 for k in before), "with next to no learning they stay"


def test_where_a_run_starts_from_is_part_of_what_it_is(workshop: Workshop) -> None:
    name = second(workshop)
    assert load_recipe(name, "cpu").signature["start_from"] == TINY
    assert "start_from" not in load_recipe(TINY, "cpu").signature


def test_weights_that_do_not_fit_are_refused(workshop: Workshop) -> None:
    name = second(workshop)
    run(load_recipe(TINY, "cpu"), 1, "x")
    recipe = load_recipe(name, "cpu", [("model.net.d_model", 16), ("model.schedule.d_model", 16)])
    with pytest.raises(UserError, match=r"cannot start from .*size mismatch"):
        run(recipe, 1, "x")


def test_an_unknown_start_is_refused(workshop: Workshop) -> None:
    with pytest.raises(UserError, match="'attention-is-all-you-need/tini'"):
        run(load_recipe(second(workshop, f"{PAPER}/tini"), "cpu"), 1, "x")


# --- going on where another run ended ------------------------------------------------------------------------------

STAGED = STREAM_RECIPE.replace(
    "seq_len: 4, lag: 5", "seq_len: 4, lag: 5, stages: [{epochs: 1, seq_len: 2}]"
).replace("{steps: 2, warmup_steps: 1}", "{steps: 20, warmup_steps: 2}")


def stages(workshop: Workshop, more: str = "start_with: everything\n") -> tuple[str, str, str]:
    """One training of two stages whole, its first stage alone, and one that goes on from there."""
    names = {"whole": 12, "first": 7, "second": 12}
    for name, steps in names.items():
        text = STAGED.replace(
            "max_steps: 2, val_check_interval: 2", f"max_steps: {steps}, val_check_interval: 7"
        )
        text += f"start_from: transformer-xl/first\n{more}" if name == "second" else ""
        workshop.recipe(text, name, paper="transformer-xl")
        workshop.recipe("{}\n", name, "cpu", "transformer-xl")
    return "transformer-xl/whole", "transformer-xl/first", "transformer-xl/second"


def last_of(name: str, steps: int) -> Any:
    return read(checkpoint_path(load_recipe(name, "cpu").run_dir(1) / "checkpoints", steps))


def test_stages_run_one_after_another_are_one_training(workshop: Workshop) -> None:
    whole, first, second = (load_recipe(name, "cpu") for name in stages(workshop))
    at_once = run(whole, 1, "x")
    before = run(first, 1, "x")
    record = run(second, 1, "x")
    expected, result = (last_of(name, 12) for name in ("transformer-xl/whole", "transformer-xl/second"))
    for part in ("state_dict", "optimizer_states", "lr_schedulers", "random_states", "carried", "EchoData"):
        assert not differences(result[part], expected[part], part)[:3]
    assert record.start_from == {"run_id": before.run_id, "checkpoint_sha256": before.checkpoint_sha256}
    assert record.tokens == at_once.tokens > before.tokens, "those of both stages"
    assert record.curves["train/loss"] == at_once.curves["train/loss"]
    assert record.curves["val/loss"] == at_once.curves["val/loss"], "one of step 7, which is validated again"
    other = run(load_recipe(second.experiment, "cpu", [("trainer.val_check_interval", 5)]), 1, "x")
    assert [step for step, _ in other.curves["val/loss"]] == [7, 10], "step 7 is not validated again"
    assert second.signature["start_with"] == "everything"


def test_with_the_weights_alone_it_is_another_training(workshop: Workshop) -> None:
    _, first, second = (load_recipe(name, "cpu") for name in stages(workshop, more=""))
    run(first, 1, "x")
    run(second, 1, "x")
    assert int(last_of("transformer-xl/second", 12)["optimizer_states"][0]["state"][0]["step"]) == 12


def test_a_training_that_cannot_go_on_is_refused(workshop: Workshop) -> None:
    _, first, second = stages(workshop)
    run(load_recipe(first, "cpu"), 1, "x")
    with pytest.raises(UserError, match=r"step 7.*set trainer\.max_steps.*7"):
        run(load_recipe(second, "cpu", [("trainer.max_steps", 7)]), 1, "x")
    averaged = [("checkpoints.every_steps", 1), ("checkpoints.average_last", 6)]
    with pytest.raises(
        UserError, match=r"from step 7.*average.*from step 7 on; lower checkpoints\.average_last, 6"
    ):
        run(load_recipe(second, "cpu", averaged), 1, "x")
    averaged = [("checkpoints.every_steps", 4), ("checkpoints.average_last", 2)]
    stop = [("stop", {"metric": "val/loss", "at_least": 0.0})]
    with pytest.raises(UserError, match=r"from step 4 on where `stop` ends it early.*or leave `stop` out"):
        run(load_recipe(second, "cpu", [*averaged, *stop]), 1, "x")
    folder = load_recipe(first, "cpu").run_dir(1) / "checkpoints"
    with checkpoint_path(folder, 7).open("r+b") as file:
        file.truncate(100)
    with pytest.raises(UserError, match=r"cannot be used .*; remove \S+/s1-\w+, then: repro run "):
        run(load_recipe(second, "cpu"), 1, "x")
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(UserError, match="last checkpoint cannot be used"):
        run(load_recipe(second, "cpu"), 1, "x")


@pytest.mark.parametrize(
    ("more", "message"),
    [("start_with: all\n", "'all' does not fit; start_from takes weights, everything, body"),
     ("start_with: everything\n", "'everything' does not fit; start_from takes")],
)  # fmt: skip
def test_what_to_start_with_is_checked(workshop: Workshop, more: str, message: str) -> None:
    workshop.recipe(STREAM_RECIPE + more, "alone", paper="transformer-xl")
    with pytest.raises(UserError, match=message):
        _ = load_recipe("transformer-xl/alone").hash8
