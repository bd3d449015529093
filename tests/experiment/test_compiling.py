"""Compiled training computes what eager training does, as one graph for each stack; what cannot be is refused."""

import copy
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.errors import UserError
from repro.experiment import compiling
from repro.experiment.build import build
from repro.experiment.compiling import EAGER, TRACED, compile_training, eager_layers, require_compilable
from repro.experiment.costs.batches import BatchSize, batches
from repro.nn import LocalAttention, ResidualStack, Vocabulary
from repro.recipe import Recipe, load_recipe
from repro.tasks.costs.operations import OperationCounter
from tests.experiment.meta_recipes import CPU, one_of_each, small, training_batches
from tests.experiment.test_meta import CONFIGS, EVERY, built
from tests.workshop import PROJECT

# One recipe for each mixer that is traced, for encoder-decoders, for blocks that are not causal and for few targets.
FEW = {
    "full": ("transformer-xl/vaswani", "cpu"),
    "cross": ("attention-is-all-you-need/base", "cpu"),
    "relative": ("transformer-xl/ablation@xl", "cpu"),
    "infused": ("shortformer/pia-caching", "small"),
    "linear": ("linear-transformer/copy@linear", "paper"),
    "linear, not causal": ("linear-transformer/wsj@linear", "paper"),
}
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("REPRO_CONFIGS", str(CONFIGS))
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "none"))  # nothing is read
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Graphs:
    """A backend that runs what it is given as it is, and counts."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, graph: torch.fx.GraphModule, _: list[Tensor]) -> Any:
        self.count += 1
        return graph.forward


def steps(recipe: Recipe, backend: Graphs | None) -> tuple[list[float], dict[str, Tensor]]:
    """Losses of some steps, streams with their memory, and gradients added up over them."""
    torch.manual_seed(0)
    parts = built(recipe)
    task: Any = parts.task
    if backend is not None:
        compile_training(task, backend, fullgraph=True)
    given = training_batches(parts, recipe)
    losses = []
    torch.manual_seed(1)  # of dropout
    for number, batch in enumerate([*given, *given[1:] * 2]):
        loss = task.training_step(batch, number)["loss"]
        loss.backward()
        losses.append(float(loss.detach()))
    return losses, {name: p.grad for name, p in task.named_parameters() if p.grad is not None}


def require_parity(recipe: Recipe) -> None:
    backend = Graphs()
    (eager, expected), (compiled, got) = steps(recipe, None), steps(recipe, backend)
    trained: Any = built(recipe).task  # a task may have further networks to compare with
    modules = [type(module) for module in trained.module.modules()]
    assert backend.count >= modules.count(ResidualStack) + modules.count(Vocabulary)
    assert compiled == pytest.approx(eager, rel=TOLERANCE)
    assert got.keys() == expected.keys()
    for name, grad in got.items():
        worst = float((grad - expected[name]).abs().max())
        assert worst <= TOLERANCE * max(1.0, float(expected[name].abs().max())), name


@pytest.mark.parametrize("name", FEW)
def test_compiled_training_equals_eager_training(name: str, sizes: Path) -> None:
    require_parity(small(*FEW[name], sizes))


@pytest.mark.parametrize(
    "name",
    [name if name == "cross" else pytest.param(name, marks=pytest.mark.matrix) for name in FEW],
)
def test_batches_of_other_sizes_need_no_further_graphs(name: str, sizes: Path) -> None:
    recipe, backend = small(*FEW[name], sizes), Graphs()
    parts = built(recipe)
    task: Any = parts.task
    compile_training(task, backend, fullgraph=True)
    generator, counts = random.Random(0), []
    for number in range(30):
        rows, steps, source = (generator.randint(3, 24) for _ in range(3))
        for batch in batches(parts.data, recipe.config["data"], BatchSize(rows, steps, source), CPU):
            task.training_step(batch, number)["loss"].backward()
        counts.append(backend.count)
    assert counts[-1] <= counts[5] + 1, counts  # sizes that happen to be equal are a graph of their own


@torch._dynamo.config.patch(recompile_limit=1, automatic_dynamic_shapes=False)
def test_too_many_shapes_end_compiling_and_are_a_deviation(sizes: Path) -> None:
    recipe = small(*FEW["full"], sizes)
    parts = built(recipe)
    task: Any = parts.task
    compile_training(task, Graphs())
    assert eager_layers(task) == []
    for length in (4, 5, 6):
        for batch in batches(parts.data, recipe.config["data"], BatchSize(3, length), CPU):
            assert task.training_step(batch, 0)["loss"].isfinite()
    assert "compile: ResidualStack.forward met too many shapes and ended eagerly" in eager_layers(task)


def test_local_attention(sizes: Path) -> None:
    """No recipe has it in a plain stack: the Transformer over text, with chunks."""
    recipe = small(*FEW["full"], sizes)
    mixer = {"class_path": "repro.nn.LocalAttention", "init_args": {"n_heads": 2, "chunk": 3, "dropout": 0.1}}
    recipe.config["model"]["init_args"]["net"]["init_args"]["blocks"]["mixers"] = [mixer]
    assert any(isinstance(module, LocalAttention) for module in built(recipe).task.modules())
    require_parity(recipe)


def test_losses_in_chunks(sizes: Path) -> None:
    recipe = small(*FEW["full"], sizes)
    recipe.config["model"]["init_args"]["net"]["init_args"]["vocabulary"]["init_args"]["loss_chunk"] = 5
    require_parity(recipe)


def refusal(recipe: Recipe) -> str | None:
    try:
        require_compilable(built(recipe).task)
    except ValueError as refused:
        return str(refused)
    return None


@cache
def shapes() -> list[tuple[str, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CONFIGS", str(CONFIGS))
        return [alike[0] for alike in one_of_each(EVERY)]


@pytest.mark.matrix
@pytest.mark.parametrize("run", shapes(), ids="-".join)
def test_every_shape_of_a_recipe_is_compiled_or_refused(run: tuple[str, str], sizes: Path) -> None:
    recipe = small(*run, sizes)
    refused = refusal(recipe)
    if refused is None:
        require_parity(recipe)
    else:
        assert any(reason in refused for reason in (*EAGER.values(), "no stack of layers"))


@pytest.mark.parametrize(
    ("experiment", "scale", "named"),
    [
        ("reformer/duplication@lsh-4", "paper", "ReversibleStack"),
        ("linear-transformer/copy@lsh-4", "paper", "LSHAttention"),
        ("infinity-former/sorting@sticky-8000", "paper", "ContinuousMemory"),
        ("frozen-pretrained-transformer/bit-xor@lstm", "paper", "NormedLSTM"),
    ],
)
def test_what_stays_eager_is_refused_with_its_reason(
    experiment: str, scale: str, named: str, sizes: Path
) -> None:
    recipe = small(experiment, scale, sizes)
    recipe.config["compile"] = True
    with pytest.raises(UserError, match=f"compile: {named} .*{EAGER[named]}"):
        build(recipe)
    recipe.config["compile"] = False
    assert not build(recipe).compile


def test_the_page_gives_the_same_reasons() -> None:
    page = (PROJECT / "docs" / "recipes.md").read_text()
    assert all(f"| `{name}` | {reason} |\n" in page for name, reason in EAGER.items())
    assert all(f"`{mixer.__name__}`" in page for mixer in TRACED)


def test_an_unknown_mixer_is_refused() -> None:
    class Mine(TRACED[0]):  # type: ignore[misc]
        """A subclass may do something else."""

    task = built(load_recipe("transformer-xl/vaswani", "cpu")).task
    require_compilable(task)
    for module in task.modules():
        if type(module) is TRACED[0]:
            module.__class__ = Mine
    with pytest.raises(ValueError, match="Mine"):
        require_compilable(task)


def test_evaluation_runs_eagerly(sizes: Path) -> None:
    recipe, backend = small(*FEW["relative"], sizes), Graphs()
    parts = built(recipe)
    compile_training(parts.task, backend, fullgraph=True)
    batch: Any = training_batches(parts, recipe)[0]
    net: Any = parts.task.eval().net
    hidden = net(batch.ids).y
    net.vocabulary.nll(hidden, batch.targets)
    assert backend.count == 0
    net.train()
    hidden = net(batch.ids).y
    assert backend.count == 1
    net.vocabulary.nll(hidden, batch.targets)
    assert backend.count == 2


def test_a_step_whose_operations_are_counted_runs_eagerly_and_later_ones_are_compiled(sizes: Path) -> None:
    recipe, backend = small(*FEW["full"], sizes), Graphs()
    parts = built(recipe)
    compile_training(parts.task, backend, fullgraph=True)
    batch: Any = training_batches(parts, recipe)[0]
    with OperationCounter() as counter:
        parts.task.training_step(batch, 0)
    assert counter.operations
    assert backend.count == 0
    parts.task.training_step(batch, 1)
    assert backend.count == 2


def test_weights_keep_their_names_and_a_copy_has_its_own(sizes: Path) -> None:
    task = built(small(*FEW["full"], sizes)).task
    before = list(task.state_dict())
    compile_training(task, Graphs())
    assert list(task.state_dict()) == before
    compiled = [m for m in task.modules() if "forward" in vars(m) or "_nll" in vars(m)]
    assert {type(m) for m in compiled} == {ResidualStack, Vocabulary}
    vocabulary = next(m for m in compiled if isinstance(m, Vocabulary))
    other = copy.deepcopy(vocabulary)
    torch.nn.init.zeros_(other.embedding.table.weight)
    hidden, targets = (
        torch.randn(2, 3, vocabulary.embedding.table.embedding_dim),
        torch.zeros(2, 3, dtype=torch.long),
    )
    assert torch.allclose(other.nll(hidden, targets), torch.tensor(float(other.size)).log())
    assert not torch.allclose(vocabulary.nll(hidden, targets), torch.tensor(float(other.size)).log())


def test_a_machine_without_a_compiler_is_told(sizes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "which", lambda _: None)
    with pytest.raises(UserError, match=r"compile: no C\+\+ compiler"):
        compile_training(built(small(*FEW["full"], sizes)).task)


def test_the_setting_is_part_of_the_hash_only_where_it_is_given() -> None:
    plain = load_recipe("transformer-xl/vaswani", "cpu")
    compiled = load_recipe("transformer-xl/vaswani", "cpu", [("compile", True)])
    assert "compile" not in plain.signature
    assert compiled.signature == plain.signature | {"compile": True}
    assert compiled.hash8 != plain.hash8
    assert load_recipe("transformer-xl/vaswani", "cpu", [("compile", False)]).hash8 == plain.hash8
    assert build(compiled).compile
    assert not build(plain).compile


@pytest.mark.parametrize("value", [3, "often", [True]])
def test_a_setting_that_is_no_yes_or_no_is_refused(value: Any) -> None:
    with pytest.raises(UserError, match="compile"):
        build(load_recipe("transformer-xl/vaswani", "cpu", [("compile", value)]))
