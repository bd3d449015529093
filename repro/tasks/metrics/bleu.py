"""BLEU for tables, computed by sacrebleu and always with its signature."""

import re
from typing import Any

# The ways to count that published tables use, by the name of the measurement.
WAYS: dict[str, dict[str, Any]] = {
    "bleu": {},
    "bleu_intl": {"tokenize": "intl"},
    "bleu_intl_uncased": {"tokenize": "intl", "lowercase": True},
    "bleu_given": {"tokenize": "none", "smooth_method": "none", "force": True},
    "bleu_tokenised": {"tokenize": "none", "smooth_method": "none", "force": True},
    "bleu_compound_split": {"tokenize": "none", "smooth_method": "none", "force": True},
}
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
        language: of the text, for Moses' rules and for ``bleu``: sacrebleu has tokenisers of its own for Chinese,
            Japanese and Korean.

    Returns:
        The score, 0 to 100, and sacrebleu's signature, preceded by further steps of tokenisation, if any.

    Source: Vaswani et al. 2017, table 2, by the script ``get_ende_bleu.sh`` of tensor2tensor.
    Deviation: the script first runs Moses' ``replace-unicode-punctuation.perl`` over the hypotheses; here nothing does.
    """
    from sacrebleu.metrics import BLEU

    metric, done = BLEU(**(WAYS[way] or {"trg_lang": language})), ""
    if way in ("bleu_tokenised", "bleu_compound_split"):
        split = way == "bleu_compound_split"
        hypotheses, references = (moses(lines, language, split) for lines in (hypotheses, references))
        done = f"moses:{language}|split:{'hyphens' if split else 'no'}|"
    score = metric.corpus_score(hypotheses, [references])
    return float(score.score), f"{done}{metric.get_signature()}"


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
