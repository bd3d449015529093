"""Ways to a wished-for outcome that were open once, each of which is refused, shown or counted now."""

import dataclasses

import pytest

from repro.errors import UserError
from repro.evidence.compare import compare
from repro.evidence.declared.fair_tests import load_tests
from repro.evidence.ledger import append_missing, check_records, unfinished
from repro.evidence.published import load_paper
from repro.evidence.table import read_evidence, table
from repro.ledger import HEADER, Line, read_ledger, seeds_line, start
from repro.recipe import load_recipe
from repro.record import LEDGER, Measurement
from tests.evidence.tested_rows import around, outcome, recipes, run_row, run_rows
from tests.report.fakes import PUBLISHED, RECIPE, TEST, TESTS, UNTESTED

NIGHT = "2026-01-03T00:00:00Z"
FAIR = {"big": around(30), "base": around(28)}


def ledger_of(house):
    return house.results / "runs" / LEDGER


def fair(house, text=TEST, **more):
    """A declared test whose runs are in the order of the paper."""
    run_rows(house, text=text, **FAIR, **more)
    append_missing(house.results / "runs")
    assert outcome().verdict == "same order"


def change(house, old, new):
    path = house.results / "tests" / "toy.yaml"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


# --- another column -----------------------------------------------------------------------------------------

LM = PUBLISHED.replace(
    "      ppl: {unit: perplexity, better: lower,",
    "      longest: {unit: perplexity, better: lower, attention: longer, class: timed, description: x}\n"
    "      overlapping: {unit: perplexity, better: lower, overlap: true, class: timed, description: x}\n"
    "      ppl: {unit: perplexity, better: lower, attention: trained, overlap: false,",
)
WINDOWS = {"seq_len": 32, "stride": 32}


@pytest.mark.parametrize(
    ("column", "unit", "why"),
    [
        ("ppl", "perplexity", None),
        ("longest", "perplexity", "attention beside that of training: trained, of longest: longer"),
        ("overlapping", "perplexity", "overlapping windows: no, of overlapping: yes"),
        ("bleu", "perplexity", "perplexity is not what bleu measures (BLEU)"),
        ("ppl", "percent", "percent is not what ppl measures (perplexity)"),
    ],
)
def test_a_column_whose_protocol_the_runs_do_not_have_is_refused(house, column, unit, why):
    house.publish(LM)
    text = TEST.replace("measured:", f"column: {column}\n    better: lower\n    measured:")
    recipes(house, *FAIR)
    for name in FAIR:
        house.write(name, "set: {data: {class_path: repro.data.X, init_args: {seq_len: 32}}}\n", "small")
    house.declare(text)
    for name, value in (("big", 4.0), ("base", 5.0)):
        run_row(house, name, [value, value + 0.01, value - 0.01], unit=unit, protocol=WINDOWS)
    one = outcome()
    assert one.verdict == ("not a fair test" if why else "same order")
    assert why is None or why in one.why


# --- declared after the data --------------------------------------------------------------------------------


def test_a_test_that_was_declared_after_its_first_run_began_is_not_fair(house):
    recipes(house, *FAIR)
    house.declare(at=NIGHT)
    for name, values in FAIR.items():
        run_row(house, name, values)
    one = outcome()
    assert one.verdict == "not a fair test"
    assert one.why == "declared (2026-01-03 00:00, after its first run began 2026-01-01 23:58)"


def test_a_test_without_a_declaration_is_not_fair(house):
    run_rows(house, declare=False, **FAIR)
    assert outcome().why == "declared (never; its first run began 2026-01-01 23:58)"


def test_a_date_in_the_file_declares_nothing(house):
    run_rows(house, declare=False, **FAIR)
    house.test(TESTS.replace("attempt: 1", "attempt: 1\n    declared: 2025-01-01"))
    assert "never" in outcome().why
    append_missing(house.results / "runs")  # as `repro tables` does: with the time of now
    assert "after its first run began" in outcome().why


@pytest.mark.parametrize("event", ["started", "withdrawn"])
def test_a_run_without_a_number_began_too(house, event):
    fair(house)
    (record, *_) = (r for r in compare().records if r.experiment == "toy/big")
    if event == "started":  # it was started, and has no record
        line = Line("2026-01-01T06:00:00Z", event, record.run_id, record.config_hash)
    else:  # it was recorded before the declaration, and withdrawn
        early = dataclasses.replace(record, finished="2026-01-01T06:00:00Z")
        house.record("toy/big", 1, 30.0, "small", finished=early.finished)
        path = f"toy/big/{early.file_stem}.json"
        line = Line("2026-01-01T07:00:00Z", event, path, "0" * 64, "a fault")
    with ledger_of(house).open("a") as file:
        file.write(f"{line}\n")
    one = outcome()
    assert one.verdict == "not a fair test"
    assert one.why.startswith("declared (2026-01-01 12:00, after its first run began 2026-01-01 0")


