"""The data sets by name, from the lists by kind. Needs no torch."""

from repro.data.data_set import DataSet
from repro.data.own import own_data_set, own_data_sets
from repro.data.sets.dialogue.cmu_dog import DIALOGUES
from repro.data.sets.images.picture_sets import PICTURES
from repro.data.sets.listops.listops import LISTOPS
from repro.data.sets.proteins.remote_homology import PROTEINS
from repro.data.sets.speech.wsj import SPEECH
from repro.data.sets.text.corpora import TEXTS
from repro.data.sets.translation.pair_sets import PAIRS
from repro.data.sets.treebank.treebanks import TREEBANKS
from repro.data.sets.weights.pretrained import WEIGHTS
from repro.errors import UserError, nearest

DATA_SETS: dict[str, DataSet] = {
    data_set.name: data_set
    for kind in (PAIRS, TEXTS, LISTOPS, PROTEINS, WEIGHTS, PICTURES, SPEECH, TREEBANKS, DIALOGUES)
    for data_set in kind
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
