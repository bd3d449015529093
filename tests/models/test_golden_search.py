"""Beam search equals fairseq's ``SequenceGenerator`` where both search to the end; see tests/golden.

Theirs ends a sentence once as many hypotheses are finished as the beam is wide. Ours goes on while one that lives may
yet score higher, so at each rank it finds as good a hypothesis or a better one. No search of the file chooses padding,
or would end at once: `test_search.py` tests these limits.
"""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.models import EncoderDecoder
from repro.models.search import beam_search
from repro.nn import Added, Blocks, CrossAttention, FeedForward, FullAttention, PostNorm, Vocabulary
from repro.nn.positions.positions import SplitSinusoids
from tests.models import golden
from tests.models.golden_weighted import ours
from tests.models.tiny import PENALTIES, beams_by_hand

PAD, EOS = 1, 2
LONGEST, CLOSE = 41, 1e-9
# Beam and alpha; sentences, of 18, whose best hypothesis is the same; hypotheses, of 18 times the beam, that are.
SEARCHES = [
    (1, 1.0, 11, 11),
    (4, 0.0, 18, 72),
    (4, 0.6, 18, 68),
    (4, 1.0, 15, 39),
    (5, 0.6, 18, 80),
    (5, 1.0, 16, 44),
]


class File:
    """The numbers, and our model with its weights."""

    def __init__(self) -> None:
        self.arrays, meta = golden.read("trajectories/transformer_fairseq")
        settings, weights = meta["settings"], golden.under("wb/", self.arrays)
        blocks = Blocks(
            mixers=[partial(FullAttention, n_heads=settings["heads"])],
            cross=partial(CrossAttention, n_heads=settings["heads"]),
            feed_forward=partial(FeedForward, d_ff=settings["ff"]),
            sublayer=partial(PostNorm, eps=1e-5),
        )
        positions = partial(Added, table=partial(SplitSinusoids, first=2))
        vocabulary = partial(Vocabulary, size=settings["V"])
        layers = settings["layers"]
        self.net = EncoderDecoder(settings["d_model"], layers, layers, vocabulary, blocks, positions)
        self.net.double().eval()
        named = {"vocabulary.embedding.table.weight": weights["encoder.embed_tokens.weight"]}
        for stack in ("encoder", "decoder"):
            named |= {f"{stack}.{name}": value for name, value in ours(stack, weights).items()}
        self.net.load_state_dict(named)
        self.source, self.lengths = self.arrays["decode"].long(), self.arrays["decode_lengths"].long()

    def theirs(self, beam: int, alpha: float) -> tuple[list[list[list[int]]], Tensor]:
        """Tokens of every sentence's hypotheses, and scores ``(B, beam)``."""
        ids, scores = (self.arrays[f"beam{beam}_lenpen{alpha}/{name}"] for name in ("ids", "scores"))
        return [[[t for t in row if t] for row in rows] for rows in ids.tolist()], scores

    def search(self, beam: int, alpha: float, **changed: Any) -> tuple[list[list[list[int]]], Tensor]:
        """Our search, with results in the same form."""
        with torch.inference_mode():
            state = self.net.start(self.source, self.lengths, capacity=LONGEST)
        options = {"length_form": "power", "min_length": 1, "forbidden": [PAD], "n_best": beam} | changed
        first = torch.full_like(self.lengths, EOS)
        result = beam_search(self.net, state, first, LONGEST, EOS, beam, alpha, **options)
        rows = [row[:n] for row, n in zip(result.ids.tolist(), result.lengths.tolist(), strict=True)]
        n_best, count = options["n_best"], len(self.lengths)
        return [rows[n_best * i :][:n_best] for i in range(count)], result.scores.view(count, n_best)


@pytest.fixture(scope="module")
def file() -> File:
    return File()


@pytest.mark.parametrize(("beam", "alpha", "best", "ranks"), SEARCHES)
def test_no_rank_is_worse_and_equal_scores_are_of_equal_sequences(
    file: File, beam: int, alpha: float, best: int, ranks: int
) -> None:
    (result, scores), (ids, expected) = file.search(beam, alpha), file.theirs(beam, alpha)
    assert (scores >= expected - CLOSE).all()
    close = scores - expected < CLOSE
    same = [
        [rows[n] == wanted_rows[n] for n in range(beam)]
        for rows, wanted_rows in zip(result, ids, strict=True)
    ]
    assert same == close.tolist()
    assert (int(close[:, 0].sum()), int(close.sum())) == (best, ranks)
    for n in {1, min(3, beam)}:  # fewer are the first of more
        fewer, fewer_scores = file.search(beam, alpha, n_best=n)
        assert fewer == [rows[:n] for rows in result]
        torch.testing.assert_close(fewer_scores, scores[:, :n], rtol=0, atol=CLOSE)


@pytest.mark.parametrize(("beam", "alpha", "best", "ranks"), SEARCHES)
def test_where_it_stops_is_the_only_difference(
    file: File, beam: int, alpha: float, best: int, ranks: int
) -> None:
    ids, expected = file.theirs(beam, alpha)
    for row, length in enumerate(file.lengths.tolist()):
        words = file.source[row, :length].tolist()
        plain = beams_by_hand(
            file.net, words, EOS, LONGEST, EOS, beam, PENALTIES["power"], alpha, 1, [PAD], enough=beam
        )
        assert [new for _, new in plain] == ids[row]
        assert [score for score, _ in plain] == pytest.approx(expected[row].tolist(), abs=CLOSE)


@pytest.mark.parametrize(("alpha", "form"), [(0.5, "power"), (0.6, "vaswani")])
def test_control_another_penalty_shows(file: File, alpha: float, form: str) -> None:
    result, (_, expected) = file.search(4, alpha, length_form=form), file.theirs(4, 0.6)
    assert (result[1] - expected).abs().max() > 0.1
    assert result[0] != file.search(4, 0.6)[0]
