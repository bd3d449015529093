"""Base of all tasks: optimiser and schedule from the recipe, exact loss normalisation, exact sums."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypedDict, TypeVar, cast

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities.types import OptimizerLRSchedulerConfig
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from repro.batches import Batch, Data, Evaluation
from repro.nn.fused import parts_of
from repro.nn.mixer import State, leaves, tree_map
from repro.record import Measurement
from repro.tasks.curves import validated
from repro.tasks.lightning_private import datamodule_of, trainer_of
from repro.tasks.optim.optimizers import ClippedRAdam, InGroups
from repro.tasks.optim.profiling import profile, profiled
from repro.tasks.optim.schedules import Plateau
from repro.tasks.ranks import gather_objects

OptimizerMaker = Callable[[Iterable[nn.Parameter]], Optimizer] | InGroups
ScheduleMaker = Callable[[Optimizer], LRScheduler]
Net = TypeVar("Net")


class StepResult(TypedDict):
    """The output of ``training_step``.

    Attributes:
        loss: to differentiate, scalar.
        sums: over the rows of the micro-batch, for the curves, with their number of targets under ``tokens``;
            :class:`repro.training.callbacks.Curves` adds them over micro-batches and ranks.
    """

    loss: Tensor
    sums: dict[str, Tensor | int]


class Task(LightningModule, Generic[Net]):
    """Base of all tasks; a subclass names the class of its network.

    Args:
        net: the network, of this class or another one with the methods that the task calls.
        optimizer: maker of the optimiser from parameters.
        schedule: maker of the learning-rate schedule from the optimiser; stepped once for each update.

    Attributes:
        batch: what it trains on; its data must give the same.
        notes: remarks for the user on how the recipe is interpreted, a line each.
        carried: state carried from one training batch to the next (a memory over streams), by name: nested tuples,
            lists or dicts of tensors, batch axis first. Row ``i`` of rank ``r`` is row ``i x ranks + r`` of the
            global batch. Checkpoints hold all rows in global order, so a run may be resumed on another number of ranks.
    """

    batch: ClassVar[type[Batch]]
    net: Net
    carried: dict[str, State]

    def __init__(self, net: nn.Module, optimizer: OptimizerMaker, schedule: ScheduleMaker) -> None:
        super().__init__()
        self.net = cast(Net, net)
        self.optimizer_maker = optimizer
        self.schedule_maker = schedule
        self.notes: list[str] = []
        self.carried = {}
        self._loaded: dict[str, State] = {}

    @property
    def module(self) -> nn.Module:
        """The network, as torch sees it."""
        return self.get_submodule("net")

    @property
    def data(self) -> Data:
        """The datamodule of the trainer; a subclass names the interface that it needs."""
        return cast(Data, datamodule_of(self.trainer))

    @property
    def vocabulary_size(self) -> int | None:
        """Number of symbols of the network's vocabulary; None without a vocabulary."""
        return None

    def validation(self) -> Evaluation:
        """The evaluation during training."""
        return Evaluation("val")

    def tests(self) -> Sequence[Evaluation]:
        """The evaluations of the final model: each test score includes the validation score of the same setting."""
        return Evaluation("test"), Evaluation("val")

    def setup(self, stage: str) -> None:
        """Sets the evaluations of the data before loaders are made; plain loaders in their place are left unchanged.

        Each evaluation is counted here, so that one that the data cannot give is refused before training.

        Raises:
            UserError: there is one.
        """
        if datamodule_of(self.trainer) is None:
            return
        validation, tests = self.validation(), self.tests()
        self.data.evaluate_with(validation, tests)
        for evaluation in (validation, *tests):
            self.data.expected(evaluation)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        parts = gather_objects(tree_map(lambda t: t.detach().cpu(), self.carried))
        checkpoint["carried"] = join_rows(parts)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        trainer = trainer_of(self)
        rank, ranks = (0, 1) if trainer is None else (trainer.global_rank, trainer.world_size)
        self._loaded = tree_map(lambda t: t[rank::ranks].clone(), checkpoint.get("carried", {}))

    def on_train_start(self) -> None:
        """Begins the network's shortcuts in a new run; takes up what was carried when the checkpoint was written."""
        profile(self, self.module)
        self.carried = tree_map(lambda t: t.to(self.device), self._loaded)

    def trained_parameters(self) -> list[Any]:
        """The optimiser's parameters, in groups where some have settings of their own.

        Raises:
            ValueError: a rate for a part that the network does not have.
        """
        named = {name: p for name, p in self.named_parameters() if p.requires_grad}
        maker = self.optimizer_maker
        return maker.groups(named) if isinstance(maker, InGroups) else list(named.values())

    def make_optimizer(self) -> Optimizer:
        """A new optimiser of the trained parameters; :class:`ClippedRAdam` clips the parts of fused ones apart.

        Raises:
            ValueError: a rate for a part that the network does not have.
        """
        optimizer = self.optimizer_maker(self.trained_parameters())
        if isinstance(optimizer, ClippedRAdam):
            optimizer.clip_apart(parts_of(self))
        return optimizer

    def configure_optimizers(self) -> OptimizerLRSchedulerConfig:
        optimizer = self.make_optimizer()
        schedule = self.schedule_maker(optimizer)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Lets parameters wait for a first gradient where their rates demand it."""
        if isinstance(self.optimizer_maker, InGroups):
            self.optimizer_maker.before_step(optimizer)

    def on_validation_end(self) -> None:
        """Passes the latest validation score to a schedule that depends on it."""
        schedule, training = self.lr_schedulers(), self.trainer.state.fn == "fit"
        if not isinstance(schedule, Plateau) or not training or self.trainer.sanity_checking:
            return
        schedule.observe(validated(self.trainer, schedule.metric, "model.schedule.metric"))

    def share_of_step(self, local_sum: Tensor, step_targets: int) -> Tensor:
        """The loss of one micro-batch on one rank such that an update follows the mean over *all* its tokens.

        Averaging over ranks (DDP) and over micro-batches (Lightning) is undone, and the sum divided by the
        tokens of the whole global batch, which the data plan states: a mean of means would weigh tokens unequally.

        Args:
            local_sum: loss summed over the local targets, scalar.
            step_targets: targets of the update, over all ranks and micro-batches; a sum over none stays 0.
        """
        trainer = trainer_of(self)
        ranks = 1 if trainer is None else trainer.world_size
        return local_sum * (ranks * self.micro_batches) / max(1, step_targets)

    @staticmethod
    def with_auxiliary(loss: Tensor, aux: Tensor | None) -> Tensor:
        """The loss of a micro-batch and the mean over its rows of the network's auxiliary loss ``(B,)``, if any.

        For data whose rows are shared evenly: the mean over ranks and micro-batches that DDP and Lightning take is then
        over all rows.
        """
        return loss if aux is None else loss + aux.mean()

    @property
    def micro_batches(self) -> int:
        """Micro-batches of an update."""
        trainer = trainer_of(self)
        return 1 if trainer is None else int(trainer.accumulate_grad_batches)

    @property
    def first_draw(self) -> int:
        """The first numbered draw of the mixers: different in each update of training, 0 in evaluation."""
        return self.global_step << 20 if self.training else 0

    def now(self) -> float:
        """Seconds on the clock, once the device has done all it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def measurements(self) -> list[Measurement]:
        """The numbers of the last test, for the record. Subclasses define them, and add initial values of shortcuts."""
        return profiled(self.module)

    def samples(self, count: int = 20) -> tuple[list[str], list[list[str]]]:
        """A few fixed examples of the last test for people to look at: column names and rows."""
        return [], []

    def outputs(self) -> str | None:
        """The decoded outputs of the last test, one line each, or None where a task decodes nothing."""
        return None


def join_rows(parts: Sequence[State]) -> State:
    """Trees of tensors of all ranks as one, rows in global order: row ``i`` of rank ``r`` becomes ``i x ranks + r``."""
    tensors = [leaves(part) for part in parts]
    joined = iter([torch.stack(same, dim=1).flatten(0, 1) for same in zip(*tensors, strict=True)])
    return tree_map(lambda _: next(joined), parts[0])
