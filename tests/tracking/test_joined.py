"""Which rows a server has, and the one fragment that is made of the others."""

import json
from pathlib import Path
from typing import Any

import pytest
from wandb.proto import wandb_internal_pb2

from repro.tracking.fragments import BASE_FILE, Fragment, fragments_of, items_of, log_of
from repro.tracking.joined import join, plan
from repro.tracking.server import There
from tests.tracking.conftest import RUN
from tests.tracking.conftest import records as read_by_wandb

RECORD: Any = wandb_internal_pb2.Record


def history(at: float, step: int) -> Any:
    made = RECORD()
    made.history.step.num = step
    for key, value in (("_timestamp", at), ("_step", step), ("loss", at / 2)):
        made.history.item.add(nested_key=[key], value_json=json.dumps(value))
    return made


def alert(title: str) -> Any:
    made = RECORD()
    made.alert.title = title
    return made


def ended(code: int) -> Any:
    made = RECORD()
    made.exit.exit_code = code
    return made


def fragment(
    root: Path, number: int, *records: Any, kind: str = "", synced: bool = False, base: int | None = None
) -> Fragment:
    """A fragment that was begun ``number`` seconds after 1970."""
    folder = root / f"{kind}run-{20260101 + number}_000000-{RUN}"
    (folder / "files").mkdir(parents=True)
    header, run = RECORD(), RECORD()
    header.header.version_info.producer = header.header.version_info.min_consumer = "0.70.0"
    run.run.run_id, run.run.project, run.run.start_time.seconds = RUN, "repro", number
    (folder / f"run-{RUN}.wandb").write_bytes(log_of(r.SerializeToString() for r in (header, run, *records)))
    if base is not None:
        (folder / BASE_FILE).write_text(json.dumps({"starting_step": base, "at": float(number)}))
    made = Fragment(folder)
    if synced:
        made.mark()
    return made


def rows(times: range, first: int = 0) -> list[Any]:
    return [history(float(at), first + i) for i, at in enumerate(times)]


@pytest.mark.parametrize(("next_step", "lacking"), [(12, 0), (9, 3), (4, 6), (3, 6), (0, 6)])
def test_of_the_last_attempt_the_server_has_what_it_has_counted(
    tmp_path: Path, next_step: int, lacking: int
) -> None:
    fragment(tmp_path, 1, *rows(range(4)), synced=True, kind="offline-")
    fragment(tmp_path, 2, *rows(range(4, 8), 6))
    fragment(tmp_path, 3, *rows(range(8, 12), 8), kind="offline-", base=8)
    made = plan(fragments_of(tmp_path), There(True, next_step, next_step))
    first = {float(at) for at in (4, 5)} if next_step >= 8 else set()
    assert made.there >= first | {0.0, 1.0, 2.0, 3.0}, "a mark counts; the second was cut off by the third"
    assert made.missing == {12: 2, 9: 5, 4: 8, 3: 8, 0: 8}[next_step]
    assert made.missing >= lacking
    assert made.open


def test_an_attempt_that_began_later_tells_what_an_earlier_one_had_brought(tmp_path: Path) -> None:
    """However many rows the server has by now."""
    fragment(tmp_path, 1, *rows(range(6)))
    fragment(tmp_path, 2, *rows(range(10, 16), 3), synced=True)
    made = plan(fragments_of(tmp_path), There(True, 9, 9))
    assert made.rows - made.there == {3.0, 4.0, 5.0}


def test_what_was_never_sent_is_not_there_and_nothing_is_in_a_run_that_is_gone(tmp_path: Path) -> None:
    fragment(tmp_path, 1, *rows(range(3)), kind="offline-")
    fragment(tmp_path, 2, *rows(range(3, 5)), synced=True)
    found = fragments_of(tmp_path)
    assert plan(found, There(True, 2, 2)).there == {3.0, 4.0}
    gone = plan(found, There(False, 0, 0))
    assert (gone.missing, gone.sent) == (5, set())
    assert plan(found, None).missing == 3, "unasked, marks count alone"


def test_a_copy_tells_what_is_there_and_is_not_sent_itself(tmp_path: Path) -> None:
    fragment(tmp_path, 1, *rows(range(6)), kind="offline-")
    fragment(tmp_path, 5, *rows(range(6)), kind="sync-", base=10)
    made = plan(fragments_of(tmp_path), There(True, 12, 14))
    assert made.rows - made.there == {4.0, 5.0}
    assert [one.copied for one in made.fragments] == [False]


def test_the_joined_fragment_holds_each_row_once_and_ends_as_the_last_did(tmp_path: Path) -> None:
    summary = RECORD()
    summary.summary.update.add(key="_step", value_json="77")
    fragment(
        tmp_path, 1, alert("old"), *rows(range(2)), alert("new"), summary, *rows(range(2, 4), 2), ended(75)
    )
    fragment(tmp_path, 2, alert("sent"), *rows(range(4, 6), 2), ended(0), synced=True)
    fragment(tmp_path, 3, *rows(range(2, 4)), *rows(range(6, 8)), ended(1), kind="offline-")
    found = fragments_of(tmp_path)
    made = join(plan(found, There(True, 4, 5)), RUN, 5, tmp_path)
    assert (made.copied, made.base, made.synced) == (True, 5, False)
    assert made.times == [2.0, 3.0, 6.0, 7.0]
    assert [r.history.step.num for r in made.records if r.HasField("history")] == [0, 1, 2, 3]
    assert [items_of(r.history.item)["_step"] for r in made.records if r.HasField("history")] == list("0123")
    assert [items_of(r.summary.update) for r in made.records if r.HasField("summary")] == [{"_step": "0"}]
    assert [r.alert.title for r in made.records if r.HasField("alert")] == ["new"]
    assert [r.exit.exit_code for r in made.records if r.HasField("exit")] == [1]
    assert [r.num for r in made.records] == list(range(1, len(made.records) + 1))
    assert [r["history"]["item"]["loss"] for r in read_by_wandb(made.folder) if "history" in r] == [
        1,
        1.5,
        3,
        3.5,
    ]
    assert found[0].records[2].num == 0, "what was read stays as it was"


def test_tables_and_pictures_go_with_it(tmp_path: Path) -> None:
    one = fragment(tmp_path, 1, *rows(range(2)), kind="offline-")
    for name in ("media/table/a.json", "config.yaml"):
        (one.folder / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (one.folder / "files" / name).write_text("{}")
    made = join(plan([one], None), RUN, 0, tmp_path)
    assert [p.name for p in (made.folder / "files").rglob("*.*")] == ["a.json"]


def test_fragments_that_were_damaged_give_what_they_hold(tmp_path: Path) -> None:
    one = fragment(tmp_path, 1, *rows(range(3)))
    log = one.log.read_bytes()
    one.log.write_bytes(log[:-5])
    assert Fragment(one.folder).times == [0.0, 1.0]
    one.log.write_bytes(log[:7])
    assert fragments_of(tmp_path) == [], "it was cut off before it said which run it is of"
    assert Fragment(one.folder).base is None
