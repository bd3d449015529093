"""The interface of all datamodules to runs, tasks and Lightning."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from lightning.pytorch import LightningDataModule

from repro.batches import Batch, Evaluation, Kind
from repro.data.core.loader import FixedLoader, PlannedLoader
from repro.data.core.shares import Share
from repro.data.tokenizers.vocabulary import Filed
from repro.errors import at_least


class DataModule(LightningDataModule, ABC):
    """A datamodule whose training position is part of checkpoints; tasks set its evaluations.

    The global batch is a pure function of (seed, epoch, step). Lightning restores a loader's own state only where it
    thinks an epoch unfinished; a datamodule's always.

    Args:
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Attributes:
        batch: what training batches are.
        selections: parts of a split that an evaluation may select instead of all of it.
        store_name: what records call the data.
        variant: which store of that name; empty where there is only one.
        vocab_size: symbols; None where inputs are vectors.
        train_split: name of the training split; so ``val_split``, ``test_split``.
    """

    batch: ClassVar[type[Batch]]
    selections: ClassVar[tuple[type, ...]] = ()
    store_name: str
    variant: str = ""
    vocab_size: int | None = None
    train_split: str = "train"
    val_split: str = "val"
    test_split: str = "test"

    def __init__(self, seed: int, num_workers: int) -> None:
        super().__init__()
        # with few examples of evaluation and many ranks a rank may have none
        self.allow_zero_length_dataloader_with_multiple_devices = True
        at_least(0, num_workers=num_workers)
        self.seed = seed
        self.num_workers = num_workers
        self._validation = Evaluation("val")
        self._tests: Sequence[Evaluation] = (Evaluation("test"), Evaluation("val"))
        self._training: PlannedLoader[Any, Any] | None = None
        self._saved: dict[str, int] | None = None

    def require_store(self) -> bool:
        """Whether the data are here; a run generates others.

        Raises:
            UserError: a store that a run cannot use, or would not generate.
        """
        return True

    # --- interface of each kind of data ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def manifest_sha256(self) -> str:
        """Identifies the data."""

    @property
    @abstractmethod
    def counts(self) -> dict[str, dict[str, int]]:
        """Sizes of the splits in use, and what training leaves out; by split and quantity."""

    @abstractmethod
    def plan_epoch(self, epoch: int) -> Sequence[Any]:
        """Plans this rank's batches of an epoch: one item for each micro-batch, those of a step one after another."""

    @abstractmethod
    def plan_evaluation(self, evaluation: Evaluation) -> Sequence[Any]:
        """Plans this rank's batches of an evaluation; a rank without examples gets one batch without rows.

        Lightning passes over the evaluation on a rank without batches, where the other ranks would wait for it.
        """

    @abstractmethod
    def builder(self, split: str) -> Callable[[Any], Any]:
        """Builds the planned batches of a split; can be sent to a worker process."""

    @abstractmethod
    def expected(self, evaluation: Evaluation) -> Mapping[str, int]:
        """The counts that an exact evaluation must reach over all ranks: ``examples``, ``tokens``, or both."""

    @property
    def tokenizer(self) -> Filed | None:
        """The tokeniser of the data; None where there was no text."""
        return None

    @property
    def public(self) -> bool:
        """Whether texts of the data may appear in records and outputs."""
        return True

    def split(self, kind: Kind) -> str:
        """The name of the split that serves as ``train``, ``val`` or ``test``."""
        return {"train": self.train_split, "val": self.val_split, "test": self.test_split}[kind]

    @property
    def splits(self) -> tuple[str, str, str]:
        """Names of the splits that serve as ``train``, ``val`` and ``test``."""
        return self.train_split, self.val_split, self.test_split

    @property
    def share(self) -> Share:
        """This rank's place; the whole before there is a trainer."""
        trainer = self.trainer
        if trainer is None:
            return Share()
        return Share(trainer.global_rank, trainer.world_size, int(trainer.accumulate_grad_batches))

    def evaluation_loader(self, evaluation: Evaluation) -> FixedLoader[Any, Any]:
        """This rank's batches of an evaluation."""
        build = self.builder(self.split(evaluation.kind))
        return FixedLoader(self.plan_evaluation(evaluation), build, self.num_workers)

    def __getstate__(self) -> dict[str, Any]:
        """What a worker process needs to build batches."""
        return {**self.__dict__, "trainer": None, "_training": None}

    # --- interface of Lightning -----------------------------------------------------------------------------------

    def evaluate_with(self, validation: Evaluation, tests: Sequence[Evaluation]) -> None:
        """Sets the evaluations of the validation and test loaders.

        Args:
            validation: during training.
            tests: of the final model, one loader each.

        Raises:
            ValueError: a selection that these data do not support.
        """
        for evaluation in (validation, *tests):
            if evaluation.selection is not None and not isinstance(evaluation.selection, self.selections):
                raise ValueError(f"{type(self).__name__} cannot select {evaluation.selection} of a split")
        self._validation, self._tests = validation, tests

    def train_dataloader(self) -> PlannedLoader[Any, Any]:
        """Training batches of this rank, from the saved position or the beginning of the trainer's epoch."""
        build = self.builder(self.train_split)
        loader = PlannedLoader(self.plan_epoch, build, self.share.micro_batches, self.num_workers)
        if self._saved is not None:
            loader.load_state_dict(self._saved)
            self._saved = None
        elif self.trainer is not None:
            loader.set_epoch(self.trainer.current_epoch)
        self._training = loader
        return loader

    def val_dataloader(self) -> FixedLoader[Any, Any]:
        return self.evaluation_loader(self._validation)

    def test_dataloader(self) -> list[FixedLoader[Any, Any]]:
        return [self.evaluation_loader(evaluation) for evaluation in self._tests]

    def predict_dataloader(self) -> FixedLoader[Any, Any]:
        return self.evaluation_loader(Evaluation("test"))

    def state_dict(self) -> dict[str, Any]:
        """The position in the training data, if training has begun."""
        return {} if self._training is None else {"train": self._training.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keeps a saved position for the next training loader; evaluating a checkpoint leaves it alone."""
        if self.trainer is None or self.trainer.state.fn == "fit":
            self._saved = state_dict.get("train")
