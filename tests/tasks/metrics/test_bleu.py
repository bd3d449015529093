"""BLEU through sacrebleu."""

import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from repro.tasks.metrics.bleu import bleu, moses, require_tokeniser, split_compounds, tokeniser_of

REFERENCES = ["Ein Hund rennt über die Wiese.", "Zwei Männer sitzen auf einer Bank im Park."]


def test_a_perfect_translation_scores_100() -> None:
    score, signature = bleu(REFERENCES, REFERENCES)
    assert score == pytest.approx(100.0)
    assert "case:mixed" in signature
    assert "tok:13a" in signature
    assert "version:" in signature


def test_case_and_order_count() -> None:
    lower, _ = bleu([line.lower() for line in REFERENCES], REFERENCES)
    swapped, _ = bleu(REFERENCES[::-1], REFERENCES)
    assert swapped < lower < 100.0


def test_the_ways_differ_in_case_and_in_what_a_token_is() -> None:
    output = [line.lower() for line in REFERENCES]
    cased, signature = bleu(output, REFERENCES, "bleu_intl")
    uncased, uncased_signature = bleu(output, REFERENCES, "bleu_intl_uncased")
    assert cased < uncased == pytest.approx(100.0)
    assert "case:mixed" in signature
    assert "tok:intl" in signature
    assert "case:lc" in uncased_signature
    assert "tok:intl" in uncased_signature
    dash = "\u2013"  # a token of its own for one of them only
    dots = [f"a{dash}b c d e f"], [f"a {dash} b c d e f"]
    assert bleu(*dots, "bleu_intl")[0] == pytest.approx(100.0)
    assert bleu(*dots)[0] < 100.0


def test_given_tokens_are_split_at_blanks_only() -> None:
    tokens = "ein mann , der im park sitzt ."
    assert bleu([tokens], [tokens], "bleu_given")[0] == pytest.approx(100.0)
    score, signature = bleu(
        ["a b c d ,"], ["a b c d, e"], "bleu_given"
    )  # 3/5, 2/4, 1/3, none of 2: not smoothed
    assert score == 0.0
    assert "tok:none" in signature
    assert "smooth:none" in signature


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("der E-Mail-Verkehr", "der E ##AT##-##AT## Mail ##AT##-##AT## Verkehr"),
        ("a-b-c", "a ##AT##-##AT## b-c"),  # b cannot stand on both sides of one pass
        ("ab - cd -ef gh-", "ab - cd -ef gh-"),
        ("3-5 %", "3 ##AT##-##AT## 5 %"),
        ("x--y", "x ##AT##-##AT## -y"),
        ("", ""),
    ],
)
def test_compounds_are_split_at_hyphens_within_words(line: str, expected: str) -> None:
    assert split_compounds(line) == expected


def test_moses_tokens() -> None:
    lines = ['Er sagt: "Das kostet z.B. 3,50 Euro."', "E-Mail-Verkehr"]
    assert moses(lines, "de") == [
        "Er sagt : &quot; Das kostet z.B. 3,50 Euro . &quot;",
        "E-Mail-Verkehr",
    ]
    assert moses(lines, "de", split=True)[1] == "E ##AT##-##AT## Mail ##AT##-##AT## Verkehr"
    assert moses(["L'homme n'est pas là."], "fr") == ["L&apos; homme n&apos; est pas là ."]


def counted(hypotheses: list[str], references: list[str]) -> float:
    """BLEU-4 of tokens between spaces, cased, one reference, without smoothing, as its definition says."""
    right, all_of = [0] * 4, [0] * 4
    for output, expected in zip(hypotheses, references, strict=True):
        for n in range(1, 5):
            mine, official = (
                Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
                for words in (output.split(), expected.split())
            )
            right[n - 1] += sum((mine & official).values())
            all_of[n - 1] += sum(mine.values())
    lengths = [sum(len(line.split()) for line in lines) for lines in (hypotheses, references)]
    short = min(0.0, 1 - lengths[1] / lengths[0])
    return 100 * math.exp(short + sum(math.log(r / a) for r, a in zip(right, all_of, strict=True)) / 4)


DEGRADED = ["Ein Hund rennt über die grüne Wiese.", "Zwei alte Männer sitzen auf der Bank im Stadt-Park."]
WANTED = ["Ein Hund rennt schnell über die Wiese.", "Zwei Männer sitzen auf der Bank im Stadt-Park heute."]


def test_tokenised_bleu_is_that_of_its_definition() -> None:
    for way, split in (("bleu_tokenised", False), ("bleu_compound_split", True)):
        score, signature = bleu(DEGRADED, WANTED, way)
        cut = [moses(lines, "de", split) for lines in (DEGRADED, WANTED)]
        assert score == pytest.approx(counted(*cut), abs=1e-9)
        assert signature.startswith(f"moses:de|split:{'hyphens' if split else 'no'}|nrefs:1|case:mixed")
        assert "smooth:none" in signature
    split_score, plain_score = (
        bleu(DEGRADED, WANTED, f"bleu_{way}")[0] for way in ("compound_split", "tokenised")
    )
    assert split_score > plain_score, "a compound that is right counts as three tokens"


def test_the_score_is_that_of_the_command(tmp_path: Path) -> None:
    for name, lines in (("said", DEGRADED), ("wanted", WANTED)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    command = [sys.executable, "-m", "sacrebleu", "wanted", "-i", "said", "-b", "-w", "10"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{bleu(DEGRADED, WANTED)[0]:.10f}"


@pytest.mark.parametrize("language", ["zh", "ZH", "zh-TW", "zh_CN", "zh-Hant-HK", "zho", "chi", "cmn"])
def test_chinese_is_split_as_sacrebleu_does(language: str) -> None:
    hypotheses, references = ["我今天很高兴见到你们大家"], ["我今天很高兴见到你们"]
    score, signature = bleu(hypotheses, references, language=language)
    assert score == pytest.approx(80.7, abs=0.05)
    assert "tok:zh" in signature


@pytest.mark.parametrize(
    ("tags", "tokeniser"),
    [
        ("ja JA ja_JP jpn", "ja-mecab"),
        ("ko ko-KR kor", "ko-mecab"),
        ("th TH th-TH tha lo km my mya bo dz", "char"),
        ("de DE de-AT pt_BR en fr vi brackets kr", "13a"),
    ],
)
def test_the_tokeniser_follows_the_language(tags: str, tokeniser: str) -> None:
    assert {tokeniser_of(tag) for tag in tags.split()} == {tokeniser}


def test_a_language_without_blanks_is_scored_by_characters() -> None:
    score, signature = bleu(["แมวนั่งบนเสื่อ"], ["แมวนั่งบนเก้าอี้"], language="th")
    assert 0.0 < score < 100.0
    assert "tok:char" in signature
    assert bleu(REFERENCES, REFERENCES, "bleu_tokenised", "de-AT") == bleu(
        REFERENCES, REFERENCES, "bleu_tokenised", "de"
    )


def test_a_tokeniser_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ja", "ko"):
        monkeypatch.setattr(f"sacrebleu.tokenizers.tokenizer_{module}_mecab.MeCab", None)
    with pytest.raises(ValueError, match=r"target_language jpn: .*install them.* sacrebleu\[ja\]"):
        require_tokeniser("jpn")
    with pytest.raises(ValueError, match=r"sacrebleu\[ko\]"):
        require_tokeniser("ko-KR")
    require_tokeniser("zh")


def test_tokenised_text_is_scored_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    lines = ["ein Hund rennt ."] * 200
    assert bleu(lines, lines)[0] == pytest.approx(100.0)
    assert caplog.records == []
