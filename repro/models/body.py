"""Bodies: everything between input vectors and output hidden states, independent of the task."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from repro.nn.attention.full import FullAttention
from repro.nn.init import normal_002
from repro.nn.layers.feed_forward import FeedForward
from repro.nn.layers.stack import Blocks
from repro.nn.layers.sublayer import Plain, PostNorm, PreNorm, Residual
from repro.nn.mixer import Layout
from repro.nn.positions.positions import Added, InputPositions, LearnedPositions, NoPositions
from repro.nn.recurrent import NormedLSTM
from repro.nn.settings import AS_BUILT, CallSettings


class Body(nn.Module):
    """Positions, a norm, dropout and a stack of layers.

    Args:
        d_model: D.
        n_layers: layers.
        blocks: the parts of the layers.
        positions: maker of input positions from ``d_model``.
        norm: of the sums of vectors and positions; the identity for most.
        causal: whether a token sees only itself and the past.
        dropout: behind the norm, in [0, 1).
    """

    def __init__(
        self,
        d_model: int,
        n_layers: int,
        blocks: Blocks,
        positions: Callable[[int], InputPositions] = Added,
        norm: nn.Module | None = None,
        causal: bool = True,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.d_model = d_model
        self.d_out = blocks.d_out(d_model)
        self.causal = causal
        self.positions = positions(d_model)
        self.norm = norm or nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.stack = blocks.build(d_model, n_layers)

    def forward(
        self,
        x: Tensor,
        lengths: Tensor | None = None,
        last: int | None = None,
        settings: CallSettings = AS_BUILT,
    ) -> Tensor:
        """Hidden states of vectors ``(B, T, D)``.

        Args:
            x: what goes in.
            lengths: valid tokens of each row, ``(B,)``.
            last: only outputs of this many last tokens are needed.
            settings: of this call.

        Returns:
            ``(B, T, d_out)``, or ``(B, last, d_out)``; ``d_out`` is D but where streams are set side by side.

        Raises:
            ValueError: a mixer has an auxiliary loss, which no task with a body takes.
        """
        positions = torch.arange(x.shape[1], device=x.device)
        layout = Layout(causal=self.causal, lengths=lengths, positions=positions, settings=settings)
        x = self.dropout(self.norm(self.positions(x, positions)))
        mixed = self.stack(x, None, layout, last)
        if mixed.aux is not None:
            raise ValueError(
                "a body has no place for the auxiliary loss of a mixer; set the weight of that loss to 0"
            )
        return mixed.y


class Gpt2(Body):
    """GPT-2: causal pre-norm layers, learned positions, a norm at the end; ``N(0, std)`` weights.

    Args:
        d_model: D.
        n_layers: layers.
        n_heads: H.
        max_length: positions that are learned.
        dropout: on embedding sums, attention weights and sublayer outputs, in [0, 1).
        std: of the random weights; 0.02 suits a D of 768.

    Source: Radford et al. 2019; of the released models, small has (D, layers, heads) = (768, 12, 12), medium
    (1024, 24, 16), large (1280, 36, 20).
    """

    def __init__(
        self,
        d_model: int = 768,
        n_layers: int = 12,
        n_heads: int = 12,
        max_length: int = 1024,
        dropout: float = 0.1,
        std: float = 0.02,
    ) -> None:
        blocks = gpt2_blocks(n_heads, 4 * d_model, dropout)
        super().__init__(d_model, n_layers, blocks, learned(max_length), dropout=dropout)
        normal_002(self, std)


class VisionTransformer(Body):
    """The layers of ViT: pre-norm, every token sees all; positions are new and begin at zero.

    Patch embedding, class token and pretrained positions belong to pictures, and are not here.

    Args:
        d_model: D.
        n_layers: layers.
        n_heads: H.
        max_length: positions that are learned.
        dropout: on position sums, attention weights, and inside and behind the feed-forward layers, in [0, 1).

    Source: Dosovitskiy et al. 2021 (ViT-Base), as used by Lu et al. 2021, code.
    """

    def __init__(
        self,
        d_model: int = 768,
        n_layers: int = 12,
        n_heads: int = 12,
        max_length: int = 1024,
        dropout: float = 0.1,
    ) -> None:
        blocks = Blocks(
            mixers=[partial(FullAttention, n_heads=n_heads, dropout=dropout)],
            feed_forward=partial(FeedForward, d_ff=4 * d_model, activation=nn.GELU, dropout=dropout),
            sublayer=partial(PreNorm, dropout=dropout, eps=1e-6),
            final_norm=partial(nn.LayerNorm, eps=1e-6),
        )
        super().__init__(d_model, n_layers, blocks, learned(max_length), causal=False, dropout=dropout)
        normal_002(self)
        begin_positions_at_zero(self)


class Bert(Body):
    """BERT: post-norm layers, every token sees all, learned positions, a norm of the sums going in.

    Args: as :class:`Gpt2`.

    Source: Devlin et al. 2019. Deviation: the vector of segment 0, which every token gets, is part of the positions.
    """

    def __init__(
        self,
        d_model: int = 768,
        n_layers: int = 12,
        n_heads: int = 12,
        max_length: int = 512,
        dropout: float = 0.1,
        std: float = 0.02,
    ) -> None:
        blocks = Blocks(
            mixers=[partial(FullAttention, n_heads=n_heads, dropout=dropout)],
            feed_forward=partial(FeedForward, d_ff=4 * d_model, activation=nn.GELU),
            sublayer=partial(PostNorm, dropout=dropout, eps=1e-12),
        )
        norm = nn.LayerNorm(d_model, eps=1e-12)
        super().__init__(d_model, n_layers, blocks, learned(max_length), norm, False, dropout)
        normal_002(self, std)


class Recurrent(Body):
    """LSTM layers on top of one another.

    Args:
        d_model: D.
        n_layers: layers.
        dropout: on the state of each layer, in [0, 1).
        residual: a shortcut around each layer.
        max_length: positions that are learned, and begin at zero; None has none.
        neutral_norms: see :class:`~repro.nn.recurrent.UnbiasedNorm`.

    Source: Lu et al. 2021, table 3: the LSTM without, the LSTM* with residuals and positions; sizes of the code.
    """

    def __init__(
        self,
        d_model: int = 768,
        n_layers: int = 3,
        dropout: float = 0.1,
        residual: bool = False,
        max_length: int | None = None,
        neutral_norms: bool = False,
    ) -> None:
        layer = partial(NormedLSTM, dropout=dropout, neutral_norms=neutral_norms)
        blocks = Blocks([layer], feed_forward=None, sublayer=Residual if residual else Plain)
        positions = learned(max_length) if max_length else NoPositions
        super().__init__(d_model, n_layers, blocks, positions, dropout=0.0)
        begin_positions_at_zero(self)
        std = d_model**-0.5
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.uniform_(module.weight, -std, std)
                nn.init.uniform_(module.bias, -std, std)


def gpt2_blocks(n_heads: int, d_ff: int, dropout: float = 0.1) -> Blocks:
    """The layers of GPT-2."""
    return Blocks(
        mixers=[partial(FullAttention, n_heads=n_heads, dropout=dropout)],
        feed_forward=partial(FeedForward, d_ff=d_ff, activation=partial(nn.GELU, approximate="tanh")),
        sublayer=partial(PreNorm, dropout=dropout, eps=1e-5),
        final_norm=partial(nn.LayerNorm, eps=1e-5),
    )


def begin_positions_at_zero(body: Body) -> None:
    """Sets the learned positions of a body, if it has any, to 0."""
    for module in body.positions.modules():
        if isinstance(module, LearnedPositions):
            nn.init.zeros_(module.table.weight)


def learned(max_length: int) -> Callable[[int], Added]:
    """Maker of learned positions that are added."""
    return partial(Added, table=partial(LearnedPositions, max_length=max_length))
