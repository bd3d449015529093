import pytest

from repro.recipe import experiments, load_recipe, scales_of
from repro.report.site.config import as_yaml, flow, scalar
from repro.yamls import parse_yaml

SMALL = {
    "title": "Toy",
    "reproduces": [{"table": "t"}],
    "trainer": {"max_steps": 100, "precision": "32-true"},
    "start_from": "toy/base",
    "model": {
        "class_path": "repro.tasks.Translation",
        "init_args": {
            "mixers": [{"class_path": "a.B", "init_args": {"size": 1, "deep": {"x": None}}}, {}],
            "betas": [0.9, 1e-9],
        },
    },
}


def test_what_decides_the_run_in_the_order_of_a_recipe():
    assert as_yaml(SMALL).split("\n") == [
        "start_from: toy/base",
        'trainer: {max_steps: 100, precision: "32-true"}',
        "model:",
        "  class_path: repro.tasks.Translation",
        "  init_args:",
        "    mixers:",
        "    - class_path: a.B",
        "      init_args:",
        "        size: 1",
        "        deep: {x: null}",
        "    - {}",
        "    betas: [0.9, 1.0e-09]",
    ]


@pytest.mark.parametrize(
    "value",
    ["", "yes", "No", "null", "~", "1", "1e3", "1_000", "0x1f", "2020-01-01", "12:30", ".inf", "a: b", "a #b", "- a",
     "[a", "{a", "&a", "*a", "!a", "%a", "@a", "`a", "'a", '"a', "a\\b", " a", "a ", "a\nb", "a\tb", "\x1b[2J", "\x7f",
     "\u2028", "\u202eabc", "\ufeff", "\U000e0041", "é中∞", "a, b", "a]", "=", "<<", "y", "a:", "---", "true", True,
     False, None, 0, -3, 10**20, 0.1, -1e-9, 1e16, 1.5e300, 1e-5, float("inf"), float("-inf")],
)  # fmt: skip
def test_every_value_reads_back_as_it_was(value):
    tree = {
        "trainer": {
            "a": value,
            "b": [value, {"c": value}],
            "d": {"e": value, "class_path": "x", "f": {"g": value}},
        }
    }
    said = as_yaml(tree)
    assert parse_yaml(said) == tree
    assert all(line.isprintable() for line in said.split("\n"))


@pytest.mark.parametrize("key", ["a b", "1", "yes", "a: b", "", "\x1b"])
def test_keys_read_back_too(key):
    assert parse_yaml(flow({key: 1})) == {key: 1}
    assert scalar(key).isprintable()


def test_long_lists_are_broken():
    many = {"trainer": {"names": [f"name-{i}" for i in range(40)]}}
    said = as_yaml(many)
    assert parse_yaml(said) == many
    assert max(map(len, said.split("\n"))) < 100


def test_recipes_of_the_checkout_read_back():
    kept = ("start_from", "pretrained", "start_with", "trainer", "model", "data", "checkpoints")
    some = experiments()[:: max(1, len(experiments()) // 20)]
    assert some
    for experiment in some:
        config = load_recipe(experiment, scales_of(experiment)[-1]).config
        assert parse_yaml(as_yaml(config)) == {key: config[key] for key in kept if key in config}
