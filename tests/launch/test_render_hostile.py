"""Nothing hostile reaches a script: refused where Slurm reads it, quoted where the shell does."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from repro.errors import UserError
from repro.launch.slurm.render import Places
from tests.launch.conftest import World, spec
from tests.launch.slurm.test_render import bash_parses, profile, render

HOSTILE = [
    "a;b", "$(touch x)", "`touch x`", "a b", "a\nb", "a\n#SBATCH --uid=0", "'", '"', "a'b\"c", "a\\b", "*",
    "a|b", "a>b", "~root", "-x", "--wrap=id", "été", "a\0b", "a\rb", "%j", "#", "", "a" * 300, "a\u202eb",
    "$HOME", "!!", "a&b", "a\tb",
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("key", ["account", "partition", "qos", "constraint", "reservation", "mem", "time"])
def test_hostile_directives_are_refused(value: str, key: str) -> None:
    if key == "constraint" and value in ("a|b", "a&b"):
        assert profile(**{key: value}).constraint == value  # Slurm's own operators, in a comment to the shell
        return
    with pytest.raises(UserError) as caught:
        profile(**{key: value})
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_job_names_are_refused(world: World, places: Places, value: str) -> None:
    with pytest.raises(UserError, match="job name"):
        render([spec()], profile(), places, value)


@pytest.mark.parametrize("value", [*HOSTILE, "a/../../x", "../x", "a/..", "a//b", "a/./b", "/etc/x"])
def test_hostile_experiments_are_refused(world: World, places: Places, value: str) -> None:
    with pytest.raises(UserError, match="experiment"):
        render([spec(value)], profile(), places)


@pytest.mark.parametrize(
    "value", ["/home/me/a b", "/home/me/$(x)", "/home/me/a%j", "/home/me/a'b", "/x\n#SBATCH --uid=0", "rel"]
)
def test_hostile_folders_are_refused(world: World, places: Places, value: str) -> None:
    for hostile in (replace(places, work=Path(value)), replace(places, submission=Path(value))):
        with pytest.raises(UserError, match="#SBATCH line"):
            render([spec()], profile(), hostile)


@pytest.mark.parametrize("value", [v for v in HOSTILE if "\n" not in v and "\0" not in v])
def test_hostile_values_are_quoted(world: World, places: Places, value: str) -> None:
    """bash reads back exactly what went in; only the two export lines are run, in a shell without a PATH."""
    variables = {**places.variables, "REPRO_DATA": Path(f"/x/{value}")}
    script = render([spec()], profile(env={"HOSTILE": value}), replace(places, variables=variables))
    assert bash_parses(script)
    lines = [
        line for line in script.split("\n") if line.startswith(("export HOSTILE=", "export REPRO_DATA="))
    ][:2]
    assert len(lines) == 2
    program = "\n".join(lines) + '\nprintf "%s\\n%s" "$REPRO_DATA" "$HOSTILE"'
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run([bash, "-r", "-c", program], env={"PATH": "/none"}, capture_output=True, check=True)
    assert done.stdout.decode() == f"{variables['REPRO_DATA']}\n{value}"


def test_hostile_run_folders_are_quoted(
    world: World, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_RUNS", "/r/$(touch x) '")
    script = render([spec()], profile(), places)
    assert bash_parses(script)
    assert """run_dir='/r/$(touch x) '"'"'/alpha/base/paper/s1-01234567'""" in script


@pytest.mark.parametrize("store", ["../../etc; id", "../x", "a/../../b", "/etc", "$(x)", "a b", "-x", "a\nb"])
def test_a_store_that_is_no_name_is_refused(world: World, places: Places, store: str) -> None:
    with pytest.raises(UserError, match="store"):
        render([spec(store=store)], profile(), places)
