"""What a server has of a run, and every way in which it does not say so."""

import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from repro.errors import UserError
from repro.tracking.server import NoAnswer, Server, There
from tests.tracking.conftest import KEY, RUN
from tests.wandb_server import HANG, WandbServer


def test_rows_and_the_next_number(server: WandbServer) -> None:
    assert Server().has(RUN, "repro") == There(False, 0, 0)
    server.runs[RUN] = {}
    assert Server().has(RUN, "repro") == There(True, 0, 0)
    server.rows[RUN] = [{"_step": 10}, {"_step": 11}]
    assert Server().has(RUN, "repro") == There(True, 2, 12)
    server.rows[RUN] = [{"_step": 0}] * 5
    assert Server().has(RUN, "repro", "anna") == There(True, 5, 5)
    assert {request.split()[-1] for request in server.requests} == {"RunResumeStatus"}


@pytest.mark.parametrize(
    ("mood", "kind"), [(500, NoAnswer), (429, NoAnswer), (401, UserError), (403, UserError)]
)
def test_refusals(server: WandbServer, mood: int, kind: type[Exception]) -> None:
    server.mood = mood
    with pytest.raises(kind, match=f"(error {mood})|refuses the key") as told:
        Server().has(RUN, "repro")
    assert isinstance(told.value, UserError) == (mood in (401, 403))
    assert KEY not in str(told.value)


def test_silence(server: WandbServer) -> None:
    server.mood = HANG
    with pytest.raises(NoAnswer, match="does not answer"):
        Server(answer_s=0.2).has(RUN, "repro")
    server.vanish()
    with pytest.raises(NoAnswer, match="does not answer"):
        Server().has(RUN, "repro")


@pytest.fixture
def saying(server: WandbServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """What a server says that is not W&B's."""
    said = [b""]

    class Other(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(said[0])

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    other = http.server.HTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=other.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{other.server_address[1]}/")
    yield said
    other.shutdown()
    other.server_close()


@pytest.mark.parametrize(
    "answer", [b"", b"<html>", b"[]", b'{"errors": [{"message": "no such\\u001b thing"}]}', b'{"data": null}']
)
def test_answers_that_are_none(saying: list[bytes], answer: bytes) -> None:
    saying[0] = answer
    with pytest.raises(NoAnswer) as told:
        Server().has(RUN, "repro")
    assert "\n" not in str(told.value)
    assert "\x1b" not in str(told.value)
    saying[0] = json.dumps({"data": {"model": None}}).encode()
    assert Server().has(RUN, "repro") == There(False, 0, 0)


def test_no_key_or_no_address_is_said_at_once(server: WandbServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_API_KEY")
    with pytest.raises(UserError, match=r"no key for 127\.0\.0\.1; set WANDB_API_KEY or run `wandb login`"):
        Server()
    monkeypatch.setenv("WANDB_BASE_URL", "nonsense")
    with pytest.raises(UserError, match="'nonsense' is no address"):
        Server()
