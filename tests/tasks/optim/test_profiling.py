"""Weighted shortcuts begin once, before the first update of a new run, on the whole first batch, on all ranks alike."""

import json
import multiprocessing
import os
import random
import shutil
import socket
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch

from repro.data import TranslationData
from repro.errors import ReproError
from repro.experiment.run import run
from repro.models import EncoderDecoder
from repro.nn import (
    Blocks,
    CrossAttention,
    FeedForward,
    FullAttention,
    PostNorm,
    Vocabulary,
    WeightedPostNorm,
)
from repro.nn.init import glorot_fused
from repro.nn.layers.shortcut import begin_by_variance, beginnings
from repro.recipe import load_recipe
from repro.tasks import Constant, Translation
from repro.tasks.optim import profiling
from repro.tasks.optim.profiling import first_batch, profile, profiled
from repro.training.checkpoints import read
from tests.workshop import RECIPE, STORE, Workshop

PAPER, NAME = "attention-is-all-you-need", "weighted"
WEIGHTED = RECIPE.replace("repro.nn.PostNorm", "repro.nn.WeightedPostNorm")
SETTINGS: dict[str, Any] = {
    "accelerator": "cpu", "max_steps": 2, "logger": False, "enable_checkpointing": False,
    "enable_progress_bar": False, "enable_model_summary": False, "limit_val_batches": 0, "num_sanity_val_steps": 0,
    "use_distributed_sampler": False,
}  # fmt: skip


def task(sublayer: Any = WeightedPostNorm, seed: int = 0, decoder: Any = None) -> Translation:
    torch.manual_seed(seed)
    blocks = Blocks(
        [partial(FullAttention, n_heads=2, dropout=0.1)],
        partial(FeedForward, d_ff=16),
        partial(sublayer, dropout=0.1),
        cross=partial(CrossAttention, n_heads=2),
    )
    other = None if decoder is None else replace(blocks, sublayer=partial(decoder, dropout=0.1))
    vocabulary = partial(Vocabulary, size=300)
    net = EncoderDecoder(8, 2, 2, vocabulary, blocks, init=glorot_fused, decoder_blocks=other)
    return Translation(net, partial(torch.optim.SGD, lr=0.01), Constant)


def data(batch_tokens: int = 400) -> TranslationData:
    return TranslationData(STORE, 300, batch_tokens, max_length=60)


