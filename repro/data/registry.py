"""The data sets by name, from the lists by kind. Standard library only."""

from repro.data.dialogue.dialogue_sources import DIALOGUES
from repro.data.images.image_sources import PICTURES
from repro.data.puzzles.example_sources import EXAMPLES
from repro.data.speech.speech_sources import SPEECH
from repro.data.store.data_set import DataSet
from repro.data.store.options import subword_options
from repro.data.text.text_sources import TEXTS
from repro.data.translation.pair_sources import PAIRS
from repro.data.treebank.treebank_sources import TREEBANKS
from repro.data.weights.weight_sources import WEIGHTS
from repro.errors import UserError, nearest

_KINDS: tuple[tuple[DataSet, ...], ...] = (
    PAIRS,
    TEXTS,
    EXAMPLES,
    WEIGHTS,
    PICTURES,
    SPEECH,
    TREEBANKS,
    DIALOGUES,
)
DATA_SETS = {data_set.name: data_set for kind in _KINDS for data_set in kind}


def find_data_set(name: str) -> DataSet:
    """The data set of that name.

    Raises:
        UserError: there is none; offers the nearest names.
    """
    if name not in DATA_SETS:
        raise UserError(f"unknown data set {name!r}{nearest(name, DATA_SETS)}; see `repro data list`")
    return DATA_SETS[name]


def prepare_command(name: str, variant: str) -> str:
    """The command that makes a store, whether or not the data set is known."""
    if name in DATA_SETS:
        return DATA_SETS[name].command(variant)
    return f"repro data prepare {name} {subword_options(variant)}"
