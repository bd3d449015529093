import pytest

from repro.errors import UserError
from repro.evidence.published import load_paper, load_papers, paper_keys
from repro.paths import PROJECT
from tests.report.fakes import PUBLISHED

PAPERS = 8


def test_every_published_file_of_the_checkout_is_valid():
    papers = load_papers()
    assert len(papers) == PAPERS
    assert {p.key for p in papers} == {p.stem for p in (PROJECT / "results" / "published").glob("*.yaml")}


def test_real_numbers_and_metric_overrides():
    paper = load_paper("attention-is-all-you-need")
    table = paper.tables["table2"]
    assert table.rows["transformer-big"].values["bleu_en_de"] == 28.4
    assert table.metrics["bleu_en_fr"].dataset == "wmt14-en-fr"
    assert table.metrics["bleu_en_fr"].sign == 1
    assert table.metrics["train_flops_en_de"].sign == -1
    assert paper.tables["external-fairseq-scaling-nmt"].third_party
    assert not table.third_party


def test_the_numbers_that_could_not_be_compared_with_the_paper():
    tables = load_paper("infinity-former").tables
    gpt2 = tables["gpt2-finetuning"].rows
    assert gpt2["gpt2"].unconfirmed == {"wikitext103", "pg19"}
    assert gpt2["infinity-former"].unconfirmed == {"pg19"}
    assert gpt2["infinity-former-sm"].unconfirmed == set()
    dialogue = tables["cmu-dog"].rows
    assert dialogue["infinity-former-sm"].unconfirmed == {"ppl"}
    assert dialogue["compressive"].unconfirmed == {"f1", "rouge1", "rougeL", "meteor"}
    assert not any(r.unconfirmed for r in load_paper("admin").tables["table2-wmt14-en-de"].rows.values())


@pytest.mark.parametrize(
    ("declared", "unconfirmed"),
    [("[bleu]", {"bleu"}), ("true", {"bleu", "ppl"}), ("false", set())],
)
def test_a_row_declares_which_of_its_numbers_are_unconfirmed(house, declared, unconfirmed):
    house.publish(
        PUBLISHED.replace(
            "settings: {}, values: {bleu: 30.0",
            f"unconfirmed: {declared}, settings: {{}}, values: {{bleu: 30.0",
        )
    )
    rows = load_paper("toy").tables["table1"].rows
    assert rows["big"].unconfirmed == unconfirmed
    assert rows["base"].unconfirmed == set()


def test_a_row_may_be_confirmed_in_an_unconfirmed_table(house):
    assert load_paper("toy").tables["external-rerun"].rows["rerun"].unconfirmed == {"bleu"}
    house.publish(PUBLISHED.replace("values: {bleu: 29.0}", "values: {bleu: 29.0}, unconfirmed: false"))
    assert load_paper("toy").tables["external-rerun"].rows["rerun"].unconfirmed == set()


def test_results_elsewhere_fall_back_to_the_checkout(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    assert len(paper_keys()) == PAPERS


def test_unknown_paper_offers_the_nearest():
    with pytest.raises(UserError, match="transformer-xl"):
        load_paper("transformer-lx")


SMALL = "    notes: Toys are small."
OURS = f"    ours: [{{run: toy/x, %s}}]\n{SMALL}"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "values: {bleu: 27.8}",
            "values: {blue: 27.8}",
            "table1 has no metric 'blue'; nearest: bleu",
        ),
        ("order: [big, base]}", "order: [big, bass]}", "table1 has no row 'bass'; nearest: base"),
        (
            "table: table1, metric: ppl, order",
            "table: table9, metric: ppl, order",
            "there is no table 'table9'; nearest: table1",
        ),
        (
            "table: table1, metric: ppl, order",
            "table: table1, metric: pl, order",
            "table1 has no metric 'pl'; nearest: ppl",
        ),
        ("order: [big, base]}", "order: [big, big]}", "is repeated"),
        ("id: small,", "id: base,", "two of one id: row of table1 'base'"),
        ("id: external-rerun", "id: table1", "two of one id: table 'table1'"),
        ("id: base-ties-small", "id: bigger-is-better", "two of one id: claim"),
        ("key: toy", "key: tay", "paper.key is 'tay'"),
        ("  title: A Toy Paper\n", "", "paper.title: is missing"),
        ("values: {bleu: 27.8}", "values: {bleu: many}", "many"),
        ("missing: [Seeds]", "missing: [Seeds]\nmissing: []", "is given twice"),
        (SMALL, OURS % "row: bigg, measured: {bleu: x}", "table1 has no row 'bigg'; nearest: big"),
        (SMALL, OURS % "row: big, measured: {blue: x}", "table1 has no metric 'blue'; nearest: bleu"),
        (SMALL, OURS % "measured: {bleu: x}", "toy/x: give a row, or write {row} in the run"),
        (SMALL, OURS % "row: big, measured: {bleu: x}, scales: [huge]", "scales"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(house, old, new, message):
    assert PUBLISHED.count(old) == 1
    house.publish(PUBLISHED.replace(old, new))
    with pytest.raises(UserError, match=message) as error:
        load_paper("toy")
    assert "toy.yaml" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("better: lower, class: trained", "better: down, class: trained", "ppl.better"),
        ("class: timed", "class: timed, updates: 0", "speed.rules.updates"),
        ("class: timed", "class: timed, chanse: 1", "speed"),
        ("year: 2020", "year: soon", "paper.year"),
        ("values: {bleu: 27.8}", "values: {bleu: .inf}", "values.bleu"),
        ("notes: Toys are small.", "notes: Toys are small.\n    extra: 1", "tables.table1.extra"),
        ("order: [base, small]}", "order: [base]}", "claims.base-ties-small.order"),
        ("schema_version: 1", "schema_version: 2", "schema_version"),
    ],
)
def test_the_schema_refuses_and_names_the_place(house, old, new, place):
    assert PUBLISHED.count(old) == 1
    house.publish(PUBLISHED.replace(old, new))
    with pytest.raises(UserError, match=place):
        load_paper("toy")


