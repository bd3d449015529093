"""How much a later token changes earlier outputs of hashed attention.

    python -m benchmarks.leakage

One layer, 4 heads, width 256, 1,024 tokens. The last token, or the last 128, are drawn anew, with the rotations kept,
and outputs at the places before are compared. Tokens are standard normal and weights as torch draws them;
``clustered`` tokens have a random one of 8 vectors added, ten times as long as the rest, so that their buckets
overflow the chunks.
"""

import json
from typing import Any

import torch
from tabulate import tabulate
from torch import nn

from benchmarks.workloads.lsh import CHUNK, D_MODEL, HEADS
from repro.nn import Hashing, Layout, LSHAttention


@torch.no_grad()
def leakage(
    hashing: Hashing, changed: int, clustered: bool, length: int = 1024, rows: int = 4
) -> dict[str, Any]:
    """How outputs before the last ``changed`` tokens change when these are drawn anew.

    Returns:
        The share of earlier outputs (one for each row, head and place) that change, and by how much those do in the
        median, relative to the root mean square of an output.
    """
    torch.manual_seed(1)
    mixer = LSHAttention(D_MODEL, HEADS, hashing)
    mixer.out = nn.Identity()  # type: ignore[assignment]
    x = torch.randn(rows, length, D_MODEL)
    other = x.clone()
    other[:, -changed:] = torch.randn(rows, changed, D_MODEL)
    if clustered:
        shift = 10.0 * torch.randn(8, D_MODEL)[torch.randint(8, (2, rows, length))]
        x, other = (
            x + shift[0],
            torch.cat([(other + shift[0])[:, :-changed], (other + shift[1])[:, -changed:]], 1),
        )
    outputs = []
    for tokens in (x, other):
        torch.manual_seed(2)  # the same rotations
        outputs.append(mixer(tokens, None, Layout(True)).y[:, :-changed].unflatten(-1, (HEADS, -1)))
    gap, typical = (outputs[0] - outputs[1]).norm(dim=-1), outputs[0].norm(dim=-1).square().mean().sqrt()
    moved = gap > 1e-4 * typical
    size = float(gap[moved].median() / typical) if bool(moved.any()) else 0.0
    kind = "across" if hashing.across_buckets else "bucket mask"
    settings = {"masks": kind, "rounds": hashing.rounds, "chunk": hashing.chunk, "clustered": clustered}
    return {**settings, "changed": changed, "share": float(moved.float().mean()), "relative": size}


def leaks(length: int = 1024) -> list[dict[str, Any]]:
    """The leakage of both kinds of masks with 1 and 4 rounds; the last two have chunks that cover everything."""
    kinds = [make(rounds, CHUNK) for make in (Hashing, Hashing.across) for rounds in (1, 4)]
    found = [leakage(h, n, clustered) for clustered in (False, True) for h in kinds for n in (1, 128)]
    covering = [Hashing(1, length // 2, across_buckets=True), Hashing.across(4, length)]
    return found + [leakage(h, 128, True) for h in covering]


if __name__ == "__main__":
    leaking = leaks()
    print(tabulate(leaking, headers="keys", floatfmt=".4f"))
    print(json.dumps({"benchmark": "leakage", "torch": torch.__version__, "leakage": leaking}))
