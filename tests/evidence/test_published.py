from pathlib import Path

import pytest
from repro.evidence.rules import default_margin

from repro.errors import UserError
from repro.evidence import published
from repro.evidence.published import load_paper, load_papers, paper_keys, validate_published
from repro.paths import PROJECT
from tests.report.fakes import PUBLISHED

PAPERS = 8


def test_every_published_file_of_the_checkout_is_valid():
    papers = validate_published()
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


def test_unconfirmed_cells_follow_the_words_of_the_file():
    tables = load_paper("infinity-former").tables
    gpt2 = tables["gpt2-finetuning"].rows
    assert gpt2["gpt2"].unconfirmed == {"wikitext103", "pg19"}
    assert gpt2["infinity-former"].unconfirmed == {"pg19"}  # 16.64 is named as confirmed
    assert gpt2["infinity-former-sm"].unconfirmed == set()
    dialogue = tables["cmu-dog"].rows
    assert dialogue["infinity-former-sm"].unconfirmed == {"ppl"}  # F1, ROUGE, METEOR are confirmed
    assert "ppl" not in dialogue["compressive"].unconfirmed
    assert "f1" in dialogue["compressive"].unconfirmed
    # "Table number unconfirmed" in the notes says nothing of the values.
    assert not any(r.unconfirmed for r in load_paper("admin").tables["table2-wmt14-en-de"].rows.values())


def test_a_row_can_say_that_it_is_unconfirmed(house):
    house.publish(
        PUBLISHED.replace(
            "settings: {}, values: {bleu: 30.0", "settings: {unconfirmed: [bleu]}, values: {bleu: 30.0"
        )
    )
    rows = load_paper("toy").tables["table1"].rows
    assert rows["big"].unconfirmed == {"bleu"}
    assert rows["base"].unconfirmed == set()


def test_a_clause_that_denies_confirms_nothing(house):
    said = "checked: unconfirmed; row rerun %s by anybody"
    house.publish(PUBLISHED.replace("checked: unconfirmed", said % "unconfirmed"))
    assert load_paper("toy").tables["external-rerun"].rows["rerun"].unconfirmed == {"bleu"}
    house.publish(PUBLISHED.replace("checked: unconfirmed", said % "confirmed"))
    assert load_paper("toy").tables["external-rerun"].rows["rerun"].unconfirmed == set()


def test_results_elsewhere_fall_back_to_the_checkout(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    assert len(paper_keys()) == PAPERS


def test_unknown_paper_offers_the_nearest():
    with pytest.raises(UserError, match="transformer-xl"):
        load_paper("transformer-lx")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "values: {bleu: 27.8}",
            "values: {blue: 27.8}",
            "'blue' is not a metric of the table; nearest: bleu",
        ),
        ("order_best_first: [big, base]}", "order_best_first: [big, bass]}", "no row 'bass'.*nearest: base"),
        ("table: table1, metric: ppl, order", "table: table9, metric: ppl, order", "no table 'table9'"),
        ("table: table1, metric: ppl, order", "table: table1, metric: pl, order", "no metric 'pl'"),
        ("order_best_first: [big, base]}", "order_best_first: [big, big]}", "is repeated"),
        ("id: small,", "id: base,", "two of one id: row of table1 'base'"),
        ("id: external-rerun", "id: table1", "two of one id: table 'table1'"),
        ("id: base-ties-small", "id: bigger-is-better", "two of one id: trend"),
        ("key: toy", "key: tay", "paper.key is 'tay'"),
        ("  title: A Toy Paper\n", "", "missing key 'title'"),
        ("values: {bleu: 27.8}", "values: {bleu: many}", "many"),
        ("missing: [Seeds]", "missing: [Seeds]\nmissing: []", "is given twice"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(house, old, new, said):
    assert PUBLISHED.count(old) == 1
    house.publish(PUBLISHED.replace(old, new))
    with pytest.raises(UserError, match=said) as error:
        load_paper("toy")
    assert "toy.yaml" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("better: lower, class: trained", "better: down, class: trained", "ppl.better"),
        ("class: timed", "class: timed, updates: 0", "speed.updates"),
        ("class: timed", "class: timed, chanse: 1", "speed"),
        ("year: 2020", "year: soon", "paper.year"),
        ("notes: Toys are small.", "notes: Toys are small.\n    extra: 1", "tables.0"),
        ("order_best_first: [base, small]}", "order_best_first: [base]}", "trends.1"),
        ("schema_version: 1", "schema_version: 2", "schema_version"),
    ],
)
def test_the_schema_refuses_and_names_the_place(house, old, new, place):
    assert PUBLISHED.count(old) == 1
    house.publish(PUBLISHED.replace(old, new))
    with pytest.raises(UserError, match=place):
        validate_published()


