"""Verbs about data: data list, data prepare, data verify."""

import argparse
import json
from pathlib import Path

from repro.cli.arguments import Verbs, add


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    data = verbs.add_parser("data", help="list, prepare and verify data stores")
    actions = data.add_subparsers(dest="action", metavar="ACTION", required=True)

    lister = actions.add_parser("list", help="data sets with licence, size and whether they are prepared")
    lister.add_argument("--json", action="store_true")
    lister.set_defaults(handler=list_data)

    prepare = actions.add_parser("prepare", help="obtain, check, tokenise and store a data set")
    add(prepare, "name", metavar="NAME", words=data_sets)
    files = "take the files from a folder"
    prepare.add_argument("--from", dest="from_dir", type=Path, metavar="DIR", help=files)
    own = "a data set of your own: pairs, text, labels or pictures"
    prepare.add_argument("--kind", metavar="KIND", help=own)
    unit = "unit of a text's tokens: words, bytes or chars (see `repro data list`)"
    prepare.add_argument("--level", metavar="LEVEL", help=unit)
    subwords = "size of the subword vocabulary to learn"
    prepare.add_argument("--vocab-size", type=int, metavar="N", help=subwords)
    prepare.add_argument("--size", type=int, metavar="N", help="training pairs, for generated data")
    existing = "an existing .json or SentencePiece .model"
    prepare.add_argument("--tokenizer", type=Path, metavar="FILE", help=existing)
    prepare.set_defaults(handler=prepare_data)

    verify = actions.add_parser("verify", help="check every hash of a prepared store")
    add(verify, "name", metavar="NAME", words=data_sets)
    verify.set_defaults(handler=verify_data)


def data_sets() -> list[str]:
    from repro.data.registry import all_data_sets

    return [*all_data_sets()]


def list_data(args: argparse.Namespace) -> None:
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
    from repro.data.prepare import prepare

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
    from repro.data.prepare import verify

    for line in verify(args.name):
        print(line)
