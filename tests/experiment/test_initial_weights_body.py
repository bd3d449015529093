"""Bodies that a run begins with: another run's, pretrained ones, or only their statistics; and every refusal."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from repro import recipe as recipes
from repro.data.prepare import prepare
from repro.errors import UserError
from repro.experiment.build import build
from repro.experiment.initial_weights import begin_from
from repro.experiment.run import run
from repro.experiment.session import MODEL_FILE
from repro.models.pretrained import TOKENS, statistics, translate
from repro.recipe import load_recipe
from repro.record import RunRecord
from repro.training.checkpoints import read
from tests.official_weights import official, save, shrink
from tests.workshop import PAPER, RECIPE, TINY, Workshop, call

FROZEN = "frozen-pretrained-transformer"
CLASSIFIER = """\
title: Bits
trainer: {max_steps: 2, val_check_interval: 2, accelerator: cpu}
model:
  class_path: repro.tasks.Classification
  init_args:
    optimizer: {class_path: torch.optim.Adam, init_args: {lr: 0.01}}
    schedule: repro.tasks.Constant
    net:
      class_path: repro.models.Classifier
      init_args:
        input: {class_path: repro.nn.VectorEmbedding, init_args: {size: 1}}
        body: {class_path: repro.models.Gpt2, init_args: {d_model: 16, n_layers: 2, n_heads: 2, max_length: 12}}
        n_classes: 2
        n_read: 2
        trained: [input, output, norms, positions]
data:
  class_path: repro.data.BitXorData
  init_args: {bits: 2, batch_size: 4}
checkpoints: {every_steps: 1}
"""
Weights = dict[str, Tensor]


def bits(workshop: Workshop, header: str = "", name: str = "bits", old: str = "", new: str = "") -> str:
    """Writes a recipe of a tiny classifier of bits, a part of it replaced; returns its name."""
    assert not old or CLASSIFIER.count(old) == 1
    workshop.recipe(header + (CLASSIFIER.replace(old, new) if old else CLASSIFIER), name, paper=FROZEN)
    workshop.recipe("{}\n", name, "cpu", FROZEN)
    recipes.forget_files()
    return f"{FROZEN}/{name}"


@pytest.fixture
def gpt2(workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """A store of tiny GPT-2 weights in a data folder of the test's own; what a body should get of them."""
    shrink(monkeypatch)
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "data"))
    prepare("gpt2", save(tmp_path / "given", official("gpt2")), report=lambda line: None)
    result = translate("gpt2", official("gpt2"))
    del result[TOKENS]
    return result


def begun(name: str, seed: int = 1) -> tuple[Any, dict[str, str] | None]:
    """A classifier at its beginning, and what its record will say of that."""
    recipe = load_recipe(name, "cpu")
    torch.manual_seed(0)
    task = build(recipe).task
    origin = begin_from(recipe, seed, task, None)
    return task.net, origin


def same(net: Any, weights: Weights, but: str = " ") -> list[str]:
    """Names of a body's tensors that are not these weights."""
    state = net.body.state_dict()
    assert state.keys() == weights.keys()
    return [
        name for name, value in weights.items() if but not in name and not torch.equal(state[name], value)
    ]


def test_a_run_begins_with_pretrained_weights(workshop: Workshop, gpt2: Weights) -> None:
    name = bits(workshop, "pretrained: gpt2\n")
    plain, _ = begun(bits(workshop, name="plain"))
    net, origin = begun(name)
    assert same(net, gpt2) == []
    assert origin is not None
    assert len(origin["sha256"]) == 64
    assert origin == {"weights": "gpt2", "sha256": origin["sha256"], "revision": "unpinned"}
    trained = {n for n, p in net.named_parameters() if p.requires_grad}
    assert trained == {n for n, p in plain.named_parameters() if p.requires_grad}
    assert 0 < len(trained) < len(list(net.parameters()))
    for part in ("input", "head"):
        ours, fresh = (getattr(each, part).state_dict() for each in (net, plain))
        assert all(torch.equal(ours[key], value) for key, value in fresh.items())


