"""Token embeddings: a table for ids, a projection for real vectors."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from repro.nn.autograd import Context


class _Scores(torch.autograd.Function):
    """``linear`` whose gradient of the table owns its memory.

    The table has a gradient of each lookup, too. The engine adds these in place here; to the view that ``linear``
    returns it adds out of place, which allocates a table each time.
    """

    @staticmethod
    def forward(ctx: Context, hidden: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, table)
        return linear(hidden, table)

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        hidden, table = ctx.saved_tensors
        of_hidden, of_table = ctx.needs_input_grad
        back = (grad @ table.to(grad.dtype)).to(hidden.dtype) if of_hidden else None
        if not of_table:
            return back, None
        rows = grad.reshape(-1, len(table)).t() @ hidden.reshape(-1, table.shape[1]).to(grad.dtype)
        return back, rows.to(table.dtype)


class InputLayer(nn.Module):
    """Base of layers that turn tokens into vectors.

    Attributes:
        size: number of ids, or width of a vector going in.
    """

    size: int


class TokenEmbedding(InputLayer):
    """A vector for each token, times ``scale``.

    Args:
        width: channels.
        size: V.
        scale: factor on the output; ``sqrt(d_model)`` where the matrix is shared with the output layer.

    Source: Vaswani et al. 2017, section 3.4.
    """

    def __init__(self, width: int, size: int, scale: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.table = nn.Embedding(size, width)
        self.scale = scale

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors ``(..., width)`` of token ids ``(...)``."""
        return self.table(ids) * self.scale

    def scores(self, hidden: Tensor) -> Tensor:
        """Products ``(..., V)`` of hidden states ``(..., width)`` with every vector: a tied output layer."""
        return _Scores.apply(hidden, self.table.weight)


class VectorEmbedding(InputLayer):
    """A projection of real vectors, begun as an orthogonal matrix.

    Args:
        width: channels.
        size: width of a vector going in, C.
        gain: of the orthogonal matrix.
        dropout: on the output, in [0, 1).

    Source: Lu et al. 2021, section 2.2 "input layer"; gain and dropout as in the authors' code.
    """

    def __init__(self, width: int, size: int, gain: float = 1.41, dropout: float = 0.1) -> None:
        super().__init__()
        self.size = size
        self.proj = nn.Linear(size, width)
        self.dropout = nn.Dropout(dropout)
        if not self.proj.weight.is_meta:
            nn.init.orthogonal_(self.proj.weight, gain)
        nn.init.zeros_(self.proj.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Vectors ``(..., width)`` of vectors ``(..., C)``."""
        return self.dropout(self.proj(x))
