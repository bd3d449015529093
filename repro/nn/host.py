"""The only place where training waits for a number from the device."""

from collections.abc import Callable

from torch import Tensor


def host_ints(values: Tensor, typical: Callable[[], list[int]] | None = None) -> list[int]:
    """Whole numbers of a tensor ``(N,)`` on the host; waits for the device.

    Forward and backward passes and losses of training never read a value from the device otherwise: that makes the
    host wait until all queued work is done. Only what torch cannot do without numbers on the host may call it: the
    sizes of groups of tokens (:mod:`repro.nn.vocabularies.clusters`), packed sequences
    (:mod:`repro.nn.bidirectional`) and the lengths of CTC (:mod:`repro.nn.vocabularies.ctc`). A comment at each use
    gives the reason.

    Args:
        values: integers, ``(N,)``, on any device.
        typical: N numbers to go on with on the meta device, which has none; :mod:`repro.experiment.costs` counts a
            step there. None raises an error there.

    Returns:
        The N numbers.
    """
    if values.is_meta and typical is not None:
        return typical()
    return [int(value) for value in values.tolist()]
