"""Lightning's view of the mirror. It imports Lightning, so it is imported only where a run is logged."""

import base64
from collections.abc import Mapping, Sequence

from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from repro.tracking.mirror import Mirror


class WandbMirror(Logger):
    """Hands rows to the mirror, on the first rank only.

    Each call takes well under a millisecond and never raises for W&B's sake.
    """

    def __init__(self, mirror: Mirror) -> None:
        super().__init__()
        self.mirror = mirror

    @property
    def name(self) -> str:
        return "wandb"

    @property
    def version(self) -> str:
        return self.mirror.id

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        row = {name: _number(value) for name, value in metrics.items()}
        self.mirror.put("row", row if step is None else {**row, "trainer/global_step": step})

    @rank_zero_only
    def log_hyperparams(self, params: object, *_: object, **__: object) -> None:
        """Nothing: the resolved recipe is the run's config already."""

    @rank_zero_only
    def log_table(
        self, key: str, columns: Sequence[str], data: Sequence[Sequence[object]], step: int | None = None
    ) -> None:
        """Shows a few rows of text or numbers as a table."""
        rows = [list(row) for row in data]
        self.mirror.put("table", {"key": key, "columns": list(columns), "data": rows, "step": step})

    @rank_zero_only
    def log_picture(self, key: str, png: bytes, caption: str | None = None, step: int | None = None) -> None:
        """Shows a picture, the bytes of a PNG file."""
        packed = base64.b64encode(png).decode()
        self.mirror.put("picture", {"key": key, "png": packed, "caption": caption, "step": step})

    @rank_zero_only
    def log_summary(self, values: Mapping[str, object]) -> None:
        """Sets values of the run as a whole, whatever its rows say."""
        self.mirror.put("summary", {name: _number(value) for name, value in values.items()})

    @rank_zero_only
    def log_artifact(self, artifact: Mapping[str, object]) -> None:
        """Links the run to an input or an output; see :func:`repro.tracking.labels.artifact`."""
        self.mirror.put("artifact", dict(artifact))

    @rank_zero_only
    def alert(self, title: str, text: str, level: str = "WARN", dying: bool = False) -> None:
        """Tells whoever follows the run.

        Args:
            title: at most 64 characters; W&B does not repeat one within minutes.
            text: one line.
            level: ``INFO``, ``WARN`` or ``ERROR``.
            dying: the process is about to end: nothing but the file is touched.
        """
        said = {"title": title[:64], "text": " ".join(text.split())[:500], "level": level}
        self.mirror.put("alert", said, dying)


def _number(value: object) -> object:
    """A tensor's or array's number as Python's own."""
    return value.item() if hasattr(value, "item") else value
