"""Bits are nats over ln 2 of all values but the first; pictures can be read back; speeds say how they were measured."""

import base64
import dataclasses
import math
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from repro.data import PixelData
from repro.data.registry import DATA_SETS
from repro.errors import UserError
from repro.models import DecoderLM
from repro.models.draw import Drawing, draw
from repro.nn import Blocks, FeedForward, FullAttention, Hashing, LSHAttention, PixelVocabulary, PreNorm
from repro.tasks import Constant, PictureModel, Timing
from repro.tasks import picture_model as under_test
from repro.tasks.evaluated import EVALUATION_SEED
from repro.training.callbacks import Curves
from tests.data.picture_files import SIZES, known, small_store
from tests.tasks.streams import trainer

SHAPE, VALUES, PICTURES = (3, 4, 1), 12, SIZES["test"]
EXACT = partial(FullAttention, n_heads=2)
HASHED = partial(LSHAttention, n_heads=2, hashing=Hashing(1, 4))


@pytest.fixture(scope="module", autouse=True)
def _store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Digits of 3 rows and 4 columns."""
    folder = tmp_path_factory.mktemp("digits")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_DATA", str(folder / "data"))
        patch.setitem(DATA_SETS, "mnist", dataclasses.replace(known("mnist"), shape=SHAPE))
        small_store(patch, "mnist", Path(folder / "raw"))
        yield


def data(**changes: Any) -> PixelData:
    return PixelData("mnist", **({"batch_size": 6, "val_examples": 3, "eval_batch_size": 3} | changes))


def network(mixer: Any = EXACT, seed: int = 0) -> DecoderLM:
    """Its components are not too wide, so that the values show."""
    torch.manual_seed(seed)
    blocks = Blocks(
        [mixer], partial(FeedForward, d_ff=16), partial(PreNorm, dropout=0.0), final_norm=nn.LayerNorm
    )
    net = DecoderLM(8, 1, partial(PixelVocabulary, n_mixtures=3), blocks, dropout=0.0)
    with torch.no_grad():
        net.vocabulary.proj.bias[6:].fill_(-1.0)
    return net


def task(net: DecoderLM | None = None, **settings: Any) -> PictureModel:
    made = {"drawn": 0} | settings
    return PictureModel(net or network(), partial(torch.optim.SGD, lr=0.01), Constant, **made)


def evaluated(made: PictureModel, module: PixelData | None = None) -> dict[str, Any]:
    trainer(1).test(made, datamodule=module or data(), verbose=False)
    result = {m.name: m for m in made.measurements()}
    assert len(result) == len(made.measurements()), "no name twice"
    return result


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def surprise(net: DecoderLM, hidden: Tensor, level: int) -> float:
    """``-log p`` of a level in nats: what lies nearer to it than to any other, of a mixture of three logistics."""
    numbers = (
        net.vocabulary.proj.weight.double() @ hidden.double() + net.vocabulary.proj.bias.double()
    ).tolist()
    shares = [math.exp(logit) for logit in numbers[:3]]
    mass = 0.0
    for share, mean, log_scale in zip(shares, numbers[3:6], numbers[6:], strict=True):
        middle, half, scale = 2 * level / 255 - 1, 1 / 255, math.exp(max(log_scale, -7.0))
        above = 1.0 if level == 255 else sigmoid((middle + half - mean) / scale)
        below = 0.0 if level == 0 else sigmoid((middle - half - mean) / scale)
        mass += share / sum(shares) * (above - below)
    return -math.log(mass)


@torch.no_grad()
def by_hand(net: DecoderLM, split: str, whole: bool) -> tuple[float, int]:
    """Nats and values, one value at a time."""
    module, nats, count = data(whole=whole), 0.0, 0
    for i in range(module.size(split)):
        picture = module.pictures(split)(np.array([i]), None).images.reshape(-1).tolist()
        read = [0, *picture] if whole else picture
        for n in range(1, len(read)):
            hidden = net.eval()(torch.tensor([read[:n]])).y[0, -1]
            nats += surprise(net, hidden, read[n])
            count += 1
    return nats, count


# --- bits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("whole", "values"), [(False, VALUES - 1), (True, VALUES)])
def test_bits_are_those_of_the_mixture(whole: bool, values: int) -> None:
    made = task()
    result = evaluated(made, data(whole=whole))
    assert set(result) == {
        f"{kind}/{metric}" for kind in ("test", "val") for metric in ("loss", "bits_per_dim")
    }
    for kind, pictures in (("test", PICTURES), ("val", 3)):
        nats, count = by_hand(made.net, kind, whole)
        bits, loss = result[f"{kind}/bits_per_dim"], result[f"{kind}/loss"]
        assert loss.value == pytest.approx(nats / count, rel=1e-4)
        assert bits.value == pytest.approx(nats / count / math.log(2), rel=1e-4)
        assert bits.count == loss.count == count == pictures * values
        assert (bits.unit, loss.unit) == ("bits per value", "nats per value")
        assert bits.protocol == {"examples": pictures}
    assert result["test/bits_per_dim"].validation == result["val/bits_per_dim"].value
    assert result["test/bits_per_dim"].value != result["val/bits_per_dim"].value


def test_the_curve_of_training_is_in_bits() -> None:
    made, curves = task(), Curves(every_steps=1)
    trainer(4, limit_val_batches=0, callbacks=[curves]).fit(made, datamodule=data())
    bits, nats = ([v for _, v in curves.curves[f"train/{name}"]] for name in ("bits_per_dim", "loss"))
    assert bits == pytest.approx([value / math.log(2) for value in nats])
    assert curves.tokens == 4 * 6 * (VALUES - 1)
    first = next(iter(data().train_dataloader())).examples
    with torch.no_grad():
        net = network()
        expected = net.vocabulary.nll(net(first.inputs).y, first.targets).mean()
    assert nats[0] == pytest.approx(float(expected), rel=1e-5)
    assert nats[3] != nats[0]


# --- pictures -------------------------------------------------------------------------------------------------------


def pictures(made: PictureModel) -> list[list[int]]:
    """The values of each drawn picture."""
    output = made.outputs()
    assert output is not None
    assert output.endswith("\n")
    lines = [line.split(":") for line in output.splitlines()]
    assert {size for size, _ in lines} == {"x".join(map(str, SHAPE))}
    return [list(zlib.decompress(base64.b64decode(packed))) for _, packed in lines]


def firsts(count: int) -> list[int]:
    """First values of test pictures, from the start again behind the last."""
    images = data().pictures("test")(np.arange(PICTURES), None).images
    return [int(images[i % PICTURES].reshape(-1)[0]) for i in range(count)]


@pytest.mark.parametrize("mixer", [EXACT, HASHED])
def test_pictures_begin_like_those_of_the_test(mixer: Any) -> None:
    made = task(network(mixer), drawn=PICTURES + 2)
    evaluated(made)
    result = pictures(made)
    assert len(result) == PICTURES + 2
    assert [one[0] for one in result] == firsts(PICTURES + 2)
    assert len(set(map(tuple, result))) == PICTURES + 2, "each is drawn by itself"


def test_pictures_are_drawn_from_the_model() -> None:
    made = task(drawn=3)
    evaluated(made)
    known = torch.tensor(firsts(3))
    expected = draw(made.net, known, VALUES, torch.Generator().manual_seed(EVALUATION_SEED))
    assert pictures(made) == expected.tolist()


def test_whole_pictures_are_drawn_behind_a_zero_that_is_no_part_of_them() -> None:
    made = task(drawn=3)
    evaluated(made, data(whole=True))
    generator = torch.Generator().manual_seed(EVALUATION_SEED)
    expected = draw(made.net, torch.zeros(3, dtype=torch.long), VALUES + 1, generator)[:, 1:]
    result = pictures(made)
    assert result == expected.tolist()
    assert [len(one) for one in result] == [VALUES] * 3
    assert len({one[0] for one in result}) > 1, "the first value is drawn, too"


def test_the_same_weights_draw_the_same_pictures() -> None:
    output = []
    for seed, start in ((0, 1), (0, 2), (1, 1)):
        made = task(network(seed=seed), drawn=2)
        torch.manual_seed(start)
        evaluated(made)
        output.append(made.outputs())
    assert output[0] == output[1]
    assert output[0] != output[2]


def test_drawing_and_timing_leave_random_numbers_alone() -> None:
    later = []
    for made in (task(), task(drawn=2, timings={"one": Timing(values=2)})):
        torch.manual_seed(4)
        evaluated(made)
        later.append(torch.rand(3).tolist())
    assert later[0] == later[1]


def test_nothing_drawn() -> None:
    made = task()
    assert made.outputs() is None
    evaluated(made)
    assert made.outputs() is None


def test_another_test_replaces_the_pictures() -> None:
    made = task(drawn=2)
    evaluated(made)
    before = made.outputs()
    with torch.no_grad():
        made.net.vocabulary.proj.bias.add_(1.0)
    evaluated(made)
    assert made.outputs() != before
    assert len(pictures(made)) == 2


def test_one_rank_draws_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ranks score; the others would draw the same."""
    monkeypatch.setattr(pl.Trainer, "is_global_zero", property(lambda self: False))
    made = task(drawn=2, timings={"one": Timing(values=2)})
    result = evaluated(made)
    assert made.outputs() is None
    assert set(result) == set(evaluated(task()))


