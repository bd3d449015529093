"""W&B's public API on the loopback: artifacts to read, with a store for their files, and views to write."""

import base64
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote

from tests.wandb_server import ENTITY, PROJECT, WandbServer

KEY = "0123456789abcdef" * 2 + "planted0"
Files = Mapping[str, bytes]


@dataclass
class Upload:
    """One version of an artifact; ``sizes`` are what the server says where that is not the truth."""

    name: str
    version: int
    files: Files
    sizes: Mapping[str, int] = field(default_factory=dict)
    state: str = "COMMITTED"


class WandbApi(WandbServer):
    """Answers what ``wandb.Api`` asks of artifacts and what dashboards ask of views.

    Attributes:
        uploads: artifacts of type ``record``, in the order in which they are listed.
        views: what was saved, by id: ``name``, ``type``, ``displayName``, ``spec`` as text, ...
        projects: names of those that exist.
        page: how many artifacts or files an answer holds at most.
        store: where files lie; it keeps the headers of each request.
        addresses: of files of an artifact, by its name, where these do not lie in the store.
    """

    def __init__(self) -> None:
        self.uploads: list[Upload] = []
        self.views: dict[str, dict[str, Any]] = {}
        self.projects = {PROJECT}
        self.page = 2
        self.store = FileStore()
        self.addresses: dict[str, str] = {}
        super().__init__()

    def upload(self, name: str, files: Files, **more: Any) -> Upload:
        """As if somebody's run had logged an artifact of type ``record``."""
        version = sum(one.name == name for one in self.uploads)
        made = Upload(name, version, files, **more)
        self.uploads.append(made)
        for path, data in files.items():
            self.store.put(_address(made, path), data)
        return made

    def close(self) -> None:
        """Both servers end."""
        self.vanish()
        self.store.close()

    def asked(self, operation: str) -> int:
        """How often an operation came."""
        return sum(request.endswith(f" {operation}") for request in self.requests)

    def _graphql(self, operation: str, parsed: dict[str, Any]) -> dict[str, Any]:
        named = re.search(r"\b(?:query|mutation)\s+(\w+)", str(parsed.get("query")))
        operation = operation or (named.group(1) if named else "")
        if not self.requests[-1].endswith(operation):
            self.requests[-1] += f" {operation}"
        answers = {
            "Viewer": self._viewer, "GetViewer": self._viewer, "GetDefaultEntity": self._viewer,
            "ServerFeaturesQuery": self._features,
            "ProjectInternalId": self._project, "CreateProject": self._create_project,
            "ProjectArtifactType": self._type, "ArtifactTypeArtifactCollections": self._collections,
            "ProjectArtifacts": self._versions, "ArtifactMembershipFiles": self._files,
            "View": self._view, "SpecificReport": self._report, "GetProjects": self._list_projects,
            "UpsertView2": self._save_view, "upsertView": self._save_view,
        }  # fmt: skip
        if operation not in answers:
            return super()._graphql(operation, parsed)
        return {"data": answers[operation](parsed.get("variables") or {})}

    def _viewer(self, _: dict[str, Any]) -> Any:
        viewer = {"id": "1", "entity": ENTITY, "username": ENTITY, "email": "", "flags": "{}", "name": "Anna"}
        return {"viewer": {**viewer, "admin": False, "deletedAt": None, "teams": {"edges": []}}}

    def _features(self, _: dict[str, Any]) -> Any:
        return {"serverInfo": {"features": []}}

    def _project(self, given: dict[str, Any]) -> Any:
        there = given["projectName"] in self.projects and given["entityName"] == ENTITY
        return {"project": {"id": "UHJvamVjdA==", "internalId": "77"} if there else None}

    def _create_project(self, given: dict[str, Any]) -> Any:
        self.projects.add(given["input"]["name"])
        return {"upsertModel": {"project": {"id": "p"}, "model": {"id": "p"}, "inserted": True}}

    def _list_projects(self, given: dict[str, Any]) -> Any:
        nodes = [
            {"node": {
                "__typename": "Project", "id": name, "internalId": "77", "name": name, "entityName": ENTITY,
                "entity": {"name": ENTITY}, "createdAt": "2026-01-01T00:00:00Z", "isBenchmark": False,
                "user": None, "tags": [],
            }, "cursor": ""}
            for name in sorted(self.projects)
        ]  # fmt: skip
        return {"models": self._paged(nodes, given), "scope": {"projects": self._paged(nodes, given)}}

    def _view(self, given: dict[str, Any]) -> Any:
        """A workspace by its name."""
        here = [
            {"node": {**view, "id": key}}
            for key, view in self.views.items()
            if view["name"] == given["viewName"]
        ]
        return {"project": {"allViews": {"edges": here}}}

    def _report(self, given: dict[str, Any]) -> Any:
        key = given["reportId"]
        return {"view": {**self.views[key], "id": key} if key in self.views else None}

    def _save_view(self, given: dict[str, Any]) -> Any:
        key = given.get("id") or base64.b64encode(f"View:{len(self.views)}".encode()).decode()
        if given.get("id") and key not in self.views:
            raise AssertionError(f"no view {key}")
        inserted = key not in self.views
        project = {"id": "UHJvamVjdA==", "name": given["projectName"], "entityName": given["entityName"]}
        times = {"createdAt": "2026-01-01T00:00:00", "updatedAt": "2026-01-01T00:00:00"}
        self.views[key] = {**given, "project": project, **times}
        return {"upsertView": {"view": {**self.views[key], "id": key}, "inserted": inserted}}

    def _type(self, given: dict[str, Any]) -> Any:
        found = {
            "__typename": "ArtifactType",
            "id": "t",
            "name": "record",
            "description": "",
            "createdAt": "",
        }
        known = given["type"] == "record" and bool(self.uploads)
        return {"project": {"artifactType": found if known else None} if self._here(given) else None}

    def _collections(self, given: dict[str, Any]) -> Any:
        names = list(dict.fromkeys(one.name for one in self.uploads))
        nodes = [
            {"node": {
                "__typename": "ArtifactSequence", "id": f"c-{i}", "name": name, "description": None,
                "createdAt": "2026-01-01T00:00:00Z", "updatedAt": None, "project": _PROJECT,
                "type": {"name": "record"}, "tags": {"edges": []},
            }}
            for i, name in enumerate(names)
        ]  # fmt: skip
        return {"project": {"artifactType": {"artifactCollections": self._paged(nodes, given)}}}

    def _versions(self, given: dict[str, Any]) -> Any:
        here = [one for one in self.uploads if one.name == given["collection"]]
        edges = [{"version": f"v{one.version}", "node": _artifact(one)} for one in here]
        found = {"__typename": "ArtifactSequence", "artifacts": self._paged(edges, given)}
        return {"project": {"artifactType": {"artifactCollection": found}}}

    def _files(self, given: dict[str, Any]) -> Any:
        (one,) = (
            u for u in self.uploads if (u.name, f"v{u.version}") == (given["collection"], given["alias"])
        )
        edges = [
            {"node": {
                "__typename": "File", "id": f"f-{i}", "name": path, "sizeBytes": one.sizes.get(path, len(data)),
                "url": None, "directUrl": self.addresses.get(one.name, self.store.url + _address(one, path)),
                "storagePath": None, "mimetype": None, "updatedAt": None, "digest": None, "md5": None,
            }}
            for i, (path, data) in enumerate(one.files.items())
        ]  # fmt: skip
        member = {"files": self._paged(edges, given)}
        found = {"__typename": "ArtifactSequence", "artifactMembership": member}
        return {"project": {"artifactCollection": found}}

    def _here(self, given: dict[str, Any]) -> bool:
        return given["entity"] == ENTITY and given["project"] in self.projects

    def _paged(self, edges: list[Any], given: dict[str, Any]) -> Any:
        """One page of a connection; its cursor is the number of the next edge."""
        first = int(given.get("cursor") or 0)
        end = first + self.page
        info = {"__typename": "PageInfo", "endCursor": str(end), "hasNextPage": end < len(edges)}
        return {"totalCount": len(edges), "pageInfo": info, "edges": edges[first:end]}


