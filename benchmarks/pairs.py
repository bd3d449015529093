"""Memory and time to prepare a large parallel corpus, and to plan an epoch of it, on made-up pairs.

    python -m benchmarks.pairs

Preparing: pairs of ``--words`` words, drawn by Zipf's law from an open vocabulary (so that distinct words grow with the
corpus, as in real text), are written under the names of the WMT14 English-German files and prepared by ``repro data
prepare`` in a process of its own, at each of ``--pairs``; growth is the difference of the peaks over that of the sizes.
Beside it the same with a vocabulary of ``--words-known`` words alone, which tells what the corpus itself costs.

Planning: a store whose lengths are drawn and whose tokens are zeros; the datamodule opens it, plans an
epoch in global batches of 25,000 tokens at each of ``--plan`` pairs, and builds the first batch. Memory is the peak of
that process less what it held before. Prints a table and one line of JSON.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

CORPORA = ("europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v9.de-en")
HELD_OUT = {"newstest2013": 3000, "newstest2014": 3003}
SYLLABLES = [a + b for a in "bdfghklmnprstvwz" for b in "aeiou"]
BLOCK = 50_000
VOCAB, BATCH_TOKENS = 8000, 25_000


def peak_mib() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# --- preparing ----------------------------------------------------------------------------------------------------


def word(rank: int) -> str:
    """The word of a rank: frequent ones are short."""
    found = ""
    while True:
        rank, syllable = divmod(rank, len(SYLLABLES))
        found += SYLLABLES[syllable]
        if not rank:
            return found


def lines(pairs: int, words: int, known: int | None, random: np.random.Generator) -> Iterator[str]:
    """Sentences of some words; without ``known`` the vocabulary is open."""
    cache: dict[int, str] = {}
    for begin in range(0, pairs, BLOCK):
        ranks = random.zipf(1.35, (min(BLOCK, pairs - begin), words)) % (known or 10**9)
        for row in ranks.tolist():
            if len(cache) > 10**6:
                cache.clear()
            yield " ".join([cache.get(r) or cache.setdefault(r, word(r)) for r in row]) + " .\n"


def write_corpus(folder: Path, pairs: int, words: int, known: int | None) -> None:
    """Files of the WMT14 names with so many pairs in all."""
    sizes = dict.fromkeys(CORPORA, pairs // len(CORPORA)) | HELD_OUT
    sizes[CORPORA[0]] += pairs - sum(sizes[name] for name in CORPORA)
    for seed, (name, size) in enumerate(sizes.items()):
        for side, part in enumerate(("en", "de")):
            random = np.random.Generator(np.random.PCG64([seed, side]))
            with (folder / f"{name}.{part}").open("w") as file:
                file.writelines(lines(size, words, known, random))


def prepare_here(folder: Path) -> dict[str, Any]:
    """Prepares the corpus in a folder: what this process needed."""
    import dataclasses

    from repro.data import registry
    from repro.data.prepare import open_store, prepare

    made_up = dataclasses.replace(registry.DATA_SETS["wmt14-en-de"], sha256={})
    registry.DATA_SETS["wmt14-en-de"] = made_up
    before, start = peak_mib(), time.perf_counter()
    prepare("wmt14-en-de", from_dir=folder, vocab_size=VOCAB)
    seconds = time.perf_counter() - start
    kept = open_store("wmt14-en-de", f"bpe{VOCAB}").manifest.counts["train"]["examples"]
    return {"kept": kept, "seconds": seconds, "before_mib": before, "peak_mib": peak_mib()}


def prepared(pairs: int, words: int, known: int | None) -> dict[str, Any]:
    """The same in a fresh process, on a corpus made for it."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "files"
        folder.mkdir()
        write_corpus(folder, pairs, words, known)
        told = child(["--prepare-here", str(folder)], Path(root) / "data")
    return {"pairs": pairs, "vocabulary": "known" if known else "open", **told}


# --- planning -----------------------------------------------------------------------------------------------------


