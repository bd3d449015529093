"""Speed and memory of hashed attention beside other codes, and how much a later token changes earlier outputs.

    python -m benchmarks.lsh [--official DIR] [--lengths 4096 16384] [--rounds 1 4]

DIR is a checkout of github.com/lucidrains/reformer-pytorch. The side ``transformers`` needs that package; without
either only ours and exact attention are timed. One layer, 4 heads, width 256, one causal row in float32: forward and
backward with projections. Chunks have 64 tokens and look back one chunk everywhere. What the sides mask differs:

=================================  ===========  ==========================  =======
side                               bucket mask  a pair of several rounds    buckets
=================================  ===========  ==========================  =======
ours                               yes          counted once                2 T / 64
ours, across                       no           counted as often as met     2 T / 64
official, masks of the paper       yes          counted once                T / 64
official                           no           counted as often as met     T / 64
transformers                       no           counted as often as met     2 T / 64
exact (torch's fused attention)    -            -                           -
=================================  ===========  ==========================  =======

The sides take turns, and a ratio is the median of the ratios of neighbours. Peak memory is that of a fresh process
over what it held before its first step at this length. The leakage: the last token, or the last 128, are drawn anew,
with the rotations kept, and outputs at the places before are compared. Tokens are standard normal and weights as torch
draws them; ``clustered`` tokens have a random one of 8 vectors added, ten times as long as the rest, so that their
buckets overflow the chunks. Prints tables and one line of JSON.

The official file is imported as it is; it names four packages at its top that its attention does not use, for which
empty stand-ins are put in memory.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from tabulate import tabulate
from torch import Tensor, nn

from benchmarks.memory import status_bytes
from repro.nn import FullAttention, Hashing, Layout, LSHAttention

D_MODEL, HEADS, CHUNK = 256, 4, 64
OURS = ("ours", "ours, across")
# Whom a side is compared with: the same masks first.
AGAINST = {"official, masks of the paper": "ours", "official": "ours, across", "transformers": "ours, across"}


class Ours(nn.Module):
    """A mixer of this library on one causal row."""

    def __init__(self, mixer: nn.Module) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, x: Tensor) -> Tensor:
        return self.mixer(x, None, Layout(True)).y


class Transformers(nn.Module):
    """The layer of the package transformers, with the output projection that it keeps elsewhere."""

    def __init__(self, length: int, rounds: int) -> None:
        super().__init__()
        from transformers import ReformerConfig
        from transformers.models.reformer.modeling_reformer import LSHSelfAttention

        config = ReformerConfig(
            hidden_size=D_MODEL,
            num_attention_heads=HEADS,
            attention_head_size=D_MODEL // HEADS,
            lsh_attn_chunk_length=CHUNK,
            num_hashes=rounds,
            num_buckets=buckets_of(length),
            is_decoder=True,
            lsh_attention_probs_dropout_prob=0.0,
            max_position_embeddings=length,
        )
        self.attention = LSHSelfAttention(config)
        self.out = nn.Linear(D_MODEL, D_MODEL, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.attention(x).hidden_states)


def buckets_of(length: int) -> int | list[int]:
    """Two for each chunk, factorised as the package does above its limit."""
    power = (2 * length // CHUNK).bit_length() - 1
    return 2**power if 2**power <= 2 * CHUNK else [2 ** (power // 2), 2 ** (power - power // 2)]


def official(folder: str, rounds: int, masks: bool) -> nn.Module:
    """The layer of reformer-pytorch."""
    stand_ins = {
        "local_attention": "LocalAttention",
        "axial_positional_embedding": "AxialPositionalEmbedding",
        "product_key_memory": "PKM",
    }
    for name, thing in stand_ins.items():
        module = sys.modules.setdefault(name, ModuleType(name))
        setattr(module, thing, Unused)
    einops = sys.modules.setdefault("einops", ModuleType("einops"))
    for name in ("rearrange", "repeat"):
        if not hasattr(einops, name):
            setattr(einops, name, Unused)
    if "reformer_pytorch" not in sys.modules:  # a package without its __init__, which imports the rest
        package = ModuleType("reformer_pytorch")
        package.__path__ = [os.path.join(folder, "reformer_pytorch")]
        sys.modules["reformer_pytorch"] = package
    from reformer_pytorch.reformer_pytorch import LSHSelfAttention

    options = {"attend_across_buckets": not masks, "allow_duplicate_attention": not masks}
    return LSHSelfAttention(
        D_MODEL, HEADS, CHUNK, rounds, causal=True, random_rotations_per_head=True, **options
    )


class Unused(nn.Module):
    """Stands for what the attention does not use."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()


