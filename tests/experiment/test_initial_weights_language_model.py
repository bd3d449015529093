"""Recipes of language models that begin with GPT-2's weights: alone, inside memories, and what does not fit."""

from pathlib import Path
from typing import Any

import pytest
import torch

from repro import recipe as recipes
from repro.data.prepare import prepare
from repro.errors import UserError
from repro.experiment.build import build
from repro.experiment.initial_weights import begin_from
from repro.experiment.parameters import count
from repro.experiment.run import run
from repro.models.pretrained import translate
from repro.recipe import load_recipe
from tests.official_weights import official, save, shrink
from tests.workshop import PROJECT, Workshop

PAPER = "infinity-former"
SHORT = "{class_path: repro.nn.FullAttention, init_args: {n_heads: 2}}"
MEMORY = (
    "{class_path: repro.nn.ContinuousMemory, init_args: {short_term: " + SHORT + ", block: 4, "
    "signal: {basis: 8, samples: 6, forget_after: 8}}}"
)
ADAM = "{class_path: torch.optim.AdamW, init_args: {lr: 1.0e-3}}"
RECIPE = f"""\
title: Small GPT-2
pretrained: gpt2
trainer: {{max_steps: 3, val_check_interval: 3, accelerator: cpu}}
model:
  class_path: repro.tasks.LanguageModel
  init_args:
    unit: symbol
    protocol: {{seq_len: 4, rows: 2, mem_len: 4}}
    optimizer: {ADAM}
    schedule: {{class_path: repro.tasks.LinearDecay, init_args: {{steps: 3}}}}
    net:
      class_path: repro.models.DecoderLM
      init_args:
        d_model: 16
        n_layers: 2
        init: repro.nn.init.normal_002
        positions:
          class_path: repro.nn.Added
          init_args: {{restart: true, table: {{class_path: repro.nn.LearnedPositions, init_args: {{max_length: 12}}}}}}
        vocabulary: {{class_path: repro.nn.Vocabulary, init_args: {{size: 13, scaled: false}}}}
        blocks:
          mixers: [{SHORT}]
          feed_forward:
            class_path: repro.nn.FeedForward
            init_args: {{d_ff: 64, activation: {{class_path: torch.nn.GELU, init_args: {{approximate: tanh}}}}}}
          sublayer: {{class_path: repro.nn.PreNorm, init_args: {{eps: 1.0e-5}}}}
          final_norm: {{class_path: torch.nn.LayerNorm, init_args: {{eps: 1.0e-5}}}}
data:
  class_path: repro.data.EchoData
  init_args: {{vocab_size: 13, batch_tokens: 4, seq_len: 4, lag: 3, train_tokens: 60, eval_tokens: 40}}
checkpoints: {{every_steps: 3}}
"""


@pytest.fixture(autouse=True)
def _weights(workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of tiny GPT-2 weights."""
    shrink(monkeypatch)
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "data"))
    prepare("gpt2", save(tmp_path / "given", official("gpt2")), report=lambda line: None)


def written(workshop: Workshop, *changes: tuple[str, str]) -> str:
    text = RECIPE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    workshop.recipe(text, "small", paper=PAPER)
    workshop.recipe("{}\n", "small", "cpu", PAPER)
    recipes.forget_files()
    return f"{PAPER}/small"


def begun(name: str) -> Any:
    recipe = load_recipe(name, "cpu")
    torch.manual_seed(0)
    task = build(recipe).task
    assert begin_from(recipe, 1, task, None)
    return task.module


def test_every_weight_is_gpt2s(workshop: Workshop) -> None:
    net, expected = begun(written(workshop)), translate("gpt2", official("gpt2"))
    assert net.state_dict().keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in net.state_dict().items())


def test_a_run_with_memories_trains_both_and_says_where_it_began(workshop: Workshop) -> None:
    rates = "{class_path: repro.tasks.RatesByName, init_args: {rates: {long: 0.1}, optimizer: " + ADAM + "}}"
    name = written(
        workshop, (f"mixers: [{SHORT}]", f"mixers: [{MEMORY}]"), (f"optimizer: {ADAM}", f"optimizer: {rates}")
    )
    before = begun(name).state_dict()
    assert float(before["stack.layers.0.mix.body.long.key.weight"].std()) == pytest.approx(0.02, rel=0.2)
    record = run(load_recipe(name, "cpu"), 1, "x")
    assert record.start_from is not None
    assert record.start_from["weights"] == "gpt2"
    assert record.curves["train/lr"][-1][1] < 1e-3, "the rate of GPT-2's weights, which are the first group"
    after = torch.load(load_recipe(name, "cpu").run_dir(1) / "model.pt", weights_only=True)["state_dict"]
    moved = {n: float((after[f"net.{n}"] - value).abs().max()) for n, value in before.items()}
    ours = max(size for n, size in moved.items() if ".long." in n)
    theirs = max(size for n, size in moved.items() if ".long." not in n)
    assert 0 < theirs < 3.1e-3
    assert ours > 0.05


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_length: 12", "max_length: 16", r"\[12, 16\] in the weights and \[16, 16\]"),
        ("d_model: 16", "d_model: 8", r"\[12, 16\] in the weights and \[12, 8\]"),
        ("n_heads: 2", "n_heads: 4", "n_heads 4"),
        ("scaled: false", "scaled: true", "scaled: false"),
        (", activation: {class_path: torch.nn.GELU, init_args: {approximate: tanh}}", "", "not ReLU"),
        (SHORT, "{class_path: repro.nn.LinearAttention, init_args: {n_heads: 2}}", "not LinearAttention"),
        ("pretrained: gpt2", "pretrained: vit-base", "no store vit-base/weights"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line(workshop: Workshop, old: str, new: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        begun(written(workshop, (old, new)))
    assert "\n" not in str(caught.value)


def test_a_memory_that_forgets_sooner_than_a_block_is_refused(workshop: Workshop) -> None:
    name = written(
        workshop, (f"mixers: [{SHORT}]", f"mixers: [{MEMORY.replace('forget_after: 8', 'forget_after: 3')}]")
    )
    with pytest.raises(UserError, match="forget_after"):
        build(load_recipe(name, "cpu"))


@pytest.mark.parametrize("text", ["wikitext103", "pg19"])
def test_the_recipe_of_the_paper_is_gpt2_small_with_a_memory_in_each_layer(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    totals = [
        count(load_recipe(f"{PAPER}/gpt2@{row}-{text}"))["total"]
        for row in ("gpt2", "infinity-former", "infinity-former-sm")
    ]
    memory = (
        6 * 768**2 + 768 + 2 * 512
    )  # three projections, a convolution of three tokens, two rows of scores
    assert totals == [124_439_808, *[124_439_808 + 12 * memory] * 2]