BLEU = "bleu: {unit: BLEU, better: higher, class: trained, margin: {size: 0.5, set: '2026-01-01'}, description: 'sacreBLEU'}\n      ppl"  # fmt: skip # noqa: E501


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("class: trained", "class: traned", "'traned'.*nearest: trained"),
        ("class: trained, ", "", "class None"),
        ("margin: {size: 0.5, set: '2026-01-01'}, ", "", "margin"),
        ("size: 0.5", "size: -0.5", "-0.5"),
        ("size: 0.5", "size: 0", "0"),
        ("size: 0.5", "size: x1", "x1"),
        ("size: 0.5", "size: much", "much"),
        ("size: 0.5", "size: 0.6", "reason"),
        ("set: '2026-01-01'", "set: '2026-13-01'", "2026-13-01"),
        ("class: trained", "class: trained, same_as: table9/big", "no table 'table9'; nearest: table1"),
        ("class: trained", "class: trained, same_as: table1/bog", "no row 'bog'.*nearest: big"),
        (
            "class: trained",
            "class: trained, same_as: table1/big/blue",
            "no metric 'blue' in table1; nearest: bleu",
        ),
        ("class: trained", "class: trained, same_as: table1", "same_as 'table1'"),
        ("class: trained", "class: trained, same_as: table1/big", "same as another"),
    ],
)
def test_how_a_number_is_judged_is_checked(house, old, new, said):
    assert PUBLISHED.count(BLEU) == 1
    house.publish(PUBLISHED.replace(BLEU, BLEU.replace(old, new)))
    with pytest.raises(UserError, match=said) as error:
        validate_published()
    assert "toy.yaml" in str(error.value)
    assert "\n" not in str(error.value)


def test_narrower_declarations_win(house):
    text = BLEU.replace("class: trained", "class: trained, updates: 10, chance: 1")
    row = "values: {bleu: 27.8}"
    house.publish(
        PUBLISHED.replace(BLEU, text).replace(row, f"updates: 20, cells: {{bleu: {{chance: 2}}}}, {row}")
    )
    rows = load_paper("toy").tables["table1"].rows
    assert (rows["big"].rules["bleu"].updates, rows["big"].rules["bleu"].chance) == (10, 1)
    assert (rows["small"].rules["bleu"].updates, rows["small"].rules["bleu"].chance) == (20, 2)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ("{id: base-ties-small, part_of: nothing,", "nothing"),
        ("{id: base-ties-small, part_of: lower-perplexity,", "lower-perplexity"),
        ("{id: base-ties-small, at: {tiny: {}},", "tiny"),
        ("{id: base-ties-small, margin: {size: 0.1, set: '2026-01-01'},", "reason"),
    ],
)
def test_the_terms_of_a_claim_are_checked(house, new, said):
    house.publish(PUBLISHED.replace("{id: base-ties-small,", new))
    with pytest.raises(UserError, match=said):
        load_paper("toy")


@pytest.mark.parametrize(
    ("unit", "size"),
    [
        ("percent", "1"),
        ("BLEU", "0.5"),
        ("perplexity per word", "1 %"),
        ("bits/dim", "0.02"),
        ("times", "x1.25"),
    ],
)
def test_the_default_margin_follows_from_the_unit(unit, size):
    assert str(default_margin(unit)) == size
    assert default_margin("exponent") is None


def test_a_published_file_that_is_no_mapping(house):
    house.publish("- 1\n")
    with pytest.raises(UserError, match="not a file of published numbers"):
        load_papers()


def test_the_schema_lies_beside_the_code():
    assert published.SCHEMA.is_file()
    assert published.SCHEMA.parent == Path(published.__file__).parent
