"""Training waits for no device: every shape of a recipe runs on ``meta``, where nothing can be asked for a value.

Model and batch are on ``meta``, and it is not the default device: a tensor made elsewhere fails, and so does whatever
the host would wait for, but for :data:`WAITS`. Each step must give each trained parameter a gradient, for which
data-parallel training waits; no recipe needs ``find_unused_parameters``, which searches the graph.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.batches import Batch, Evaluation, StreamBatch
from repro.experiment.build import Parts, build
from repro.experiment.costs.step import attach, ctc_backward
from repro.nn import AdaptiveVocabulary, BidirectionalLSTM, ContinuousMemory, CtcHead, InfusedAttention
from repro.nn.device import host_ints
from repro.recipe import Recipe, experiments, load_recipe, recipe_files, scales_of
from repro.tasks import DialogueModel, LanguageModel, Transcription, Translation
from repro.tasks.costs.measuring import Measuring
from repro.tasks.language.language_model import protocol_of
from repro.tasks.optim.profiling import first_batch
from tests.experiment.meta_recipes import (
    CPU,
    one_of_each,
    one_of_each_set,
    small,
    stream_of,
    training_batches,
)
from tests.meta import FAILURES, FAULTS, META, OneDevice, answers
from tests.workshop import PROJECT

CONFIGS = PROJECT / "configs"
# What waits for the device in a training step, how often, and why.
WAITS: dict[str, tuple[Callable[[nn.Module], bool], int]] = {
    # tokens are sorted by cluster, whose sizes must be known to split them: to embed them and to score them
    "clusters": (lambda module: isinstance(module, AdaptiveVocabulary) and len(module.edges) > 2, 2),
    # torch packs sequences by lengths on the host
    "bidirectional": (lambda module: isinstance(module, BidirectionalLSTM), 1),
    # torch's CTC takes lengths on the host
    "ctc": (lambda module: isinstance(module, CtcHead), 1),
}
PACKING = 3  # operations of a packed LSTM on numbers of the host: sorting rows by length, packing, sorting them back
# Matrices of a continuous memory follow from lengths alone: they are made on the host, once for each length.
MATRICES = 10


def matrices(task: nn.Module) -> int:
    """Most copies of such matrices at a call."""
    return MATRICES * sum(isinstance(module, ContinuousMemory) for module in task.modules())


# Generated data, of which the fields of a batch can be seen.
GENERATED = (
    "AlignmentData", "BitMemoryData", "BitXorData", "CopyData", "DuplicationData", "EchoData", "GeneratedDialogueData",
    "ListOpsData", "NoiseData", "NoisePixelData", "SortingData",
)  # fmt: skip


def every_run() -> list[tuple[str, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CONFIGS", str(CONFIGS))
        return [(experiment, scale) for experiment in experiments() for scale in scales_of(experiment)]


def shapes() -> list[list[tuple[str, str]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CONFIGS", str(CONFIGS))
        return one_of_each(EVERY)


EVERY = every_run()
SHAPES = shapes()
SETS = one_of_each_set(SHAPES)


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(CONFIGS))
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "none"))  # nothing is read


@pytest.fixture(autouse=True)
def _ctc() -> Iterator[None]:
    with ctc_backward():
        yield


def built(recipe: Recipe) -> Parts:
    """The parts of a recipe on the CPU; the task knows what it asks of its data before there are any batches."""
    parts = build(recipe)
    attach(parts)
    return parts


def trained(parts: Parts, recipe: Recipe, device: torch.device) -> None:
    """Steps of training, each with its backward pass."""
    task: Any = parts.task.to(device).train()
    packed = sum(isinstance(module, BidirectionalLSTM) for module in task.modules())
    for number, batch in enumerate(training_batches(parts, recipe, device)):
        task.zero_grad()
        with OneDevice(allowed=PACKING * packed + matrices(task)):
            result = task.training_step(batch, number)
            result["loss"].backward()
        tensors = [result["loss"], *(value for value in result["sums"].values() if isinstance(value, Tensor))]
        assert all(one.device == device for one in tensors)
        gradients = {name: p.grad for name, p in task.named_parameters() if p.requires_grad}
        assert gradients
        assert not [name for name, grad in gradients.items() if grad is None], "no gradient"
        assert all(grad is not None and grad.device == device for grad in gradients.values())


@pytest.mark.parametrize("alike", SETS)
def test_a_recipe_trains_and_is_scored(
    alike: list[tuple[str, str]], sizes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, asked = small(*alike[0], sizes), answers(monkeypatch)
    parts = built(recipe)
    task: Any = parts.task
    trained(parts, recipe, META)
    steps = 2 if parts.data.batch is StreamBatch else 1
    assert Counter(asked) == {name: steps * count for name, count in waits_of(task.module).items()}
    alike_but_for_splits = {(one.name, one.selection): one for one in [task.validation(), *task.tests()]}
    for evaluation in alike_but_for_splits.values():
        if not decodes(task, evaluation):
            scored(parts, recipe, evaluation)


def waits_of(net: nn.Module) -> dict[str, int]:
    """Counts how often one step of training waits for the device, and names the places."""
    result = {name: each * sum(map(does, net.modules())) for name, (does, each) in WAITS.items()}
    return {name: count for name, count in result.items() if count}


def decodes(task: Any, evaluation: Evaluation) -> bool:
    """Whether an evaluation waits for the device: none of this happens in training.

    A search asks whether it has come to an end, transcripts are compared on the host, and attention with slots for a
    memory (as for decoding) asks how many of them are taken.
    """
    if isinstance(task, DialogueModel):
        return task.replied(evaluation)
    if isinstance(task, LanguageModel):
        slots = any(isinstance(module, InfusedAttention) for module in task.modules())
        return slots and protocol_of(evaluation).mem_len > 0
    return isinstance(task, Translation | Transcription | Measuring)


@torch.no_grad()
def scored(parts: Parts, recipe: Recipe, evaluation: Evaluation) -> None:
    """Sums over the batches of an evaluation, of streams two, of which the second goes on."""
    task: Any = parts.task.eval()
    batches: list[Batch] = training_batches(parts, recipe, META)
    metrics = {name: metric.to("meta") for name, metric in task.metrics(evaluation).items()}
    if isinstance(task, LanguageModel):
        protocol = protocol_of(evaluation)
        batches = [
            stream_of(protocol.seq_len, bool(protocol.stride), reset_memory, META)
            for reset_memory in (True, False)
        ]
    for batch in batches:
        with OneDevice(allowed=matrices(task)):
            task.score(batch, evaluation, metrics)
    assert metrics["likelihood"].update_called


def kinds(fields: Any) -> list[Any]:
    """Returns for each field of a batch whether it is there, its kind and its number of axes."""
    if isinstance(fields, Tensor):
        return [fields.dtype, fields.dim()]
    return [kinds(one) for one in fields] if isinstance(fields, tuple) else [type(fields)]


@pytest.mark.parametrize("name", GENERATED)
def test_batches_have_the_fields_of_real_ones(name: str, sizes: Path) -> None:
    def gives(run: tuple[str, str]) -> bool:
        given = load_recipe(*run).config["data"]
        return bool(given["class_path"] == f"repro.data.{name}") and not isinstance(
            given["init_args"].get("store"), str
        )

    recipe = small(*next(filter(gives, EVERY)), sizes)
    parts = build(recipe)
    parts.data.setup("fit")
    assert kinds(training_batches(parts, recipe)[0]) == kinds(first_batch(parts.data))


def test_recipes_that_differ_in_numbers_are_one_shape() -> None:
    groups = {run: number for number, alike in enumerate(SHAPES) for run in alike}
    assert len(groups) == len(EVERY)
    alone = ("transformer-xl/ablation@norec", "paper")  # its memory is 0
    assert groups[alone] != groups["transformer-xl/ablation@xl", "paper"]
    assert groups["transformer-xl/enwik8-12l", "paper"] == groups["transformer-xl/enwik8-12l", "gpu"]


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("fault", ["item", "a tensor on the CPU", "an index on the CPU"])
def test_control_faults_of_a_recipe_show(fault: str, where: str, sizes: Path) -> None:
    recipe = small("transformer-xl/enwik8-12l", "gpu", sizes)
    parts = built(recipe)

    def plant(module: nn.Module, given: Any, y: Tensor) -> Tensor | None:
        if where == "forward":
            return y * FAULTS[fault](y)
        y.register_hook(lambda grad: grad * FAULTS[fault](grad))
        return None

    trained(parts, recipe, META)
    parts.task.module.get_submodule("dropout").register_forward_hook(plant)
    with pytest.raises(FAILURES):
        trained(parts, recipe, META)
    parts = built(recipe)
    parts.task.module.get_submodule("dropout").register_forward_hook(plant)
    trained(parts, recipe, CPU)  # nobody notices


def test_control_a_parameter_without_a_gradient_shows(sizes: Path) -> None:
    recipe = small(*SHAPES[0][0], sizes)
    parts = built(recipe)
    parts.task.module.register_parameter("planted", nn.Parameter(torch.zeros(1)))
    with pytest.raises(AssertionError, match="planted"):
        trained(parts, recipe, CPU)


def test_no_recipe_looks_for_unused_parameters() -> None:
    for path in recipe_files().values():
        assert "find_unused" not in path.read_text(), path


def test_control_who_asks_once_more_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but those of the list may ask through :func:`repro.nn.device.host_ints` either."""
    answers(monkeypatch)
    with pytest.raises(FAILURES):
        host_ints(torch.zeros(3, device=META))
