"""Things grouped by what they have in common. Needs the standard library only."""

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

Key = TypeVar("Key")
Member = TypeVar("Member")


def grouped(pairs: Iterable[tuple[Key, Member]]) -> defaultdict[Key, list[Member]]:
    """The members of each key, keys and members in their order; another key has none."""
    groups: defaultdict[Key, list[Member]] = defaultdict(list)
    for key, member in pairs:
        groups[key].append(member)
    return groups
