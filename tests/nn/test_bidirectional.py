"""The LSTM that reads from both ends equals a loop over its cells, whatever stands in the padding."""

import pytest
import torch
from torch import Tensor

from repro.nn import BidirectionalLSTM, Layout
from tests.nn.mixers import difference, gradients, randomise, valid

D = 6


def build() -> BidirectionalLSTM:
    torch.manual_seed(0)
    return randomise(BidirectionalLSTM(D).double())  # type: ignore[return-value]


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def one_way(mixer: BidirectionalLSTM, row: Tensor, end: str) -> Tensor:
    """One direction over one row ``(T, D)``, gate by gate."""
    from_x, from_h = (getattr(mixer.lstm, f"weight_{kind}_l0{end}") for kind in ("ih", "hh"))
    bias = getattr(mixer.lstm, f"bias_ih_l0{end}") + getattr(mixer.lstm, f"bias_hh_l0{end}")
    h = c = torch.zeros(D // 2, dtype=row.dtype)
    result = []
    for x in row:
        enter, keep, new, leave = (from_x @ x + from_h @ h + bias).chunk(4)
        c = torch.sigmoid(keep) * c + torch.sigmoid(enter) * torch.tanh(new)
        h = torch.sigmoid(leave) * torch.tanh(c)
        result.append(h)
    return torch.stack(result)


def by_hand(mixer: BidirectionalLSTM, x: Tensor, lengths: list[int]) -> Tensor:
    rows = []
    for row, n in zip(x, lengths, strict=True):
        forth = one_way(mixer, row[:n], "")
        back = one_way(mixer, row[:n].flip(0), "_reverse").flip(0)
        rows.append(torch.nn.functional.pad(torch.cat([forth, back], -1), (0, 0, 0, x.shape[1] - n)))
    return torch.stack(rows)


@pytest.mark.parametrize(("steps", "lengths"), [(1, None), (7, None), (9, [4, 9, 1]), (9, [5, 3, 6])])
def test_it_equals_the_loop(steps: int, lengths: list[int] | None) -> None:
    mixer, x = build(), numbers(3, steps, D).requires_grad_()
    layout = Layout(False, lengths=None if lengths is None else torch.tensor(lengths))
    y = mixer(x, None, layout).y
    expected = by_hand(mixer, x, lengths or [steps] * 3)
    assert difference(y, expected) < 1e-12
    weights = numbers(*y.shape)
    result = gradients((y * weights).sum(), [x], mixer)
    for name, gradient in gradients((expected * weights).sum(), [x], mixer).items():
        assert difference(result[name], gradient) < 1e-12, name


def test_padding_is_read_by_neither_direction() -> None:
    mixer, x = build(), numbers(2, 5, D)
    lengths = torch.tensor([5, 3])
    other = torch.where(valid(lengths, 5)[..., None], x, 50.0)
    layout = Layout(False, lengths=lengths)
    assert torch.equal(mixer(x, None, layout).y, mixer(other, None, layout).y)
    assert not mixer(x, None, layout).y[1, 3:].any()
    assert not torch.equal(mixer(x, None, Layout(False)).y, mixer(other, None, Layout(False)).y)


def test_a_row_without_tokens_is_zeros() -> None:
    mixer, x = build(), numbers(3, 5, D)
    y = mixer(x, None, Layout(False, lengths=torch.tensor([5, 0, 2]))).y
    assert not y[1].any()
    assert difference(y[::2], mixer(x[::2], None, Layout(False, lengths=torch.tensor([5, 2]))).y) < 1e-12


def test_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="two directions need an even width, not 5"):
        BidirectionalLSTM(5)
    mixer, x = build(), numbers(1, 2, D)
    with pytest.raises(ValueError, match="cannot be causal"):
        mixer(x, None, Layout(True))
    with pytest.raises(ValueError, match="carries no state"):
        mixer(x, {"h": x[:, 0]}, Layout(False))
    assert mixer.init_state(3) is None
