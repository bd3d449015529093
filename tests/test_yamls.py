"""YAML is read safely, and what is wrong with it is one line."""

import pytest

from repro.errors import UserError
from repro.yamls import parse_yaml, read_yaml, set_key


def test_yaml_reads_exponents_as_numbers():
    assert parse_yaml("[1e-9, 1.5E+3, -2e3, 1_000, v1e9, 1e]") == [1e-9, 1500.0, -2000.0, 1000, "v1e9", "1e"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' is given twice"),
        ("x:\n  a: 1\n  a: 2", "line 3: the key 'a' is given twice"),
        ("a: [1, 2", "recipe, line"),
        ("? [a]\n: 1", "unhashable"),
        ("a: &a {b: *a}", "recipe: maximum recursion depth"),
        ("a: 2024-13-45", "recipe: month must be in 1..12"),
        ("!!python/object/apply:os.system [true]", "could not determine a constructor"),
    ],
)
def test_bad_yaml_is_one_line_that_names_the_place(text, message):
    with pytest.raises(UserError, match=message) as error:
        parse_yaml(text, "recipe")
    assert "\n" not in str(error.value)


def test_a_change_at_an_alias_leaves_the_other_places():
    config = parse_yaml("net: {width: &width {sizes: [4]}}\nagainst: {width: *width}")
    set_key(config, "net.width.sizes", [8])
    config["net"]["width"]["sizes"].append(9)
    assert config == {"net": {"width": {"sizes": [8, 9]}}, "against": {"width": {"sizes": [4]}}}


def test_read_yaml_of_no_file_and_of_no_text(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read_yaml(tmp_path / "none.yaml")
    (tmp_path / "odd.yaml").write_bytes(b"\xff")
    with pytest.raises(UserError, match="cannot read"):
        read_yaml(tmp_path / "odd.yaml")
