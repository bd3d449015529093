"""BLEU for tables, through sacrebleu and always with its signature."""

# The ways to count that published tables use, by the name of the measurement.
WAYS = {
    "bleu": {},
    "bleu_intl": {"tokenize": "intl"},
    "bleu_intl_uncased": {"tokenize": "intl", "lowercase": True},
}


def bleu(hypotheses: list[str], references: list[str], way: str = "bleu") -> tuple[float, str]:
    """Corpus BLEU of detokenised text; cased but for ``bleu_intl_uncased``.

    Args:
        hypotheses: one a line.
        references: as many.
        way: one of ``WAYS``.

    Returns:
        The score, 0 to 100, and sacrebleu's signature, which says how it was measured.
    """
    from sacrebleu.metrics import BLEU

    metric = BLEU(**WAYS[way])  # type: ignore[arg-type]
    score = metric.corpus_score(hypotheses, [references])
    return float(score.score), str(metric.get_signature())
