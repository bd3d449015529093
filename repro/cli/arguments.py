"""Shared helpers for argparse: the type of the parsers' collection, and shell completion."""

import argparse
from collections.abc import Callable
from typing import TypeAlias

# What `add_subparsers` returns. As text: before Python 3.14 argparse's class takes no brackets at run time.
Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def completed(argument: argparse.Action, completer: Callable[..., list[str]]) -> None:
    """Has the shell complete an argument.

    Args:
        argument: what ``add_argument`` returned.
        completer: gives the words; argcomplete calls it with ``prefix`` and more keywords.
    """
    argument.completer = completer  # type: ignore[attr-defined]  # which argcomplete reads
