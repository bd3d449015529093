"""Peaks are counted to the byte."""

import torch

from repro.tasks.costs.peak import peak_bytes


def test_what_is_released_counts_while_it_is_held() -> None:
    def work() -> torch.Tensor:
        first = torch.zeros(1000)
        del first
        a, b = torch.zeros(500), torch.zeros(700)
        return a + b[:500]

    assert peak_bytes(work) == 4 * (500 + 700 + 500)


def test_what_was_there_before_does_not_count() -> None:
    before = torch.zeros(10_000)
    assert peak_bytes(lambda: before[:100] + before[100:200]) == 400