@pytest.mark.parametrize("early", [True, False])
def test_an_extension_is_declared_before_its_seeds_run(house, early):
    still_open = {"big": [30.0, 32.0, 34.0], "base": [29.0, 31.0, 33.0]}
    run_rows(house, text=TEST, **still_open)
    append_missing(house.results / "runs")
    assert outcome().verdict == "no clear order"
    text = TEST.replace("measured:", "extended_to: 1-5\n    measured:")
    if early:
        house.declare(text)
    else:
        change(house, "    measured:", "    extended_to: 1-5\n    measured:")
        append_missing(house.results / "runs")  # with the time of now
    for name, (value, *_) in still_open.items():
        run_row(house, name, [value, value], seeds=[4, 5])
    assert outcome().verdict == ("no clear order" if early else "not a fair test")
    assert early or outcome().why.startswith("declared (extension 20")


def test_an_extension_cannot_be_taken_back(house):
    text = TEST.replace("measured:", "extended_to: 1-5\n    measured:")
    run_rows(house, text=text, **FAIR)
    append_missing(house.results / "runs")
    change(house, "    extended_to: 1-5\n", "")
    assert outcome().verdict == "not a fair test"
    assert outcome().why.startswith("declared (with another text")


# --- changed after the declaration --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("says: Big has", "says: Sometimes big has"),
        ("scale: small", "check: the task decides\n    scale: small"),
        ("measured: test/bleu", "measured: test/bleu\n    better: lower"),
        ("core_hours", "margin: {size: 9, set: '2025-01-01', reason: x}\n    core_hours"),
    ],
)
def test_a_changed_text_is_noticed_and_counts_nowhere(house, old, new):
    fair(house)
    assert check_records(house.results / "runs") == []
    change(house, old, new)
    (problem,) = check_records(house.results / "runs")
    assert "tests/toy/bigger-is-better/1 differs from what was declared" in problem
    assert (outcome().verdict, outcome().counts) == ("not a fair test", False)
    assert append_missing(house.results / "runs") is None, "it is not declared once more"


@pytest.mark.parametrize(("old", "new"), [("better: higher", "better: lower"), ("bleu: 30.0", "bleu: 28.1")])
def test_which_direction_is_better_and_which_rows_tie_are_fixed(house, old, new):
    fair(house)
    house.publish(PUBLISHED.replace(old, new, 1))
    (problem,) = check_records(house.results / "runs")
    assert "tests/toy/bigger-is-better/1/claim differs from what was declared" in problem
    assert (outcome().verdict, outcome().counts) == ("not a fair test", False)
    house.publish(PUBLISHED.replace("bleu: 30.0", "bleu: 31.0"))  # which claims no other order
    assert check_records(house.results / "runs") == []
    assert outcome().verdict == "same order"


def test_a_changed_recipe_is_noticed_and_a_pinned_configuration_keeps_the_attempt(house):
    fair(house)
    config = next(r.config_hash for r in compare().records if r.experiment == "toy/big")
    house.recipe("big", scale="small", width=5)
    append_missing(house.results / "runs")
    (problem,) = check_records(house.results / "runs")
    assert "differs from what was declared" in problem
    change(house, "big: toy/big", f"big: {{run: toy/big, config: {config[:8]}}}")
    assert check_records(house.results / "runs") == []
    assert outcome().verdict == "same order"


@pytest.mark.parametrize("spoil", ["date", "test", "recipe"])
def test_what_was_declared_may_not_disappear(house, spoil):
    fair(house)
    if spoil == "date":
        change(house, "    declared: 2026-01-01\n", "")
    elif spoil == "test":
        house.test(f"schema_version: 1\npaper: toy\n{UNTESTED}  bigger-is-better: {{why: it failed}}\n")
    else:
        (house.configs / "toy" / "big.yaml").unlink()
        house.write("other", "title: x\n")
        append_missing(house.results / "runs")
    assert any(
        "bigger-is-better/1 was declared and is gone" in line
        for line in check_records(house.results / "runs")
    )


# --- settings that are free ---------------------------------------------------------------------------------

AGAIN = TEST.replace("attempt: 1", "attempt: 2\n    changed: twice the width")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEST + TEST, "attempts are numbered 1, 2, ...; this one is 2"),
        (AGAIN, "attempts are numbered 1, 2, ...; this one is 1"),
        (
            TEST + AGAIN.replace("    changed: twice the width\n", ""),
            "`changed` goes with attempts after the first",
        ),
    ],
)
def test_attempts_are_counted_and_say_what_changed(house, text, message):
    house.test(f"schema_version: 1\npaper: toy\ntests:{text}{UNTESTED}")
    with pytest.raises(UserError) as error:
        load_tests(load_paper("toy"))
    assert message in str(error.value)


