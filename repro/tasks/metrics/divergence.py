"""A number for failed training: how much better the final model is than token frequencies."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from repro.record import Measurement

SHARE = 0.75  # of the unigram entropy: who is above it has learned next to nothing
LEAST_BLEU = 1.0  # a system below it translates nothing


def diverged(nll: float, sentences: Iterable[Sequence[int]], split: str, count: int) -> Measurement:
    """1 where training failed, else 0.

    Failed is a final model whose teacher-forced likelihood, in nats per token, is worse than three quarters of the
    unigram entropy of the very tokens that it predicts: the least that frequencies alone could reach. A run whose loss
    is not finite stops with an error and has no record.

    Args:
        nll: nats per token.
        sentences: ids of the tokens, without end symbols; one is counted for each.
        split: they are of.
        count: tokens, end symbols included.
    """
    level = unigram_entropy(sentences)
    rule = f"nll above {SHARE} of the split's unigram entropy, or not finite"
    protocol = {"rule": rule, "unigram_entropy": float(f"{level:.6g}")}
    failed = float(not nll <= SHARE * level)  # also where it is not a number
    return Measurement("val/diverged", failed, "0/1", split, protocol, count, failed)


def failed(bleu: float, diverged: Measurement) -> Measurement:
    """1 where training failed or the model translates nothing, else 0.

    A model may predict the next token of a right translation well and yet translate nothing by itself, so a low
    likelihood loss alone does not show that training worked.

    Args:
        bleu: of the same split.
        diverged: see :func:`diverged`.
    """
    protocol = {"rule": f"BLEU below {LEAST_BLEU:g}, or {diverged.protocol['rule']}"}
    value = float(not bleu >= LEAST_BLEU or diverged.value)
    return Measurement("val/failed", value, "0/1", diverged.split, protocol, diverged.count, value)


def unigram_entropy(sentences: Iterable[Sequence[int]]) -> float:
    """Nats per token of the frequencies of tokens, the end of each sentence being one."""
    counts: Counter[int | None] = Counter()
    for ids in sentences:
        counts.update(ids)
        counts[None] += 1
    total = counts.total()
    return -math.fsum(n / total * math.log(n / total) for n in counts.values())
