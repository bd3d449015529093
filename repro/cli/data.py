"""Verbs about data: data list, data prepare, data verify."""

import argparse
import json
import signal
from pathlib import Path

from repro.cli.arguments import Verbs, add, add_flag, add_verb


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    data = verbs.add_parser("data", help="list, prepare and verify data stores")
    actions = data.add_subparsers(dest="action", metavar="ACTION", required=True)

    lister = add_verb(actions, "list", list_data)
    add_flag(lister, "--json")

    prepare = add_verb(actions, "prepare", prepare_data)
    add(prepare, "name", metavar="NAME", words=data_sets)
    add(prepare, "--from", "take the files from a folder", dest="from_dir", type=Path, metavar="DIR")
    add(prepare, "--kind", "a data set of your own: pairs, text, labels or pictures", metavar="KIND")
    unit = "unit of a text's tokens: words, bytes or chars (see `repro data list`)"
    add(prepare, "--level", unit, metavar="LEVEL")
    add(prepare, "--vocab-size", "size of the subword vocabulary to learn", type=int, metavar="N")
    add(prepare, "--size", "training pairs, for generated data", type=int, metavar="N")
    add(prepare, "--tokenizer", "an existing .json or SentencePiece .model", type=Path, metavar="FILE")

    verify = add_verb(actions, "verify", verify_data)
    add(verify, "name", metavar="NAME", words=data_sets)


def data_sets() -> list[str]:
    from repro.data.registry import all_data_sets

    return [*all_data_sets()]


def list_data(args: argparse.Namespace) -> None:
    """Data sets with licence, size and whether they are prepared."""
    from repro.data.prepare import list_sources

    sources = list_sources()
    if args.json:
        print(json.dumps(sources, indent=1))
        return
    from tabulate import tabulate

    columns = ("name", "title", "licence", "size", "levels", "obtained", "stores")
    rows = [
        {key: ", ".join(row[key]) if key in ("levels", "stores") else row[key] for key in columns}
        for row in sources
    ]
    print(tabulate(rows, headers="keys", maxcolwidths=[None, 34, 26, 18, 11, None, 22]))


def prepare_data(args: argparse.Namespace) -> None:
    """Obtain, check, tokenise and store a data set."""
    from repro.data.prepare import prepare

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no temporary folder is left
    path = prepare(
        args.name,
        from_dir=args.from_dir,
        vocab_size=args.vocab_size,
        size=args.size,
        tokenizer=args.tokenizer,
        level=args.level,
        kind=args.kind,
    )
    print(path)


def verify_data(args: argparse.Namespace) -> None:
    """Check every hash of a prepared store."""
    from repro.data.prepare import verify

    for line in verify(args.name):
        print(line)
