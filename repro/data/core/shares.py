"""Division of the rows of a global batch among ranks and micro-batches."""

from typing import NamedTuple

import numpy as np

from repro.data.core.draws import Int64s
from repro.errors import UserError


class Share(NamedTuple):
    """One rank's place: ``rank`` of ``world`` ranks, with ``micro_batches`` in a step (gradient accumulation)."""

    rank: int = 0
    world: int = 1
    micro_batches: int = 1

    def check_even(self, rows: int, label: str) -> None:
        """Refuses rows of a global batch that ranks and micro-batches cannot share evenly.

        Args:
            rows: of a global batch.
            label: names the rows in the message.

        Raises:
            UserError: names the numbers that divide them.
        """
        if rows % (self.world * self.micro_batches):
            fitting = ", ".join(str(n) for n in range(1, rows + 1) if rows % n == 0)
            raise UserError(
                f"{label} cannot be shared evenly by {self.world} ranks x {self.micro_batches} micro-batches; "
                f"ranks x micro-batches must be one of {fitting}"
            )

    def examples(self, rows: int, micro_batch: int) -> slice:
        """Rows of a global batch of independent examples that this rank takes with a micro-batch.

        Rows are strided, so that the shares of a batch sorted by length have similar lengths.
        """
        return slice(self.rank * self.micro_batches + micro_batch, rows, self.world * self.micro_batches)

    def streams(self, rows: int, micro_batch: int) -> Int64s:
        """Rows of a global batch of streams that this rank takes with a micro-batch.

        When a rank's micro-batches are interleaved, its row ``i`` is row ``i x world + rank`` of the global batch: the
        order in which memories are saved.
        """
        first = micro_batch * self.world + self.rank
        return np.arange(first, rows, self.world * self.micro_batches, dtype=np.int64)
