"""The data sets by name, read from ``data_sets.yaml``. Needs no torch."""

from pathlib import Path
from typing import Any

from repro.data.data_set import DataSet, Hub
from repro.data.own import own_data_set, own_data_sets
from repro.data.sets.dialogue.cmu_dog import Dialogues
from repro.data.sets.images.picture_sets import Cifar10, Mnist
from repro.data.sets.listops.listops import ListOps
from repro.data.sets.proteins.remote_homology import RemoteHomology
from repro.data.sets.speech.wsj import Speech
from repro.data.sets.text.text_sets import Books, SplitText, StandardLibrary, WholeText
from repro.data.sets.translation.cleaning import Cleaning
from repro.data.sets.translation.given_subwords import GivenSubwords
from repro.data.sets.translation.pairs import GeneratedNumbers, SentencePairs
from repro.data.sets.treebank.treebanks import GeneratedTreebank, Treebank
from repro.data.sets.weights.pretrained import PretrainedWeights
from repro.errors import UserError, nearest
from repro.yamls import read_yaml

_CLASSES: dict[str, type[DataSet]] = {
    one.__name__: one
    for one in (
        SentencePairs, GivenSubwords, GeneratedNumbers, SplitText, WholeText, Books, StandardLibrary, ListOps,
        RemoteHomology, PretrainedWeights, Mnist, Cifar10, Speech, Treebank, GeneratedTreebank, Dialogues,
    )
}  # fmt: skip
_OBJECTS = {"hub": Hub, "cleaning": Cleaning}  # attributes that are objects themselves


def _plain(value: Any) -> Any:
    """A value of the file, its lists as tuples, which nobody changes."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def _made(name: str, facts: dict[str, Any]) -> DataSet:
    made = _CLASSES[facts.pop("class")]
    objects = {key: kind(**_plain(facts.pop(key))) for key, kind in _OBJECTS.items() if key in facts}
    return made(name=name, **objects, **_plain(facts))


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