def build(name: str, length: int, rounds: int, folder: str | None) -> nn.Module:
    """A side."""
    makers: dict[str, Callable[[], nn.Module]] = {
        "ours": lambda: Ours(LSHAttention(D_MODEL, HEADS, Hashing(rounds, CHUNK))),
        "ours, across": lambda: Ours(LSHAttention(D_MODEL, HEADS, Hashing.across(rounds, CHUNK))),
        "exact": lambda: Ours(FullAttention(D_MODEL, HEADS, bias=False)),
        "transformers": lambda: Transformers(length, rounds),
        "official": lambda: official(str(folder), rounds, masks=False),
        "official, masks of the paper": lambda: official(str(folder), rounds, masks=True),
    }
    torch.manual_seed(0)
    return makers[name]()


def sides(folder: str | None) -> list[str]:
    """Those that can run here."""
    found = [*OURS, "exact"]
    try:
        import transformers  # noqa: F401

        found.append("transformers")
    except ImportError:
        pass
    return found + (["official", "official, masks of the paper"] if folder else [])


def step(side: nn.Module, x: Tensor, now: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one forward and backward pass."""
    side.zero_grad(set_to_none=True)
    x = x.clone().requires_grad_()
    begin = now()
    side(x).square().mean().backward()
    return now() - begin


def compare(
    length: int, rounds: int, folder: str | None, repeats: int, now: Callable[[], float]
) -> dict[str, Any]:
    """Times all sides in turn at one length and number of rounds."""
    models = {name: build(name, length, rounds, folder) for name in sides(folder)}
    x = torch.randn(1, length, D_MODEL)
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(repeats + 1):
        for name, side in models.items():
            took = step(side, x, now)
            if turn:  # the first turn warms up
                seconds[name].append(took)
    peaks = {name: peak_of(name, length, rounds, folder) for name in models}
    ratios = {
        name: statistics.median(
            a / b for a, b in zip(seconds[name], seconds[AGAINST.get(name, "ours")], strict=True)
        )
        for name in models
    }
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    return {"length": length, "rounds": rounds, "seconds": medians, "over_ours": ratios, "peak_bytes": peaks}


def peak_of(name: str, length: int, rounds: int, folder: str | None) -> int:
    """Peak bytes of two steps in a fresh process, over what it held before them."""
    command = [sys.executable, "-m", "benchmarks.lsh", "--peak", name, "--lengths", str(length)]
    command += ["--rounds", str(rounds), "--threads", str(torch.get_num_threads())]
    command += ["--official", folder] if folder else []
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1])


def measure_peak(name: str, length: int, rounds: int, folder: str | None) -> int:
    """What :func:`peak_of` runs."""
    side, x = build(name, length, rounds, folder), torch.randn(1, length, D_MODEL)
    step(build(name, 4 * CHUNK, rounds, folder), x[:, : 4 * CHUNK])  # what the first call of all allocates
    before = status_bytes("VmRSS")
    for _ in range(2):
        step(side, x)
    return status_bytes("VmHWM") - before


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


def table(found: list[dict[str, Any]]) -> str:
    """Times and memory for people."""
    rows = [
        [
            one["length"],
            one["rounds"],
            name,
            1e3 * took,
            one["over_ours"][name],
            one["peak_bytes"][name] / 2**20,
        ]
        for one in found
        for name, took in one["seconds"].items()
    ]
    heads = ["length", "rounds", "side", "ms", "over ours", "peak MiB"]
    return tabulate(rows, heads, floatfmt=("", "", "", ".0f", ".2f", ".0f"))


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--official", metavar="DIR", help="a checkout of reformer-pytorch")
    parser.add_argument("--lengths", type=int, nargs="+", default=[4096, 16384])
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--repeats", type=int, default=3, help="timed turns of each side")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="seconds of computing, not on the clock")
    parser.add_argument("--peak", metavar="SIDE", help="print one side's peak memory and end")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.peak:
        print(measure_peak(args.peak, args.lengths[0], args.rounds[0], args.official))
        return
    now = time.process_time if args.cpu_time else time.perf_counter
    found = [compare(n, r, args.official, args.repeats, now) for n in args.lengths for r in args.rounds]
    print(table(found))
    leaking = leaks()
    print("\nleakage at length 1024")
    print(tabulate(leaking, headers="keys", floatfmt=".4f"))
    settings = {"threads": args.threads, "cpu_time": args.cpu_time, "torch": torch.__version__}
    print(json.dumps({"benchmark": "lsh", **settings, "times": found, "leakage": leaking}))


if __name__ == "__main__":
    main()
