"""Linear transformers: copy task and MNIST train as idiap/linear-transformer-experiments does, with every attention."""

from typing import Any

import pytest
import torch
from torch import Tensor

from repro.batches import ExampleBatch, Examples
from repro.experiment.build import AnyTask
from tests.models import golden_adaptive, golden_reversible, test_golden_linear
from tests.parity.golden import Golden, check, read
from tests.parity.training import Trained, difference, differences, make_task, train

PAPER = "linear-transformer"
MIXER = "model.net.blocks.mixers.0"
COPY = {"": "linear", "_softmax": "softmax", "_lsh": "lsh-4", "_steep": "linear"}
OTHERS = {
    "value_embedding.weight": "vocabulary.embedding.table.weight",
    "predictor.weight": "vocabulary.{}proj.weight",
    "predictor.bias": "vocabulary.{}proj.bias",
}


def ours(theirs: dict[str, Tensor], point: str) -> dict[str, Tensor]:
    """Their weights under our names.

    The projections of an attention are one matrix in ours. Hashing has a projection of keys there that is not used.
    """
    head = "" if point == "mnist" else "head."
    result = {mine.format(head): theirs[name] for name, mine in OTHERS.items()}
    layers = {key.removeprefix("transformer."): value for key, value in theirs.items() if key not in OTHERS}
    for name, value in test_golden_linear.ours(layers).items():
        result[f"stack.{name}"] = value
        if point == "lsh-4" and ".qkv." in name:
            query, _, values = value.chunk(3)
            result[f"stack.{name.replace('qkv', 'qk_v')}"] = torch.cat([query, values])
            del result[f"stack.{name}"]
    return result


def overrides(settings: dict[str, Any], point: str) -> dict[str, Any]:
    """The overrides that shrink a recipe to a file's settings."""
    net, width = "model.net", settings["n_heads"] * settings["d_query"]
    shrunk = {
        "model.optimizer.lr": settings["lr"],
        f"{net}.d_model": width,
        f"{net}.n_layers": settings["layers"],
        f"{net}.dropout": 0.0,
        f"{net}.positions.width": width // 2,
        f"{net}.blocks.feed_forward.d_ff": 4 * width,
        f"{net}.blocks.feed_forward.dropout": 0.0,
        f"{net}.blocks.sublayer.dropout": 0.0,
        f"{MIXER}.n_heads": settings["n_heads"],
    }
    if point in ("softmax", "lsh-4"):
        shrunk[f"{MIXER}.dropout"] = 0.0
    if point == "lsh-4":
        shrunk[f"{MIXER}.hashing.chunk"] = settings["chunk"]
        shrunk[f"{MIXER}.hashing.buckets"] = 2 * settings["bits"]
    if point == "mnist":
        return shrunk | {f"{net}.vocabulary.n_mixtures": settings["mixtures"]}
    return shrunk | {f"{net}.vocabulary.size": settings["classes"] + 1}


def rotate(task: AnyTask, planes: Tensor) -> None:
    """Has every layer hash with given planes ``(updates, layers, R, W, E)``."""

    def hooked(layer: int) -> Any:
        def hook(body: Any, given: Any) -> Any:
            rotations = planes[task.global_step, layer].permute(2, 0, 1)[None]
            return golden_reversible.rotated_by(rotations, 2 * rotations.shape[-1])(body, given)

        return hook

    stack: Any = task.module.get_submodule("stack")
    for number, layer in enumerate(stack.layers):
        layer["mix"].body.register_forward_pre_hook(hooked(number), prepend=True)


def copies(golden: Golden) -> list[list[ExampleBatch]]:
    """The batches of the copy task, of which ``m`` says what is scored."""
    steps = []
    for x, y, m in zip(golden["x"], golden["y"], golden["m"].bool(), strict=True):
        places = m.flatten().nonzero().flatten()
        examples = Examples(x, y.where(m, -1), scored=places)
        steps.append([ExampleBatch(examples, torch.arange(len(x)), len(places))])
    return steps


def pictures(golden: Golden) -> list[list[ExampleBatch]]:
    """The batches of pictures: every value but the first is a target."""
    examples = [Examples(raw[:, :-1], raw[:, 1:]) for raw in golden["raw"]]
    return [[ExampleBatch(one, torch.arange(len(one.inputs)), one.targets.numel())] for one in examples]


