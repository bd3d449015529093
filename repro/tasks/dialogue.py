"""Conversations about documents: perplexity of what is said, and replies that are compared with it."""

import math
from typing import Any, ClassVar, Protocol, cast

import torch
from torch import Tensor, nn
from torchmetrics import MetricCollection

from repro.batches import Data, Evaluation, ExampleBatch, Examples, scored_places
from repro.errors import UserError
from repro.nn.settings import AS_BUILT, CallSettings, has_memory
from repro.tasks.evaluated import Scored
from repro.tasks.example_task import ExampleTask
from repro.tasks.metrics import Meteor, Rouge, UnigramF1, require_wordnet
from repro.tasks.networks import TokenNetwork
from repro.tasks.reading import Cut, read_blocks, token_types
from repro.tasks.replies import Generation, Ids, replies, turns
from repro.tasks.task import OptimizerMaker, ScheduleMaker, StepResult
from repro.tasks.translated import one_line

READ = "read"  # scored during training, without replies
TEXTS = ("f1", "rouge1", "rougeL", "meteor")
Place = tuple[int, int]  # of a reply: conversation, and number among its replies


class DialogueData(Data, Protocol):
    """What the task reads of its datamodule; see :class:`repro.data.dialogue_rows.Marked`."""

    seq_len: int
    score_all: bool
    seed: int

    @property
    def ends(self) -> tuple[int, int, int]:
        """Ids of padding, the begin symbol and the end symbol."""
        ...

    @property
    def doc_id(self) -> int:
        """The lowest id of a mark."""
        ...

    def words(self, ids: list[int]) -> str:
        """The text of some ids."""
        ...


