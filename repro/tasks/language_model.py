"""Language modelling: memory carried over batches, exact likelihoods under any number of protocols."""

import math
import time
from typing import Any, Literal, NamedTuple

import torch
from lightning.pytorch.utilities.types import STEP_OUTPUT
from torch import Tensor, nn

from repro.nn.mixer import State, detach, tree_map
from repro.nn.positions import longest_window
from repro.nn.reach import Reach, reaching
from repro.record import Measurement
from repro.tasks.protocols import Protocol
from repro.tasks.task import OptimizerMaker, ScheduleMaker, Task, join_rows

Unit = Literal["word", "subword", "character", "byte", "symbol"]
IN_BITS = {"character": "bpc", "byte": "bpb"}  # all others are given as a perplexity


class LanguageModel(Task):
    """Trains and scores a model of the next token over streams or blocks of text.

    A network whose mixers have a memory is trained on streams: what it keeps of a batch goes to the next one, without
    gradient, until the data says that a stream begins anew. Evaluation has memories of its own.

    Args:
        net: a :class:`~repro.models.DecoderLM`.
        optimizer: maker of the optimiser.
        schedule: maker of the schedule.
        protocol: how test and validation split are scored for the table.
        unit: what a token is; perplexity for words, bits for characters and bytes.
        validation: how the validation split is scored during training; None: as ``protocol`` says.
        protocols: further ways to score the final model, by name: ``test/ppl_<name>``.
        memory_as_input: in training, memories are as long as the rows of the batch (L' = L in every stage), whatever
            the network says.
        accuracy: count targets that are the likeliest token, too; it needs the whole distribution of each.

    Source: Dai et al. 2019, sections 3 and 4; Press et al. 2021, section 2.
    """

    def __init__(
        self,
        net: nn.Module,
        optimizer: OptimizerMaker,
        schedule: ScheduleMaker,
        protocol: Protocol,
        unit: Unit = "word",
        validation: Protocol | None = None,
        protocols: dict[str, Protocol] | None = None,
        memory_as_input: bool = False,
        accuracy: bool = False,
    ) -> None:
        super().__init__(net, optimizer, schedule)
        self.protocol = protocol
        self.unit = unit
        self.validation = validation or protocol
        self.protocols = {"": protocol, **(protocols or {})}
        self.memory_as_input = memory_as_input
        self.accuracy = accuracy
        self.tested: list[Scored] = []  # for each protocol the test split, then the validation split
        self._parts: list[State] = []  # memories of this update's micro-batches
        self._now: Scored | None = None
        self._memory: State = None
        for one in {*self.protocols.values(), self.validation}:
            require_fit(net, one)

    # --- training -----------------------------------------------------------------------------------------------

    def training_step(self, batch: Any, batch_idx: int) -> STEP_OUTPUT:
        """One micro-batch of :class:`~repro.data.streams.StreamBatch`."""
        length = batch.ids.shape[1]
        with reaching(self.net, Reach(length) if self.memory_as_input and self.carries else None):
            mixed = self.net(batch.ids, self._recall(batch))
        self._keep(mixed.state, batch)
        hidden, targets = scored(mixed.y, batch.targets)
        total = self.net.vocabulary.nll(hidden, targets).sum()
        count = torch.tensor(targets.numel(), device=total.device)
        loss = self.share_of_step(total, batch.step_tokens)
        return {"loss": loss, "sums": {"loss": total.detach().double(), "tokens": count}}

    @property
    def carries(self) -> bool:
        """Whether the network has a memory as it is set now."""
        reaches = (getattr(module, "reach", None) for module in self.net.modules())
        return any(isinstance(reach, Reach) and reach.mem_len > 0 for reach in reaches)

    def _recall(self, batch: Any) -> State:
        """The memory that a micro-batch begins with; None where the network has none."""
        if not self.carries:
            return None
        if bool(batch.fresh):
            return self.net.init_state(len(batch.ids))
        if "memory" not in self.carried:
            raise RuntimeError("a stream goes on, but its memory was not carried here")
        part, parts = int(batch.part), self._parts_of_step
        return tree_map(lambda rows: rows[part::parts], self.carried["memory"])

    def _keep(self, state: State, batch: Any) -> None:
        """Keeps a micro-batch's memory; that of a whole update replaces what was carried."""
        if state is None:
            return
        self._parts.append(detach(state))
        if int(batch.part) == self._parts_of_step - 1:
            self.carried = {"memory": join_rows(self._parts) if len(self._parts) > 1 else self._parts[0]}
            self._parts = []

    @property
    def _parts_of_step(self) -> int:
        return 1 if self._trainer is None else int(self.trainer.accumulate_grad_batches)

    # --- evaluation ---------------------------------------------------------------------------------------------

    def validation_batches(self) -> Any:
        """The validation split as the validation protocol cuts it."""
        return self._loader(self._data.val_split, self.validation)

    def test_batches(self) -> Any:
        """For each protocol the test split, then the validation split: each test score has its validation score."""
        return [self._loader(split, protocol) for split, _, protocol in self._tests()]

    def _loader(self, split: str, protocol: Protocol) -> Any:
        return self._data.eval_loader(split, self._cut(protocol), protocol.tokens)

    def _cut(self, protocol: Protocol) -> Any:
        return self._data.cut(protocol.seq_len, protocol.rows, protocol.stride)

    @property
    def _data(self) -> Any:
        return self.trainer.datamodule  # type: ignore[attr-defined]

    def _tests(self) -> list[tuple[str, str, Protocol]]:
        """Split, name and protocol of every evaluation of the test."""
        splits = (self._data.test_split, self._data.val_split)
        return [(split, name, protocol) for name, protocol in self.protocols.items() for split in splits]

    def on_validation_epoch_start(self) -> None:
        self._begin(self._data.val_split, self.validation)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self._score(batch)

    def on_validation_epoch_end(self) -> None:
        if not self.trainer.sanity_checking:
            self._log("val", self._end())

    def on_test_epoch_start(self) -> None:
        self.tested = []

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        if len(self.tested) + (self._now is not None) <= dataloader_idx:
            self._next()
        self._score(batch)

    def on_test_epoch_end(self) -> None:
        while len(self.tested) < len(self._tests()):
            self._next()
        self._log("test", self.tested[0])

    def _log(self, kind: str, one: "Scored") -> None:
        """Shows what a split came to; not how fast, which a resumed run would not repeat."""
        summary = one._replace(seconds=0.0).summary(self.unit, self.accuracy)
        self.log_dict({f"{kind}/{name}": value for name, value in summary.items()})

    def _next(self) -> None:
        """Ends the evaluation under way, and begins the next of the test."""
        if self._now is not None:
            self.tested.append(self._end())
        if len(self.tested) < len(self._tests()):
            split, _, protocol = self._tests()[len(self.tested)]
            self._begin(split, protocol)

    def _begin(self, split: str, protocol: Protocol) -> None:
        sums = torch.zeros(3, dtype=torch.float64, device=self.device)
        self._now = Scored(split, protocol, sums, time.monotonic())
        self._memory = None

    @torch.no_grad()
    def _score(self, batch: Any) -> None:
        """Adds a batch to the sums of the evaluation under way."""
        assert self._now is not None
        if not batch.targets.numel():  # a rank without text of its own
            return
        with reaching(self.net, self._now.protocol.reach):
            hidden = self._read(batch, self._now.protocol)
        hidden, targets = scored(hidden, batch.targets)
        sums = self._now.sums
        sums[0] += self.net.vocabulary.nll(hidden, targets).double().sum()
        sums[1] += targets.numel()
        if self.accuracy:
            sums[2] += (self.net.vocabulary.log_probs(hidden).argmax(-1) == targets).sum()

    def _read(self, batch: Any, protocol: Protocol) -> Tensor:
        """Hidden states ``(B, T, D)`` of a batch; memory goes on from the batch before unless it is fresh."""
        if protocol.stride is not None or not protocol.mem_len:
            return self.net(batch.ids).y
        if bool(batch.fresh):
            self._memory = self.net.init_state(len(batch.ids), capacity=protocol.capacity)
        mixed = self.net(batch.ids, self._memory)
        self._memory = mixed.state
        return mixed.y

    def _end(self) -> "Scored":
        """Adds up over ranks, and checks that every token was counted once."""
        done, self._now, self._memory = self._now, None, None
        assert done is not None
        sums = self.sum_over_ranks(done.sums)
        expected = self._data.expected_tokens(done.split, self._cut(done.protocol), done.protocol.tokens)
        if int(sums[1]) != expected:
            raise RuntimeError(f"{done.split}: {int(sums[1])} tokens scored, the split has {expected}")
        return done._replace(sums=sums, seconds=time.monotonic() - done.began)

    # --- the record ---------------------------------------------------------------------------------------------

    def measurements(self) -> list[Measurement]:
        """Every metric of every protocol on both splits; a test score has the validation score beside it."""
        found = []
        for (_, name, protocol), test, val in zip(
            self._tests()[::2], self.tested[::2], self.tested[1::2], strict=True
        ):
            end = f"_{name}" if name else ""
            beside = val.summary(self.unit, self.accuracy)
            for kind, one in (("test", test), ("val", val)):
                for metric, value in one.summary(self.unit, self.accuracy).items():
                    found.append(Measurement(
                        f"{kind}/{metric}{end}", value, self._named(metric), one.split, protocol.describe(),
                        one.tokens, beside[metric] if kind == "test" else None,
                    ))  # fmt: skip
        return found

    def _named(self, metric: str) -> str:
        """The unit of a metric, for people."""
        units = {
            "ppl": f"perplexity per {self.unit}",
            "accuracy": f"percent of {self.unit}s",
            "tokens_per_s": f"{self.unit}s per second",
        }
        return units.get(metric, f"{'nats' if metric == 'loss' else 'bits'} per {self.unit}")


