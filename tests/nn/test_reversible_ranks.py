"""Data-parallel training of a reversible stack gives the gradients of one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from repro.paths import PROJECT
from tests.nn import reversible_ranks
from tests.nn.mixers import difference

pytestmark = pytest.mark.ddp


def test_two_ranks_follow_one_process(tmp_path: Path) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(PROJECT)}
    words = [sys.executable, reversible_ranks.__file__, "2"]
    ranks = [
        subprocess.Popen([*words, str(r), str(tmp_path)], env=env, stderr=subprocess.PIPE, text=True)
        for r in (0, 1)
    ]
    try:
        for rank in ranks:
            error = rank.communicate(timeout=100)[1]
            assert rank.returncode == 0, error[-3000:]
    finally:
        for rank in ranks:
            rank.kill()
    alone = reversible_ranks.gradients("looks", 1, 0)
    assert max(float(grad.abs().max()) for grad in alone.values()) > 1e-2
    assert "encoder.weight" in alone
    assert "stack.layers.1.mix.body.unused" not in alone
    for name in reversible_ranks.VARIANTS:
        for number in (0, 1):
            together = torch.load(tmp_path / f"2-{number}.pt")[name]
            for key, grad in alone.items():
                assert difference(together[key], grad) < 1e-12, (name, key)
            for key in together.keys() - alone.keys():  # an unused weight may get a gradient of nothing
                assert together[key].abs().max() == 0, key
