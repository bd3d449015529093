"""Asks a W&B server what it has of a run. Standard library only."""

import base64
import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from repro.errors import ReproError, UserError
from repro.tracking.reach import CLOUD, key_for

ANSWER_S = 15.0
# What W&B's own client asks before it continues a run, less what is not needed here.
_QUESTION = """query RunResumeStatus($project: String, $entity: String, $name: String!) {
 model(name: $project, entityName: $entity) {
  id bucket(name: $name, missingOk: true) { id historyLineCount historyTail }
 }
}"""


class NoAnswer(ReproError):
    """The server does not answer, or not with what was asked."""


@dataclass(frozen=True)
class There:
    """What a server has of a run.

    Attributes:
        exists: whether it knows the run at all.
        rows: of its history.
        next_step: the number that the next row will get.
    """

    exists: bool
    rows: int
    next_step: int


class Server:
    """The server that the environment names, with the key for it.

    Args:
        answer_s: how long one answer may take.

    Raises:
        UserError: an address that is none, or no key for its host.
    """

    def __init__(self, answer_s: float = ANSWER_S) -> None:
        self.base = (os.environ.get("WANDB_BASE_URL") or CLOUD).rstrip("/")
        self.answer_s = answer_s
        url = urlsplit(self.base)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise UserError(f"WANDB_BASE_URL={self.base!r} is no address; write https://...")
        key = key_for(url.hostname)
        if key is None:
            raise UserError(f"no key for {url.hostname}; set WANDB_API_KEY or run `wandb login`")
        self._authorization = "Basic " + base64.b64encode(f"api:{key}".encode()).decode()

    def has(self, run: str, project: str, entity: str | None = None) -> There:
        """What it has of a run.

        Args:
            run: its id.
            project: its project's name.
            entity: whose project; None: that of the key's owner.

        Raises:
            UserError: the key is refused.
            NoAnswer: anything else that goes wrong.
        """
        said = self._ask({"project": project, "entity": entity or None, "name": run})
        model = said.get("model") or {}
        bucket = model.get("bucket")
        if not bucket:
            return There(False, 0, 0)
        rows = int(bucket.get("historyLineCount") or 0)
        tail = json.loads(bucket.get("historyTail") or "[]") or ["{}"]
        last = json.loads(tail[-1]).get("_step")
        return There(True, rows, max(rows, 0 if last is None else int(last) + 1))

    def _ask(self, variables: dict[str, Any]) -> dict[str, Any]:
        body = {"operationName": "RunResumeStatus", "query": _QUESTION, "variables": variables}
        headers = {"Content-Type": "application/json", "Authorization": self._authorization}
        request = urllib.request.Request(f"{self.base}/graphql", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=self.answer_s) as answer:
                said = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                raise UserError(
                    f"{self.base} refuses the key (error {error.code}); run `wandb login --relogin`"
                ) from None
            raise NoAnswer(f"{self.base} answers with error {error.code}") from None
        except (OSError, HTTPException, ValueError) as error:
            why = getattr(error, "reason", None) or error
            raise NoAnswer(f"{self.base} does not answer ({' '.join(str(why).split())[:120]})") from None
        if not isinstance(said, dict) or said.get("errors") or not isinstance(said.get("data"), dict):
            wrong = said.get("errors") if isinstance(said, dict) else said
            raise NoAnswer(f"{self.base} answers with {json.dumps(wrong)[:120]}")
        found: dict[str, Any] = said["data"]
        return found
