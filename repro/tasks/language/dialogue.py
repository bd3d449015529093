"""Conversations about documents: perplexity of utterances, and generated replies compared with them."""

from dataclasses import asdict
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from repro.batches import Data, Evaluation, ExampleBatch, Examples, scored_places
from repro.errors import UserError
from repro.models.decoder_lm import DecoderLM
from repro.nn.settings import CallSettings, has_memory
from repro.tasks.evaluated import Metrics, Scored, drawing_from
from repro.tasks.example_task import ExampleTask
from repro.tasks.language.reading import BlockPositions, read_blocks, token_types
from repro.tasks.language.replies import Generation, Ids, replies, turns
from repro.tasks.metrics.means import Likelihood
from repro.tasks.metrics.texts import Meteor, Rouge, UnigramF1, require_wordnet
from repro.tasks.task import OptimizerMaker, ScheduleMaker, StepResult

READ = "read"  # scored during training, without replies
TEXTS = ("f1", "rouge1", "rougeL", "meteor")


class DialogueDataProtocol(Data, Protocol):
    """The attributes of the datamodule that the task uses.

    See :class:`repro.data.sets.dialogue.dialogue_data.DialogueData`.
    """

    seq_len: int
    score_all: bool
    seed: int
    doc_id: int  # the lowest id of a mark

    @property
    def ends(self) -> tuple[int, int, int]:
        """Ids of padding, the begin symbol and the end symbol."""
        ...

    def words(self, ids: list[int]) -> str:
        """The text of some ids."""
        ...


