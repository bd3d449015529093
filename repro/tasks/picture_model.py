"""Models that draw pictures value by value: bits per dimension, pictures to look at, and how long they take."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from repro.batches import Data, Evaluation, Examples
from repro.errors import UserError
from repro.models.draw import draw, timed_drawing
from repro.nn.settings import CallSettings
from repro.record import Measurement
from repro.tasks.drawn_pictures import cut_up, to_line
from repro.tasks.evaluated import EVALUATION_SEED, Metrics, drawing_from
from repro.tasks.metrics.means import Likelihood
from repro.tasks.sequence_model import SequenceModel
from repro.tasks.task import OptimizerMaker, ScheduleMaker

LN2 = math.log(2.0)


@dataclass(frozen=True)
class Timing:
    """A way of drawing whose speed is measured behind the test.

    Args:
        images: side by side.
        cached: with carried state; False reads the whole picture anew for every value.
        values: drawn values of each picture that are timed; None for all.

    Raises:
        ValueError: a number below 1.
    """

    images: int = 1
    cached: bool = True
    values: int | None = None

    def __post_init__(self) -> None:
        if self.images < 1 or (self.values is not None and self.values < 1):
            raise ValueError(f"images {self.images} and values {self.values} must be at least 1")


class PictureDataProtocol(Data, Protocol):
    """The attributes of the datamodule that drawing uses: pictures as rows of values."""

    seq_len: int
    shape: tuple[int, int, int]

    @property
    def whole(self) -> bool:
        """Whether a 0 precedes the first value of every row."""
        ...

    def size(self, split: str) -> int:
        """Pictures of a split."""
        ...

    def examples(self, split: str, indices: Any, epoch: int | None) -> Examples:
        """Some examples of a split, by their numbers ``(B,)``."""
        ...


class PictureModel(SequenceModel):
    """Trains and scores a model of a picture's values, each given those before it, and draws pictures with it.

    Args:
        net: a :class:`~repro.models.DecoderLM` whose tokens are levels of brightness.
        optimizer: maker of the optimiser.
        schedule: maker of the schedule.
        drawn: pictures drawn with carried state behind the test, for people; kept beside the record.
        timings: ways of drawing that are timed, by name: ``draw/images_per_s_<device>_<name>`` and
            ``draw/seconds_<device>_<name>``, the device being ``cpu`` or ``gpu``.

    Source: Katharopoulos et al. 2020, section 4.2 and supplement C.2.
    """

    data: PictureDataProtocol  # the datamodule of the trainer
    UNITS: ClassVar[dict[str, str]] = {"loss": "nats per value", "bits_per_dim": "bits per value"}

    def __init__(
        self,
        net: nn.Module,
        optimizer: OptimizerMaker,
        schedule: ScheduleMaker,
        drawn: int = 16,
        timings: dict[str, Timing] | None = None,
    ) -> None:
        super().__init__(net, optimizer, schedule)
        if drawn < 0:
            raise ValueError(f"drawn must be at least 0, not {drawn}")
        self.drawn = drawn
        self.timings = timings or {}
        self._timed: list[Measurement] = []
        self._pictures: str | None = None

    def likelihood(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, dict[str, Tensor | int]]:
        """Negative log-likelihood, and the curves of training, in nats and bits."""
        nll = self.net.vocabulary.nll(hidden, targets).sum()
        nats = nll.detach().double()
        return nll, {"loss": nats, "bits_per_dim": nats / LN2, "tokens": targets.numel()}

    def metrics(self, evaluation: Evaluation) -> Metrics:
        """Mean over all values that are predicted, in nats and in bits."""
        return {"likelihood": Likelihood("bits_per_dim")}

    def score_examples(self, examples: Examples, settings: CallSettings, metrics: Metrics) -> None:
        """Adds likelihoods."""
        hidden, targets, _ = self.hidden(examples, settings)
        metrics["likelihood"].update(self.net.vocabulary.nll(hidden, targets).sum(), targets.numel())

    def setup(self, stage: str) -> None:
        """Refuses, before training, a timing of more values than are drawn of a picture.

        Raises:
            UserError: there is one.
        """
        super().setup(stage)
        if self.data is None:
            return
        most = self.data.seq_len
        for name, timing in self.timings.items():
            if timing.values is not None and timing.values > most:
                raise UserError(
                    f"timing {name}: values {timing.values} is more than the {most} that are drawn of a picture; set "
                    f"model.timings.{name}.values to {most} or less"
                )

    # --- drawing ------------------------------------------------------------------------------------------------

    def on_test_epoch_end(self) -> None:
        super().on_test_epoch_end()
        if self.trainer.is_global_zero:
            with drawing_from(0, self.device):
                self._pictures = self._draw() if self.drawn else None
                self._timed = [m for name, timing in self.timings.items() for m in self._time(name, timing)]

    def _draw(self) -> str:
        """Pictures as text; the first value of each is that of a test picture, or the 0 in front of all."""
        data, split = self.data, self.data.split("test")
        indices = np.arange(self.drawn, dtype=np.int64) % data.size(split)
        first = data.examples(split, indices, None).inputs[:, 0]
        generator = torch.Generator().manual_seed(EVALUATION_SEED)
        values = draw(self.net, first.to(self.device), data.seq_len + 1, generator)[:, int(data.whole) :]
        pixels = values.to(torch.uint8).cpu().numpy().tobytes()
        return "\n".join(map(to_line, cut_up(data.shape, pixels))) + "\n"

    def _time(self, name: str, timing: Timing) -> list[Measurement]:
        """Pictures a second, and seconds a picture."""
        measured = timed_drawing(self.net, timing.images, self.data.seq_len + 1, timing.cached, timing.values)
        protocol = {
            "images": measured.images, "cached": timing.cached, "timed_values": measured.measured,
            "extrapolated": measured.extrapolated,
        }  # fmt: skip
        device = "gpu" if self.device.type == "cuda" else self.device.type
        values = {"images_per_s": measured.images_per_s, "seconds": measured.seconds_per_image}
        units = {"images_per_s": "pictures per second", "seconds": "seconds per picture"}
        return [
            Measurement(
                f"draw/{metric}_{device}_{name}", value, units[metric], self.data.split("test"), protocol
            )
            for metric, value in values.items()
        ]

    def measurements(self) -> list[Measurement]:
        """Likelihoods, then speeds."""
        return [*super().measurements(), *self._timed]

    def outputs(self) -> str | None:
        """The drawn pictures, one line each."""
        return self._pictures
