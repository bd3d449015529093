import unicodedata

import pytest

from repro.evidence import text
from repro.evidence.judging.statistics import estimate


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "–"),  # noqa: RUF001
        (0.0, "0.0000"),
        (0.98765, "0.9877"),
        (4.92, "4.920"),
        (27.3, "27.30"),
        (12345.6, "12,346"),
        (3.3e18, "3.300e+18"),
        (-2.5, "-2.500"),
    ],
)
def test_number(value, message):
    assert text.number(value) == message


def test_published_numbers_gain_no_digit():
    assert [text.printed(v) for v in (27.3, 2.3e19, 37.0)] == ["27.3", "2.3e+19", "37"]


def test_plus_minus():
    assert text.plus_minus(None) == "–"  # noqa: RUF001
    assert text.plus_minus(estimate([27.0])) == "27.00"
    assert text.plus_minus(estimate([27.0, 28.0, 29.0])) == "28.00 ± 2.48"
    assert text.plus_minus(estimate([1000.0, 1000.02])) == "1,000.01 ± 0.13"


def test_signed():
    assert [text.signed(v) for v in (0.25, -0.25, 0.0)] == ["+0.2500", "−0.2500", "+0.0000"]  # noqa: RUF001
    assert [text.signed(v, 3) for v in (-1e-9, -1e-3, -1000.0)] == ["+0.000", "−0.001", "−1,000.000"]  # noqa: RUF001


@pytest.mark.parametrize(
    ("seconds", "message"),
    [(8.12, "8.1 s"), (127, "2 min 07 s"), (11100, "3 h 05 min"), (3599.9, "1 h 00 min")],
)
def test_duration(seconds, message):
    assert text.duration(seconds) == message


def test_size():
    assert [text.size(n) for n in (12, 1536, 3 * 2**30)] == ["12 B", "1.5 KiB", "3.0 GiB"]


def test_mapping_is_sorted():
    assert text.mapping({"b": [1], "a": "x", "c": None}) == "a x, b [1], c null"


def test_clean_treats_every_character_as_its_kind_demands():
    kept, blank, gone = set(), set(), set()
    for code in [*range(0x3000), *range(0xD7F0, 0xE010), *range(0xFE00, 0xFFFD), *range(0xE0000, 0xE0080)]:
        output = text.clean(f"a{chr(code)}b")
        {f"a{chr(code)}b": kept, "a b": blank, "a\N{REPLACEMENT CHARACTER}b": gone}[output].add(chr(code))
    hidden = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    assert [c for c in kept if unicodedata.category(c) in hidden] == []
    assert {" ", "\t", "\n", "\r", "\xa0", "\u2028"} <= kept | blank
    assert {"\t", "\n", "\r", "\xa0", "\u2028"} <= blank
    assert {
        "\x00",
        "\x1b",
        "\x7f",
        "\x9b",
        "\u200b",
        "\u202e",
        "\ud800",
        "\ue000",
        "\ufeff",
        "\U000e0041",
    } <= gone
    assert set("aé中∞±") & gone == set()