def test_a_whole_run_keeps_what_is_frozen_and_says_where_it_began(workshop: Workshop, gpt2: Weights) -> None:
    name = bits(workshop, "pretrained: gpt2\n")
    record = run(load_recipe(name, "cpu"), 1, "x")
    assert record.start_from == begun(name)[1]
    assert RunRecord.from_json(record.to_json()).start_from == record.start_from
    loaded = read(load_recipe(name, "cpu").run_dir(1) / MODEL_FILE)
    assert loaded["repro"]["origin"] == record.start_from
    after = {k.removeprefix("net.body."): v for k, v in loaded["state_dict"].items() if "body" in k}
    moved = {key for key, value in gpt2.items() if not torch.equal(after[key], value)}
    assert moved == {key for key in gpt2 if "norm" in key or "positions" in key}


def test_only_the_statistics_of_pretrained_weights(workshop: Workshop, gpt2: Weights) -> None:
    name = bits(workshop, "pretrained: gpt2\nstart_with: statistics\n")
    net, _ = begun(name, seed=3)
    assert same(net, statistics(gpt2, 3)) == []
    assert len(same(net, gpt2)) == len(gpt2)
    assert len(same(begun(name, seed=4)[0], statistics(gpt2, 3))) == len(gpt2)


def test_a_vision_transformer_keeps_its_positions(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink(monkeypatch)
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "data"))
    prepare("vit-base", save(tmp_path / "given", official("vit-base")), report=lambda line: None)
    body = "repro.models.VisionTransformer"
    net, origin = begun(bits(workshop, "pretrained: vit-base\n", old="repro.models.Gpt2", new=body))
    place = "positions.table.table.weight"
    own = torch.zeros(12, 16)
    assert same(net, translate("vit", official("vit-base")) | {place: own}) == []
    assert origin is not None
    assert origin["weights"] == "vit-base"


def test_what_a_run_begins_with_is_part_of_what_it_is(workshop: Workshop) -> None:
    plain = load_recipe(bits(workshop, name="plain"), "cpu")
    whole = load_recipe(bits(workshop, "pretrained: gpt2\n", "whole"), "cpu")
    output = load_recipe(bits(workshop, "pretrained: gpt2\nstart_with: body\n", "said"), "cpu")
    drawn = load_recipe(bits(workshop, "pretrained: gpt2\nstart_with: statistics\n", "drawn"), "cpu")
    bit = load_recipe(bits(workshop, f"start_from: {FROZEN}/plain\nstart_with: body\n", "bit"), "cpu")
    assert len({r.hash8 for r in (plain, whole, drawn, bit)}) == 4
    assert output.hash8 == whole.hash8, "a default that is written out changes nothing"
    assert whole.signature["pretrained"] == "gpt2"
    assert bit.signature["start_with"] == "body"
    assert not {"pretrained", "start_from", "start_with"} & plain.signature.keys()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            "pretrained: gpt2\nstart_with: weights\n",
            "start_with.*'weights'.*pretrained.*body",
        ),
        ("pretrained: gpt2\nstart_with: everything\n", "'everything'"),
        (f"start_from: {TINY}\nstart_with: statistics\n", "'statistics'"),
        ("start_with: body\n", "'body'.*start_from.*weights, everything, body.*pretrained"),
        (f"start_from: {TINY}\npretrained: gpt2\n", "start_from and pretrained"),
    ],
)
def test_headers_that_contradict_each_other_are_refused(
    workshop: Workshop, header: str, message: str
) -> None:
    name = bits(workshop, header)
    with pytest.raises(UserError, match=message):
        _ = load_recipe(name, "cpu").hash8
    assert call("run", name, "--scale", "cpu").code == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "max_length: 12",
            "max_length: 9",
            r"positions\S+.*\[12, 16\].*\[9, 16\]",
        ),
        ("n_layers: 2", "n_layers: 3", "2 layers.*3"),
        ("n_heads: 2", "n_heads: 4", "2 heads.*n_heads 4"),
        ("d_model: 16", "d_model: 8", r"\[12, 16\].*\[12, 8\]"),
        ("repro.models.Gpt2", "repro.models.Bert", "Gpt2.*Bert"),
    ],
)
def test_a_body_that_the_weights_do_not_fit_is_refused(
    workshop: Workshop, gpt2: Weights, old: str, new: str, message: str
) -> None:
    name = bits(workshop, "pretrained: gpt2\n", old=old, new=new)
    with pytest.raises(UserError, match=rf"{name}.*gpt2:.*{message}"):
        begun(name)


