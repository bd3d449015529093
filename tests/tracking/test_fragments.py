"""The log format of W&B's fragments, read and written."""

import json
from pathlib import Path
from typing import Any

import pytest
from wandb.proto import wandb_internal_pb2

from repro.tracking.fragments import log_of, payloads
from tests.tracking.conftest import records as read_by_wandb


@pytest.mark.parametrize(
    "records",
    [
        [],
        [b"a", b"", b"ccc"],
        [b"x" * 100_000, b"y"],
        [b"x" * (32768 - 14), b"y"],
        [b"x" * (32768 - 14 - 3), b"y", b"z"],
        [b"x" * (32768 - 21), b"yy"],
    ],
    ids=["none", "small", "four blocks", "to a block's end", "padding", "a header at a block's end"],
)
def test_every_record_of_a_log_is_read(records: list[bytes]) -> None:
    assert list(payloads(log_of(records))) == records


def test_a_log_that_was_cut_off_gives_what_is_whole() -> None:
    whole = log_of([b"first", b"second" * 10_000])
    for cut in (3, 7, 12, 19, 25, 33_000, len(whole) - 1):
        expected = [b"first"] if cut >= 19 else []
        assert list(payloads(whole[:cut])) == expected, cut
    assert list(payloads(whole[:19] + b"\0" * 500)) == [b"first"]


@pytest.mark.parametrize("spare", [14, 15, 20, 21, 22, 28])
def test_wandb_reads_what_is_written_also_at_the_ends_of_blocks(tmp_path: Path, spare: int) -> None:
    """The first record leaves so many bytes of its block, header of the next one included."""
    messages: Any = wandb_internal_pb2
    records = []
    for size in (32768 - 7 - spare, 5, 100_000, 3):
        made = messages.Record()
        text = made.output_raw
        text.line = "x" * size
        text.line = "x" * (2 * size - len(made.SerializeToString())) if size > 100 else text.line
        records.append(made.SerializeToString())
    assert len(records[0]) == 32768 - 7 - spare
    (tmp_path / "run-a.wandb").write_bytes(log_of(records))
    found = [said["output_raw"]["line"] for said in read_by_wandb(tmp_path)]
    assert json.dumps(found) == json.dumps([messages.Record.FromString(r).output_raw.line for r in records])