_PROJECT = {"id": "p", "internalId": "77", "name": PROJECT, "entity": {"name": ENTITY}}


def _artifact(one: Upload) -> dict[str, Any]:
    sequence = {"__typename": "ArtifactSequence", "name": one.name, "project": _PROJECT}
    return {
        "__typename": "Artifact", "id": f"{one.name}-{one.version}", "artifactSequence": sequence,
        "versionIndex": one.version, "artifactType": {"name": "record"}, "description": None, "metadata": None,
        "ttlDurationSeconds": -1, "ttlIsInherited": False, "tags": [], "historyStep": None, "state": one.state,
        "size": sum(map(len, one.files.values())), "digest": "d", "digestAlgorithm": "MANIFEST_MD5",
        "commitHash": None, "fileCount": len(one.files), "createdAt": "2026-01-01T00:00:00Z", "updatedAt": None,
        "aliases": [],
    }  # fmt: skip


def _address(one: Upload, path: str) -> str:
    return f"/{quote(one.name, safe='')}/{one.version}/{quote(path, safe='')}"


class FileStore:
    """Serves bytes by path, as the object store behind W&B does, and keeps what it was asked with.

    Attributes:
        endless: paths whose answer states no length and goes on for this many bytes.
        elsewhere: paths that answer with a redirection to another address.
    """

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.endless: dict[str, int] = {}
        self.elsewhere: dict[str, str] = {}
        self.headers: list[dict[str, str]] = []
        self.sent = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _file_handler(self))
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def put(self, path: str, data: bytes) -> None:
        self.contents[unquote(path)] = data

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _file_handler(store: FileStore) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(self.path)
            store.headers.append(dict(self.headers))
            if path in store.elsewhere:
                self.send_response(302)
                self.send_header("Location", store.elsewhere[path])
                self.end_headers()
                return
            self.send_response(200 if path in store.contents else 404)
            self.end_headers()
            try:
                self.wfile.write(store.contents.get(path, b""))
                for _ in range(0, store.endless.get(path, 0), 1 << 16):
                    store.sent += self.wfile.write(b" " * (1 << 16))
            except OSError:
                pass

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    return Handler


def said(view: dict[str, Any]) -> Any:
    """The specification of a saved view."""
    return json.loads(view["spec"])
