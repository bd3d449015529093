"""What is handed to W&B's client, without a run."""

import base64
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from repro.contact_sheet import Picture, to_png
from repro.tracking import spool
from repro.tracking.process import lines_from
from repro.tracking.sender import Sender, name_no_folder


class Taken:
    """Stands for W&B's run: refuses one value, as the client does what it cannot encode."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def log(self, row: dict[str, Any]) -> None:
        if row.get("x") == "refused":
            raise TypeError("cannot encode")
        self.rows.append(row)


def test_rows_that_are_there_already_are_passed_over() -> None:
    run = Taken()
    to = Sender(run, had={1.0, 2.0}, uploaded=2)
    for at in range(6):
        to.send({"row": {"x": at}, "at": float(at)})
    to.send({"about": {}})
    assert run.rows == [{"x": 4, "_timestamp": 4.0}, {"x": 5, "_timestamp": 5.0}]


def test_a_row_that_wandb_refuses_still_counts_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Else the count of rows that are online would be wrong after a restart."""
    run = Taken()
    to = Sender(run, set(), 0)
    for at, value in enumerate((0, "refused", 2)):
        to.send({"row": {"x": value}, "at": float(at)})
    assert run.rows == [{"x": 0, "_timestamp": 0.0}, {"_timestamp": 1.0}, {"x": 2, "_timestamp": 2.0}]
    assert capsys.readouterr().out == "left out: TypeError: cannot encode\n"


def test_a_dead_service_is_not_taken_for_a_bad_row() -> None:
    class Dead:
        def log(self, row: dict[str, Any]) -> None:
            raise ConnectionResetError("gone")

    with pytest.raises(ConnectionResetError):
        Sender(Dead(), set(), 0).send({"row": {"x": 1}, "at": 1.0})


class Given(Taken):
    """Takes everything that is no row, too."""

    def __init__(self) -> None:
        super().__init__()
        self.summary: dict[str, Any] = {}
        self.alerts: list[tuple[Any, ...]] = []
        self.artifacts: list[tuple[Any, dict[str, Any]]] = []

    def alert(self, *said: Any) -> None:
        self.alerts.append(said)

    def _log_artifact(self, made: Any, **how: Any) -> None:
        self.artifacts.append((made, how))


def test_alerts_of_an_earlier_process_are_not_given_again() -> None:
    run = Given()
    to = Sender(run, set(), 0, until=2.0)
    for at in (1.0, 2.0, 3.0):
        to.send({"alert": {"title": f"t{at}", "text": "x", "level": "WARN"}, "at": at})
    assert [title for title, *_ in run.alerts] == ["t3.0"]


def test_what_is_no_row_is_none_there_and_what_wandb_refuses_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = Given()
    to = Sender(run, set(), uploaded=1)
    to.send({"summary": {"a": 1}, "at": 1.0})
    to.send({"summary": 5, "at": 1.0})
    to.send({"alert": {"title": "t"}, "at": 1.0})
    to.send({"artifact": {"name": "a/b", "type": "record", "metadata": {}, "files": {}}, "at": 1.0})
    assert (run.summary, run.rows, run.alerts, run.artifacts, to.uploaded) == ({"a": 1}, [], [], [], 1)
    assert capsys.readouterr().out.count("left out: ") == 3


def test_a_picture_is_a_row_and_one_that_is_none_an_empty_row(capsys: pytest.CaptureFixture[str]) -> None:
    run = Given()
    to = Sender(run, set(), 0)
    png = to_png([Picture(2, 3, 1, bytes(range(6)))], gap=0)
    for content in (base64.b64encode(png).decode(), base64.b64encode(b"GIF89a").decode(), "no base 64!"):
        to.send({"picture": {"key": "drawn", "png": content, "caption": "c", "step": 7}, "at": 1.0})
    first, *others = run.rows
    assert (first["trainer/global_step"], Image.open(first["drawn"]._path).size) == (7, (3, 2))
    assert others == [{"_timestamp": 1.0}] * 2
    assert capsys.readouterr().out.count("left out: ") == 2


def test_files_of_artifacts_are_named_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W&B sends their paths to its server."""
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run = Given()
    said = {
        "name": "a",
        "type": "record",
        "metadata": {"x": 1},
        "files": {"record.json": "{é}"},
        "used": True,
    }
    Sender(run, set(), 0).send({"artifact": said, "at": 1.0})
    ((made, how),) = run.artifacts
    name_no_folder(made)
    (entry,) = made.manifest.entries.values()
    assert not Path(entry.local_path).is_absolute()
    assert (tmp_path / entry.local_path).read_text(encoding="utf-8") == "{é}"
    assert (made.type, made.metadata, how["use_after_commit"]) == ("record", {"x": 1}, True)


HOSTILE = 'a\x00\x1b[31m\r\n\u2028\u2029\x85\udcff\x7f\ufeff</script>"\\|{}'


def test_hostile_words_stay_one_line_of_the_file(tmp_path: Path) -> None:
    rows = tmp_path / "rows-1.jsonl"
    said = [
        {"table": {"key": HOSTILE, "columns": [HOSTILE], "data": [[HOSTILE]]}, "at": float(n)}
        for n in range(3)
    ]
    rows.write_bytes(b"".join(map(spool.line, said)))
    found = [one for one, _ in lines_from(rows, 0)]
    assert [one["at"] for one in found] == [0.0, 1.0, 2.0]
    assert found[0]["table"]["data"] == [[HOSTILE.replace("\udcff", "?")]]
    assert rows.read_bytes().count(b"\n") == 3
