"""Classification of sequences: exact accuracies over whole splits, and a paper's small random samples beside them."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from lightning.pytorch.utilities.types import STEP_OUTPUT
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from repro.nn.positions import idle_parameters
from repro.record import Measurement
from repro.tasks.callbacks import Curves
from repro.tasks.task import OptimizerMaker, ScheduleMaker, Task

UNITS = {"loss": "nats per target", "accuracy": "percent", "accuracy_hidden": "percent"}
CONVERGED_WITHIN = 1.0  # points of accuracy


@dataclass(frozen=True)
class Sampled:
    """An evaluation on some random batches, as a published one may be: noisy, for comparison only.

    Args:
        batches: how many.
        rows: examples of each.

    Raises:
        ValueError: a number below 1.
    """

    batches: int
    rows: int

    def __post_init__(self) -> None:
        if self.batches < 1 or self.rows < 1:
            raise ValueError(f"batches {self.batches} and rows {self.rows} must be at least 1")


class Classification(Task):
    """Trains a classifier by cross-entropy, and scores it on whole splits.

    Args:
        net: a :class:`~repro.models.Classifier`.
        optimizer: maker of the optimiser; it is given the parameters that are not frozen.
        schedule: maker of the schedule.
        sampled: a further evaluation of the test split, ``test/accuracy_sampled``.
        train_limit: score the first so many examples of the training split as well, ``train/accuracy``.
    """

    def __init__(
        self,
        net: nn.Module,
        optimizer: OptimizerMaker,
        schedule: ScheduleMaker,
        sampled: Sampled | None = None,
        train_limit: int | None = None,
    ) -> None:
        super().__init__(net, optimizer, schedule)
        self.sampled = sampled
        self.train_limit = train_limit
        self.tested: list[Counted] = []
        self._sums: list[Tensor] = []  # of the evaluations under way

    # --- training -----------------------------------------------------------------------------------------------

    def training_step(self, batch: Any, batch_idx: int) -> STEP_OUTPUT:
        """One micro-batch of :class:`~repro.data.examples.ExampleBatch`."""
        targets = batch.examples.targets
        logits = self._logits(batch.examples)
        nll = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        right = 100.0 * (logits.detach().argmax(-1) == targets).sum().double()
        count = torch.tensor(targets.numel(), device=nll.device)
        sums = {"loss": nll.detach().double(), "accuracy": right, "tokens": count}
        return {"loss": self.share_of_step(nll, batch.step_targets), "sums": sums}

    def _logits(self, examples: Any) -> Tensor:
        """``(B, N, classes)`` in float32 or better."""
        logits = self.net(examples.inputs, examples.lengths)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    # --- evaluation ---------------------------------------------------------------------------------------------

    def on_validation_epoch_start(self) -> None:
        self._sums = [self._zeros()]

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self._score(batch, 0)

    def on_validation_epoch_end(self) -> None:
        if not self.trainer.sanity_checking:
            data = self._data
            self._log("val", self._end("val", data.val_split, data.expected(data.val_split)))

    def test_batches(self) -> list[Any]:
        """Loaders of the test split, of the validation split, and of what else was asked for."""
        data = self._data
        found = {name: data.eval_loader(split, self._limit(name)) for name, split in self._splits().items()}
        if self.sampled is not None:
            found["sampled"] = data.sampled_loader(data.test_split, self.sampled.batches, self.sampled.rows)
        return list(found.values())

    def on_test_epoch_start(self) -> None:
        self._sums = [self._zeros() for _ in self._splits()]

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._score(batch, dataloader_idx)

    def on_test_epoch_end(self) -> None:
        self.tested = [
            self._end(name, split, self._expected(name, split)) for name, split in self._splits().items()
        ]
        self._log("test", self.tested[0])

    def _splits(self) -> dict[str, str]:
        """Every evaluation of the test by name, with its split."""
        data = self._data
        found = {"test": data.test_split, "val": data.val_split}
        if self.train_limit is not None:
            found["train"] = data.train_split
        if self.sampled is not None:
            found["sampled"] = data.test_split
        return found

    def _limit(self, name: str) -> int | None:
        return self.train_limit if name == "train" else None

    def _expected(self, name: str, split: str) -> int:
        if name == "sampled" and self.sampled is not None:
            return self.sampled.batches * self.sampled.rows
        return int(self._data.expected(split, self._limit(name)))

    @torch.no_grad()
    def _score(self, batch: Any, which: int) -> None:
        """Adds a batch to the sums of an evaluation."""
        examples = batch.examples
        if not len(examples.targets):  # a rank without examples of its own
            return
        logits, targets = self._logits(examples), examples.targets
        nll = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").double().sum()
        right = logits.argmax(-1) == targets
        hidden = torch.zeros_like(right) if examples.hidden is None else examples.hidden
        found = [nll, right.sum(), (right & hidden).sum(), hidden.sum()]
        counts = [targets.numel(), len(targets)]
        self._sums[which] += self._sums[which].new_tensor([*map(float, found), *counts])

    def _zeros(self) -> Tensor:
        return torch.zeros(len(Counted._fields) - 2, dtype=torch.float64, device=self.device)

    def _end(self, name: str, split: str, expected: int) -> "Counted":
        """Adds the next sums up over ranks, and checks that every example was counted once."""
        found = Counted(name, split, *self.sum_over_ranks(self._sums.pop(0)).tolist())
        if found.examples != expected:
            raise RuntimeError(f"{split}: {found.examples:.0f} examples scored, there are {expected}")
        return found

    def _log(self, kind: str, one: "Counted") -> None:
        self.log_dict({f"{kind}/{name}": value for name, value in one.summary().items()})

    @property
    def _data(self) -> Any:
        return self.trainer.datamodule  # type: ignore[attr-defined]

    # --- the record ---------------------------------------------------------------------------------------------

    def measurements(self) -> list[Measurement]:
        """Every metric of every evaluation; a test score has the validation score beside it."""
        beside = next(one for one in self.tested if one.name == "val").summary()
        found = []
        for one in self.tested:
            kind, end = ("test", "_sampled") if one.name == "sampled" else (one.name, "")
            protocol = asdict(self.sampled) if self.sampled and end else {"examples": round(one.examples)}
            for metric, value in one.summary().items():
                count = round(one.hidden if metric == "accuracy_hidden" else one.targets)
                validation = beside[metric] if kind == "test" and not end else None
                found.append(
                    Measurement(
                        f"{kind}/{metric}{end}", value, UNITS[metric], one.split, protocol, count, validation
                    )
                )
        return [*found, *self._convergence(), *self._sizes()]

    def _convergence(self) -> list[Measurement]:
        """The first validated step whose accuracy comes near the best one."""
        curves = next((c.curves for c in self.trainer.callbacks if isinstance(c, Curves)), {})  # type: ignore[attr-defined]
        points = curves.get("val/accuracy", [])
        if not points:
            return []
        best = max(value for _, value in points)
        step = next(step for step, value in points if value >= best - CONVERGED_WITHIN)
        protocol = {"within": CONVERGED_WITHIN, "of": "the best validated accuracy", "best": best}
        return [Measurement("val/converged_at", step, "gradient steps", self._data.val_split, protocol)]

    def _sizes(self) -> list[Measurement]:
        """How many parameters are trained, and how many of them inputs reach: all but positions behind their end."""
        trained = sum(p.numel() for p in self.parameters() if p.requires_grad)
        found = {"trained": trained, "reached": trained - idle_parameters(self, self._data.seq_len)}
        split = self._data.train_split
        return [Measurement(f"parameters/{name}", n, "parameters", split) for name, n in found.items()]


class Counted(NamedTuple):
    """One evaluation: its name and split, and sums over all ranks.

    Attributes:
        nll: negative log-likelihood in nats.
        right: targets whose likeliest class is theirs.
        right_hidden: those among them that the input does not show.
        hidden: targets that the input does not show.
        targets: all of them.
        examples: scored.
    """

    name: str
    split: str
    nll: float
    right: float
    right_hidden: float
    hidden: float
    targets: float
    examples: float

    def summary(self) -> dict[str, float]:
        """Every metric."""
        found = {"loss": self.nll / self.targets, "accuracy": 100.0 * self.right / self.targets}
        if self.hidden:
            found["accuracy_hidden"] = 100.0 * self.right_hidden / self.hidden
        return found
