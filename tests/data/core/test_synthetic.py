"""Streams whose answers are known."""

import numpy as np
import pytest

from repro.data import EchoData
from repro.errors import UserError


def echo(symbols: int = 16, lag: int = 25, train: int = 2000, held_out: int = 900) -> EchoData:
    return EchoData(symbols, 64, 16, lag, train, held_out)


def test_every_answer_repeats_the_symbol_so_far_back() -> None:
    data = echo(symbols=7, lag=5, train=1000)
    tokens, places = data.tokens("train"), np.flatnonzero(data.scored("train"))
    assert places[0] == 5
    assert np.array_equal(places, np.arange(5, 1000, 2))
    assert np.array_equal(tokens[places], tokens[places - 5])
    assert set(tokens.tolist()) == set(range(7))


def test_questions_are_uniform_and_an_answer_says_nothing_of_its_neighbours() -> None:
    tokens = echo(symbols=4, train=40_000).tokens("train")
    questions = tokens[::2]
    shares = np.bincount(questions, minlength=4) / len(questions)
    assert np.abs(shares - 0.25).max() < 0.02
    near = tokens[101::2][:-1] == tokens[100:-2:2][: len(tokens[101::2][:-1])]
    assert abs(near.mean() - 0.25) < 0.02


def test_a_longer_stream_begins_like_a_shorter_one_and_splits_share_nothing() -> None:
    short, train, val = echo(held_out=300).tokens("val"), echo().tokens("train"), echo().tokens("val")
    assert np.array_equal(short, val[:300])
    assert (train[:900] == val).mean() < 0.1
    assert train[:12].tolist() == [7, 15, 15, 1, 1, 14, 3, 14, 10, 2, 9, 13], "on every machine"


def test_batches_score_the_answers_only() -> None:
    data = EchoData(vocab_size=16, batch_tokens=64, seq_len=16, train_tokens=2000, eval_tokens=100)
    batch = next(iter(data.train_dataloader()))
    assert batch.ids.shape == (4, 16)
    assert bool((batch.targets[1:, 0::2] >= 0).all() or (batch.targets[1:, 1::2] >= 0).all())
    assert batch.step_targets == int((batch.targets >= 0).sum())
    assert data.counts["val"]["targets"] == int(data.scored("val").sum()) == 38


def test_what_is_generated_has_a_name_of_its_own() -> None:
    def name(**settings: int) -> str:
        return EchoData(16, 64, 16, **settings).manifest_sha256

    assert name() == name(seed=3)
    assert len({name(), name(lag=27), name(train_tokens=5000), name(eval_tokens=77)}) == 4


@pytest.mark.parametrize(
    ("symbols", "lag", "message"), [(1, 25, "vocab_size must be"), (4, 24, "odd"), (4, -1, "lag must")]
)
def test_settings_that_cannot_be(symbols: int, lag: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        echo(symbols, lag)
