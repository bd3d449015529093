"""An empty cluster on one rank does not stop data-parallel training, and changes no gradient."""

from pathlib import Path

import pytest

from tests.nn import adaptive_ranks
from tests.nn.mixers import difference
from tests.nn.ranks import of_two_ranks

pytestmark = pytest.mark.ddp


def test_two_ranks_with_different_clusters_follow_one_process(tmp_path: Path) -> None:
    ranks = of_two_ranks(adaptive_ranks, tmp_path)
    for name in adaptive_ranks.NAMES:
        alone = adaptive_ranks.gradients(name, 1, 0)
        assert max(float(grad.abs().max()) for grad in alone.values()) > 1e-2
        for together in (result[name] for result in ranks):
            assert together.keys() == alone.keys()
            for key, grad in alone.items():
                assert difference(together[key], grad) < 1e-12, (name, key)
