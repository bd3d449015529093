"""list, tables, completion, submit --dry-run, doctor."""

import subprocess

import pytest
import yaml

from tests.conftest import TrainedRun
from tests.workshop import PAPER, PROJECT, TINY, Workshop, call

CONTRACT = {"paper", "table", "row", "experiment", "scales", "metric", "published", "measured", "verdict"}


def published_rows() -> set[tuple[str, str, str]]:
    """(paper, table, row) of every published file."""
    found = set()
    for path in (PROJECT / "results" / "published").glob("*.yaml"):
        for table in yaml.safe_load(path.read_text())["tables"]:
            found |= {(path.stem, table["id"], row["id"]) for row in table["rows"]}
    return found


def test_list_json_has_the_contracts_keys_and_every_published_row(workshop: Workshop) -> None:
    rows = call("list", "--json").json()
    assert all(row.keys() >= CONTRACT for row in rows)
    assert {(row["paper"], row["table"], row["row"]) for row in rows} == published_rows()
    assert len({row["paper"] for row in rows}) == 8


def test_list_names_the_recipe_of_a_row(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    rows = call("list", PAPER, "--json").json()
    assert {row["paper"] for row in rows} == {PAPER}
    found = [row for row in rows if row["experiment"] == f"{PAPER}/base"]
    assert [(row["table"], row["row"], row["metric"]) for row in found] == [
        ("table2", "transformer-base", "bleu_en_de")
    ]
    assert found[0]["scales"] == ["paper", "gpu", "small", "cpu"]
    assert found[0]["published"] == 27.3
    assert found[0]["measured"] is None
    assert found[0]["verdict"] == "not run"


def test_list_shows_published_value_and_verdict(workshop: Workshop) -> None:
    lines = call("list", PAPER).out.splitlines()
    row = next(line for line in lines if "table2:transformer-big" in line and "bleu_en_de" in line)
    assert "28.4" in row
    assert "no config" in row


def test_tables_are_up_to_date_after_a_run_and_check_sees_a_change(own_run: TrainedRun) -> None:
    assert call("tables", "--check").code == 0
    changed = sorted((own_run.workshop.results / "tables").rglob("*.md"))[0]
    before = changed.read_bytes()
    changed.write_bytes(before + b"edited\n")
    said = call("tables", "--check")
    assert said.code == 1
    assert changed.name in said.err
    assert changed.read_bytes() == before + b"edited\n", "--check writes nothing"
    said = call("tables")
    assert said.code == 0
    assert said.out.splitlines() == [str(changed)]
    assert changed.read_bytes() == before
    assert call("tables", "--check").code == 0


def test_a_run_at_reduced_scale_is_never_a_row(trained: TrainedRun) -> None:
    assert {row["verdict"] for row in call("list", PAPER, "--json").json()} <= {"no config", "not run"} | {
        row["verdict"]
        for row in call("list", PAPER, "--json").json()
        if row["verdict"].startswith("no config")
    }
    assert all(row["measured"] is None for row in call("list", PAPER, "--json").json())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(workshop: Workshop, shell: str) -> None:
    said = call("completion", shell)
    assert said.code == 0
    assert "repro" in said.out
    assert "_ARGCOMPLETE" in said.out or "argcomplete" in said.out


def test_completion_for_bash_is_a_valid_script(workshop: Workshop) -> None:
    script = call("completion", "bash").out
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def test_submit_prints_a_script_that_runs_the_experiment(workshop: Workshop) -> None:
    said = call("submit", TINY, "--cluster", "cpu", "--scale", "cpu", "--seeds", "2", "--dry-run")
    assert said.code == 0, said.err
    assert said.out.startswith("#!/bin/bash")
    assert "#SBATCH --open-mode=append" in said.out
    assert TINY in said.out
    assert "runs: 2 to submit, 0 already recorded" in said.err
    assert subprocess.run(["bash", "-n"], input=said.out, text=True, check=False).returncode == 0


def test_submit_leaves_out_what_is_recorded(trained: TrainedRun) -> None:
    said = call("submit", TINY, "--cluster", "cpu", "--scale", "cpu", "--seeds", "1", "--dry-run")
    assert (said.code, said.out) == (0, "")
    assert "nothing to submit" in said.err


def test_doctor_shows_its_checks_and_fails_where_one_fails(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from repro import doctor

    fine = doctor.Check("disk", "ok", "plenty")
    monkeypatch.setattr(
        doctor, "checks", lambda: [fine, doctor.Check("slurm", "warn", "none here", "use one")]
    )
    said = call("doctor")
    assert said.code == 0
    assert [line.split()[:2] for line in said.out.splitlines()] == [["ok", "disk"], ["warn", "slurm"]]
    assert said.out.splitlines()[1].endswith("→ use one")
    assert call("doctor", "--json").json()[0] == {
        "name": "disk",
        "status": "ok",
        "detail": "plenty",
        "remedy": "",
    }
    monkeypatch.setattr(
        doctor, "checks", lambda: [fine, doctor.Check("data", "fail", "gone", "bring it back")]
    )
    assert call("doctor").code == 1
