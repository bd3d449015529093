"""Language modelling: memory carried over batches, exact likelihoods under any number of protocols."""

from dataclasses import replace
from typing import Any, Literal
from typing import Protocol as Interface

from torch import Tensor, nn

from repro.batches import Data, Evaluation, StreamBatch, scored_places
from repro.errors import UserError
from repro.models.decoder_lm import DecoderLM
from repro.nn import FullAttention, LocalAttention, LSHAttention, ResidualStack
from repro.nn.mixer import State, detach, reset_rows, tree_map
from repro.nn.positions.positions import counts_on, longest_window
from repro.nn.settings import CallSettings, MemorySettings, has_memory, has_memory_settings, rereads
from repro.tasks.evaluated import EvaluatedTask, Metrics, Scored
from repro.tasks.language.protocols import MEMORY_SETTINGS, Protocol
from repro.tasks.metrics.errors import Accuracy
from repro.tasks.metrics.means import Likelihood
from repro.tasks.task import OptimizerMaker, ScheduleMaker, StepResult, join_rows

Unit = Literal["word", "subword", "character", "byte", "symbol"]
IN_BITS = {"character": "bpc", "byte": "bpb"}  # all others are given as a perplexity


class StreamsData(Data, Interface):
    """The attributes of the datamodule that a language model uses."""

    context: int

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Sizes of the splits, ``tokens`` among them."""
        ...


class LanguageModel(EvaluatedTask[DecoderLM]):
    """Trains and scores a model of the next token over streams or blocks of text.

    A network whose mixers have a memory is trained on streams: what it keeps of a batch goes to the next one, without
    gradient, until a batch marks the start of a stream or document. Evaluation has memories of its own. A network
    whose mixers have no memory is scored without one: protocols are changed, and ``notes`` reports it.

    Args:
        net: a :class:`~repro.models.DecoderLM`.
        optimizer: maker of the optimiser.
        schedule: maker of the schedule.
        protocol: how test and validation split are scored for the table.
        unit: what a token is; perplexity for words, bits for characters and bytes.
        validation: how the validation split is scored during training; None: as ``protocol``.
        protocols: further ways to score the final model, by name: ``test/ppl_<name>``.
        memory_as_input: in training, memories are as long as the rows of the batch (L' = L in every stage), whatever
            the network's setting.
        accuracy: count targets that are the likeliest token, too; it needs the whole distribution of each.

    Source: Dai et al. 2019, sections 3 and 4; Press et al. 2021, section 2.
    """

    batch = StreamBatch
    data: StreamsData  # the datamodule of the trainer
    TEST_ONLY = ("tokens_per_s",)

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
        self.protocols = {"": protocol, **(protocols or {})}
        self.validation_protocol = validation or protocol
        if not has_memory_settings(net):
            given = [item.describe() for item in (*self.protocols.values(), self.validation_protocol)]
            lost = {f"{key} {item[key]}" for item in given for key in MEMORY_SETTINGS if item.get(key)}
            if lost:
                self.notes.append(
                    f"no mixer of this network has a memory: {', '.join(sorted(lost))} of its protocols is ignored"
                )
            self.protocols = {name: item.without_memory() for name, item in self.protocols.items()}
            self.validation_protocol = self.validation_protocol.without_memory()
        self.token_unit = unit
        self.carries = has_memory(net)
        if self.carries or any(item.mem_len for item in (*self.protocols.values(), self.validation_protocol)):
            _require_bounded(net)
        elif memory_as_input:
            self.notes.append("no memory is carried from batch to batch: memory_as_input has no effect")
        self.memory_as_input = memory_as_input
        self.accuracy = accuracy
        self._memories: list[State] = []  # memories of this update's micro-batches
        self._memory: State = None  # of the evaluation under way
        for item in {*self.protocols.values(), self.validation_protocol}:
            self._require_fit(item)

    def _require_fit(self, protocol: Protocol) -> None:
        """Refuses, before training, a protocol that the network could not follow afterwards.

        Raises:
            ValueError: settings of the memory that its mixers lack, or inputs longer than the positions it
                learns.
        """
        if protocol.mem_len or protocol.clamp_len is not None:
            self.net.init_state(1, capacity=1, settings=protocol.settings)
        longest = longest_window(self.module)
        if longest is not None and protocol.seq_len > longest:
            raise ValueError(
                f"a protocol has seq_len {protocol.seq_len}, but the network learns {longest} positions only"
            )

    def setup(self, stage: str) -> None:
        """Refuses a protocol whose memory is longer than the split that it reads, and a memory of what is read again.

        Raises:
            UserError: such a protocol or memory.
        """
        super().setup(stage)
        if self.data is not None and self.data.context and not rereads(self.module):
            raise UserError(
                f"context {self.data.context} reads tokens again, which the memory or state of a mixer of this network "
                "would hold already; set every mem_len or data.context to 0"
            )
        for evaluation in (self.validation(), *self.tests()) if self.data is not None else ():
            mem_len, split = protocol_of(evaluation).mem_len, self.data.split(evaluation.kind)
            tokens = self.data.counts[split]["tokens"]
            if mem_len > tokens:
                raise UserError(
                    f"mem_len {mem_len} of a protocol is more than the {tokens} tokens of the split {split}; "
                    f"set it to {tokens} or less"
                )

    # --- training -----------------------------------------------------------------------------------------------

    def training_step(self, batch: StreamBatch, batch_idx: int) -> StepResult:
        """Computes the loss of one micro-batch and its sums for the curves."""
        settings = CallSettings(first_draw=self.first_draw, reread=batch.reread)
        if self.memory_as_input and self.carries:
            settings = replace(settings, memory=MemorySettings(batch.ids.shape[1]))
        mixed = self.net(batch.ids, self._recall(batch, settings), batch.lengths, settings)
        self._keep(mixed.state, batch)
        hidden, targets = scored_hidden(mixed.y, batch)
        total = self.net.vocabulary.nll(hidden, targets).sum()
        sums: dict[str, Tensor | int] = {"loss": total.detach(), "tokens": targets.numel()}
        loss = self.with_auxiliary(self.share_of_step(total, batch.step_targets), mixed.aux)
        return {"loss": loss, "sums": sums}

    def _recall(self, batch: StreamBatch, settings: CallSettings) -> State:
        """The memory that a micro-batch begins with; None where the network has none."""
        if not self.carries:
            return None
        if batch.reset_memory:
            return self.net.init_state(len(batch.ids), settings=settings)
        if "memory" not in self.carried:
            raise RuntimeError("a stream continues, but its memory was not carried here")
        memory = tree_map(lambda rows: rows[batch.micro_batch :: self.micro_batches], self.carried["memory"])
        return memory if batch.begins is None else reset_rows(memory, batch.begins)

    def _keep(self, state: State, batch: StreamBatch) -> None:
        """Keeps a micro-batch's memory; that of a whole update replaces what was carried."""
        if state is None:
            return
        self._memories.append(detach(state))
        if batch.micro_batch == self.micro_batches - 1:
            self.carried = {
                "memory": join_rows(self._memories) if len(self._memories) > 1 else self._memories[0]
            }
            self._memories = []

    # --- evaluation ---------------------------------------------------------------------------------------------

    def validation(self) -> Evaluation:
        """The validation split as the validation protocol cuts it."""
        return Evaluation("val", selection=self.validation_protocol)

    def tests(self) -> list[Evaluation]:
        """Evaluations of the final model: for each protocol, the test split, then the validation split."""
        return [
            Evaluation(kind, name, protocol)
            for name, protocol in self.protocols.items()
            for kind in ("test", "val")
        ]

    def metrics(self, evaluation: Evaluation) -> Metrics:
        """Loss, and a perplexity or bits; accuracy if configured."""
        metrics: Metrics = {"likelihood": Likelihood(IN_BITS.get(self.token_unit, "ppl"))}
        return metrics | ({"accuracy": Accuracy(self.net.vocabulary.size)} if self.accuracy else {})

    def score(self, batch: StreamBatch, evaluation: Evaluation, metrics: Metrics) -> None:
        """Adds the likelihood of the targets, and whether they were the likeliest."""
        hidden, targets = scored_hidden(self._read(batch, protocol_of(evaluation)), batch)
        metrics["likelihood"].update(self.net.vocabulary.nll(hidden, targets).double().sum(), targets.numel())
        if self.accuracy:
            metrics["accuracy"].update(self.net.vocabulary.log_probs(hidden).argmax(-1), targets)

    def _read(self, batch: StreamBatch, protocol: Protocol) -> Tensor:
        """Hidden states ``(B, T, D)`` of a batch; memory continues from the batch before without ``reset_memory``."""
        settings = protocol.settings
        if not protocol.mem_len:
            return self.net(batch.ids, None, batch.lengths, settings).y
        if batch.reset_memory:
            self._memory = self.net.init_state(len(batch.ids), protocol.capacity, settings)
        elif batch.begins is not None:
            self._memory = reset_rows(self._memory, batch.begins)
        mixed = self.net(batch.ids, self._memory, batch.lengths, settings)
        self._memory = mixed.state
        return mixed.y

    def complete(self, evaluation: Evaluation, metrics: Metrics) -> None:
        """Drops the memory of the evaluation."""
        self._memory = None

    def summary(self, scored: Scored) -> dict[str, float]:
        """Loss, perplexity or bits, accuracy and speed."""
        speed = {"tokens_per_s": scored.counts["tokens"] / scored.seconds} if scored.seconds else {}
        return scored.values | speed

    @property
    def units(self) -> dict[str, str]:
        """The unit of every metric, for people."""
        token = self.token_unit
        units = {"loss": f"nats per {token}", "tokens_per_s": f"{token}s per second"}
        if self.accuracy:
            units["accuracy"] = f"percent of {token}s"
        bits = IN_BITS.get(token)
        return units | ({bits: f"bits per {token}"} if bits else {"ppl": f"perplexity per {token}"})

    def protocol(self, metric: str, scored: Scored) -> dict[str, Any]:
        """The cut of the split, and the memory."""
        return protocol_of(scored.evaluation).describe()

    def counted(self, metric: str, scored: Scored) -> int:
        """Targets."""
        return scored.counts["tokens"]


def protocol_of(evaluation: Evaluation) -> Protocol:
    """The procedure of one evaluation of a language model."""
    assert isinstance(evaluation.selection, Protocol)
    return evaluation.selection


def scored_hidden(hidden: Tensor, batch: StreamBatch) -> tuple[Tensor, Tensor]:
    """Hidden states ``(N, D)`` and targets ``(N,)`` of the places that are scored, of ``(B, T, D)``."""
    targets = scored_places(batch.targets.flatten(), batch.scored)
    return scored_places(hidden.flatten(0, -2), batch.scored), targets


def _require_bounded(net: nn.Module) -> None:
    """Refuses mixers that keep every token, and learned positions that count on, in a network that carries its state.

    Raises:
        ValueError: names the mixer, or the remedy.
    """
    if counts_on(net):
        raise ValueError(
            "learned positions end with their table, and a memory counts on from batch to batch; learn them in "
            "model.net.positions alone, by repro.nn.Added with restart: true, or use sinusoids (as the table of "
            "InfusedAttention repro.nn.SplitSinusoids)"
        )
    for stack in (module for module in net.modules() if isinstance(module, ResidualStack)):
        for mixer in (layer["mix"].body for layer in stack.each()):
            if isinstance(mixer, FullAttention | LocalAttention | LSHAttention):
                raise ValueError(
                    f"{type(mixer).__name__} keeps every earlier token, beside mixers with a memory of mem_len "
                    "tokens: its state would grow with every batch; give every mixer a mem_len, or none"
                )
