"""Common behaviour of all ways of decoding."""

import pytest
import torch

from repro.models.decodable import compact, evaluating, row_limits, step, top
from tests.models.tiny import translator


@pytest.mark.parametrize("n", [1, 3, 8, 20])
def test_top_breaks_ties_by_index(n: int) -> None:
    torch.manual_seed(0)
    values = torch.randint(0, 4, (50, 20)).double()  # every row is full of ties
    values[0] = 1.0
    values[1] = -torch.inf
    values[2, 5:] = -torch.inf
    result, index = top(values, n)
    for row in range(50):
        expected = sorted(range(20), key=lambda i: (-values[row, i].item(), i))[:n]
        assert index[row].tolist() == expected
    assert torch.equal(result, values.gather(1, index))


def test_top_without_ties_is_topk() -> None:
    values = torch.randn(7, 100, generator=torch.Generator().manual_seed(0))
    for mine, official in zip(top(values, 9), values.topk(9), strict=True):
        assert torch.equal(mine, official)


def test_evaluating_gives_back_every_modules_mode() -> None:
    model = translator(5)
    model.encoder.eval()  # a frozen part
    before = [module.training for module in model.modules()]
    assert len(set(before)) == 2
    with evaluating(model):
        assert not any(module.training for module in model.modules())
        assert torch.is_inference_mode_enabled()
    assert [module.training for module in model.modules()] == before
    with pytest.raises(KeyError), evaluating(model):
        raise KeyError
    assert [module.training for module in model.modules()] == before
    assert not torch.is_inference_mode_enabled()


def test_compact_keeps_the_order_and_waits_for_enough_rows() -> None:
    still = torch.tensor([True, False, True, True, True, True, True, True])
    assert compact(still, 7) is None
    still = torch.tensor([False, False, True, True, False, False, True, False])
    kept = compact(still, 3)
    assert kept is not None
    assert kept.tolist() == [2, 3, 6]


@pytest.mark.parametrize("limit", [0, -3, torch.tensor([4, 0])])
def test_limits_below_one_are_refused(limit: int | torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"max_new.*1, not"):
        row_limits(limit, torch.zeros(2, dtype=torch.long))


def test_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="0 rows"):
        row_limits(3, torch.zeros(0, dtype=torch.long))


def test_half_precision_models_are_scored_in_float32() -> None:
    model = translator(50).eval().to(torch.bfloat16)
    with torch.inference_mode():
        state = model.start(torch.tensor([[3, 4]]), None, capacity=1)
        scores, _ = step(model, torch.tensor([1]), state)
    assert scores.dtype == torch.float32
    assert scores.exp().sum().item() == pytest.approx(1.0, abs=1e-5)  # bfloat16 would be off by about 1e-3