def trained_as(golden: Golden, experiment: str, together: bool = False, **more: Any) -> Trained:
    """A point of a recipe, shrunk, trained on a file's batches.

    Args:
        golden: the file.
        experiment: the recipe's point without the paper.
        together: a deliberate mistake: parts of a fused projection are clipped as one.
        more: further overrides.
    """
    recipe, _, point = experiment.partition("@")
    kind = "mnist" if recipe == "mnist" else point
    task, arguments = make_task(f"{PAPER}/{experiment}", overrides(golden.meta["settings"], kind) | more)
    golden_adaptive.fill(task.module, ours(golden.first_weights, kind))
    if "planes" in golden.arrays:
        rotate(task, golden["planes"])
    if together:
        task.make_optimizer = lambda: task.optimizer_maker(task.trained_parameters())  # type: ignore[method-assign]
    return train(task, arguments, pictures(golden) if recipe == "mnist" else copies(golden))


def found(name: str, **more: Any) -> dict[str, float]:
    """The differences of a file of the copy task."""
    golden, point = read(f"linear_copy{name}"), COPY[name]
    return differences(trained_as(golden, f"copy@{point}", **more), golden, ours(golden.last_weights, point))


@pytest.mark.parametrize("name", COPY)
def test_copy(name: str) -> None:
    check(PAPER, read(f"linear_copy{name}"), found(name))


def test_steep_gradients_of_one_projection_are_longer_than_1_and_of_another_are_not() -> None:
    golden = read("linear_copy_steep")
    longest = dict(zip(golden.meta["norms_of"], golden["norms"].amax(0).tolist(), strict=True))
    for layer in range(golden.meta["settings"]["layers"]):
        query, value = (
            longest[f"transformer.layers.{layer}.attention.{part}_projection.weight"]
            for part in ("query", "value")
        )
        assert query < 1 < value


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("", {"model.optimizer.eps": 1e-4}),
        ("", {"model.optimizer.weight_decay": 0.0}),
        ("", {"model.schedule.milestones": [8]}),
        ("_softmax", {"model.schedule.milestones": [8]}),
        ("_lsh", {f"{MIXER}.hashing.wrap": True}),
        ("_lsh", {f"{MIXER}.hashing.scaled": False}),
        ("_steep", {"together": True}),
        ("_steep", {"model.optimizer.max_norm": 1e9}),
    ],
)
def test_a_mistake_shows(name: str, mistake: dict[str, Any]) -> None:
    differing = found(name, **mistake)
    assert differing["weights"] > 1e-5, differing


def recurrent(trained: Trained, values: Tensor) -> Tensor:
    """Outputs ``(B, T - 1, 3 K)`` of the predictor for bytes ``(B, T)``, read one by one with a state."""
    net: Any = trained.task.eval().module
    state, outputs = net.init_state(len(values), capacity=values.shape[1]), []
    with torch.no_grad():
        for value in values[:, :-1].split(1, dim=1):
            mixed = net(value, state)
            state = mixed.state
            outputs.append(net.vocabulary.proj(mixed.y))
    return torch.cat(outputs, dim=1)


def test_mnist_trained_and_read_value_by_value() -> None:
    golden = read("linear_mnist")
    trained = trained_as(golden, "mnist@linear")
    differing = differences(trained, golden, ours(golden.last_weights, "mnist"))
    score = difference(recurrent(trained, golden["eval"]), golden["recurrent"])
    check(PAPER, golden, {**differing, "evaluation": score})


@pytest.mark.parametrize(
    "mistake",
    [{"model.optimizer.eps": 1e-4}, {"model.optimizer.max_norm": 1e-2}, {f"{MIXER}.eps": 1e-2}],
    ids=["epsilon", "clipping", "denominator"],
)
def test_a_mistake_in_mnist_shows(mistake: dict[str, Any]) -> None:
    golden = read("linear_mnist")
    trained = trained_as(golden, "mnist@linear", **mistake)
    differing = differences(trained, golden, ours(golden.last_weights, "mnist"))
    assert differing["weights"] > 1e-5, differing


def test_a_state_that_forgets_shows() -> None:
    golden = read("linear_mnist")
    trained = trained_as(golden, "mnist@linear")
    net: Any = trained.task.eval().module
    with torch.no_grad():
        alone = torch.cat(
            [net.vocabulary.proj(net(one).y) for one in golden["eval"][:, :-1].split(1, dim=1)], 1
        )
    assert difference(alone, golden["recurrent"]) > 1e-3
