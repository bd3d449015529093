"""Quantities that stand under several keys of a recipe: they agree in every file, and settings keep them so."""

import dataclasses
import re
from typing import Any

import pytest

from repro.errors import UserError
from repro.nested import flatten
from repro.recipe import experiments, load_recipe, scales_of
from repro.tied import TIED, short, stated
from tests.workshop import PROJECT, RECIPE, TINY, Workshop

# Where a width, the end of a schedule or a vocabulary's size may stand: a new place must join the table, or this list.
LOOKS_TIED = re.compile(
    r".*\.d_model|data\.width|model\.width|.*\.schedule\.steps|.*vocab_size|.*vocabulary\.size"
)
COSINE = {"class_path": "repro.tasks.WarmupCosine"}
COSINE_RECIPE = RECIPE.replace(
    "{class_path: repro.tasks.Noam, init_args: {d_model: 8, warmup_steps: 10}}",
    "{class_path: repro.tasks.WarmupCosine, init_args: {steps: 2, warmup_steps: 1}}",
)


def tiny(*overrides: tuple[str, Any]) -> Any:
    return load_recipe(TINY, "cpu", list(overrides))


def values(recipe: Any) -> dict[str, Any]:
    """Every tied key that the recipe states."""
    return {key: value for _, found in stated(recipe.config) for key, value in found.items()}


def test_all_recipes_agree_and_name_their_quantities_where_the_table_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    keys, pairs = {key for those in TIED.values() for key in those}, dict.fromkeys(TIED, 0)
    every = [(experiment, scale) for experiment in experiments() for scale in scales_of(experiment)]
    assert len(every) >= 500
    for experiment, scale in every:
        recipe = load_recipe(experiment, scale)  # refused where two values stand for one quantity
        named = {short(key) for key in flatten(recipe.sections)}
        assert {key for key in named if LOOKS_TIED.fullmatch(key)} <= keys, (experiment, scale)
        for what, found in stated(recipe.config):
            assert len(set(found.values())) <= 1, (experiment, scale, found)
            pairs[what] += len(found) > 1
        assert (recipe.overrides, recipe.notices) == ((), ())
    assert min(pairs.values()) >= 50, "the table finds what it is for"


@pytest.mark.parametrize(
    ("override", "followed"),
    [
        (("model.net.d_model", 16), ["model.schedule.d_model"]),
        (("model.init_args.net.init_args.d_model", 16), ["model.schedule.d_model"]),
        (("model.net", {"init_args": {"d_model": 16}}), ["model.schedule.d_model"]),
        (("model.schedule.d_model", 16), ["model.net.d_model"]),
        (("data.vocab_size", 16), ["model.net.vocabulary.size"]),
        (("model.net.vocabulary.size", 16), ["data.vocab_size"]),
        (("model.schedule", {"init_args": {"steps": 16}, **COSINE}), ["trainer.max_steps"]),
    ],
)
def test_one_key_sets_the_others_of_its_quantity_and_nothing_else(
    workshop: Workshop, override: tuple[str, Any], followed: list[str]
) -> None:
    recipe = tiny(override)
    moved = {key: value for key, value in values(recipe).items() if values(tiny()).get(key) != value}
    own = short(next(iter(flatten(override[1], override[0]))))
    assert moved == dict.fromkeys((own, *followed), 16)
    assert recipe.overrides[1:] == tuple(f"--{key}=16" for key in followed)
    (line,) = recipe.notices
    assert all(word in line for word in ("16", *followed))


def test_updates_move_the_end_of_the_schedule_and_nothing_that_is_evaluated(workshop: Workshop) -> None:
    workshop.recipe(COSINE_RECIPE)
    before, after = (flatten(tiny(*o).sections) for o in ((), (("trainer.max_steps", 400_000),)))
    assert {key for key in after if after[key] != before[key]} == {
        "trainer.max_steps",
        "model.init_args.schedule.init_args.steps",
    }
    assert after["model.init_args.schedule.init_args.steps"] == 400_000


def test_a_key_that_is_not_stated_is_not_made(workshop: Workshop) -> None:
    recipe = tiny(("trainer.max_steps", 5))  # the schedule has no end
    assert (recipe.overrides, recipe.notices) == (("--trainer.max_steps=5",), ())
    assert tiny(("model.net.d_model", 8)).notices == (), "it is 8 already"
    gone = tiny(("model.schedule", "repro.tasks.Constant"), ("model.net.d_model", 16))
    assert gone.config["model"]["init_args"]["schedule"] == "repro.tasks.Constant"
    assert gone.notices == ()


def test_both_keys_may_be_given_apart_and_that_is_said(workshop: Workshop) -> None:
    recipe = tiny(("model.net.d_model", 16), ("model.schedule.d_model", 32))
    found = values(recipe)
    assert (found["model.net.d_model"], found["model.schedule.d_model"]) == (16, 32)
    assert recipe.overrides == ("--model.net.d_model=16", "--model.schedule.d_model=32")
    (line,) = recipe.notices
    assert all(word in line for word in ("model.net.d_model 16", "model.schedule.d_model 32"))
    old = tiny(("model.net.d_model", 16), ("model.schedule.d_model", 8))  # the recipe's own value, on purpose
    assert values(old)["model.schedule.d_model"] == 8
    assert len(old.notices) == 1
    same = tiny(("model.net.d_model", 16), ("model.schedule.d_model", 16))
    assert (same.notices, len(same.overrides)) == ((), 2)


