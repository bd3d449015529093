"""What the generated documents say beside their numbers: why claims do not count, what was run again."""

from repro.evidence.claims import claims
from repro.report.formats.claims_document import claims_document
from repro.report.formats.documents import runs_document, verified_records

from repro.evidence.compare import compare
from repro.report.formats import markdown
from repro.verify import BIT_EQUAL, DIFFERS, FAILED, Outcome, keep
from tests.report.fakes import PUBLISHED

PART = (
    "  - {id: part, claim: Big beats base., table: table1, metric: bleu, order_best_first: [big, base], "
    "part_of: bigger-is-better, ours: '2026-01-01'}\nmissing:"
)


def claims_of():
    """Verdict and remarks of each line of claims.md, by the claim."""
    said = markdown.render(claims_document(claims(compare())))
    lines = [line.strip("| ").split(" | ") for line in said.split("\n") if line.startswith("| ")]
    return {line[0]: (line[2], line[4] if len(line) > 4 else "") for line in lines}


def rows(house, *names):
    for name in names:
        middle = {"big": 30.0, "base": 28.0, "small": 28.0}[name]
        house.run(house.recipe(name), [middle - 0.1, middle, middle + 0.1])


def test_a_mechanism_check_says_so(house):
    terms = "id: bigger-is-better, at: {paper: {mechanism: out of reach}}"
    house.publish(PUBLISHED.replace("id: bigger-is-better", terms))
    rows(house, "big", "base", "small")
    verdict, remarks = claims_of()["Bigger is better."]
    assert verdict == "holds"
    assert "mechanism check" in remarks
    assert remarks.endswith("out of reach")


def test_a_claim_of_the_same_numbers_names_the_one_that_counts(house):
    rows(house, "big", "base", "small")
    found = claims_of()
    assert found["Bigger is better."] == ("holds", "")
    assert found["Base and small are alike."][0] == "holds"
    assert found["Base and small are alike."][1].endswith("bigger-is-better")


def test_a_part_that_we_declared_has_its_date(house):
    house.publish(PUBLISHED.replace("missing:", PART))
    rows(house, "big", "base")
    (part,) = [claim for claim in claims_of() if claim.startswith("Big beats base.")]
    assert "2026-01-01" in part
    assert claims_of()[part] == ("holds", "")


def test_records_that_were_run_again_stand_below_the_runs(house):
    (made,) = house.run(house.recipe("big"), [30.0])
    assert verified_records(compare()) == []
    outcomes = [
        Outcome("2026-02-03T00:00:00Z", made.path, "a" * 64, BIT_EQUAL, True, "4 numbers"),
        Outcome("2026-02-01T00:00:00Z", made.path, "a" * 64, DIFFERS, False, "test/bleu 30 | 31"),
        Outcome("2026-02-02T00:00:00Z", "toy/gone/x.json", "a" * 64, FAILED, None, "exit code 1"),
    ]
    for outcome in outcomes:
        keep(house.results, outcome)
    above, _, below = markdown.render(runs_document(compare())).partition("## Records that were run again")
    assert "bit-equal" not in above
    lines = [line for line in below.split("\n") if line.startswith("| 2026")]
    assert lines == [
        f"| 2026-02-03 | {made.path} | bit-equal | yes | 4 numbers |",
        f"| 2026-02-01 | {made.path} | differs | no | test/bleu 30 \\| 31 |",
        "| 2026-02-02 | toy/gone/x.json | failed to run | \N{EN DASH} | exit code 1 |",
    ]
