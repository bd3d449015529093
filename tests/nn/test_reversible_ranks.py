"""Data-parallel training of a reversible stack gives the gradients of one process."""

from pathlib import Path

import pytest

from tests.nn import reversible_ranks
from tests.nn.mixers import difference
from tests.nn.ranks import of_two_ranks

pytestmark = pytest.mark.ddp


def test_two_ranks_follow_one_process(tmp_path: Path) -> None:
    ranks = of_two_ranks(reversible_ranks, tmp_path)
    alone = reversible_ranks.gradients("looks", 1, 0)
    assert max(float(grad.abs().max()) for grad in alone.values()) > 1e-2
    assert "encoder.weight" in alone
    assert "stack.layers.1.mix.body.unused" not in alone
    for name in reversible_ranks.VARIANTS:
        for together in (result[name] for result in ranks):
            for key, grad in alone.items():
                assert difference(together[key], grad) < 1e-12, (name, key)
            for key in together.keys() - alone.keys():  # an unused weight may get a gradient of nothing
                assert together[key].abs().max() == 0, key
