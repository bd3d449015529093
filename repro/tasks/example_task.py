"""Base of tasks over examples: a network draws the same random numbers in every evaluation."""

import contextlib
from abc import abstractmethod
from collections.abc import Iterator

import torch

from repro.batches import Evaluation, ExampleBatch, Examples
from repro.nn.settings import AS_BUILT, CallSettings
from repro.tasks.evaluated import EvaluatedTask, Metrics
from repro.tasks.task import Net

EVALUATION_SEED = 2026  # of what a network draws while it is scored: hash functions


class ExampleTask(EvaluatedTask[Net]):
    """Base of the tasks whose data are :class:`~repro.data.core.examples.ExampleData`.

    Subclasses define how examples are scored (:meth:`score_examples`). What a network draws while it is scored depends
    on the examples of a batch alone, so on the size of evaluation batches and on the number of ranks, which share the
    examples out.
    """

    batch = ExampleBatch

    @abstractmethod
    def score_examples(self, examples: Examples, settings: CallSettings, metrics: Metrics) -> None:
        """Updates the metrics with some examples."""

    def settings(self, evaluation: Evaluation) -> CallSettings:
        """The settings under which the network is scored; by default as it was built."""
        return AS_BUILT

    def reported(self, evaluation: Evaluation) -> bool:
        """Only test scores of further settings include the validation scores."""
        return evaluation.kind == "test" or not evaluation.name

    def score(self, batch: ExampleBatch, evaluation: Evaluation, metrics: Metrics) -> None:
        """Updates the metrics with a batch."""
        with drawing_from(int(batch.indices[0]), self.device):
            self.score_examples(batch.examples, self.settings(evaluation), metrics)


@contextlib.contextmanager
def drawing_from(place: int, device: torch.device) -> Iterator[None]:
    """Random numbers that depend on a position of a split alone; those of training continue unchanged."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(EVALUATION_SEED + place)
        yield
