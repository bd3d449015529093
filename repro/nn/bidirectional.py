"""A recurrent mixer that runs in both directions."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from repro.nn.device import host_ints
from repro.nn.mixer import Layout, MixerOutput, State, Stateless


class BidirectionalLSTM(Stateless):
    """Two LSTMs, one from each end of a sequence; their outputs side by side.

    It sees the whole sequence, so there is nothing to carry from one call to the next: its state is None. Padding is
    read by neither direction, and its outputs are zeros.

    Args:
        d_model: D, even: width of the input and of both outputs together.

    Raises:
        ValueError: an odd width.

    Source: Hochreiter and Schmidhuber 1997; Graves and Schmidhuber 2005.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        if d_model % 2:
            raise ValueError(f"two directions need an even width, not {d_model}")
        self.lstm = nn.LSTM(d_model, d_model // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Reads ``x (B, T, D)``.

        Raises:
            ValueError: the layout is causal, or a state is given.
        """
        if layout.causal or state is not None:
            raise ValueError("an LSTM that reads from both ends cannot be causal, and carries no state")
        # Packing needs lengths on the host. Rows are sorted here because torch would read their order from the device.
        sizes = [x.shape[1]] * len(x)
        if layout.lengths is not None:
            whole = sizes
            sizes = host_ints(layout.lengths, lambda: whole)
        falling, order = torch.tensor(sizes, device="cpu").clamp(min=1).sort(descending=True)
        packed = pack_padded_sequence(x.index_select(0, order.to(x.device)), falling, batch_first=True)
        y, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.shape[1])
        y = y.index_select(0, order.argsort().to(x.device))
        if layout.lengths is not None and 0 in sizes:  # rows without tokens, of which torch must read one
            y = y * (layout.lengths > 0)[:, None, None]
        return MixerOutput(y)
