"""Names stay in their folder."""

import pytest

from repro.errors import UserError
from repro.launch.slurm import validation


@pytest.mark.parametrize("name", ["a/b", "a", "a@b/c", "a..b/c"])
def test_names_with_slashes(name: str) -> None:
    assert validation.inner_path("store", name, "multi30k") == name


@pytest.mark.parametrize(
    "name", ["a/../b", "../a", "a/..", "/a", "a//b", "a/", ".", "..", "a/./b", "a b", ""]
)
def test_names_that_lead_elsewhere(name: str) -> None:
    with pytest.raises(UserError, match="store"):
        validation.inner_path("store", name, "multi30k")
