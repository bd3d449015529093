"""Names of runs on W&B: groups and tags. Standard library only."""

from repro.recipe import Recipe, change_results

MOST = 64  # characters of a tag


def group(recipe: Recipe, seed: int) -> str:
    """The table cell that runs belong to, ``<paper>:<table>:<row>``; ``<experiment>/<scale>`` at reduced scales.

    A recipe at paper scale that reproduces several cells counts for the first; one without any is its own group. Runs
    that are not judged are apart: the group ends with ``/tuning`` or ``/overridden``.
    """
    cells = recipe.config.get("reproduces") or ()
    name = f"{recipe.experiment}/{recipe.scale}"
    if recipe.scale == "paper" and cells:
        name = f"{recipe.paper}:{cells[0]['table']}:{cells[0].get('row', '')}"
    standing = standing_of(recipe, seed)
    return name if standing == "judged" else f"{name}/{standing}"


def standing_of(recipe: Recipe, seed: int) -> str:
    """Classifies a run: ``judged``, ``tuning`` (an undeclared seed) or ``overridden`` (by settings)."""
    if change_results(recipe.overrides):
        return "overridden"
    return "judged" if seed in recipe.seeds else "tuning"


def tags(recipe: Recipe, seed: int) -> list[str]:
    """All tags of a run: paper, scale, ``<paper>:<table>`` of what it reproduces, and :func:`standing_of`."""
    tables = {f"{recipe.paper}:{cell['table']}" for cell in recipe.config.get("reproduces") or ()}
    return sorted({tag[:MOST] for tag in (recipe.paper, recipe.scale, *tables, standing_of(recipe, seed))})