def test_every_attempt_is_listed_with_their_number(house):
    run_rows(house, text=TEST + AGAIN, **FAIR)
    rows = table(read_evidence("toy"))["tests"]
    assert [(row["test"], row["attempt"], row["attempts"], row["changed"]) for row in rows] == [
        ("bigger-is-better/1", 1, 2, ""),
        ("bigger-is-better/2", 2, 2, "twice the width"),
    ]


# --- out of reach, floors, ceilings, chance -----------------------------------------------------------------


def test_what_costs_less_than_the_budget_is_not_out_of_reach(house):
    for price, out in ((8, False), (19, False), (21, True)):
        house.test(TESTS.replace("{gpu_hours: 8}", f"{{core_hours: {price}}}"))
        assert load_tests(load_paper("toy")).untested["base-ties-small"].out_of_reach == out


def test_two_rows_at_one_ceiling_are_not_equal(house):
    text = TEST.replace("measured:", "ceiling: 100\n    measured:")
    run_rows(house, text=text, big=[100.0] * 3, base=[100.0] * 3)
    assert outcome().why == "room (big and base at the ceiling of 100)"


def test_a_number_above_the_papers_and_below_copying_and_guessing_is_no_success(house):
    house.recipe("big")
    house.run("toy/big", around(40))
    entry = compare().entries["toy", "table1", "big", "bleu"]
    assert (entry.published, entry.verdict) == (30.0, "higher")
    house.publish(PUBLISHED.replace("unit: BLEU,", "unit: BLEU, chance: 45,"))
    assert compare().entries["toy", "table1", "big", "bleu"].verdict == "at chance"


def test_a_counted_number_states_the_updates_of_the_paper(house):
    house.publish(PUBLISHED.replace(", description: 'per word', updates: 100}", ", description: 'per word'}"))
    with pytest.raises(UserError, match="row big: ppl: a counted number needs the paper's `updates`"):
        load_paper("toy")


# --- runs that nobody saw -----------------------------------------------------------------------------------


def test_a_run_that_was_started_and_left_no_record_is_listed(house):
    fair(house)
    runs = house.results / "runs"
    (record, *_) = compare().records
    other = record.run_id.replace("/s1-", "/s9-")
    for run_id in (record.run_id, other, other):
        start(runs, run_id, record.config_hash, "a" * 40, None, anew=False)
    assert unfinished(runs) == [other]
    assert ledger_of(house).read_text().count(f"started\t{other}\t{record.config_hash}\t{'a' * 40}\n") == 1
    assert check_records(runs) == []


def test_without_a_ledger_nothing_is_noted(house):
    runs = house.results / "runs"
    start(runs, "toy/big/small/s1-00000000", "0" * 64, None, None, anew=True)
    assert not (runs / LEDGER).exists()


def test_the_first_record_of_a_seed_counts(house):
    fair(house)
    better = [Measurement("test/bleu", 99.0, "BLEU", "test", {}, 50)]
    house.record("toy/base", 1, 99.0, "small", metrics=better, finished="2026-03-01T00:00:00Z")
    assert outcome().verdict == "same order"


# --- what was done before -----------------------------------------------------------------------------------


def notes_of(row="big"):
    (cell,) = compare().entries["toy", "table1", row, "bleu"].cells
    return cell.notes


def test_judged_seeds_are_fixed_before_they_run(house):
    def judge(seeds):
        return load_recipe(house.write("big", f"{RECIPE.format(width=8)}seeds: {seeds}\n"))

    runs = house.results / "runs"
    house.recipe("big")
    recipe = judge("1-5")
    runs.mkdir(parents=True)
    ledger_of(house).write_text(f"{HEADER}\n")
    start(
        runs, recipe.run_id(1), recipe.config_hash, "a" * 40, seeds_line(*recipe.seeds_declaration), anew=True
    )
    start(
        runs,
        recipe.run_id(2),
        recipe.config_hash,
        "a" * 40,
        seeds_line(*judge("1,2").seeds_declaration),
        anew=True,
    )
    assert [line.path.partition("/")[0] for line in read_ledger(runs)] == ["seeds", "toy", "toy"]
    house.run("toy/big", [30.0, 28.9, 30.05, 31.0, 29.95])
    append_missing(runs)
    for seeds in ("1,3,5", "1,3,5,2,4"):
        judge(f"'{seeds}'")
        (problem,) = check_records(runs)
        assert problem.endswith(f": {seeds} are not the declared 1-5; restore them in the recipe")
        (hidden,) = (note for note in notes_of() if note.endswith("seed 2,4"))
        assert hidden.startswith("not counted" if seeds.endswith("4") else "recorded and not judged")
    judge("1-6")
    assert check_records(runs) == []


