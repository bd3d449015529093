"""Settings keep their value on the way into a script and out of it; what cannot is refused."""

import math
from typing import Any

import pytest

from repro.cli.runs import joined, parse_overrides
from repro.errors import UserError
from repro.launch.slurm import validation
from repro.yamls import parse_yaml
from tests.cli.test_submit import HOSTILE

VALUES = [
    1, 1.0, True, None, "", "1", "true", "null", "~", "1e-9", 1e-9, 1e22, -0.0, math.inf, -math.inf, math.nan,
    [1, "a, b", None], {"class_path": "torch.optim.Adam", "init_args": {"lr": 1e-4, "betas": [0.9, 0.98]}}, [], {},
    "2026-01-02", "12:30:00", "0x10", "yes", "\u2028", "\x85", "\x1b[2J", "a\0b", "😀", 10**30, {"a": {"b": []}},
]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"), [("compile", "true"), ("matmul_precision", '"high"'), ("stop", "null")]
)
def test_some_settings_have_no_dot(key: str, value: str) -> None:
    word = validation.setting(key, parse_yaml(value, key))
    assert word == f"--{key}={value}"
    assert joined([f"--{key}", value, "an/experiment"]) == [word, "an/experiment"]


@pytest.mark.parametrize("value", [*VALUES, *HOSTILE], ids=repr)
def test_a_setting_keeps_its_value_and_type(value: Any) -> None:
    word = validation.setting("model.x", value)
    assert "\n" not in word
    ((key, again),) = parse_overrides([word])
    assert key == "model.x"
    assert repr(again) == repr(value)


@pytest.mark.parametrize("text", [*HOSTILE, "1", "1e-9", ".inf", "2026-01-02", "[1, a b]", "{a: 'b'}"])
def test_what_is_typed_means_the_same_in_the_job(text: str) -> None:
    """Whether it is typed in quotes or not; only what is no YAML at all is refused."""
    try:
        typed = parse_yaml(text)
    except UserError:
        return
    ((_, again),) = parse_overrides([validation.setting("model.x", typed)])
    assert repr(again) == repr(typed)


def test_what_yaml_cannot_carry_is_refused() -> None:
    for value in (object(), (1, 2), [object()]):
        with pytest.raises(UserError, match=r"--model\.x:"):
            validation.setting("model.x", value)


@pytest.mark.parametrize(
    "key", ["a;b", "a", "", ".", "a.", "a..b", "a.$(x)", "a.`x`", "a b.c", "a.b\n", "-a.b", "a.*", "a.é"]
)
def test_a_key_that_is_no_dotted_name_is_refused(key: str) -> None:
    with pytest.raises(UserError, match="setting"):
        validation.setting(key, 1)


@pytest.mark.parametrize("name", ["a/b", "a", "a@b/c", "a..b/c"])
def test_names_with_slashes(name: str) -> None:
    assert validation.inner_path("store", name, "multi30k") == name


@pytest.mark.parametrize(
    "name", ["a/../b", "../a", "a/..", "/a", "a//b", "a/", ".", "..", "a/./b", "a b", ""]
)
def test_names_that_lead_elsewhere(name: str) -> None:
    with pytest.raises(UserError, match="store"):
        validation.inner_path("store", name, "multi30k")