def test_given_apart_a_third_key_stays(workshop: Workshop) -> None:
    workshop.recipe(RECIPE.replace("batch_tokens: 400", "batch_tokens: 400, width: 8"))
    assert values(tiny(("model.net.d_model", 16)))["data.width"] == 16
    apart = tiny(("model.net.d_model", 16), ("model.schedule.d_model", 32))
    assert values(apart)["data.width"] == 8


@pytest.mark.parametrize("value", ["wide", None, [16]])
def test_what_is_no_number_sets_nothing_else(workshop: Workshop, value: Any) -> None:
    recipe = tiny(("model.net.d_model", value))
    assert values(recipe)["model.schedule.d_model"] == 8
    assert recipe.notices == ()


@pytest.mark.parametrize("place", ["file", "overlay", "point"])
@pytest.mark.parametrize(
    ("first", "second", "old", "new"),
    [
        ("trainer.max_steps", "model.schedule.steps", "{steps: 2,", "{steps: 77,"),
        ("model.net.vocabulary.size", "data.vocab_size", "vocab_size: 300", "vocab_size: 77"),
    ],
)
def test_a_recipe_that_states_two_values_is_refused(
    workshop: Workshop, place: str, first: str, second: str, old: str, new: str
) -> None:
    text, experiment = COSINE_RECIPE, TINY
    overlay = "trainer: {max_steps: 2}\n"
    if place == "file":
        text = text.replace(old, new)
        assert text != COSINE_RECIPE
    elif place == "overlay":
        node = {"model.schedule.steps": "model: {init_args: {schedule: {init_args: {steps: 77}}}}"}
        overlay += node.get(second, "data: {init_args: {vocab_size: 77}}")
    else:
        text, experiment = f"{text}points: {{a: {{{second}: 77}}}}\n", f"{TINY}@a"
    workshop.recipe(text)
    workshop.recipe(overlay, scale="cpu")
    with pytest.raises(UserError) as refusal:
        load_recipe(experiment, "cpu", [(second, 2)])  # settings do not repair a recipe
    line = str(refusal.value)
    assert all(word in line for word in (experiment, first, second, "77"))
    assert "\n" not in line


def test_a_recipe_may_untie_a_key_aloud(workshop: Workshop) -> None:
    """A stage of a longer schedule: the two differ, follow nothing, and the hash does not change."""
    workshop.recipe(f"{COSINE_RECIPE}untied: [model.schedule.steps]\n")
    same = tiny().hash8
    workshop.recipe(COSINE_RECIPE)
    assert tiny().hash8 == same
    workshop.recipe(COSINE_RECIPE.replace("{steps: 2,", "{steps: 77,") + "untied: [model.schedule.steps]\n")
    recipe = tiny(("trainer.max_steps", 5))
    steps = recipe.config["model"]["init_args"]["schedule"]["init_args"]["steps"]
    assert (steps, recipe.config["trainer"]["max_steps"], recipe.notices) == (77, 5, ())


@pytest.mark.parametrize(
    ("untied", "said"), [("[trainer.max_step]", "max_step"), ("yes", "True"), ("[{}]", "{}")]
)
def test_what_cannot_be_untied_is_refused(workshop: Workshop, untied: str, said: str) -> None:
    workshop.recipe(f"{RECIPE}untied: {untied}\n")
    with pytest.raises(UserError, match=said):
        tiny()


def test_the_hash_is_that_of_a_recipe_with_both_values_written_down(workshop: Workshop) -> None:
    plain, wide = tiny(), tiny(("model.net.d_model", 16))
    replayed = load_recipe(TINY, "cpu", [pair(word) for word in wide.overrides])
    assert replayed.signature == wide.signature
    workshop.recipe(RECIPE.replace("d_model: 8", "d_model: 16"))
    written = tiny()
    assert written.hash8 == wide.hash8 != plain.hash8
    assert (written.overrides, written.config.get("deviations")) == ((), None)


def pair(word: str) -> tuple[str, Any]:
    key, _, value = word.removeprefix("--").partition("=")
    return key, int(value)


def test_settings_end_the_deviations_and_are_no_part_of_the_hash(workshop: Workshop) -> None:
    workshop.recipe(f"{RECIPE}deviations: [d_model 8]\n")
    recipe = tiny(("model.net.d_model", 16), ("trainer.devices", 2))
    first, last = recipe.config["deviations"]
    assert first == "d_model 8"
    assert "--model.net.d_model=16" in last
    assert "--model.schedule.d_model=16" in last
    assert "devices" not in last, "it changes nothing that is computed"
    bare = dataclasses.replace(recipe, config={**recipe.config, "deviations": None})
    assert bare.hash8 == recipe.hash8
    assert tiny(("data.num_workers", 2)).config["deviations"] == ["d_model 8"]