class AtStart(pl.Callback):
    """Keeps the random states of this process behind the module's own start, and the weights."""

    def on_train_batch_start(self, trainer: Any, task: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == 0 and not hasattr(self, "batch"):
            self.batch = batch
            self.drawn = [random.random(), float(np.random.rand()), float(torch.rand(()))]  # noqa: NPY002
            self.omegas = beginnings(task.net)


def fit(module: Translation, **more: Any) -> AtStart:
    seen = AtStart()
    pl.seed_everything(5, verbose=False)
    pl.Trainer(**SETTINGS | {"callbacks": [seen]} | more).fit(module, datamodule=data())
    return seen


@pytest.fixture(autouse=True)
def _data(small_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_DATA", str(small_store))


def test_they_begin_on_the_whole_first_batch_and_random_numbers_stay() -> None:
    module, plain = task(), task(PostNorm)
    seen, other = fit(module), fit(plain)
    # the same, by hand: the same weights, the same batch, the same dropout
    net, batch = task().net, next(iter(data().train_dataloader()))
    assert torch.equal(seen.batch.indices, batch.indices)
    assert torch.equal(other.batch.indices, batch.indices)
    pl.seed_everything(5, verbose=False)
    expected = begin_by_variance(
        net, lambda: net(batch.source, batch.source_lengths, batch.target_in, batch.target_lengths)
    )
    for stack, values in expected.items():  # kept in float32
        assert seen.omegas[stack] == pytest.approx(values, rel=1e-6)
    assert seen.drawn == other.drawn, "as if nothing had been drawn"
    assert [len(values) for values in expected.values()] == [4, 6]
    assert len({value for values in expected.values() for value in values}) == 9, "both begin with 1"


def test_micro_batches_change_nothing() -> None:
    assert fit(task(), accumulate_grad_batches=2).omegas == fit(task()).omegas
    assert fit(task(seed=1)).omegas != fit(task()).omegas


def test_the_first_batch_of_a_datamodule_is_whole_and_its_position_stays() -> None:
    module = data()

    class Share:
        global_rank, world_size, accumulate_grad_batches, current_epoch = 1, 2, 2, 0

    module.trainer = Share()  # type: ignore[assignment]
    loader = module.train_dataloader()
    mine = next(iter(loader))
    whole = first_batch(module)
    assert len(whole.indices) > 3 * len(mine.indices)
    assert set(mine.indices.tolist()) < set(whole.indices.tolist())
    assert module.state_dict() == {"train": {"epoch": 0, "batch": 1, "parts": 2}}
    assert isinstance(module.trainer, Share)


def test_shortcuts_that_are_given_what_they_begin_with_are_left_alone() -> None:
    given, other = (partial(WeightedPostNorm, omega=value) for value in (2.5, 3.5))
    seen = fit(task(given, decoder=other))
    assert seen.omegas == {"encoder": [2.5] * 4, "decoder": [3.5] * 6}


def test_some_given_and_some_not_is_refused() -> None:
    with pytest.raises(ReproError, match="give all or none"):
        fit(task(WeightedPostNorm, decoder=partial(WeightedPostNorm, omega=2.5)))


def test_a_network_that_has_begun_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    module = task()
    fit(module)
    trained = module.net.state_dict()
    other = task(seed=1)
    other.net.load_state_dict(trained)
    monkeypatch.setattr(profiling, "_measured", lambda *_: pytest.fail("measured again"))
    profile(other, other.net)
    assert beginnings(other.net) == beginnings(module.net)
    profile(plain := task(PostNorm), plain.net)


def test_trouble_is_told_on_every_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: Any) -> Any:
        raise ValueError("the variance is nan")

    monkeypatch.setattr(profiling, "_measured", wrong)
    with pytest.raises(ReproError, match="before its first update: the variance is nan"):
        profile(fresh := task(), fresh.net)


def test_what_they_began_with_is_recorded() -> None:
    module = task()
    omegas = fit(module).omegas
    result = {m.name: m for m in profiled(module.net)}
    assert result.keys() == {f"profile/omega_{stack}{what}" for stack in omegas for what in ("", "_mean")}
    for stack, values in omegas.items():
        last, mean = result[f"profile/omega_{stack}"], result[f"profile/omega_{stack}_mean"]
        assert (last.value, last.count) == (values[-1], len(values))
        assert mean.value == pytest.approx(sum(values) / len(values))
        assert last.protocol["omegas"] == pytest.approx(values, rel=1e-5)
    assert profiled(task(PostNorm).net) == []


def rank_main(rank: int, world: int, port: int, out: str) -> None:
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCAL_RANK": str(rank), "NODE_RANK": "0",
        "WORLD_SIZE": str(world), "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    module = task()
    seen = fit(module, devices=world, strategy="ddp")
    Path(out, f"{rank}.json").write_text(json.dumps([seen.omegas, len(seen.batch.indices)]))
    torch.distributed.barrier()
    os._exit(0)


@pytest.mark.ddp
def test_two_ranks_begin_with_what_one_begins_with(tmp_path: Path) -> None:
    alone = fit(task())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=rank_main, args=(r, 2, port, str(tmp_path))) for r in (0, 1)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(60)
        process.kill()
    (first, rows), (second, others) = (json.loads((tmp_path / f"{r}.json").read_text()) for r in (0, 1))
    assert first == second == alone.omegas
    assert rows + others == len(alone.batch.indices)


def test_a_resumed_run_ends_with_the_same_weights_and_knows_what_it_began_with(workshop: Workshop) -> None:
    workshop.recipe(WEIGHTED, NAME, paper=PAPER)
    workshop.recipe("set: {trainer.max_steps: 4, checkpoints.every_steps: 2}", NAME, "cpu", PAPER)
    recipe = load_recipe(f"{PAPER}/{NAME}", "cpu")
    whole = run(recipe, 1, "test")
    folder = recipe.run_dir(1)
    weights = read(folder / "model.pt")["state_dict"]
    shutil.rmtree(workshop.results / "runs")  # a record of the same second would be in the way
    (folder / "record.json").unlink()
    (folder / "model.pt").unlink()
    for path in (folder / "checkpoints").glob("step-00000004*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    resumed = run(recipe, 1, "test")
    again = read(folder / "model.pt")["state_dict"]
    assert (folder / "events.jsonl").read_text().count('"resumed_from": 2') == 1
    assert weights.keys() == again.keys()
    for name, value in weights.items():
        assert torch.equal(value, again[name]), name
    values = [
        {m.name: (m.value, m.protocol) for m in made.metrics if m.name.startswith("profile/")}
        for made in (whole, resumed)
    ]
    assert len(values[0]) == 4
    assert values[0] == values[1]
    assert weights["net.encoder.layers.0.feed_forward.shortcut.begun"] > 1.0
