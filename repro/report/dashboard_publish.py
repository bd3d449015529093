"""Saves a dashboard to W&B: made where there is none, else brought up to date. Knows W&B by two questions."""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from repro.errors import ReproError
from repro.report.dashboard_models import Spec, address, run_sets, view_name

Ask = Callable[[str, dict[str, Any]], dict[str, Any]]
KINDS = {"workspace": "project-view", "report": "runs"}  # as W&B calls them
PROJECT = """
query ProjectInternalId($entityName: String!, $projectName: String!) {
  project(name: $projectName, entityName: $entityName) { id internalId }
}
"""
FIND = """
query FindViews($entity: String!, $project: String!, $type: String!, $name: String!) {
  project(name: $project, entityName: $entity) {
    allViews(viewType: $type, viewName: $name) { edges { node { id name displayName } } }
  }
}
"""
SAVE = """
mutation SaveView($id: ID, $entity: String, $project: String, $type: String, $name: String,
                  $displayName: String, $description: String, $spec: String!) {
  upsertView(input: {id: $id, entityName: $entity, projectName: $project, type: $type, name: $name,
                     displayName: $displayName, description: $description, spec: $spec,
                     createdUsing: WANDB_SDK}) {
    view { id name }
    inserted
  }
}
"""


@dataclass(frozen=True)
class Saved:
    """A workspace or report on W&B; ``created`` is False where there was one before."""

    kind: str
    url: str
    created: bool


def publish(spec: Spec, ask: Ask, make_project: Callable[[str, str], object], site: str) -> list[Saved]:
    """Saves a workspace and a report. Saved again, they keep their addresses.

    Args:
        spec: of :func:`repro.report.dashboard_models.specification`, with an entity.
        ask: puts a GraphQL question with its variables to W&B, and returns the answer's data.
        make_project: makes a project, given its name and entity.
        site: of W&B's pages.

    Raises:
        ReproError: W&B does not show the project even after making it, or does not save.
    """
    spec = copy.deepcopy(spec)
    number = _project(spec, ask, make_project)
    for runs in run_sets(spec):
        runs["project"]["id"] = number
    return [_save(kind, spec, ask, site) for kind in KINDS]


def _project(spec: Spec, ask: Ask, make_project: Callable[[str, str], object]) -> str:
    """The project's number, which run sets need; the project is made where there is none."""
    where = {"entityName": spec["entity"], "projectName": spec["project"]}
    found = ask(PROJECT, where).get("project")
    if not found:
        make_project(spec["project"], spec["entity"])
        found = ask(PROJECT, where).get("project")
    if not found:
        raise ReproError(f"W&B has no project {spec['entity']}/{spec['project']} and does not make it")
    return str(found["internalId"])


def _save(kind: str, spec: Spec, ask: Ask, site: str) -> Saved:
    view, name = spec[kind], view_name(kind, spec["paper"])
    place = {"entity": spec["entity"], "project": spec["project"], "type": KINDS[kind], "name": name}
    views = ((ask(FIND, place).get("project") or {}).get("allViews") or {}).get("edges") or []
    known = next((e["node"]["id"] for e in views if e["node"].get("name") == name), None)
    texts = {"displayName": view["displayName"], "description": view.get("description", "")}
    wanted = {**place, **texts, "id": known, "spec": json.dumps(view["spec"], ensure_ascii=False)}
    saved = (ask(SAVE, wanted).get("upsertView") or {}).get("view")
    if not saved:
        raise ReproError(f"W&B did not save the {kind} of {spec['paper']}")
    return Saved(kind, _url(kind, spec, str(saved["id"]), site), known is None)


def _url(kind: str, spec: Spec, key: str, site: str) -> str:
    if kind == "workspace":
        return address(spec["paper"], spec["entity"], spec["project"], site)
    title = quote(spec["report"]["displayName"].replace(" ", "-").replace("/", "-"))
    entity, project = quote(spec["entity"]), quote(spec["project"])
    return f"{site.rstrip('/')}/{entity}/{project}/reports/{title}--{key.rstrip('=')}"
