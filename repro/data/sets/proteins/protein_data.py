"""Proteins as examples of a classifier: the input is amino acids, the target the fold."""

from repro.data.sets.proteins.remote_homology import N_FOLDS, SYMBOLS
from repro.data.store_data import RowData


class HomologyData(RowData):
    """Remote homology of TAPE from a prepared store.

    Sequences longer than ``max_length`` are left out of every split and counted as ``left_out``. Lu et al. 2021 do the
    same, and multiply accuracies by 0.9739 for it (they count 236,224 of 242,560 examples); scores here are of the
    examples in use, so multiply before comparing, best by the share that the counts of the record give.

    The test split ``test`` is TAPE's fold holdout, ``test_fold_holdout``, and ``val`` its ``valid``; the released code
    of Lu et al. scores on ``valid``. The metrics of both are in the record.

    Args:
        batch_size: examples of the global batch.
        store: ``remote-homology``.
        max_length: ids of a sequence at most, ``<cls>`` and ``<sep>`` counted.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Raises:
        UserError: a number below 1.

    Source: Rao et al. 2019, section 3; Lu et al. 2021, section 2.1 "Remote homology detection", and the code of both.
    Deviation: the paper has 25 input ids, its code 30 as here (TAPE's vocabulary). Its code has 1,200 outputs, five
        more than there are folds. It leaves out whole batches of similarly long sequences whose longest is too long,
        and reads the last position of a batch, although shorter rows have padding there; here the last token is read.
    """

    parts = ("residues", "folds")
    content = "proteins"
    cut = False
    n_classes = N_FOLDS
    input_size = len(SYMBOLS)

    def __init__(
        self,
        batch_size: int,
        store: str = "remote-homology",
        max_length: int = 1024,
        eval_batch_size: int = 8,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, store, max_length, eval_batch_size, seed, num_workers)