def write_store(pairs: int) -> None:
    """A store of made-up lengths in the data folder."""
    from repro.data.store import Manifest, make_store
    from repro.data.table import ids_of

    random = np.random.Generator(np.random.PCG64(0))

    def fill(writer: Any) -> Manifest:
        counts: dict[str, dict[str, Any]] = {"train": {"examples": pairs, "tokens": {}}}
        scale = random.lognormal(0, 0.7, pairs)  # both sides of a pair are long or short
        for part in ("en", "de"):
            lengths = np.maximum(1, scale * 24 * random.lognormal(0, 0.2, pairs)).astype(np.int64)
            column = writer.column("train", part, ids_of(37000))
            for block in np.array_split(lengths, -(-pairs // BLOCK)):
                column.add(np.zeros(int(block.sum()), np.uint16), block)
            counts["train"]["tokens"][part] = column.values
        tokenizer = {"kind": "byte-bpe", "size": 37000, "file": "tokenizer.json", "sha256": "none"}
        return Manifest(
            "wmt14-en-de", "bpe37000", "made up", "none", {}, ["en", "de"], {}, [], counts, tokenizer
        )

    make_store("wmt14-en-de", "bpe37000", fill, lambda: False)


def plan_here() -> dict[str, Any]:
    """Plans an epoch of the store in the data folder: what this process needed."""
    from repro.data import TranslationData

    data = TranslationData("wmt14-en-de", 37000, BATCH_TOKENS)
    data.setup()
    before, start = peak_mib(), time.perf_counter()
    planned = data.plan_epoch(0)
    seconds = time.perf_counter() - start
    batch = data.table("train").build(planned[0])
    assert batch.source.numel() <= BATCH_TOKENS
    rows = sum(len(rows.indices) for rows in planned)
    return {
        "batches": len(planned),
        "rows": rows,
        "seconds": seconds,
        "before_mib": before,
        "peak_mib": peak_mib(),
    }


def planned(pairs: int) -> dict[str, Any]:
    """The same in a fresh process, on a store made for it."""
    with tempfile.TemporaryDirectory() as root:
        child(["--store-here", str(pairs)], Path(root))
        return {"pairs": pairs, **child(["--plan-here"], Path(root))}


# --- table --------------------------------------------------------------------------------------------------------


def child(words: list[str], data: Path) -> Any:
    """Runs a part of this program with a data folder of its own; its last line is JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.pairs", *words],
        env={**os.environ, "REPRO_DATA": str(data)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def growth(rows: list[dict[str, Any]]) -> float:
    """MiB of peak memory per million pairs, between the smallest and the largest."""
    first, last = rows[0], rows[-1]
    return (last["peak_mib"] - first["peak_mib"]) / max(1, last["pairs"] - first["pairs"]) * 1e6


def show(title: str, rows: list[dict[str, Any]]) -> None:
    print(title)
    for row in rows:
        print("  " + "  ".join(f"{key} {_told(value)}" for key, value in row.items()))


def _told(value: Any) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value


def compare(args: argparse.Namespace) -> dict[str, Any]:
    """All measurements."""
    open_words = [prepared(n, args.words, None) for n in args.pairs]
    known_words = [prepared(n, args.words, args.words_known) for n in args.pairs]
    plans = [planned(n) for n in args.plan]
    show("prepare, open vocabulary", open_words)
    show(f"prepare, {args.words_known:,} words", known_words)
    show("plan an epoch", plans)
    found = {
        "prepare": open_words + known_words,
        "prepare_mib_per_million": {"open": growth(open_words), "known": growth(known_words)},
        "plan": plans,
        "plan_mib_per_million": [(p["peak_mib"] - p["before_mib"]) / p["pairs"] * 1e6 for p in plans],
    }
    for name, value in found["prepare_mib_per_million"].items():
        print(f"prepare, {name} vocabulary: {value:.0f} MiB more per million pairs")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, nargs="+", default=[300_000, 1_200_000])
    parser.add_argument("--plan", type=int, nargs="+", default=[4_500_000, 36_000_000])
    parser.add_argument("--words", type=int, default=8, help="in a sentence")
    parser.add_argument("--words-known", type=int, default=30_000, metavar="N")
    parser.add_argument("--prepare-here", type=Path, metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--store-here", type=int, metavar="N", help=argparse.SUPPRESS)
    parser.add_argument("--plan-here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.prepare_here:
        print(json.dumps(prepare_here(args.prepare_here)))
    elif args.store_here:
        print(json.dumps(write_store(args.store_here)))
    elif args.plan_here:
        print(json.dumps(plan_here()))
    else:
        print(json.dumps(compare(args)))


if __name__ == "__main__":
    main()