class DialogueModel(ExampleTask[DecoderLM]):
    """Trains and scores a language model of conversations, each read in blocks with a memory; see :func:`read_blocks`.

    Each token is embedded with its type, the last mark before it. The losses of all blocks of a conversation make one
    update. In the test, a reply is drawn at every utterance, given all earlier ones, and compared with the utterance.

    Args:
        net: a :class:`~repro.models.DecoderLM` with a :class:`~repro.nn.TypedVocabulary`.
        optimizer: maker of the optimiser.
        schedule: maker of the schedule.
        generation: how replies are drawn; None draws none.

    Source: Martins et al. 2022, document grounded dialogue, and the authors' code.
    Deviation: a memory takes whole windows, see :func:`read_blocks`. A reply ends where the next speaker's mark or an
        end symbol would come; it is drawn behind at most ``window - max_new`` tokens of the last block.
    """

    data: DialogueDataProtocol  # the datamodule of the trainer
    COLUMNS = ("said", "reply")
    UNITS: ClassVar[dict[str, str]] = {
        "loss": "nats per token", "ppl": "perplexity per token", **dict.fromkeys(TEXTS, "percent"),
    }  # fmt: skip
    TEST_ONLY = TEXTS

    def __init__(
        self,
        net: nn.Module,
        optimizer: OptimizerMaker,
        schedule: ScheduleMaker,
        generation: Generation | None = None,
    ) -> None:
        super().__init__(net, optimizer, schedule)
        self.generation = generation
        self.remembers = has_memory(net)

    def setup(self, stage: str) -> None:
        """Refuses data from which, or a machine on which, no replies could be made or compared.

        Raises:
            UserError: a setting is missing; the message names it.
        """
        super().setup(stage)
        if self.generation is None:
            return
        if self.data.seq_len <= self.generation.max_new:
            raise UserError(
                f"data.window {self.data.seq_len} has no room for replies of {self.generation.max_new} tokens; lower "
                "model.generation.max_new"
            )
        if not self.data.score_all:
            raise UserError("data.score_all is false, so no model learns when a reply ends; set it to true")
        require_wordnet(self.generation.synonyms)

    # --- training -----------------------------------------------------------------------------------------------

    def training_step(self, batch: ExampleBatch, batch_idx: int) -> StepResult:
        """Computes the loss of one micro-batch and its sums for the curves."""
        nll, count, aux = self._losses(batch.examples)
        loss = self.with_auxiliary(self.share_of_step(nll, batch.step_targets), aux)
        return {"loss": loss, "sums": {"loss": nll.detach().double(), "tokens": count}}

    def _losses(self, examples: Examples) -> tuple[Tensor, int, Tensor | None]:
        """Summed loss, number of targets that count, and the auxiliary loss ``(B,)``."""
        ids, data = examples.inputs, self.data
        rows, steps = ids.shape
        lengths = ids.new_full((rows,), steps) if examples.lengths is None else examples.lengths
        cut = BlockPositions.from_lengths(lengths, steps, data.seq_len)
        typed = torch.stack([ids, token_types(ids, data.doc_id)], -1)
        read = read_blocks(
            self.net, typed, cut, self.remembers, data.ends[0], CallSettings(first_draw=self.first_draw)
        )
        scored = examples.scored
        if scored is None:
            scored = torch.arange(ids.numel(), device=ids.device)
        hidden = scored_places(read.y.flatten(0, 2), cut.places(scored // steps, scored % steps))
        targets = scored_places(examples.targets.flatten(), scored)
        return self.net.vocabulary.nll(hidden, targets).sum(), targets.numel(), read.aux

    # --- evaluation ---------------------------------------------------------------------------------------------

    def validation(self) -> Evaluation:
        """The validation split, without replies."""
        return Evaluation("val", READ)

    def replied(self, evaluation: Evaluation) -> bool:
        """Whether replies are drawn in an evaluation."""
        return self.generation is not None and evaluation.name != READ

    def metrics(self, evaluation: Evaluation) -> Metrics:
        """Loss and perplexity of utterances, and scores of replies where they are sampled."""
        metrics: Metrics = {"likelihood": Likelihood("ppl")}
        if self.generation is None or not self.replied(evaluation):
            return metrics
        meteor = Meteor(self.generation.synonyms)
        return metrics | {
            "f1": UnigramF1(),
            "rouge1": Rouge("rouge1"),
            "rougeL": Rouge("rougeL"),
            "meteor": meteor,
        }

    def score_examples(self, examples: Examples, settings: CallSettings, metrics: Metrics) -> None:
        """Adds the likelihood of the utterances."""
        nll, count, _ = self._losses(examples)
        metrics["likelihood"].update(nll, count)

    def score(self, batch: ExampleBatch, evaluation: Evaluation, metrics: Metrics) -> None:
        """Updates the metrics with a batch; compares replies, where they are drawn."""
        super().score(batch, evaluation, metrics)
        if self.replied(evaluation):
            for row, index in enumerate(batch.indices.tolist()):
                with drawing_from(index, self.device):
                    pairs = self._replies(batch.examples, row, index)
                for place, (reply, said) in enumerate(pairs):
                    for name in TEXTS:
                        metrics[name].update(reply, said)
                    if self.data.public and evaluation.kind == "test":
                        self._rows[index, place] = said, reply

    def _replies(self, examples: Examples, row: int, index: int) -> list[tuple[str, str]]:
        """The replies in one conversation, each with its reference."""
        data, generation = self.data, self.generation
        assert generation is not None
        steps = examples.inputs.shape[1] if examples.lengths is None else int(examples.lengths[row])
        whole = [*examples.inputs[row, :steps].tolist(), int(examples.targets[row, steps - 1])]
        listed = turns(whole, data.doc_id, generation.history)
        before, ids, seed = [turn.before for turn in listed], Ids(*data.ends, data.doc_id), (data.seed, index)
        drawn = replies(self.net, before, ids, data.seq_len, self.remembers, generation, seed)
        return [
            (data.words(tokens), data.words(turn.tokens)) for turn, tokens in zip(listed, drawn, strict=True)
        ]

    # --- the record ---------------------------------------------------------------------------------------------

    def protocol(self, metric: str, scored: Scored) -> dict[str, Any]:
        """The window; for replies, the settings of their sampling, whose random numbers follow from the run's seed."""
        protocol = {**super().protocol(metric, scored), "window": self.data.seq_len}
        if metric not in TEXTS or self.generation is None:
            return protocol
        drawn = asdict(self.generation)
        return protocol | {key: drawn[key] for key in drawn if key != "synonyms" or metric == "meteor"}