BLEU = "bleu: {unit: BLEU, better: higher, class: trained, margin: {size: 0.5, set: '2026-01-01'}, description: 'sacreBLEU', updates: 100}\n      ppl"  # fmt: skip # noqa: E501


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("class: trained", "class: traned", "bleu.rules.class: Input should be 'trained', .* not 'traned'"),
        ("class: trained, ", "", "bleu.rules.class: is missing"),
        ("margin: {size: 0.5, set: '2026-01-01'}, ", "", "margin"),
        ("size: 0.5", "size: -0.5", "-0.5"),
        ("size: 0.5", "size: 0", "0"),
        ("size: 0.5", "size: x1", "x1"),
        ("size: 0.5", "size: much", "much"),
        ("size: 0.5", "size: 0.6", "reason"),
        ("set: '2026-01-01'", "set: '2026-13-01'", "2026-13-01"),
    ],
)
def test_how_a_number_is_judged_is_checked(house, old, new, message):
    assert PUBLISHED.count(BLEU) == 1
    house.publish(PUBLISHED.replace(BLEU, BLEU.replace(old, new)))
    with pytest.raises(UserError, match=message) as error:
        load_paper("toy")
    assert "toy.yaml" in str(error.value)
    assert "\n" not in str(error.value)


SMALL = "values: {bleu: 27.8}"


@pytest.mark.parametrize(
    ("same", "message"),
    [
        ("table9/big", "there is no table 'table9'; nearest: table1"),
        ("table1/bog", "table1 has no row 'bog'; nearest: big"),
        ("table1/big/blue", "table1 has no metric 'blue'; nearest: bleu"),
        ("table1", "'table1': write table/row/metric"),
        ("table1/drawn", "the row has no number 'bleu'"),
        ("table1/small", "that number is itself the same as another"),
    ],
)
def test_the_same_measurement_elsewhere_is_there(house, same, message):
    house.publish(PUBLISHED.replace(SMALL, f"same_as: {same}, {SMALL}"))
    with pytest.raises(UserError, match=message):
        load_paper("toy")
    house.publish(PUBLISHED.replace(SMALL, f"same_as: table1/big, {SMALL}"))
    rows = load_paper("toy").tables["table1"].rows
    assert rows["small"].rules["bleu"].same_as == ("table1", "big", "bleu")
    assert [row for row in rows if rows[row].is_counted("bleu")] == ["big", "base"]


def test_narrower_declarations_win(house):
    text = BLEU.replace("updates: 100", "updates: 10, chance: 1")
    narrower = f"updates: 20, cells: {{bleu: {{chance: 2}}}}, {SMALL}"
    house.publish(PUBLISHED.replace(BLEU, text).replace(SMALL, narrower))
    rows = load_paper("toy").tables["table1"].rows
    assert (rows["big"].rules["bleu"].updates, rows["big"].rules["bleu"].chance) == (10, 1)
    assert (rows["small"].rules["bleu"].updates, rows["small"].rules["bleu"].chance) == (20, 2)


def test_updates_are_a_number_or_the_reason_why_they_are_unknown(house):
    text = BLEU.replace("updates: 100", "updates: until convergence")
    house.publish(PUBLISHED.replace(BLEU, text).replace(SMALL, f"updates: 20, {SMALL}"))
    rows = load_paper("toy").tables["table1"].rows
    result = [
        (rows[row].rules["bleu"].updates, rows[row].rules["bleu"].updates_unknown) for row in ("big", "small")
    ]
    assert result == [(None, "until convergence"), (20, None)]


def test_a_counted_trained_number_states_the_updates_of_the_paper(house):
    text = PUBLISHED.replace(BLEU, BLEU.replace(", updates: 100", ""))
    house.publish(text)
    with pytest.raises(UserError, match=r"row big: bleu: a counted number needs the paper's `updates`"):
        load_paper("toy")
    house.publish(text.replace("params: 2000", "counted: false, params: 2000"))
    with pytest.raises(UserError, match="row base: bleu"):
        load_paper("toy")
    for old, new in (("class: trained", "class: timed"), ("updates: 100", "counted: false")):
        house.publish(PUBLISHED.replace(BLEU, BLEU.replace(old, new)))
        assert load_paper("toy")


def test_the_claims_of_the_checkout_are_of_rows_of_its_tables():
    claims = [claim for paper in load_papers() for claim in paper.claims.values()]
    assert len(claims) >= 80
    assert all(len(claim.order) > 1 for claim in claims)
