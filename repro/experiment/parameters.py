"""Counts a recipe's parameters on the meta device and compares them with the published count."""

from typing import Any

from torch import nn

from repro.experiment.build import build_task
from repro.models.classifier import Classifier, groups
from repro.nn import Vocabulary
from repro.paths import published_files
from repro.recipe import Recipe
from repro.yamls import read_yaml


def count(recipe: Recipe) -> dict[str, Any]:
    """Parameters by part and kind, the published count of the row reproduced, and the difference.

    Shared parameters count once. ``parts`` sums to ``total``, and so does ``kinds``; ``trained`` sums to
    ``trained_total``, and is empty for networks without groups to train.
    """
    task = build_task(recipe, meta=True)
    net = task.module
    parts = {name: _size(child) for name, child in net.named_children() if _size(child)}
    kinds: dict[str, int] = {}
    counted: set[int] = set()
    for module in net.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in counted:
                counted.add(id(parameter))
                kind = _kind(module, name)
                kinds[kind] = kinds.get(kind, 0) + parameter.numel()
    total = _size(net)
    published = published_count(recipe)
    vocabulary = next((m for name, m in net.named_children() if name == "vocabulary"), None)
    return {
        "experiment": recipe.experiment,
        "scale": recipe.scale,
        "total": total,
        "parts": parts,
        "kinds": kinds,
        "trained": trained(net) if isinstance(net, Classifier) else {},
        "trained_total": sum(p.numel() for p in net.parameters() if p.requires_grad),
        "published": published,
        "difference": None if published is None else total - published,
        "vocabulary": task.vocabulary_size,
        # An adaptive vocabulary has no such number: its tokens have vectors of different widths.
        "per_token": _size(vocabulary) // vocabulary.size if isinstance(vocabulary, Vocabulary) else None,
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
    for cell in recipe.config.get("reproduces") or ():
        tables = read_yaml(path)["tables"]
        rows = [row for table in tables if table["id"] == cell["table"] for row in table["rows"]]
        for row in rows:
            if row["id"] == cell["row"] and row["params"] is not None:
                return int(row["params"])
    return None


def _size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _kind(module: nn.Module, name: str) -> str:
    if isinstance(module, nn.Embedding):
        return "embeddings"
    if isinstance(module, nn.LayerNorm):
        return "norms"
    return "biases" if name == "bias" else "matrices"


def describe(counted: dict[str, Any]) -> str:
    """Describes the count for the terminal, with possible explanations of a difference."""
    lines = [f"{counted['experiment']} ({counted['scale']})", ""]
    for group in ("parts", "kinds"):
        lines += [f"  {name:<12} {size:>15,}" for name, size in counted[group].items()]
        lines.append(f"  {'total':<12} {counted['total']:>15,}\n")
    if counted["trained"]:
        lines += [f"  {name:<12} {size:>15,}   trained" for name, size in counted["trained"].items()]
        lines.append(f"  {'total':<12} {counted['trained_total']:>15,}   trained\n")
    published = counted["published"]
    if published is None:
        return "\n".join([*lines, "no count is published for this row" if counted["scale"] == "paper"
                          else f"no count is published at scale {counted['scale']}"])  # fmt: skip
    lines.append(f"  {'published':<12} {published:>15,}   as printed, rounded to {unit_of(published):,}")
    lines.append(
        f"  {'difference':<12} {counted['difference']:>+15,}   {counted['difference'] / published:+.2%}"
    )
    if abs(counted["difference"]) <= unit_of(published) // 2:
        lines.append("\nequal to the printed count within its rounding")
    elif counted["per_token"]:
        lines += ["", *_vocabulary_lines(counted)]
    else:
        lines.append("\nthe header of the recipe says why")
    return "\n".join(lines)


def _vocabulary_lines(counted: dict[str, Any]) -> list[str]:
    """The vocabulary at which this network would have the published count, over the range of its rounding."""
    size, width, half = counted["vocabulary"], counted["per_token"], unit_of(counted["published"]) // 2
    missing = -counted["difference"]
    tokens, rest = divmod(missing, width)
    low, high = (size + (missing + sign * half) / width for sign in (-1, 1))
    return [
        "The paper does not state the vocabulary of its counts. All other parts are fixed by its table, and a",
        f"token costs {width:,} parameters, so the difference is {tokens:+,} tokens and {rest} parameters:",
        f"{missing:,} = {tokens:,} × {width:,} + {rest}.",  # noqa: RUF001
        f"The published count belongs to a vocabulary of about {size + tokens:,} ({low:,.0f} to {high:,.0f}",
        f"with rounding); ours has {size:,}.",
    ]


def unit_of(published: int) -> int:
    """The unit a printed count was rounded to: 65000000 to a million."""
    unit = 1
    while published % (unit * 10) == 0 and unit < 10**6:
        unit *= 10
    return unit
