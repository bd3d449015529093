"""Times this library beside its peers.

    python -m benchmarks [WORKLOAD ...] [--official DIR] [--threads 2] [--shapes SEED | --write]

Sides that are not installed are left out and named. DIR holds checkouts of official codes, under the names of their
repositories. With one thread, seconds of computing are counted instead of seconds on the clock: for a machine that
others use. Prints a line of JSON for each workload and one table; ``--write`` appends the lines to
benchmarks/HISTORY.jsonl and puts the newest of each workload into the table in benchmarks/README.md.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from tabulate import tabulate

from benchmarks.harness import PRODUCTS, Workload, measure, work

HERE = Path(__file__).resolve().parent
MODULES = (
    "training", "compiled", "decoding", "memory", "infused", "frozen", "linear", "lsh", "reversible", "continuous",
    "running",
)  # fmt: skip
PEERS = ("torch", "transformers", "x-transformers", "reformer-pytorch", "linear-attention-transformer")
MARKS = "<!-- table: python -m benchmarks --write -->\n", "<!-- end of table -->\n"


def table(lines: list[dict[str, Any]]) -> str:
    """All results for people, as Markdown."""
    rows = []
    for line in lines:
        ours, *others = line["sides"].items()
        mark = "" if line["quiet"] else " *"
        rows.append([f"{line['workload']}, {line['unit']}{mark}", *_cells(*ours), ""])
        rows += [["", *_cells(name, side), f"{side['over_ours']:.2f}"] for name, side in others]
    heads = ["workload", "side", "median", "quartiles", "peak MiB", "times ours"]
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True)


def _cells(name: str, side: dict[str, Any]) -> list[str]:
    spread = f"{side['low']:.3g} to {side['high']:.3g}"
    return [name, f"{side['median']:.3g}", spread, "" if name == PRODUCTS else f"{side['peak_mib']:.0f}"]


def about(threads: int) -> dict[str, Any]:
    """Machine, versions and date."""
    found = {}
    for package in PEERS:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    model = next(
        (x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")), ":"
    )
    machine = f"{model.split(':')[1].strip() or platform.machine()}, {os.cpu_count()} cores"
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True)
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return {
        "date": date,
        "commit": commit.stdout.strip(),
        "machine": machine,
        "threads": threads,
        "versions": found,
    }


def text(lines: list[dict[str, Any]]) -> str:
    """The table, and what it was measured with."""
    last, missing = lines[-1], {name for line in lines for name in line["missing"]}
    told = [
        " and ".join(sorted({f"{line['date']}, commit {line['commit']}" for line in lines})),
        "; ".join(sorted({line["machine"] for line in lines})),
        " and ".join(sorted({clock(line["threads"]) for line in lines})),
        ", ".join(f"{name} {version}" for name, version in last["versions"].items()),
    ]
    absent = f" Not here: {', '.join(sorted(missing))}." if missing else ""
    return f"{table(lines)}\n\n{'; '.join(told)}.{absent} A star: others used the machine meanwhile.\n"


def clock(threads: int) -> str:
    """What was counted."""
    return "one thread, seconds of computing" if threads == 1 else f"{threads} threads"


def newest(names: list[str]) -> list[dict[str, Any]]:
    """The last line of each workload in the history, in this order."""
    lines = (json.loads(line) for line in (HERE / "HISTORY.jsonl").read_text().splitlines())
    last = {line["workload"]: line for line in lines}
    return [last[name] for name in names if name in last]


def show(lines: list[dict[str, Any]]) -> None:
    """Puts the table into README."""
    page = (HERE / "README.md").read_text()
    before, after = page.split(MARKS[0])[0], page.split(MARKS[1])[1]
    (HERE / "README.md").write_text(before + MARKS[0] + text(lines) + MARKS[1] + after)


def workloads(wanted: list[str]) -> list[tuple[str, Workload]]:
    """Those whose module or name begins with one of the words; all without words.

    Raises:
        SystemExit: a word fits none.
    """
    found = [
        (module, w) for module in MODULES for w in import_module(f"benchmarks.workloads.{module}").WORKLOADS
    ]
    for word in wanted:
        if not any(module == word or w.name.startswith(word) for module, w in found):
            print(
                f"no workload begins with {word!r}; they are: {'; '.join(w.name for _, w in found)}",
                file=sys.stderr,
            )
            raise SystemExit(2)
    return [(m, w) for m, w in found if not wanted or any(m == x or w.name.startswith(x) for x in wanted)]


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__, formatter_class=raw)
    parser.add_argument("workload", nargs="*", help="a module, or the beginning of a name; default all")
    parser.add_argument("--official", metavar="DIR", type=Path, help="checkouts of official codes")
    parser.add_argument("--threads", type=int, default=2, help="of each side; default 2")
    parser.add_argument("--turns", type=int, default=9, help="of each side, at most; default 9, at least 3")
    parser.add_argument(
        "--seconds", type=float, default=12.0, help="for the turns of a workload, about; default 12"
    )
    parser.add_argument("--list", action="store_true", help="name the workloads and their sides")
    parser.add_argument("--write", action="store_true", help="keep the results")
    parser.add_argument(
        "--shapes",
        metavar="SEED",
        help="other lengths and numbers of rows, drawn by this seed; no results are kept",
    )
    args = parser.parse_args()
    if args.shapes and args.write:
        parser.error("--write keeps results of the usual shapes only; leave --shapes out")
    if args.shapes:
        os.environ["BENCH_SHAPES"] = args.shapes
    if min(args.threads, args.turns) < 1:
        parser.error(f"threads {args.threads} and turns {args.turns} must be at least 1")
    if args.official:
        os.environ["BENCH_OFFICIAL"] = str(args.official.resolve())
    chosen = workloads(args.workload)
    if args.list:
        return print("\n".join(f"{w.name}: {', '.join(w.sides)}" for _, w in chosen))
    lines, told = [], about(args.threads)
    for module, what in chosen:
        found = told | measure(module, what, args.threads, args.turns, args.seconds)
        lines.append(found)
        print(json.dumps(found), flush=True)
        if args.write:
            with (HERE / "HISTORY.jsonl").open("a") as file:
                file.write(json.dumps(found) + "\n")
    print(text(lines))
    return show(newest([w.name for _, w in workloads([])])) if args.write else None


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        module, name, side, threads, outputs = sys.argv[2:]
        work(module, name, side, int(threads), Path(outputs))
    else:
        main()
