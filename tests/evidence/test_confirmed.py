import pytest

from repro.evidence.confirmed import is_unconfirmed

GPT2 = "unconfirmed; row infinity-former-sm and 16.64 confirmed by the arXiv source"


@pytest.mark.parametrize(
    ("checked", "row", "metric", "value", "unconfirmed"),
    [
        ("arXiv source", "big", "bleu", 30.0, False),
        ("unconfirmed", "big", "bleu", 30.0, True),
        ("Unconfirmed: no copy was found", "big", "bleu", 30.0, True),
        ("unconfirmed; row big confirmed by the source", "big", "bleu", 30.0, False),
        ("unconfirmed; row big confirmed by the source", "base", "bleu", 30.0, True),
        ("unconfirmed; row big unconfirmed by anybody", "big", "bleu", 30.0, True),
        ("unconfirmed; 30 and 28.5 confirmed by the source", "big", "bleu", 30.0, False),
        ("unconfirmed; 30 and 28.5 confirmed by the source", "big", "bleu", 31.0, True),
        ("unconfirmed; row big (BLEU, F1) confirmed by the source", "big", "bleu", 30.0, False),
        ("unconfirmed; row big (BLEU, F1) confirmed by the source", "big", "ppl", 30.0, True),
        ("unconfirmed; confirmed by the source", "big", "bleu", 30.0, True),  # names no cell
        (GPT2, "infinity-former-sm", "ppl", 16.64, False),
        (GPT2, "infinity-former-sm", "ppl", 16.61, True),
    ],
)
def test_a_cell_is_unconfirmed_unless_a_clause_names_it(checked, row, metric, value, unconfirmed):
    assert is_unconfirmed(checked, row, metric, value) == unconfirmed
