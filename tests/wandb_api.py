"""W&B's public API on the loopback: projects, and views to write."""

import base64
import json
import re
from typing import Any

from tests.wandb_server import ENTITY, PROJECT, WandbServer

KEY = "0123456789abcdef" * 2 + "planted0"


class WandbApi(WandbServer):
    """Answers what dashboards ask of projects and views.

    Attributes:
        views: what was saved, by id: ``name``, ``type``, ``displayName``, ``spec`` as text, ...
        projects: names of those that exist.
    """

    def __init__(self) -> None:
        self.views: dict[str, dict[str, Any]] = {}
        self.projects = {PROJECT}
        super().__init__()

    def _graphql(self, operation: str, parsed: dict[str, Any]) -> dict[str, Any]:
        named = re.search(r"\b(?:query|mutation)\s+(\w+)", str(parsed.get("query")))
        operation = operation or (named.group(1) if named else "")
        answers = {
            "Viewer": self._viewer, "GetViewer": self._viewer, "GetDefaultEntity": self._viewer,
            "ProjectInternalId": self._project, "CreateProject": self._create_project,
            "View": self._view, "SpecificReport": self._report, "GetProjects": self._list_projects,
            "UpsertView2": self._save_view, "upsertView": self._save_view,
        }  # fmt: skip
        if operation not in answers:
            return super()._graphql(operation, parsed)
        return {"data": answers[operation](parsed.get("variables") or {})}

    def _viewer(self, _: dict[str, Any]) -> Any:
        viewer = {"id": "1", "entity": ENTITY, "username": ENTITY, "email": "", "flags": "{}", "name": "Anna"}
        return {"viewer": {**viewer, "admin": False, "deletedAt": None, "teams": {"edges": []}}}

    def _project(self, given: dict[str, Any]) -> Any:
        there = given["projectName"] in self.projects and given["entityName"] == ENTITY
        return {"project": {"id": "UHJvamVjdA==", "internalId": "77"} if there else None}

    def _create_project(self, given: dict[str, Any]) -> Any:
        self.projects.add(given["input"]["name"])
        return {"upsertModel": {"project": {"id": "p"}, "model": {"id": "p"}, "inserted": True}}

    def _list_projects(self, _: dict[str, Any]) -> Any:
        edges = [
            {"node": {
                "__typename": "Project", "id": name, "internalId": "77", "name": name, "entityName": ENTITY,
                "entity": {"name": ENTITY}, "createdAt": "2026-01-01T00:00:00Z", "isBenchmark": False,
                "user": None, "tags": [],
            }, "cursor": ""}
            for name in sorted(self.projects)
        ]  # fmt: skip
        info = {"__typename": "PageInfo", "endCursor": None, "hasNextPage": False}
        listed = {"totalCount": len(edges), "pageInfo": info, "edges": edges}
        return {"models": listed, "scope": {"projects": listed}}

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


def said(view: dict[str, Any]) -> Any:
    """The specification of a saved view."""
    return json.loads(view["spec"])