def test_a_seed_that_was_begun_before_is_named(house):
    house.recipe("big")
    house.run("toy/big", [30.0, 30.0, 30.0])
    runs = house.results / "runs"
    append_missing(runs)
    first, second, _ = compare().records
    start(runs, first.run_id, first.config_hash, first.commit, None, anew=True)
    assert notes_of() == ()
    start(runs, first.run_id, first.config_hash, first.commit, None, anew=True)
    start(runs, second.run_id, second.config_hash, "b" * 40, None, anew=True)
    assert notes_of() == ("begun before, without a record: seed 1-2",)


def test_attempts_that_resumed_are_no_tries_of_their_own(house):
    house.recipe("big")
    facts = {"commit": "a" * 40, "code_sha256": "c" * 64, "dirty": False, "versions": {}, "hardware": {}}
    attempts = [{**facts, "first": first, "last": first + 50} for first in (0, 50)]
    house.run("toy/big", [30.0, 30.0, 30.0], attempts=attempts, commit="a" * 40)
    runs = house.results / "runs"
    append_missing(runs)
    (first, *_) = compare().records
    start(runs, first.run_id, first.config_hash, "a" * 40, None, anew=True)
    assert notes_of() == ()
    start(runs, first.run_id, first.config_hash, "a" * 40, None, anew=True)
    assert notes_of() == ("begun before, without a record: seed 1",)


def test_a_copy_of_a_withdrawn_record_does_not_take_its_place(house):
    house.recipe("big")
    house.run("toy/big", [30.0])
    runs = house.results / "runs"
    append_missing(runs)
    (path,) = (runs / "toy" / "big").glob("*.json")
    (path.parent / "again.json").write_bytes(path.read_bytes())
    append_missing(runs)
    (problem,) = check_records(runs)
    assert problem.startswith("runs/toy/big/")
    assert "remove the copy and its line" in problem


def test_records_behind_a_link_are_gone(house, tmp_path):
    house.recipe("big")
    house.run("toy/big", [20.0])
    runs = house.results / "runs"
    append_missing(runs)
    (runs / "toy").rename(tmp_path / "moved")
    (runs / "toy").symlink_to(tmp_path / "moved")
    assert any("is gone or behind a link" in problem for problem in check_records(runs))


def test_another_device_gives_no_trained_number_that_the_first_run_lacks(house):
    house.recipe("big")
    house.run("toy/big", [30.0, 30.0])
    cpu, gpu = ({"device": one, "count": 1, "nodes": 1, "threads": 1} for one in ("Xeon", "H100"))
    house.record("toy/big", 3, 30.0, metrics=[], hardware=cpu)
    house.record("toy/big", 3, 30.0, gpu_hours=1.0, hardware=gpu, finished="2026-05-01T00:00:00Z")
    (cell,) = compare().entries["toy", "table1", "big", "bleu"].cells
    assert (cell.verdict, cell.estimate.n) == ("open", 2)


def test_an_extension_does_not_rescue_a_test_that_the_gate_refused(house):
    text = TEST.replace("measured:", "ceiling: 100\n    extended_to: 1-5\n    measured:")
    run_rows(house, text=text, big=[100.0] * 3 + [90.0] * 2, base=[100.0] * 3 + [70.0] * 2)
    assert outcome().why == "room (big and base at the ceiling of 100)"


def test_what_the_column_says_of_windows_is_fixed(house):
    fair(house)
    house.publish(
        PUBLISHED.replace(
            "bleu: {unit: BLEU, better: higher,", "bleu: {unit: BLEU, overlap: true, better: higher,"
        )
    )
    assert outcome().why.startswith("declared (with another text")
    assert any(
        "bigger-is-better/1/column differs" in problem for problem in check_records(house.results / "runs")
    )


def test_the_sweep_and_the_margin_are_older_than_a_try_that_was_withdrawn(house):
    house.publish(
        PUBLISHED.replace(
            "bleu: {unit: BLEU, better: higher, class: trained, margin: {size: 0.5, set: '2026-01-01'}",
            "bleu: {unit: BLEU, better: higher, class: trained, margin: {size: 3, set: '2026-01-01', reason: noise}",
        )
    )
    house.recipe("big")
    house.run("toy/big", [28.0, 28.1, 28.2])
    assert compare().entries["toy", "table1", "big", "bleu"].verdict == "reproduced"
    (record, *_) = compare().records
    line = Line("2025-12-30T06:00:00Z", "started", record.run_id, record.config_hash)
    append_missing(house.results / "runs")
    with ledger_of(house).open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(UserError, match="was set on 2026-01-01, after a run began on 2025-12-30"):
        compare()
