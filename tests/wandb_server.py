"""A W&B server on the loopback, as much of one as the client needs, that can be told to fail in several ways."""

import contextlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

ENTITY, PROJECT = "anna", "repro"
ALIVE, HANG, GONE = 200, 0, -1


class WandbServer:
    """Holds what clients sent; ``mood`` is the status it answers with, or HANG: accept and never answer.

    Args:
        host: address of this machine on which it listens.

    Attributes:
        mood: ALIVE, HANG, or an HTTP status such as 401, 429 or 500 with which all is answered.
        rows: history of each run by id, in the order of offsets, as clients wrote it.
        summaries: of each run by id, the last that clients wrote.
        alerts: title, text and level of each, with the run's id first.
        artifacts: by name: ``type``, ``metadata``, ``files`` by their name, and whether a run ``used`` it.
        runs: what clients said of each run by id (``UpsertBucket``).
        limit: so many rows of a run are taken; the request that brings more, and all later ones, fail.
        requests: ``METHOD path operation`` of every request, in order.
        bodies: every byte that clients sent.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.mood, self.gone = ALIVE, False
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.systems: dict[str, list[dict[str, Any]]] = {}  # what the client measured of the machine
        self.runs: dict[str, dict[str, Any]] = {}
        self.exits: dict[str, int] = {}
        self.summaries: dict[str, dict[str, Any]] = {}
        self.alerts: list[tuple[str, str, str, str]] = []
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.limit: int | None = None
        self.requests: list[str] = []
        self.bodies: list[bytes] = []
        self.lock = threading.Lock()
        self.arrived = threading.Condition(self.lock)
        self._released = threading.Event()
        self._server = ThreadingHTTPServer((host, 0), _handler(self))
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self._server.server_address)

    def fail(self, mood: int) -> None:
        """From now on answers with this status, with nothing (HANG), or does not listen (GONE)."""
        if mood == GONE:
            self.vanish()
        self.mood = mood

    def vanish(self) -> None:
        """Closes the port, answers nobody any more; may be called twice."""
        self.gone = True
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    def recover(self) -> None:
        """Answers again, and lets go those who wait."""
        self.mood = ALIVE
        self._released.set()

    def wait_until(self, true: Any, timeout: float = 10) -> bool:
        """Waits until ``true()`` holds, looked at after each request."""
        with self.arrived:
            return self.arrived.wait_for(true, timeout)

    def has(self, run: str, rows: int) -> None:
        """Pretends to have this many rows of a run: clients send what they have every 15 s only."""
        with self.lock:
            self.rows[run] = [{"_step": step, "trainer/global_step": step} for step in range(rows)]

    def steps(self, run: str) -> list[int]:
        """``trainer/global_step`` of each row of a run."""
        return [row["trainer/global_step"] for row in self.rows.get(run, []) if "trainer/global_step" in row]

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """Status and JSON for one request."""
        if self.mood == HANG:
            self._released.wait(60)
        if self.gone or self.mood != ALIVE:
            return self.mood, {"error": "as the test asked"}
        parsed = json.loads(body) if path == "/graphql" else {}
        operation = str(parsed.get("operationName") or "")
        with self.arrived:
            self.bodies.append(body)
            self.requests.append(f"{method} {path} {operation}".rstrip())
            try:
                if path == "/graphql":
                    return 200, self._graphql(operation, parsed)
                if path.endswith("/file_stream") and not self._stream(path.split("/")[-2], json.loads(body)):
                    return 500, {"error": "as the test asked"}
                if path.startswith("/artifact/"):
                    name, file = path.removeprefix("/artifact/").split("/", 1)
                    self.artifacts[name]["files"][file] = body
                return 200, {}
            finally:
                self.arrived.notify_all()

    def _graphql(self, operation: str, parsed: dict[str, Any]) -> dict[str, Any]:
        given = parsed.get("variables") or {}
        named = re.search(r"\b(?:query|mutation)\s+(\w+)", str(parsed.get("query")))
        operation = operation or (named.group(1) if named else "")
        if operation == "Run":
            return {"data": {"project": {"run": self._run(given["name"])}}}
        if operation == "RunHistoryKeys":
            last = len(self.rows.get(given["name"], [])) - 1
            return {"data": {"project": {"run": {"historyKeys": {"lastStep": last}}}}}
        if operation in ("Viewer", "GetViewer", "GetDefaultEntity"):
            viewer = {"id": "1", "entity": ENTITY, "username": ENTITY, "email": "", "flags": "{}"}
            return {"data": {"viewer": {**viewer, "teams": {"edges": []}}}}
        if operation == "RunResumeStatus":
            return {"data": {"model": self._resume_status(given["name"])}}
        if operation == "UpsertBucket":
            return {"data": {"upsertBucket": self._upsert(given)}}
        if operation == "CreateRunFiles":
            files = [{"name": name, "uploadUrl": f"{self.url}/upload/{name}"} for name in given["files"]]
            return {"data": {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": files}}}
        if operation == "NotifyScriptableRunAlert":
            self.alerts.append(tuple(given[key] for key in ("runName", "title", "text", "severity")))  # type: ignore[arg-type]
            return {"data": {"notifyScriptableRunAlert": {"success": True}}}
        if operation in (
            "CreateArtifact",
            "CreateArtifactManifest",
            "CreateArtifactFiles",
            "CommitArtifact",
            "UseArtifact",
        ):
            return {"data": self._artifact(operation, given)}
        return {"errors": [{"message": f"{operation} is not known here"}]}

    def _artifact(self, operation: str, given: dict[str, Any]) -> dict[str, Any]:
        """The steps of logging an artifact, whose id is its name here."""
        output = given.get("input") or given
        if operation == "CreateArtifact":
            name = output["artifactCollectionName"]
            made = {
                "type": output["artifactTypeName"],
                "metadata": json.loads(output["metadata"] or "{}"),
                "digest": output["digest"],
            }
            self.artifacts[name] = {**made, "files": {}, "used": False, "committed": False}
            result = {"id": name, "state": "PENDING", "artifactSequence": {"latestArtifact": None}}
            return {"createArtifact": {"artifact": result}}
        if operation == "CreateArtifactManifest":
            name, file = output["artifactID"], "wandb_manifest.json"
            url = {"uploadUrl": f"{self.url}/artifact/{name}/{file}", "uploadHeaders": []}
            manifest = {"id": f"m-{name}", "file": {"id": "f", "name": file, "displayName": file, **url}}
            return {"createArtifactManifest": {"artifactManifest": manifest}}
        if operation == "CreateArtifactFiles":
            nodes = [
                {
                    "storagePath": one["name"], "uploadHeaders": [], "uploadMultipartUrls": None,
                    "uploadUrl": f"{self.url}/artifact/{one['artifactID']}/{one['name']}",
                    "artifact": {"id": one["artifactID"]},
                }
                for one in output["artifactFiles"]
            ]  # fmt: skip
            return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}
        done = "used" if operation == "UseArtifact" else "committed"
        self.artifacts[output["artifactID"]][done] = True
        key = operation[0].lower() + operation[1:]
        return {key: {"artifact": {"id": output["artifactID"], "digest": ""}}}

    def _resume_status(self, run: str) -> dict[str, Any]:
        """Returns the facts with which a client continues a run, if there is one."""
        result = {"id": "p", "name": PROJECT, "entity": {"id": "e", "name": ENTITY}, "bucket": None}
        if run in self.runs:
            rows = self.rows.get(run, [])
            tail = json.dumps([json.dumps(row) for row in rows[-1:]])
            result["bucket"] = {
                "id": run, "name": run, "displayName": run, "summaryMetrics": "{}", "config": "{}",
                "historyLineCount": len(rows), "historyTail": tail, "eventsLineCount": 0, "eventsTail": "[]",
                "logLineCount": 0, "tags": [], "notes": None, "wandbConfig": '{"t": 1}',
            }  # fmt: skip
        return result

    def _run(self, run: str) -> dict[str, Any] | None:
        """Returns a run as the public API shows it."""
        if run not in self.runs:
            return None
        return {
            "id": run, "name": run, "displayName": run, "projectId": "77", "tags": [], "state": "finished",
            "summaryMetrics": json.dumps(self.summaries.get(run, {})), "createdAt": "2026-01-01T00:00:00Z",
            "historyLineCount": len(self.rows.get(run, [])), "heartbeatAt": "2026-01-01T00:00:00Z", "config": "{}",
            "user": {"name": ENTITY, "username": ENTITY}, "readOnly": False, "historyKeys": None, "sweepName": None,
            "systemMetrics": "{}",
            "group": None, "jobType": None, "commit": None, "description": None, "notes": None,
        }  # fmt: skip

    def _upsert(self, given: dict[str, Any]) -> dict[str, Any]:
        name = given.get("name") or given.get("id") or "unnamed"
        if given.get("summaryMetrics"):
            self.summaries[name] = json.loads(given["summaryMetrics"])
        self.runs.setdefault(name, {}).update({k: v for k, v in given.items() if v is not None})
        project = {"id": "p", "name": PROJECT, "entity": {"id": "e", "name": ENTITY}}
        bucket = {
            "id": name, "name": name, "displayName": self.runs[name].get("displayName", name), "config": "{}",
            "description": "", "sweepName": None, "historyLineCount": len(self.rows.get(name, [])), "project": project,
        }  # fmt: skip
        return {"bucket": bucket, "inserted": True}

    def _stream(self, run: str, sent: dict[str, Any]) -> bool:
        """Takes what a client sends; False from the row on that ``limit`` says."""
        history = (sent.get("files") or {}).get("wandb-history.jsonl")
        if history:
            rows = self.rows.setdefault(run, [])
            rows[history["offset"] :] = [json.loads(line) for line in history["content"]][
                : self._room(history)
            ]
            if self.limit is not None and len(rows) >= self.limit:
                return False
        for line in ((sent.get("files") or {}).get("wandb-events.jsonl") or {}).get("content", ()):
            self.systems.setdefault(run, []).append(json.loads(line))
        summary = (sent.get("files") or {}).get("wandb-summary.json")
        if summary:
            self.summaries[run] = json.loads(summary["content"][-1])
        if sent.get("complete"):
            self.exits[run] = sent.get("exitcode") or 0
        return True

    def _room(self, history: dict[str, Any]) -> int | None:
        return None if self.limit is None else max(0, self.limit - history["offset"])


def _handler(server: WandbServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            """Until the client goes, which it may do at any time."""
            with contextlib.suppress(OSError):
                super().handle()

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = server.answer(self.command, urlsplit(self.path).path, body)
            if server.gone:
                self.close_connection = True
                return
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = _any

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    return Handler
