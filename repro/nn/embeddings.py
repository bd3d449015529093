"""Token embeddings."""

from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    """A vector for each token, times ``scale``.

    Args:
        size: V.
        width: channels.
        scale: factor on the output; ``sqrt(d_model)`` where the matrix is shared with the output layer.

    Source: Vaswani et al. 2017, section 3.4.
    """

    def __init__(self, size: int, width: int, scale: float = 1.0) -> None:
        super().__init__()
        self.table = nn.Embedding(size, width)
        self.scale = scale

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors ``(..., width)`` of token ids ``(...)``."""
        return self.table(ids) * self.scale
