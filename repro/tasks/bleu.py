"""BLEU for tables, through sacrebleu and always with its signature."""


def bleu(hypotheses: list[str], references: list[str]) -> tuple[float, str]:
    """Corpus BLEU of detokenised, cased text.

    Returns:
        The score, 0 to 100, and sacrebleu's signature, which says how it was measured.
    """
    from sacrebleu.metrics import BLEU

    metric = BLEU()
    score = metric.corpus_score(hypotheses, [references])
    return float(score.score), str(metric.get_signature())
