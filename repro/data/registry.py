"""The data sets by name, read from ``data_sets.yaml``. Needs no torch."""

from importlib import import_module
from pathlib import Path
from typing import Any

from repro.data.data_set import DataSet, Hub
from repro.data.own import own_data_set, own_data_sets
from repro.data.sets.translation.cleaning import Cleaning
from repro.errors import UserError, nearest
from repro.yamls import read_yaml

_OBJECTS = {"hub": Hub, "cleaning": Cleaning}  # attributes that are objects themselves


def _plain(value: Any) -> Any:
    """A value of the file, its lists as tuples, which nobody changes."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def _made(name: str, facts: dict[str, Any]) -> DataSet:
    """The data set of an entry.

    Raises:
        UserError: an entry without a class, or with keys that its class does not have; names the entry.
    """
    try:
        module, _, kind = facts.pop("class").rpartition(".")
        objects = {key: made(**_plain(facts.pop(key))) for key, made in _OBJECTS.items() if key in facts}
        maker: type[DataSet] = getattr(import_module(f"repro.data.sets.{module}"), kind)
        return maker(name=name, **objects, **_plain(facts))
    except (TypeError, KeyError, AttributeError, ImportError) as error:
        raise UserError(f"repro/data/data_sets.yaml: {name}: {error}") from None


DATA_SETS: dict[str, DataSet] = {
    name: _made(name, facts) for name, facts in read_yaml(Path(__file__).with_name("data_sets.yaml")).items()
}


def all_data_sets() -> dict[str, DataSet]:
    """The data sets by name, one's own behind them."""
    return {**DATA_SETS, **own_data_sets()}


def find_data_set(name: str) -> DataSet:
    """The data set of that name.

    Raises:
        UserError: there is none; offers the nearest names.
    """
    found = DATA_SETS.get(name) or own_data_set(name)
    if found is None:
        raise UserError(
            f"unknown data set {name!r}{nearest(name, all_data_sets())}; see `repro data list`; for one of your own "
            f"`repro data prepare {name} --kind KIND --from DIR`"
        )
    return found


def find_of_class(name: str, kind: type[Any], content: str) -> Any:
    """The data set of that name, which is of a class.

    Args:
        name: of the data set.
        kind: its class.
        content: what data sets of the class hold, for messages.

    Raises:
        UserError: there is none, or it holds something else; names those that do.
    """
    data_set = find_data_set(name)
    if not isinstance(data_set, kind):
        names = ", ".join(one.name for one in all_data_sets().values() if isinstance(one, kind))
        raise UserError(f"{name} holds no {content}; data sets that do: {names or 'none yet'}")
    return data_set
