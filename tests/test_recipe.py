from pathlib import Path

import pytest

from repro import recipe
from repro.cli.runs import joined, parse_overrides
from repro.errors import UserError
from repro.recipe import (
    differing_keys,
    experiments,
    load_recipe,
    recipe_files,
    scales_of,
    signature_hash,
)
from repro.yamls import flatten, parse_yaml, set_key
from tests.cli.test_submit import HOSTILE
from tests.recipe_files import write_recipe

BASE = """
title: Toy
ablates: toy/other
trainer: {max_steps: 100, devices: 1}
model:
  class_path: a.Model
  init_args:
    net: {class_path: a.Net, init_args: {width: 8, layers: [{n: 1}, {n: 2}]}}
data: {class_path: a.Data, init_args: {batch: 4, num_workers: 2}}
"""
GRID = """
points:
  l128: {data.batch: 128}
  512: {data.batch: 512, title: Long}
  plain:
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path))

    def put(name: str, text: str, scale: str = "") -> Path:
        recipe.forget_files()
        return write_recipe(tmp_path / "toy" / f"{name}.yaml", text, scale)

    put("base", BASE)
    return put


def test_files_scales_and_points_are_found(write):
    write("base", "set: {trainer.max_steps: 5}", "cpu")
    write("grid", BASE + GRID)
    assert set(recipe_files()) == {"toy/base", "toy/grid"}
    assert experiments() == ("toy/base", "toy/grid@l128", "toy/grid@512", "toy/grid@plain")
    assert scales_of("toy/base") == ("paper", "cpu")
    assert scales_of("toy/grid@l128") == ("paper",)


def test_experiments_follow_the_configs_folder(write, tmp_path, monkeypatch):
    assert experiments() == ("toy/base",)
    other = tmp_path / "elsewhere"
    (other / "toy").mkdir(parents=True)
    (other / "toy" / "other.yaml").write_text(BASE)
    monkeypatch.setenv("REPRO_CONFIGS", str(other))
    assert experiments() == ("toy/other",)


def test_point_scale_point_at_the_scale_and_settings_apply_in_this_order(write):
    change = (
        "set: {data.batch: 2, trainer.max_steps: 5}, hours: 1, points: {512: {data.batch: 3, title: Short}}"
    )
    write("grid", BASE + GRID)
    write("grid", f"{{{change}}}", "cpu")
    config = load_recipe("toy/grid@512", "cpu", [("trainer.max_steps", 7)]).config
    assert config["data"]["init_args"] == {"batch": 3, "num_workers": 2}
    assert config["trainer"] == {"max_steps": 7, "devices": 1}
    assert (config["title"], config["hours"]) == ("Short", 1)
    assert not {"points", "scales", "set"} & config.keys()
    assert load_recipe("toy/grid@l128", "cpu").config["data"]["init_args"]["batch"] == 2
    paper = load_recipe("toy/grid@512").config
    assert (paper["data"]["init_args"]["batch"], paper["title"]) == (512, "Long")
    assert "hours" not in paper


LINKED = """
trainer: {max_steps: 100}
model: {class_path: M, init_args: {schedule: {class_path: S, init_args: {steps: 100, d_model: 8}}, net: {d_model: 8}}}
scales:
  small: {set: {trainer.max_steps: 50}}
  cpu: {set: {trainer.max_steps: 50, model.schedule.steps: 100}}
