"""Hands what a run says to W&B's client, each row once. Standard library and wandb only."""

import base64
import io
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wandb import Artifact, Image, Run

ROWS = ("row", "table", "picture")  # each is one row of the run's history
KINDS = (*ROWS, "summary", "artifact", "alert")
ALERT_AGAIN = timedelta(minutes=10)  # before an alert of one title is repeated
_BAD = (AssertionError, AttributeError, KeyError, TypeError, ValueError)


class Sender:
    """Gives each row to W&B once: those that an earlier process brought there are passed over.

    Args:
        run: W&B's.
        had: times of rows that lie in fragments.
        uploaded: how many of the other rows are online already.
        until: alerts up to this time were given to W&B by an earlier process.
    """

    def __init__(self, run: "Run", had: set[float], uploaded: int, until: float = 0.0) -> None:
        self.run, self.had, self.uploaded, self.until = run, had, uploaded, until

    def send(self, said: dict[str, Any]) -> None:
        """Hands over one line; a dead service raises. Every row is one row there, a malformed one an empty row."""
        kind = next((kind for kind in KINDS if kind in said), None)
        if kind in ROWS:
            self._send_row(said)
        elif kind is not None:
            try:
                getattr(self, f"_{kind}")(said[kind], said["at"])
            except _BAD as error:
                _left_out(error)

    def _send_row(self, said: dict[str, Any]) -> None:
        if said["at"] in self.had:
            return
        if self.uploaded > 0:
            self.uploaded -= 1
            return
        try:
            self.run.log({**self._row(said), "_timestamp": said["at"]})
        except _BAD as error:
            _left_out(error)
            self.run.log({"_timestamp": said["at"]})

    def _row(self, said: dict[str, Any]) -> dict[str, Any]:
        if "row" in said:
            return dict(said["row"])
        import wandb

        if "table" in said:
            shown = said["table"]
            row: dict[str, object] = {shown["key"]: wandb.Table(columns=shown["columns"], data=shown["data"])}
        else:
            shown = said["picture"]
            row = {shown["key"]: _picture(base64.b64decode(shown["png"], validate=True), shown["caption"])}
        return row if shown["step"] is None else {**row, "trainer/global_step": shown["step"]}

    def _summary(self, values: dict[str, Any], _: float) -> None:
        self.run.summary.update(values)

    def _alert(self, said: dict[str, str], at: float) -> None:
        if at > self.until:
            self.run.alert(said["title"], said["text"], said["level"], ALERT_AGAIN)

    def _artifact(self, said: dict[str, Any], _: float) -> None:
        """Logs an artifact, as an input or an output of the run; W&B keeps one version of those that are alike."""
        import wandb

        made = wandb.Artifact(said["name"], type=said["type"], metadata=said["metadata"])
        for name, text in said["files"].items():
            with made.new_file(name, mode="w", encoding="utf-8") as file:
                file.write(text)
        # `use_artifact` waits for the server, and refuses to work offline; what it does then is this:
        self.run._log_artifact(made, is_user_created=True, use_after_commit=said["used"])


def name_no_folder(artifact: "Artifact") -> None:
    """Has an artifact's files named from the current folder, since W&B sends their paths with its manifest.

    It takes the place of a check that W&B makes of every artifact, also of those that tables become. The check would
    ask the server, and wait for it, only to name a mistake that is not made here.
    """
    for entry in artifact.manifest.entries.values():
        if entry.local_path is not None:
            entry.local_path = os.path.relpath(entry.local_path)


def _picture(png: bytes, caption: str | None) -> "Image":
    """A picture of W&B's."""
    import wandb
    from PIL import Image

    try:
        with Image.open(io.BytesIO(png), formats=("PNG",)) as opened:
            opened.load()
            return wandb.Image(opened, caption=caption)
    except OSError as error:  # which from W&B's service would mean that it is gone
        raise ValueError(f"no picture: {error}") from None


def _left_out(error: BaseException) -> None:
    print(f"left out: {type(error).__name__}: {error}", flush=True)
