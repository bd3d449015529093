"""Quantities that a recipe states under several keys: one value each, and set together. Needs no torch.

Keys are written as on the command line, without ``init_args``. Lengths of training and of evaluation are different
quantities, and so are the width and the size of a part (heads, inner layers, positions beside the embedding).
A recipe whose key differs on purpose lists it: ``untied: [model.schedule.steps]`` where a training is one stage of the
schedule's.
"""

import json
from collections.abc import Sequence

from repro.errors import UserError, nearest
from repro.nested import Config, Tree, flatten

TIED = {
    "width": (
        "model.net.d_model", "model.net.body.d_model", "model.against.d_model", "model.width", "model.schedule.d_model",
        "data.width",
    ),
    "number of updates": ("trainer.max_steps", "model.schedule.steps"),
    "size of the vocabulary": ("model.net.vocabulary.size", "model.against.vocabulary.size", "data.vocab_size"),
}  # fmt: skip

Pairs = Sequence[tuple[str, Tree]]


def short(key: str) -> str:
    """A dotted key without its ``init_args``."""
    return key.replace(".init_args.", ".")


def stated(config: Config) -> list[tuple[str, Config]]:
    """Each quantity, with the keys under which a configuration states it and their values; not the untied ones."""
    untied = config.get("untied") or ()
    flat = {short(key): value for key, value in flatten(config).items() if short(key) not in untied}
    return [(name, {k: flat[k] for k in keys if flat.get(k) is not None}) for name, keys in TIED.items()]


def require_agreement(experiment: str, config: Config) -> None:
    """Refuses a recipe that states two values for one quantity.

    Args:
        experiment: for the message.
        config: of file, overlay and point, without overrides.

    Raises:
        UserError: names both keys and values, or what cannot be untied.
    """
    untied, tied = config.get("untied") or [], [key for keys in TIED.values() for key in keys]
    for key in untied if isinstance(untied, list) else [untied]:
        if key not in tied or not isinstance(untied, list):
            raise UserError(
                f"{experiment}: untied: {untied!r} is not a list of tied keys{nearest(str(key), tied)}; "
                f"write `untied: [model.schedule.steps]`"
            )
    for quantity, values in stated(config):
        for key, value in values.items():
            first = next(iter(values))
            if value != values[first]:
                raise UserError(
                    f"{experiment}: {first} is {values[first]} and {key} is {value}, but both are the {quantity}; "
                    f"write one value, or `untied: [{key}]` if that is meant"
                )


def followers(config: Config, overrides: Pairs) -> tuple[list[tuple[str, Tree]], list[str]]:
    """The keys to be set together with the overrides of a recipe whose keys agreed.

    Args:
        config: with the overrides set.
        overrides: ``(dotted key, value)`` pairs; a value may be a mapping of several keys.

    Returns:
        Further pairs to be set: keys that the configuration states and that were not given. And lines for the user:
        which key sets which, and keys of one quantity that were given different values, which set no other.
    """
    overridden = {short(k) for key, value in overrides for k in flatten(value, key)}
    also: list[tuple[str, Tree]] = []
    lines = []
    for quantity, values in stated(config):
        new = {key: value for key, value in values.items() if key in overridden}
        if not new:
            continue
        key, value = next(iter(new.items()))
        others = [k for k in values if k not in overridden and values[k] != value]
        if any(v != value for v in new.values()):
            lines.append(f"{' and '.join(f'{k} {v}' for k, v in new.items())}: two values for the {quantity}")
        elif others and isinstance(value, int):  # a value that is not a number is refused under its own key
            lines.append(f"{key} {value} also sets {', '.join(others)}")
            also += [(k, value) for k in others]
    return also, lines


def words(pairs: Pairs) -> tuple[str, ...]:
    """Settings as words of a command, ``--trainer.max_steps=10``."""
    return tuple(f"--{key}={json.dumps(value, default=str)}" for key, value in pairs)


def deviation(overrides: Pairs, also: Pairs) -> str:
    """The line about settings among the deviations of a run.

    Args:
        overrides: given by the user.
        also: those that were set together with them.
    """
    more = f" (also {' '.join(words(also))})" if also else ""
    return f"Settings given on the command line: {' '.join(words(overrides))}{more}"