"""


@pytest.mark.parametrize(
    ("scale", "overrides", "steps", "width"),
    [
        ("small", [], (50, 50), (8, 8)),
        ("cpu", [], (50, 100), (8, 8)),  # a key that is stated does not follow,
        ("cpu", [("trainer.max_steps", 20)], (20, 100), (8, 8)),  # nor one that had another value
        ("paper", [("trainer.max_steps", 20), ("model.net.d_model", 4)], (20, 20), (4, 4)),
        ("paper", [("model.schedule.steps", 20)], (20, 20), (8, 8)),
        ("paper", [("model.schedule", {"class_path": "T", "init_args": {"steps": 9}})], (9, 9), (8, None)),
        ("paper", [("model.schedule", {"class_path": "T"}), ("trainer.max_steps", 9)], (9, None), (8, None)),
    ],
)
def test_keys_of_one_quantity_change_together(write, scale, overrides, steps, width):
    write("linked", LINKED)
    flat = flatten(load_recipe("toy/linked", scale, overrides).config)
    schedule = "model.init_args.schedule.init_args"
    assert (flat["trainer.max_steps"], flat.get(f"{schedule}.steps")) == steps
    assert (flat["model.init_args.net.d_model"], flat.get(f"{schedule}.d_model")) == width


def test_a_scale_may_have_a_point_of_its_own(write):
    write("grid", BASE + GRID)
    write("grid", "points: {wide: {model.net.width: 16}}", "cpu")
    wide = load_recipe("toy/grid@wide", "cpu")
    assert wide.signature["model.init_args.net.init_args.width"] == 16
    assert "toy/grid@wide" not in experiments()
    with pytest.raises(UserError, match="'toy/grid@wide' is not a point of toy/grid"):
        load_recipe("toy/grid@wide")


def test_deviations_add_up_while_other_keys_of_the_header_are_replaced(write):
    write("base", BASE + "deviations: [always]\nseeds: 1-3\n")
    write("base", "{deviations: [small], seeds: 7-9}", "cpu")
    result = load_recipe("toy/base", "cpu").config
    assert result["deviations"] == ["always", "small"]
    assert result["seeds"] == "7-9"
    assert load_recipe("toy/base").config["deviations"] == ["always"]


def test_settings_end_the_deviations_and_are_no_other_part_of_the_hash(write):
    write("base", BASE + "deviations: [always]\n")
    result = load_recipe("toy/base", overrides=[("model.net.width", 16), ("trainer.devices", 2)])
    assert result.overrides == ("--model.net.width=16", "--trainer.devices=2")
    assert result.config["deviations"] == [
        "always",
        "Settings given on the command line: --model.net.width=16",
    ]
    infrastructure = load_recipe("toy/base", overrides=[("trainer.devices", 2)])
    assert infrastructure.config["deviations"] == ["always"]
    write("base", BASE.replace("width: 8", "width: 16"))
    assert load_recipe("toy/base").hash8 == result.hash8


VALUES = [
    1, 1.0, True, None, "", "1", "true", "null", "~", "1e-9", 1e-9, 1e22, -0.0, [1, "a, b", None], [], {},
    {"class_path": "torch.optim.Adam", "init_args": {"lr": 1e-4, "betas": [0.9, 0.98]}}, {"a": {"b": []}},
    "2026-01-02", "12:30:00", "0x10", "yes", "\x1b[2J", "a\0b", "\U0001f600", 10**30,
]  # fmt: skip


@pytest.mark.parametrize("value", [*VALUES, *HOSTILE], ids=repr)
def test_a_setting_keeps_its_value_and_type(write, value):
    (word,) = load_recipe("toy/base", overrides=[("model.x", value)]).overrides
    assert "\n" not in word
    ((key, again),) = parse_overrides([word])
    assert key == "model.x"
    assert repr(again) == repr(value)


@pytest.mark.parametrize(
    ("key", "text"), [("compile", "true"), ("matmul_precision", '"high"'), ("stop", '{"at": 1}')]
)
def test_some_settings_have_no_dot(write, key, text):
    (word,) = load_recipe("toy/base", overrides=[(key, parse_yaml(text))]).overrides
    assert word == f"--{key}={text}"
    assert joined([f"--{key}", text, "an/experiment"]) == [word, "an/experiment"]


@pytest.mark.parametrize("text", [".inf", "-.inf", ".nan", "[1, .inf]", "2026-01-02", "{1: 2}"])
def test_a_setting_that_json_cannot_carry_is_refused(write, text):
    with pytest.raises(UserError, match=r"--model\.x: .* cannot be written as JSON; give finite") as caught:
        load_recipe("toy/base", overrides=[("model.x", parse_yaml(text))])
    assert "\n" not in str(caught.value)


def test_a_point_without_keys_is_the_recipe_itself(write):
    write("grid", BASE + GRID)
    assert load_recipe("toy/grid@plain").sections == load_recipe("toy/base").sections


def test_loading_twice_shares_nothing(write):
    first = load_recipe("toy/base")
    first.config["model"]["init_args"]["net"]["init_args"]["width"] = 99
    set_key(first.config, "trainer.max_steps", 1)
    assert load_recipe("toy/base").signature["model.init_args.net.init_args.width"] == 8
    assert load_recipe("toy/base").config["trainer"]["max_steps"] == 100


def test_a_changed_file_is_read_again(write):
    before = load_recipe("toy/base").hash8
    write("base", BASE.replace("max_steps: 100", "max_steps: 200"))
    assert load_recipe("toy/base").hash8 != before


@pytest.mark.parametrize(
    ("experiment", "scale", "message"),
    [
        ("toy/bass", "paper", "unknown experiment 'toy/bass'; nearest: toy/base"),
        ("toy/base", "gpu", "toy/base has no scale 'gpu'; it has: paper"),
        ("toy/base@x", "paper", "toy/base has no points"),
        ("toy/grid", "paper", "toy/grid is a grid of points; choose one of: toy/grid@l128"),
        ("toy/grid@l1", "paper", "'toy/grid@l1' is not a point of toy/grid"),
    ],
)
def test_what_cannot_be_loaded_names_the_remedy(write, experiment, scale, message):
    write("grid", BASE + GRID)
    with pytest.raises(UserError, match=message):
        load_recipe(experiment, scale)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modle: {}", "unknown key 'modle'; nearest: model"),
        ("- a", "a recipe is a mapping"),
        (BASE + "points: [a, b]", "points are names with dotted keys"),
        (BASE + "points: {a: 3}", "points are names with dotted keys"),
        (BASE + 'points: {"../../x": {}}', "cannot name a point"),
        (BASE + 'points: {"a b": {}}', "cannot name a point"),
        (BASE + 'points: {"$(touch x)": {}}', "cannot name a point"),
        (BASE + "points: {on: {}}", "reads the name of a point as True; quote it, like 'on'"),
        (BASE + "scales: {cpu: {points: {0.5: {}}}}", "as 0.5; quote it"),
        (BASE + "points: {a: {width: 3}}", "settings start with one of"),
        (BASE + "scales: {cpuu: {}}", "scales: unknown key 'cpuu'; nearest: cpu"),
        (BASE + "scales: [cpu]", "scales are names"),
        (BASE + "scales: {cpu: 3}", "scales are names"),
        (BASE + "scales: {cpu: {sets: {}}}", "scales: cpu: unknown key 'sets'; nearest: set"),
        (BASE + "scales: {cpu: {set: [1]}}", "set is a mapping of dotted keys"),
        (BASE + "scales: {cpu: {points: {a: 3}}}", "points are names with dotted keys"),
        (BASE + "points: {a: {model.net.width.x: 3}}", "model.net.width is a value"),
        (BASE + "hours: .inf", "hours: inf has no form in JSON"),
        (BASE + "points: {a: {model.net.width: .nan}}", "points.a.model.net.width: nan has no form in JSON"),
        (BASE + "deviations: [2026-01-01]", "deviations: 2026-01-01 has no form in JSON"),
        (BASE + "stop: [1]", r"stop: \[1\] is not a mapping"),
        (BASE + "stop: []", r"stop: \[\] is not a mapping"),
        (BASE + "points: {a: {trainer: 5}}", "trainer: 5 is not a mapping"),
        (BASE + "points: [1]", r"toy/odd: points are names"),
    ],
)
def test_a_malformed_recipe_is_refused(write, text, message):
    write("odd", text)
    with pytest.raises(UserError, match=message):
        load_recipe(next(name for name in experiments() if name.startswith("toy/odd")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hours: fast", "hours: 'fast' is not a number"),
        ("scales: {cpu: {hardware: 3}}", "hardware: 3 is not a text"),
        ("scales: {cpu: {deviations: smaller}}", "deviations: 'smaller' is not a list of texts"),
        ("scales: {cpu: {set: {devices: two}}}", "devices: 'two' is not a whole number"),
        ("deviations: [smaller, 2026]", r"deviations: \['smaller', 2026\] is not a list of texts"),
        ("hours: -1", "hours: -1 is not a number above 0"),
        ("hours: true", "hours: True is not a number above 0"),
        ("start_from: 5", "start_from: 5 is not a text"),
    ],
)
def test_a_header_of_another_type_is_refused(write, text, message):
    write("odd", BASE + text)
    with pytest.raises(UserError, match=message):
        load_recipe("toy/odd", scales_of("toy/odd")[-1])


def test_signature_leaves_out_headers_and_infrastructure(write):
    signature = load_recipe("toy/base").signature
    assert "trainer.max_steps" in signature
    assert not {"title", "trainer.devices", "data.init_args.num_workers"} & signature.keys()
    assert signature["model.init_args.net.init_args.layers.1.n"] == 2


def test_the_hash_ignores_infrastructure_and_nothing_else(write):
    def hash8(*overrides):
        return load_recipe("toy/base", overrides=list(overrides)).hash8

    assert hash8() == hash8(("trainer.devices", 8), ("data.num_workers", 0), ("trainer.logger.x", 1))
    assert hash8() != hash8(("model.net.width", 9))
    assert hash8() != hash8(("data.batch", 8))


def test_judged_seeds_are_declared_in_file_scale_or_point_and_change_no_hash(write):
    plain = load_recipe("toy/base")
    assert plain.seeds == (1, 2, 3, 4, 5)
    write("grid", BASE + GRID)
    write("grid", "set: {trainer.max_steps: 5}", "cpu")
    before = [load_recipe("toy/grid@l128", scale).hash8 for scale in ("paper", "cpu")]
    write(
        "grid",
        BASE + "seeds: 1-3\n" + GRID.replace("  plain:", "  plain: {seeds: 1-4}"),
    )
    change = "set: {trainer.max_steps: 5}, seeds: 11-13"
    write("grid", f"{{{change}, points: {{plain: {{seeds: 1-4}}}}}}", "cpu")
    assert [load_recipe("toy/grid@l128", scale).hash8 for scale in ("paper", "cpu")] == before
    assert load_recipe("toy/grid@l128").seeds == (1, 2, 3)
    assert load_recipe("toy/grid@l128", "cpu").seeds == (11, 12, 13)
    assert load_recipe("toy/grid@plain", "cpu").seeds == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("seeds: 3", "toy/base: seeds: 3 "),
        ("seeds: [1, 2]", "toy/base: seeds: .1, 2. "),
        ("seeds: 3-1", "toy/base: seeds: .*'3-1'"),
        ("seeds: 1-100", "toy/base: seeds: '1-100'"),
    ],
)
def test_seeds_that_cannot_be_judged_are_refused(write, lines, message):
    write("base", f"{BASE}{lines}\n")
    with pytest.raises(UserError, match=message):
        _ = load_recipe("toy/base").seeds


def test_run_id_and_folder(write, monkeypatch, tmp_path):
    monkeypatch.setenv("REPRO_RUNS", str(tmp_path / "runs"))
    made = load_recipe("toy/base")
    assert made.run_id(3) == f"toy/base/paper/s3-{made.hash8}"
    assert made.run_dir(3) == tmp_path / "runs" / made.run_id(3)
    assert made.paper == "toy"


def test_the_hash_is_of_canonical_json():
    # SHA-256 of {"a":1,"b":[1,2]}; a change of this number would orphan every record.
    assert signature_hash({"b": [1, 2], "a": 1}).startswith("8baa7319")
    assert signature_hash(parse_yaml("{day: 2020-01-01}")) == signature_hash({"day": "2020-01-01"})


def test_flatten():
    tree = {"a": {"b": 1, "c": {}}, "d": [1, 2], "e": [{"f": 3}], "g": []}
    assert flatten(tree) == {"a.b": 1, "a.c": {}, "d": [1, 2], "e.0.f": 3, "g": []}


def test_set_key_passes_through_arguments_and_lists(write):
    config = load_recipe("toy/base").config
    set_key(config, "model.net.width", 16)
    set_key(config, "model.net.layers.1.n", 5)
    set_key(config, "data.new", 1)
    net = config["model"]["init_args"]["net"]["init_args"]
    assert (net["width"], net["layers"]) == (16, [{"n": 1}, {"n": 5}])
    assert config["data"]["init_args"]["new"] == 1


def test_a_value_replaces_what_was_there_whole_and_is_not_shared(write):
    config, given = load_recipe("toy/base").config, {"class_path": "a.Other", "init_args": {"depth": [1]}}
    set_key(config, "model.net", given)
    set_key(config, "model.net.depth.0", 2)
    assert config["model"]["init_args"]["net"] == {"class_path": "a.Other", "init_args": {"depth": [2]}}
    assert given["init_args"]["depth"] == [1]
    set_key(config, "model.init_args", {"net": "a.Plain"})
    assert config["model"] == {"class_path": "a.Model", "init_args": {"net": "a.Plain"}}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("width", "start with one of trainer, model, data, checkpoints"),
        ("model.net.width.x", "model.net.width is a value, it has no 'x'"),
        ("model.net.layers.9.n", "model.net.layers is a value, it has no '9'"),
    ],
)
def test_set_key_refuses(write, key, message):
    with pytest.raises(UserError, match=message):
        load_recipe("toy/base", overrides=[(key, 1)])


def test_differing_keys():
    assert differing_keys({"a": 1, "b": 2, "d": 4}, {"a": 1, "b": 3, "c": 4}) == [
        "b: 2 → 3",
        "c: (not set) → 4",
        "d: 4 → (not set)",
    ]


def test_settings_that_are_the_recipes_own_change_nothing(write):
    steps = load_recipe("toy/base").config["trainer"]["max_steps"]
    own = load_recipe("toy/base", overrides=[("trainer.max_steps", steps), ("trainer.devices", 2)])
    assert own.overrides == ("--trainer.devices=2",)
    assert own.config["trainer"]["devices"] == 2
    assert own.config_hash == load_recipe("toy/base").config_hash
    assert own.config.get("deviations") == load_recipe("toy/base").config.get("deviations")
    other = load_recipe("toy/base", overrides=[("trainer.max_steps", steps), ("compile", True)])
    assert other.overrides == (f"--trainer.max_steps={steps}", "--compile=true")