# --- speed ----------------------------------------------------------------------------------------------------------


def test_speeds_are_named_by_device_and_say_how_they_were_measured() -> None:
    timings = {"many": Timing(3), "anew": Timing(2, cached=False, values=4)}
    result = evaluated(task(timings=timings))
    drawn = {name for name in result if name.startswith("draw/")}
    assert drawn == {
        f"draw/{metric}_cpu_{name}" for metric in ("images_per_s", "seconds") for name in timings
    }
    for metric, unit in (("images_per_s", "pictures per second"), ("seconds", "seconds per picture")):
        many, anew = result[f"draw/{metric}_cpu_many"], result[f"draw/{metric}_cpu_anew"]
        assert many.unit == anew.unit == unit
        assert many.protocol == {"images": 3, "cached": True, "timed_values": 11, "extrapolated": False}
        assert anew.protocol == {"images": 2, "cached": False, "timed_values": 4, "extrapolated": True}
        assert many.value > 0
        assert many.validation is None
    for name in timings:
        rate, seconds = result[f"draw/images_per_s_cpu_{name}"], result[f"draw/seconds_cpu_{name}"]
        assert rate.value * seconds.value == pytest.approx(1.0)


@pytest.mark.parametrize("whole", [False, True])
def test_whole_pictures_are_timed(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def timed(net: Any, *settings: Any) -> Drawing:
        asked.append(settings)
        return Drawing(images=4, n_values=VALUES, measured=5, seconds=2.0)

    monkeypatch.setattr(under_test, "timed_drawing", timed)
    result = evaluated(task(timings={"x": Timing(4, False, 5)}), data(whole=whole))
    assert asked == [(4, VALUES + whole, False, 5)]
    seconds = 2.0 / 5 * (VALUES - 1)
    assert result["draw/images_per_s_cpu_x"].value == pytest.approx(4 / seconds)
    assert result["draw/seconds_cpu_x"].value == pytest.approx(seconds / 4)


# --- bad input ------------------------------------------------------------------------------------------------------


def test_what_cannot_be_drawn_or_timed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^drawn.*0, not -1$"):
        task(drawn=-1)
    for images, values in ((0, None), (1, 0)):
        with pytest.raises(ValueError, match=rf"images {images}.*{values}.*1"):
            Timing(images, values=values)


@pytest.mark.parametrize("whole", [False, True])
def test_a_timing_of_more_values_than_are_drawn_is_refused_before_training(whole: bool) -> None:
    drawn = VALUES - 1 + whole
    for run in (trainer(1, limit_val_batches=0).fit, trainer(1).test):
        with pytest.raises(
            UserError, match=rf"timing x: values {drawn + 1}.*model\.timings\.x\.values to {drawn} "
        ):
            run(task(timings={"x": Timing(values=drawn + 1)}), datamodule=data(whole=whole))
    trainer(1, limit_val_batches=0).fit(
        task(timings={"x": Timing(values=drawn)}), datamodule=data(whole=whole)
    )
