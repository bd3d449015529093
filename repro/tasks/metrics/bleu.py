"""BLEU for tables, computed by sacrebleu and always with its signature."""

import re
from typing import Any

_GIVEN = {"tokenize": "none", "smooth_method": "none"}
# The ways to count that published tables use, by the name of the measurement.
WAYS: dict[str, dict[str, Any]] = {
    "bleu": {},
    "bleu_intl": {"tokenize": "intl"},
    "bleu_intl_uncased": {"tokenize": "intl", "lowercase": True},
    **dict.fromkeys(("bleu_given", "bleu_tokenised", "bleu_compound_split"), _GIVEN),
}
# Languages written without blanks, by the tokeniser of sacreBLEU: two letters, then those of ISO 639-2 and 639-3.
_TOKENISERS = {
    "zh": "zh zho chi cmn yue cn", "ja-mecab": "ja jpn jp", "ko-mecab": "ko kor",
    "char": "th tha lo lao km khm my mya bur bo bod tib dz dzo",
}  # fmt: skip
_HYPHEN = re.compile(r"(\S)-(\S)")


def bleu(
    hypotheses: list[str], references: list[str], way: str = "bleu", language: str = "de"
) -> tuple[float, str]:
    """Corpus BLEU; cased but for ``bleu_intl_uncased``.

    ``bleu_given`` splits at blanks only, for text that is tokenised already, as fairseq's own scorer does.
    ``bleu_tokenised`` is what Moses' ``multi-bleu.perl`` counts behind its ``tokenizer.perl``; for
    ``bleu_compound_split`` every hyphen within a word becomes a token of its own in between.

    Args:
        hypotheses: one a line; detokenised but for ``bleu_given``.
        references: as many.
        way: one of ``WAYS``.
        language: of the text, for Moses' rules and for the tokeniser of ``bleu``; see :func:`tokeniser_of`.

    Returns:
        The score, 0 to 100, and sacrebleu's signature, preceded by further steps of tokenisation, if any.

    Source: Vaswani et al. 2017, table 2, by the script ``get_ende_bleu.sh`` of tensor2tensor.
    Deviation: the script first runs Moses' ``replace-unicode-punctuation.perl`` over the hypotheses; here nothing does.
    """
    from sacrebleu.metrics import BLEU

    language = _base(language)
    # force: no warning of tokenised text at every validation
    metric, done = BLEU(force=True, **(WAYS[way] or {"tokenize": tokeniser_of(language)})), ""
    if way in ("bleu_tokenised", "bleu_compound_split"):
        split = way == "bleu_compound_split"
        hypotheses, references = (moses(lines, language, split) for lines in (hypotheses, references))
        done = f"moses:{language}|split:{'hyphens' if split else 'no'}|"
    score = metric.corpus_score(hypotheses, [references])
    return float(score.score), f"{done}{metric.get_signature()}"


def tokeniser_of(language: str) -> str:
    """The tokeniser of sacreBLEU for a language: ``zh``, ``zh-TW``, ``ZH_cn`` and ``zho`` are all Chinese.

    Chinese, Japanese and Korean have one each. Thai, Lao, Khmer, Burmese, Tibetan and Dzongkha, which have no blanks
    between words either, are scored by characters (``char``), all others by ``13a``.
    """
    return next((name for name, codes in _TOKENISERS.items() if _base(language) in codes.split()), "13a")


def _base(language: str) -> str:
    """A language tag without script and region, in small letters."""
    return re.split("[-_]", language.lower())[0]


def require_tokeniser(language: str) -> None:
    """Refuses a language whose tokeniser is an extra of sacreBLEU that is not installed.

    Raises:
        ValueError: names the extra.
    """
    if (name := tokeniser_of(language)).endswith("-mecab"):
        from sacrebleu.metrics import BLEU

        try:
            BLEU(tokenize=name)
        except RuntimeError as error:
            raise ValueError(f"target_language {language}: {' '.join(str(error).split())}") from None


def moses(lines: list[str], language: str, split: bool = False) -> list[str]:
    """Lines as tokenised by Moses, with spaces between tokens.

    Args:
        lines: detokenised.
        language: whose abbreviations are known.
        split: ``a-b`` becomes ``a ##AT##-##AT## b``.
    """
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(language)
    tokenised = [tokenizer.tokenize(line, return_str=True) for line in lines]
    return [split_compounds(line) for line in tokenised] if split else tokenised


def split_compounds(line: str) -> str:
    """``a-b`` as three tokens. As in the script, ``a-b-c`` with a single letter in the middle keeps one hyphen."""
    return _HYPHEN.sub(r"\1 ##AT##-##AT## \2", line)
