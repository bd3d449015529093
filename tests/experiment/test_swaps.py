"""A class path given alone, beside the files: which of the file's arguments its class keeps."""

from typing import Any

import pytest

from repro import swaps
from repro.errors import UserError
from repro.experiment.build import IMPORTABLE, build, build_task
from repro.nested import flatten
from repro.nn import FullAttention
from repro.recipe import Recipe, load_recipe
from tests.workshop import PROJECT, RECIPE, TINY, Workshop, call

ABLATION, MIXER = "transformer-xl/ablation@xl", "model.net.blocks.mixers.0"
FULL = (f"{MIXER}.class_path", "repro.nn.FullAttention")
SGD = ("model.optimizer.class_path", "torch.optim.SGD")


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))


def mixer(recipe: Recipe) -> Any:
    return recipe.config["model"]["init_args"]["net"]["init_args"]["blocks"]["mixers"][0]


@pytest.mark.parametrize(
    ("scale", "kept", "lost"),
    [
        ("cpu", {"n_heads": 4}, ["mem_len"]),
        ("paper", {"n_heads": 10, "d_head": 41}, ["mem_len", "position_dropout"]),
    ],
)
@pytest.mark.parametrize("key", [FULL[0], "model.init_args.net.init_args.blocks.mixers.0.class_path"])
def test_another_mixer_keeps_what_both_know(
    published: None, key: str, scale: str, kept: dict[str, int], lost: list[str]
) -> None:
    plain, recipe = load_recipe(ABLATION, scale), load_recipe(ABLATION, scale, [(key, FULL[1])])
    assert mixer(recipe) == {"class_path": FULL[1], "init_args": kept}
    (line,) = recipe.notices
    assert line == f"FullAttention has no {', '.join(lost)}: dropped"
    # nothing else moved, and the hash is that of a recipe written so
    whole = load_recipe(ABLATION, scale, [("model.net.blocks.mixers", [mixer(recipe)])])
    assert (whole.notices, whole.hash8) == ((), recipe.hash8)
    place = "model.init_args.net.init_args.blocks.mixers.0."
    rest = [{k: v for k, v in r.signature.items() if not k.startswith(place)} for r in (plain, recipe)]
    assert rest[0] == rest[1]


def test_a_name_without_a_module_is_looked_up_beside_the_replaced_class(published: None) -> None:
    short, full = (load_recipe(ABLATION, "cpu", [(FULL[0], name)]) for name in ("FullAttention", FULL[1]))
    assert (mixer(short), short.notices, short.hash8) == (mixer(full), full.notices, full.hash8)


def test_the_class_is_built_with_what_is_left_and_what_was_given(workshop: Workshop) -> None:
    workshop.recipe(RECIPE.replace("{lr: 1.0}", "{lr: 0.5, betas: [0.9, 0.99]}"))
    recipe = load_recipe(TINY, "cpu", [SGD, ("model.optimizer.momentum", 0.9)])
    task = build_task(recipe, meta=True)
    (group,) = task.optimizer_maker(list(task.parameters())).param_groups
    assert (group["lr"], group["momentum"]) == (0.5, 0.9)


def test_what_the_user_typed_is_never_dropped(published: None) -> None:
    for typed in ([(f"{MIXER}.mem_len", 3)], [(MIXER, {"class_path": FULL[1], "init_args": {"mem_len": 3}})]):
        recipe = load_recipe(ABLATION, "cpu", [FULL, *typed])
        assert mixer(recipe)["init_args"]["mem_len"] == 3
        with pytest.raises(UserError, match="mem_len"):
            build(recipe, meta=True)


def test_what_no_class_knows_stays_an_error(workshop: Workshop) -> None:
    workshop.recipe(RECIPE.replace("{lr: 1.0}", "{lr: 1.0, betas: [0.9, 0.99], betaz: 2}"))
    recipe = load_recipe(TINY, "cpu", [SGD])
    assert recipe.config["model"]["init_args"]["optimizer"]["init_args"] == {"lr": 1.0, "betaz": 2}
    with pytest.raises(UserError, match="betaz"):
        build(recipe, meta=True)


def test_arguments_that_all_go_leave_none(workshop: Workshop) -> None:
    workshop.recipe(RECIPE.replace("{lr: 1.0}", "{betas: [0.9, 0.99]}"))
    found = flatten(load_recipe(TINY, "cpu", [SGD]).signature)
    assert {k: v for k, v in found.items() if "optimizer" in k} == {
        "model.init_args.optimizer.class_path": "torch.optim.SGD"
    }


@pytest.mark.parametrize("name", ["repro.nn.FullAttenton", "os.path.join", "repro.nn.absent.X", "Full", ""])
def test_a_class_that_cannot_be_named_changes_nothing_else(workshop: Workshop, name: str) -> None:
    before = mixer(load_recipe(TINY, "cpu"))
    recipe = load_recipe(TINY, "cpu", [(FULL[0], name)])
    assert (mixer(recipe), recipe.notices) == (before | {"class_path": name}, ())
    with pytest.raises(UserError):
        build(recipe, meta=True)


def test_classes_are_imported_for_a_swap_only(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(swaps.importlib, "import_module", lambda name: asked.append(name) or object())
    load_recipe(TINY, "cpu", [("trainer.max_steps", 3), (f"{MIXER}.n_heads", 4), FULL])
    assert asked == []
    load_recipe(TINY, "cpu", [(FULL[0], "repro.data.X")])
    load_recipe(TINY, "cpu", [(FULL[0], "os.X")])
    assert set(asked) == {"repro.nn", "repro.data"}, "and only what a recipe may name"


def test_the_parameters_of_a_class_are_those_of_its_constructor() -> None:
    assert {"d_model", "n_heads", "bias"} <= swaps.parameters("repro.nn.FullAttention")
    assert swaps.parameters("repro.nn.FullAttention") == swaps.parameters(
        f"{FullAttention.__module__}.FullAttention"
    )
    assert swaps.parameters("torch.optim") == set()
    assert swaps.IMPORTABLE == IMPORTABLE


def test_the_command_line_says_it_once_and_shows_no_dropped_key(workshop: Workshop) -> None:
    workshop.recipe(RECIPE.replace("{lr: 1.0}", "{lr: 0.1, betas: [0.9, 0.99]}"))
    said = call("config", TINY, "--scale", "cpu", "--model.optimizer.class_path=torch.optim.SGD")
    assert said.err.splitlines() == ["SGD has no betas: dropped"]
    assert "betas" not in said.out
