"""Profiles of continuous memories: which example they are of, and what a record keeps."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from repro.experiment import recording
from repro.experiment.build import build
from repro.experiment.pictures.memory_pictures import (
    PARTS,
    load_captures,
    profiles,
    read_example,
)
from repro.experiment.run import run
from repro.nn import ContinuousMemory, RelativeAttention
from repro.nn.attention.continuous import ContinuousSignal
from repro.nn.attention.continuous.capture import MemoryCapture
from repro.nn.attention.continuous.long_term import Read
from repro.recipe import load_recipe
from repro.record import RunRecord
from tests.workshop import STREAM_RECIPE, TALK, Workshop

SORTING = """\
title: Sorting
trainer: {max_steps: 1, accelerator: cpu}
model:
  class_path: repro.tasks.SequenceModel
  init_args:
    segment: 8
    optimizer: {class_path: torch.optim.Adam, init_args: {lr: 0.01}}
    schedule: repro.tasks.Constant
    net:
      class_path: repro.models.DecoderLM
      init_args:
        d_model: 8
        n_layers: 2
        positions: repro.nn.NoPositions
        vocabulary: {class_path: repro.nn.Vocabulary, init_args: {size: 6}}
        blocks:
          mixers:
            - class_path: repro.nn.ContinuousMemory
              init_args:
                block: 4
                short_term: {class_path: repro.nn.RelativeAttention, init_args: {n_heads: 2, mem_len: 4}}
                signal: {basis: 8, widths: [0.05, 0.1], samples: 6, ridge: 0.3}
          feed_forward: {class_path: repro.nn.FeedForward, init_args: {d_ff: 16}}
          sublayer: {class_path: repro.nn.PostNorm, init_args: {dropout: 0.1}}
data:
  class_path: repro.data.SortingData
  init_args: {batch_size: 4, length: LENGTH, symbols: 4, train_examples: 8, eval_examples: 6, eval_batch_size: 3}
