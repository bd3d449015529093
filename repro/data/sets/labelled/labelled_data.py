"""Labelled text as examples of a classifier: the input is bytes, the target the label."""

from repro.data.registry import find_of_class
from repro.data.sets.labelled.labelled_text import LABELS, N_SYMBOLS, TEXT, LabelledText
from repro.data.store_data import RowData


class LabelledData(RowData):
    """Labelled text of one's own, ``repro data prepare NAME --kind labels --from DIR``.

    Args:
        batch_size: examples of the global batch.
        store: name of the data set.
        max_length: bytes of a text at most; longer ones are cut, and counted as ``cut``.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Raises:
        UserError: a number below 1, or a data set that has no labelled text.
    """

    parts = (TEXT, LABELS)
    content = "labelled text"
    input_size = N_SYMBOLS

    def __init__(
        self,
        batch_size: int,
        store: str,
        max_length: int = 512,
        eval_batch_size: int = 50,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, store, max_length, eval_batch_size, seed, num_workers)
        self.n_classes = len(find_of_class(self.store_name, LabelledText, "labelled text").classes)
