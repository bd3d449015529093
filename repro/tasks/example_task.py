"""Base of tasks over examples."""

from abc import abstractmethod

from repro.batches import Evaluation, ExampleBatch, Examples
from repro.nn.settings import AS_BUILT, CallSettings
from repro.tasks.evaluated import EvaluatedTask, Metrics
from repro.tasks.task import Net


class ExampleTask(EvaluatedTask[Net]):
    """Base of the tasks whose data are :class:`~repro.data.core.examples.ExampleData`.

    Subclasses define how examples are scored (:meth:`score_examples`).
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
        self.score_examples(batch.examples, self.settings(evaluation), metrics)
