"""Counts a recipe's parameters on the meta device and compares them with the published count."""

from typing import Any

from torch import nn

from repro.experiment.build import build_task
from repro.models.classifier import Classifier, groups
from repro.paths import published_files
from repro.recipe import Recipe
from repro.yamls import read_yaml


def count(recipe: Recipe) -> dict[str, Any]:
    """Parameters by part, the published count of the row reproduced, and the difference.

    Shared parameters count once. ``parts`` sums to ``total``; ``trained`` sums to ``trained_total``, and is empty for
    networks without groups to train.
    """
    net = build_task(recipe, meta=True).module
    parts = {name: _size(child) for name, child in net.named_children() if _size(child)}
    total, published = _size(net), published_count(recipe)
    return {
        "experiment": recipe.experiment,
        "scale": recipe.scale,
        "total": total,
        "parts": parts,
        "trained": trained(net) if isinstance(net, Classifier) else {},
        "trained_total": sum(p.numel() for p in net.parameters() if p.requires_grad),
        "published": published,
        "difference": None if published is None else total - published,
    }


def trained(net: Classifier) -> dict[str, int]:
    """Trained parameters by group, each in one group; those of recurrent layers are ``other``."""
    by_group = groups(net)
    # the last attention layer is among all of them, and is named where it alone is trained
    if all(p.requires_grad for module in by_group.get("attention", []) for p in module.parameters()):
        by_group.pop("last_attention", None)
    else:
        by_group.pop("attention", None)
    sizes = {}
    rest = {id(p): p.numel() for p in net.parameters() if p.requires_grad}
    for name, modules in by_group.items():
        parameters = {id(p) for module in modules for p in module.parameters()}
        sizes[name] = sum(rest.pop(key, 0) for key in parameters)
    sizes["other"] = sum(rest.values())
    return {name: size for name, size in sizes.items() if size}


def published_count(recipe: Recipe) -> int | None:
    """The count printed for the first row that the recipe reproduces, at scale ``paper``."""
    path = published_files().get(recipe.paper)
    if recipe.scale != "paper" or path is None:
        return None
    rows = {(table["id"], row["id"]): row for table in read_yaml(path)["tables"] for row in table["rows"]}
    cells = recipe.config.get("reproduces") or ()
    counts = (rows.get((cell["table"], cell["row"]), {}).get("params") for cell in cells)
    return next((int(n) for n in counts if n is not None), None)


def _size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def describe(counted: dict[str, Any], explanation: str | None = None) -> str:
    """Describes a count for the terminal; ``explanation`` states why it differs from the published one."""
    rows = [(name, f"{size:,}", "") for name, size in counted["parts"].items()]
    rows.append(("total", f"{counted['total']:,}", ""))
    if counted["trained"]:
        rows += [(name, f"{size:,}", "trained") for name, size in counted["trained"].items()]
        rows.append(("total", f"{counted['trained_total']:,}", "trained"))
    published, difference = counted["published"], counted["difference"]
    if published is None:
        conclusion = f"no count is published at scale {counted['scale']} for this row"
    else:
        rows.append(("published", f"{published:,}", f"as printed, rounded to {unit_of(published):,}"))
        rows.append(("difference", f"{difference:+,}", f"{difference / published:+.2%}"))
        is_equal = abs(difference) <= unit_of(published) // 2
        reason = explanation or "the header of the recipe gives the reason"
        conclusion = "equal to the printed count within its rounding" if is_equal else reason
    lines = [f"  {name:<12} {size:>15}   {remark}".rstrip() for name, size, remark in rows]
    return "\n".join([f"{counted['experiment']} ({counted['scale']})", "", *lines, "", conclusion])


def unit_of(published: int) -> int:
    """The unit a printed count was rounded to: 65000000 to a million."""
    unit = 1
    while published % (unit * 10) == 0 and unit < 10**6:
        unit *= 10
    return unit
