"""A body between frames of real numbers and phonemes."""

from collections.abc import Callable

from torch import Tensor, nn

from repro.models.body import Body
from repro.nn.settings import AS_BUILT, CallSettings
from repro.nn.vocabularies.ctc import CtcHead
from repro.nn.vocabularies.embeddings import InputLayer


class Transcriber(nn.Module):
    """Frames through a body that sees all of them at once, then a CTC head.

    Args:
        input: maker of the input layer from its width, :class:`~repro.nn.VectorEmbedding` with its ``size``.
        body: what stands between; not causal.
        n_classes: phonemes and the blank, which is class 0.

    Attributes:
        head: scores and decodes hidden states.

    Raises:
        ValueError: the body is causal.

    Source: Katharopoulos et al. 2020, section 4.3.
    Deviation: the paper's code for speech was not released; in every network here, the recurrent one included, frames
        are first projected to the width of the body, with a bias.
    """

    def __init__(self, input: Callable[[int], InputLayer], body: Body, n_classes: int) -> None:
        super().__init__()
        if body.causal:
            raise ValueError("a transcriber hears the whole recording: set causal of its body to false")
        self.input = input(body.positions.token_width)
        self.body = body
        self.head = CtcHead(body.d_out, n_classes)
        self.n_classes = n_classes

    def forward(
        self, inputs: Tensor, lengths: Tensor | None = None, settings: CallSettings = AS_BUILT
    ) -> Tensor:
        """Hidden states ``(B, T, D)`` of frames ``(B, T, C)``, of which ``lengths (B,)`` are valid."""
        return self.body(self.input(inputs), lengths, settings=settings)