class DialogueModel(ExampleTask[TokenNetwork]):
    """Trains and scores a language model of conversations, each read in blocks with a memory; see :func:`read_blocks`.

    A token goes in with its type, the mark that it stands behind. The losses of all blocks of a conversation make one
    update. In the test, a reply to everything that was said so far is drawn wherever somebody spoke, and compared with
    what was said.

    Args:
        net: a :class:`~repro.models.DecoderLM` with a :class:`~repro.nn.typed.TypedVocabulary`.
        optimizer: maker of the optimiser.
        schedule: maker of the schedule.
        generation: how replies are drawn; None draws none.

    Source: Martins et al. 2022, document grounded dialogue, and the authors' code.
    Deviation: a memory takes whole windows, see :func:`read_blocks`. A reply ends where the next speaker's mark or an
        end symbol would come; it is drawn behind at most ``window - max_new`` tokens of the last block.
    """

    SUMS: ClassVar[tuple[str, ...]] = ("nll", "targets", "replies")
    UNITS: ClassVar[dict[str, str]] = {
        "loss": "nats per token", "ppl": "perplexity per token", **dict.fromkeys(TEXTS, "percent"),
    }  # fmt: skip

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
        self._texts: dict[Evaluation, MetricCollection] = {}
        self._means: dict[Evaluation, dict[str, float]] = {}
        self._said: dict[Place, tuple[str, str]] = {}  # of this rank, in the test split of public data
        self._pairs: list[tuple[str, str]] = []  # of all ranks

    @property
    def data(self) -> DialogueData:
        """The datamodule of the trainer."""
        return cast(DialogueData, super().data)

    @property
    def vocabulary_size(self) -> int:
        """Symbols that the network knows."""
        return self.net.vocabulary.size

    def setup(self, stage: str) -> None:
        """Refuses data from which, or a machine on which, no replies could be made or compared.

        Raises:
            UserError: says what to set.
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
        """One micro-batch."""
        nll, count, aux = self._losses(batch.examples)
        loss = self.with_auxiliary(self.share_of_step(nll, batch.step_targets), aux)
        return {"loss": loss, "sums": {"loss": nll.detach().double(), "tokens": count}}

    def _losses(self, examples: Examples) -> tuple[Tensor, int, Tensor | None]:
        """Summed loss, number of targets that count, and the auxiliary loss ``(B,)``."""
        ids, data = examples.inputs, self.data
        rows, steps = ids.shape
        lengths = ids.new_full((rows,), steps) if examples.lengths is None else examples.lengths
        cut = Cut.of(lengths, steps, data.seq_len)
        typed = torch.stack([ids, token_types(ids, data.doc_id)], -1)
        read = read_blocks(self.net, typed, cut, self.remembers, data.ends[0])
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

    def _begin(self, evaluations: list[Evaluation]) -> None:
        super()._begin(evaluations)
        self._said, self._means = {}, {}
        self._texts = {one: self._scores() for one in evaluations if self.replied(one)}

    def _scores(self) -> MetricCollection:
        assert self.generation is not None
        meteor = Meteor(self.generation.synonyms)
        scores = {"f1": UnigramF1(), "rouge1": Rouge("rouge1"), "rougeL": Rouge("rougeL"), "meteor": meteor}
        return MetricCollection(dict(scores), compute_groups=False).to(self.device)

    def sums(self, examples: Examples, settings: CallSettings = AS_BUILT) -> list[Tensor]:
        """Loss and targets; no replies."""
        nll, count, _ = self._losses(examples)
        return [nll, nll.new_full((), count), nll.new_zeros(())]

    def score(self, batch: ExampleBatch, evaluation: Evaluation) -> list[Tensor]:
        """Sums over a batch; compares replies, where they are drawn."""
        nll, count, none = super().score(batch, evaluation)
        if self.replied(evaluation):
            for row, which in enumerate(batch.indices.tolist()):
                none = none + self._reply(batch.examples, row, which, evaluation)
        return [nll, count, none]

    def _reply(self, examples: Examples, row: int, which: int, evaluation: Evaluation) -> int:
        """Draws and compares the replies in one conversation; how many they are."""
        data, how = self.data, self.generation
        assert how is not None
        steps = examples.inputs.shape[1] if examples.lengths is None else int(examples.lengths[row])
        whole = [*examples.inputs[row, :steps].tolist(), int(examples.targets[row, steps - 1])]
        ids = Ids(*data.ends, data.doc_id)
        wanted = turns(whole, data.doc_id, how.history)
        before, seed = [turn.before for turn in wanted], (data.seed, which)
        drawn = replies(self.net, before, ids, data.seq_len, self.remembers, how, seed)
        for place, (turn, tokens) in enumerate(zip(wanted, drawn, strict=True)):
            pair = data.words(tokens), data.words(turn.said)
            self._texts[evaluation].update(*pair)
            if data.public and evaluation.kind == "test":
                self._said[which, place] = pair
        return len(wanted)

    def complete(self, scored: Scored) -> None:
        """Means over the replies of all ranks, and the replies in order."""
        if scored.evaluation in self._texts:
            means = self._texts[scored.evaluation].compute()
            self._means[scored.evaluation] = {name: float(value) for name, value in means.items()}
        if scored.evaluation.kind == "test":
            parts = self.gather_objects(self._said)
            merged = {place: pair for part in parts for place, pair in part.items()}
            self._pairs = [merged[place] for place in sorted(merged)]

    # --- the record ---------------------------------------------------------------------------------------------

    def summary(self, scored: Scored) -> dict[str, float]:
        """Loss and perplexity of what was said, and how close replies come to it."""
        nll = scored.sums["nll"] / scored.sums["targets"]
        likelihoods = {"loss": nll, "ppl": math.exp(min(nll, 700.0))}
        return likelihoods | self._means.get(scored.evaluation, {})

    def protocol(self, metric: str, scored: Scored) -> dict[str, Any]:
        """The window; of replies, how they were drawn, from numbers that follow from the run's seed."""
        said = {**super().protocol(metric, scored), "window": self.data.seq_len}
        if metric not in TEXTS or self.generation is None:
            return said
        how = self.generation
        drawn = {
            "top_p": how.top_p,
            "temperature": how.temperature,
            "max_new": how.max_new,
            "history": how.history,
        }
        return said | drawn | ({"synonyms": how.synonyms} if metric == "meteor" else {})

    def counted(self, metric: str, scored: Scored) -> int:
        """Replies, or tokens."""
        return round(scored.sums["replies" if metric in TEXTS else "targets"])

    def samples(self, count: int = 20) -> tuple[list[str], list[list[str]]]:
        """The first replies of the test: column names and rows."""
        pairs = self._pairs[:count]
        return (["reply", "said"], [list(pair) for pair in pairs]) if pairs else ([], [])

    def outputs(self) -> str | None:
        """The replies of the test split, one a line; None where none were drawn, or none may be shown."""
        return "".join(f"{one_line(reply)}\n" for reply, _ in self._pairs) or None