def test_fewer_layers_than_the_file_has(workshop: Workshop, gpt2: Weights) -> None:
    net, _ = begun(bits(workshop, "pretrained: gpt2\n", old="n_layers: 2", new="n_layers: 1"))
    assert same(net, {key: value for key, value in gpt2.items() if "layers.1" not in key}) == []


def test_weights_that_are_not_here_stop_a_run_before_it_writes(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "empty"))
    name = bits(workshop, "pretrained: gpt2\n")
    call("run", name, "--scale", "cpu").refused("`repro data prepare gpt2`")
    call("run", bits(workshop, "pretrained: gtp2\n"), "--scale", "cpu").refused("'gtp2'; nearest: gpt2")
    call("run", bits(workshop, "pretrained: [gpt2]\n"), "--scale", "cpu").refused("['gpt2']")
    call("run", bits(workshop, "pretrained: multi30k\n"), "--scale", "cpu").refused("multi30k")
    workshop.recipe(RECIPE + "pretrained: gpt2\n", name="words")
    workshop.recipe("{}\n", "words", "cpu")
    recipes.forget_files()
    monkeypatch.setenv("REPRO_DATA", str(workshop.data))
    call("run", f"{PAPER}/words", "--scale", "cpu").refused("EncoderDecoder")
    assert not list(workshop.runs.rglob("*.*"))


def test_the_body_of_another_run(workshop: Workshop) -> None:
    first = load_recipe(bits(workshop, name="first"), "cpu")
    before = run(first, 1, "x")
    header = f"start_from: {FROZEN}/first\nstart_with: body\n"
    wider = {"old": "n_read: 2", "new": "n_read: 1\n        per_token: 2"}  # another output layer
    name = bits(workshop, header, "second", **wider)
    net, origin = begun(name)
    loaded = read(first.run_dir(1) / MODEL_FILE)["state_dict"]
    body = {key.removeprefix("net.body."): value for key, value in loaded.items() if ".body." in key[:9]}
    assert same(net, body) == []
    assert origin == {"run_id": before.run_id, "checkpoint_sha256": before.checkpoint_sha256}
    assert net.head.proj.weight.shape == (4, 16)
    assert not torch.equal(net.input.proj.weight, loaded["net.input.proj.weight"])
    assert not net.body.stack.layers[0]["mix"].body.qkv.weight.requires_grad
    with pytest.raises(UserError, match="cannot start from"):  # whole, it does not fit
        begun(bits(workshop, f"start_from: {FROZEN}/first\n", "third", **wider))


def test_a_body_of_another_length_is_refused(workshop: Workshop) -> None:
    run(load_recipe(bits(workshop, name="first"), "cpu"), 1, "x")
    header = f"start_from: {FROZEN}/first\nstart_with: body\n"
    name = bits(workshop, header, "second", old="max_length: 12", new="max_length: 30")
    output = r"positions\.table\.table\.weight.*\[12, 16\].*\[30, 16\]"
    with pytest.raises(UserError, match=output):
        begun(name)


def test_a_run_without_a_body_has_none_to_give(workshop: Workshop) -> None:
    run(load_recipe(TINY, "cpu"), 1, "x")
    with pytest.raises(UserError, match="that run's network has no body"):
        begun(bits(workshop, f"start_from: {TINY}\nstart_with: body\n"))


def test_another_vocabulary_does_not_matter_to_a_body(workshop: Workshop) -> None:
    run(load_recipe(bits(workshop, name="first"), "cpu"), 1, "x")
    path = load_recipe(f"{FROZEN}/first", "cpu").run_dir(1) / MODEL_FILE
    loaded = read(path)
    loaded["repro"]["vocabulary_sha256"] = "ab" * 32
    torch.save(loaded, path)
    for more, fits in (("start_with: body\n", True), ("", False)):
        recipe = load_recipe(bits(workshop, f"start_from: {FROZEN}/first\n{more}", "second"), "cpu")
        task = build(recipe).task
        if fits:
            assert begin_from(recipe, 1, task, "cd" * 32) is not None
            continue
        with pytest.raises(UserError, match="trained with another vocabulary"):
            begin_from(recipe, 1, task, "cd" * 32)
