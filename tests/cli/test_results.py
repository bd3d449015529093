"""list, tables, completion, submit --dry-run, doctor."""

import io
import json
import subprocess
import sys

import pytest
import yaml

from repro.cli.main import main
from repro.ledger import start
from repro.record import LEDGER
from repro.report.formats import terminal
from repro.report.render import write_tables
from tests.conftest import TrainedRun
from tests.workshop import PAPER, PROJECT, TINY, Workshop, call

CONTRACT = {"paper", "table", "row", "experiment", "scales", "metric", "published", "measured", "verdict"}


def published_rows() -> set[tuple[str, str, str]]:
    """(paper, table, row) of every published file."""
    result = set()
    for path in (PROJECT / "results" / "published").glob("*.yaml"):
        for table in yaml.safe_load(path.read_text())["tables"]:
            result |= {(path.stem, table["id"], row["id"]) for row in table["rows"]}
    return result


def test_list_json_has_the_contracts_keys_and_every_published_row(workshop: Workshop) -> None:
    rows = call("list", "--json").json()
    assert all(row.keys() >= CONTRACT for row in rows)
    assert {(row["paper"], row["table"], row["row"]) for row in rows} == published_rows()


def test_list_names_the_recipe_of_a_row(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    rows = call("list", PAPER, "--json").json()
    assert {row["paper"] for row in rows} == {PAPER}
    result = [row for row in rows if row["experiment"] == f"{PAPER}/base" and row["class"] == "trained"]
    assert [(row["table"], row["row"], row["metric"]) for row in result] == [
        ("table2", "transformer-base", "bleu_en_de")
    ]
    assert result[0]["scales"] == ["paper", "gpu", "small", "cpu"]
    assert result[0]["published"] == 27.3
    assert result[0]["measured"] is None
    assert result[0]["verdict"] == "not run"


def test_list_shows_published_value_and_verdict(workshop: Workshop) -> None:
    table = call("list", PAPER).out.partition(f"{PAPER}:table2: ")[2]
    row = next(line for line in table.splitlines() if "transformer-big" in line and "bleu_en_de" in line)
    assert "28.4" in row
    assert "no recipe" in row


def test_published_numbers_are_listed_whatever_the_results_folder(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_RESULTS", str(workshop.root / "elsewhere"))
    assert "28.4" in call("list", PAPER).out
    call("list", "reformre").refused("nearest: reformer")


def test_a_terminal_without_the_characters_shows_others(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (("list", PAPER), ("list", PAPER, "--json")):
        output = call(*words).out
        terminal = io.TextIOWrapper(io.BytesIO(), "ascii")
        monkeypatch.setattr(sys, "stdout", terminal)
        with pytest.raises(SystemExit) as stop:
            main(list(words))
        assert stop.value.code == 0
        terminal.seek(0)
        displayed = terminal.read()
        assert displayed == output.encode("ascii", "replace").decode()
        assert "--json" not in words or json.loads(displayed) == json.loads(output), "nothing is lost"
        assert "--json" in words or "?" in displayed


def test_tables_hold_a_run_when_they_are_made_and_check_sees_a_change(own_run: TrainedRun) -> None:
    said = call("tables", "--check")
    assert (said.code, "run `repro tables`" in said.err) == (1, True)
    write_tables()
    assert call("tables", "--check").code == 0
    changed = sorted((own_run.workshop.results / "tables").rglob("*.md"))[0]
    before = changed.read_bytes()
    changed.write_bytes(before + b"edited\n")
    output = call("tables", "--check")
    assert output.code == 1
    assert changed.name in output.err
    assert changed.read_bytes() == before + b"edited\n", "--check writes nothing"
    output = call("tables")
    assert output.code == 0
    results = own_run.workshop.results
    table, site, page = output.out.splitlines()
    assert (table, page) == (str(changed), f"page  {results / 'index.html'}")
    assert site.endswith(f"files of {results / 'pages'} and {results / 'plots'}")
    assert changed.read_bytes() == before
    assert call("tables", "--check").code == 0


def test_a_run_that_was_started_and_has_no_record_is_noted(own_run: TrainedRun) -> None:
    write_tables()
    start(own_run.workshop.results / "runs", "toy/big/cpu/s1-0123", "0" * 64, None, None, anew=True)
    output = call("tables", "--check")
    assert output.code == 0, output.err
    assert output.out.splitlines() == [
        "note: toy/big/cpu/s1-0123 was started and has no record",
        "results are up to date",
    ]


def test_list_shows_the_tests_of_a_paper(workshop: Workshop) -> None:
    said = call("list", "reformer").out
    assert "\n\nTests of claims\n\n- " in said
    assert "not run (reduced scale: cpu, attempt 2 of 2): On duplication" in said


def test_list_without_a_paper_has_a_line_for_each(workshop: Workshop) -> None:
    header, _, *lines, _, more = call("list").out.splitlines()
    assert header.startswith("Paper ")
    assert "Same training" in header
    assert {line.split()[0] for line in lines} == {paper for paper, _, _ in published_rows()}
    assert more.startswith("repro list PAPER")


def test_list_is_as_wide_as_the_terminal(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def tables() -> str:
        return call("list", "linear-transformer").out.partition("Tests of claims")[0]

    def words(shown: str) -> list[str]:
        return sorted(word for word in shown.split() if word.strip("-"))

    wide = tables()
    monkeypatch.setattr(terminal, "terminal_width", lambda: 100)
    narrow = tables()
    assert max(map(len, narrow.splitlines())) <= 100 < max(map(len, wide.splitlines()))
    assert words(narrow) == words(wide)


def test_a_run_at_reduced_scale_is_never_a_row(own_run: TrainedRun) -> None:
    rows = call("list", PAPER, "--json").json()
    assert {row["verdict"] for row in rows} <= {"no recipe", "not run"}
    assert all(row["measured"] is None for row in rows)


def test_damaged_records_are_named_and_the_rest_is_shown(own_run: TrainedRun) -> None:
    (whole,) = own_run.workshop.records()
    odd = whole.with_name("odd.json")
    odd.write_text("{")
    for words in (["list", PAPER], ["list", PAPER, "--json"], ["tables"]):
        output = call(*words)
        assert output.code == 1
        (line,) = output.err.splitlines()
        assert f"{TINY}/odd.json" in line
    assert "transformer-big" in call("list", PAPER).out
    output = call("tables", "--check")
    assert (output.code, f"{TINY}/odd.json" in output.err) == (1, True)
    assert call("show", whole.stem).code == 2
    call("show", f"{TINY}/odd").refused(f"{TINY}/odd.json")
    assert call("show", own_run.run_id, "--json").json()[0]["run_id"] == own_run.run_id
    assert "1 recorded" in call("reproduce", TINY, "--scale", "cpu", "--seeds", "1", "--dry-run").out
    output = call("tables", "--withdraw", str(odd), "--reason", "cut off when the disk was full")
    assert (output.code, output.err) == (0, "")
    assert call("tables", "--check").code == 0
    assert odd.read_text() == "{"


def test_a_withdrawn_record_counts_no_more_and_its_run_is_to_do_again(own_run: TrainedRun) -> None:
    (record,) = own_run.workshop.records()
    dry = ("reproduce", TINY, "--scale", "cpu", "--seeds", "1", "--dry-run")
    assert "1 recorded" in call(*dry).out
    before = record.read_bytes()
    output = call(
        "tables", "--withdraw", f"{TINY}/{record.stem}", "--reason", "the test split was in the training data"
    )
    assert output.code == 0
    assert f"{TINY}/{record.name}" in output.out
    assert record.read_bytes() == before
    assert call("tables", "--check").code == 0
    assert "0 recorded" in call(*dry).out
    call("tables", "--withdraw", f"{TINY}/{record.stem}", "--reason", "again").refused(record.stem)


def test_a_withdrawal_that_says_too_little(own_run: TrainedRun) -> None:
    assert call("tables").code == 0
    ledger = own_run.workshop.results / "runs" / LEDGER
    before = ledger.read_bytes()
    for words, named in (
        (["--withdraw", f"{TINY}/nothing", "--reason", "a fault"], f"{TINY}/nothing"),
        (["--withdraw", TINY], TINY),
        (["--withdraw", TINY, "--reason", " "], TINY),
        (["--withdraw", TINY, "--reason", "a fault", "--check"], "--withdraw"),
        (["--reason", "a fault"], "a fault"),
    ):
        call("tables", *words).refused(named)
        assert ledger.read_bytes() == before


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(workshop: Workshop, shell: str) -> None:
    output = call("completion", shell)
    assert output.code == 0
    assert "repro" in output.out
    assert "_ARGCOMPLETE" in output.out or "argcomplete" in output.out


def test_completion_for_bash_is_a_valid_script(workshop: Workshop) -> None:
    script = call("completion", "bash").out
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def test_doctor_shows_its_checks_and_fails_where_one_fails(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from repro.cli import doctor

    fine = doctor.Check("ok", "plenty")
    slurm = doctor.Check("warn", "none here", "use one")
    monkeypatch.setattr(doctor, "checks", lambda: {"disk": fine, "slurm": slurm})
    output = call("doctor")
    assert output.code == 0
    assert [line.split()[:2] for line in output.out.splitlines()] == [["ok", "disk"], ["warn", "slurm"]]
    assert output.out.splitlines()[1].endswith("→ use one")
    assert call("doctor", "--json").json()[0] == {
        "name": "disk",
        "status": "ok",
        "detail": "plenty",
        "remedy": "",
    }
    data = doctor.Check("fail", "gone", "bring it back")
    monkeypatch.setattr(doctor, "checks", lambda: {"disk": fine, "data": data})
    assert call("doctor").code == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(closed: str) -> None:
    words = f"{sys.executable} -m repro list reformer --json {closed}"
    assert subprocess.run(["bash", "-c", words], cwd=PROJECT, stderr=subprocess.DEVNULL).returncode == 0