"""


_SHORT = "{class_path: repro.nn.RelativeAttention, init_args: {n_heads: 2, mem_len: 4, dropout: 0.1}}"
_SIGNAL = "{basis: 8, widths: [0.05, 0.1], samples: 6, bins: 7, ridge: 0.3}"
TEXT = STREAM_RECIPE.replace(
    _SHORT,
    f"{{class_path: repro.nn.ContinuousMemory, init_args: {{block: 4, short_term: {_SHORT}, signal: {_SIGNAL}}}}}",
)
NAME = "infinity-former/one"


def parts_of(workshop: Workshop, text: str) -> Any:
    workshop.recipe(text, "one", paper="infinity-former")
    torch.manual_seed(0)
    return build(load_recipe(NAME, "paper"))


def capture(bins: int | None = None, steps: int = 3, heads: int = 2, shift: float = 0.0) -> MemoryCapture:
    """A memory of three blocks of four tokens that ``steps`` queries read; attention lies around the middle."""
    signal = ContinuousSignal(basis=8, widths=(0.05, 0.1), samples=6, bins=bins)
    short = lambda d: RelativeAttention(d, heads, mem_len=4)  # noqa: E731
    made = MemoryCapture(ContinuousMemory(8, short, 4, signal))
    for empty in (True, False, False):
        made.read(Read(torch.zeros(1), torch.full((1, heads, 2), 0.9), torch.full((1, heads, 2), 0.01)))
        made.update(empty, None if bins is None else torch.tensor([0, 0, 1, 2, 2, 2]))
    mean = torch.full((1, heads, steps), 0.5 + shift)
    made.read(Read(torch.zeros(1), mean, torch.full((1, heads, steps), 0.02)))
    return made


def test_the_first_test_example_is_read_as_it_is_scored(workshop: Workshop) -> None:
    made = parts_of(workshop, SORTING.replace("LENGTH", "28"))
    made.data.setup("test")
    net = made.task.net
    captures = read_example(made.task, made.data)
    assert made.task.net is net
    assert made.task.training
    assert list(captures) == [1, 2]
    first = captures[1]
    assert first.mean is not None
    assert first.mean.shape == (2, 4), "of the last piece, which has a block"
    examples = made.data.examples("test", torch.arange(1).numpy(), None)
    with torch.no_grad():
        made.task.net.eval()
        state = made.task.net.init_state(1)
        for piece in examples.inputs.split(8, dim=1):
            state = made.task.net(piece, state).state
    result = [tree for tree in _dicts(state) if "coefficients" in tree]
    assert [int(one["updates"]) for one in result] == [6, 6]
    assert first.tokens is not None
    assert int(first.tokens.max()) == 23, "the last of six blocks"
    lone = made.task.net.stack.layers[0].mix.body.long
    read = []
    lone.register_forward_hook(lambda _, __, out: read.append(out.mean))
    with torch.no_grad():
        evaluation = made.task.tests()[0]
        batch = next(iter(made.data.evaluation_loader(evaluation)))
        made.task.score(batch, evaluation, made.task.metrics(evaluation))
    torch.testing.assert_close(first.mean, read[-1][0], msg="the first row of the first batch")


def _dicts(tree: Any) -> list[dict[str, Any]]:
    if isinstance(tree, dict):
        return [tree, *(one for value in tree.values() for one in _dicts(value))]
    return [one for value in tree for one in _dicts(value)] if isinstance(tree, list | tuple) else []


def test_a_memory_that_nobody_read_is_not_shown(workshop: Workshop) -> None:
    made = parts_of(workshop, SORTING.replace("LENGTH", "3"))
    assert read_example(made.task, made.data) == {}
    plain = parts_of(workshop, STREAM_RECIPE)
    assert read_example(plain.task, plain.data) == {}


def test_a_record_says_how_its_memories_were_read(workshop: Workshop) -> None:
    parts_of(workshop, TEXT)
    made = run(load_recipe(NAME, "paper"), 1, "x")
    (path,) = (workshop.results / "runs" / NAME).glob("*.json")
    assert RunRecord.from_json(Path(path).read_text()).profiles == made.profiles
    whats = ("density of attention", "draws by bin", "number of the token", "share of attention by bin")
    assert sorted(made.profiles) == [f"{what}/layer {n}" for what in whats for n in (1, 2)]
    assert max(made.profiles["number of the token/layer 1"]) < 48, "sixteen segments of three tokens"
    assert sum(made.profiles["draws by bin/layer 2"]) == 6, "samples"


def test_a_record_has_the_draws_of_an_evaluation(workshop: Workshop) -> None:
    parts_of(workshop, SORTING.replace("LENGTH", "28").replace("samples: 6", "samples: 6, bins: 7"))
    made = run(load_recipe(NAME, "paper"), 1, "x")
    assert profiles(load_captures(NAME, "paper", 1)[1]) == made.profiles, "read by a model without a trainer"


def test_a_conversation_is_read_without_replies(workshop: Workshop) -> None:
    made = run(load_recipe(workshop.talk(), "cpu"), 1, "x")
    whats = ("density of attention", "draws by bin", "number of the token", "share of attention by bin")
    assert sorted(made.profiles) == [f"{what}/layer {n}" for what in whats for n in (1, 2)]
    assert list(load_captures(TALK, "cpu", 1)[1]) == [1, 2], "of a run that is loaded, so without a Trainer"


def test_no_run_is_lost_for_a_profile(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(recording, "read_example", fail)
    current: Any = SimpleNamespace(parts=SimpleNamespace(task=None, data=None))
    assert recording.profiles_of(current) == {}
    assert "out of memory" in capsys.readouterr().err


def test_profiles_are_of_four_layers_and_finite() -> None:
    result = profiles({n: capture(bins=3) for n in range(1, 9)})
    layers = {name.rpartition("/")[2] for name in result}
    assert layers == {"layer 1", "layer 3", "layer 6", "layer 8"}
    density = result["density of attention/layer 1"]
    assert len(density) == PARTS
    assert density.index(max(density)) in (PARTS // 2 - 1, PARTS // 2)
    assert sum(density) / PARTS == pytest.approx(1.0, abs=0.01)
    assert result["draws by bin/layer 1"] == [2, 1, 3]
    share = result["share of attention by bin/layer 1"]
    assert sum(share) == pytest.approx(1.0, abs=1e-3)
    assert share[2] > 0.9, "of what was read before the last update, not since"
    tokens = result["number of the token/layer 1"]
    assert (tokens[-1], tokens == sorted(tokens)) == (11, True)
    assert "density of attention/layer 1" not in profiles({1: capture(shift=math.nan)})