class Scored(NamedTuple):
    """One split under one protocol.

    Attributes:
        split: its name.
        protocol: how it was scored.
        sums: negative log-likelihood in nats, tokens, tokens that were the likeliest; ``(3,)`` in float64.
        began: when, on the monotonic clock.
        seconds: that it took.
    """

    split: str
    protocol: Protocol
    sums: Tensor
    began: float
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return int(self.sums[1])

    def summary(self, unit: Unit, accuracy: bool = False) -> dict[str, float]:
        """Every metric of the split."""
        nll = float(self.sums[0]) / self.tokens
        found = {"loss": nll}
        if unit in IN_BITS:
            found[IN_BITS[unit]] = nll / math.log(2.0)
        else:
            found["ppl"] = math.exp(min(nll, 700.0))
        if accuracy:
            found["accuracy"] = 100.0 * float(self.sums[2]) / self.tokens
        if self.seconds:
            found["tokens_per_s"] = self.tokens / self.seconds
        return found


def require_fit(net: nn.Module, protocol: Protocol) -> None:
    """Refuses, before training, a protocol that a network could not follow behind it.

    Raises:
        ValueError: a memory for a network without one, settings of it that its mixers do not know, or inputs longer
            than the positions it learns.
    """
    with reaching(net, protocol.reach):
        if protocol.mem_len:
            net.init_state(1, capacity=1)  # type: ignore[operator]
    longest = longest_window(net)
    if longest is not None and protocol.seq_len > longest:
        raise ValueError(
            f"a protocol has seq_len {protocol.seq_len}, but the network learns {longest} positions only"
        )


def scored(hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden states ``(N, D)`` and targets ``(N,)`` of the places that count: those whose target is not negative."""
    counts = targets >= 0
    if bool(counts.all()):
        return hidden.flatten(0, -2), targets.flatten()
    return hidden[counts], targets[counts]
