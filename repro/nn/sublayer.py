"""Norm placement and shortcut: one line, of which post-norm, pre-norm and scaled shortcuts are settings."""

from dataclasses import replace

from torch import Tensor, nn

from repro.nn.dropout import Dropout
from repro.nn.mixer import Layout, Mixed, State


class Sublayer(nn.Module):
    """``norm_out(shortcut(x) + dropout(body(norm_in(x))))``.

    Args:
        body: a mixer.
        norm_in: on the way into the body; the identity for post-norm.
        norm_out: after the addition; the identity for pre-norm.
        shortcut: on the residual path.
        dropout: on the body's output, in [0, 1).
    """

    def __init__(
        self, body: nn.Module, norm_in: nn.Module, norm_out: nn.Module, shortcut: nn.Module, dropout: float
    ) -> None:
        super().__init__()
        self.body = body
        self.norm_in = norm_in
        self.norm_out = norm_out
        self.shortcut = shortcut
        self.dropout = Dropout(dropout)

    @property
    def additive(self) -> bool:
        """Whether it is ``x + branch(x)``, which can be undone."""
        bare = isinstance(self.norm_out, nn.Identity) and isinstance(self.shortcut, nn.Identity)
        return bare and type(self).forward is Sublayer.forward

    def branch(self, x: Tensor, state: State, layout: Layout) -> Mixed:
        """``dropout(body(norm_in(x)))``; the body finds ``x`` itself in ``layout.stream``."""
        mixed: Mixed = self.body(self.norm_in(x), state, replace(layout, stream=x))
        return mixed._replace(y=self.dropout(wanted(mixed.y, layout)))

    def forward(self, x: Tensor, state: State, layout: Layout) -> Mixed:
        """Applies the sublayer to ``x (B, T, D)``."""
        mixed = self.branch(x, state, layout)
        return mixed._replace(y=self.norm_out(self.shortcut(wanted(x, layout)) + mixed.y))


def wanted(x: Tensor, layout: Layout) -> Tensor:
    """The tokens of ``x (B, T, D)`` whose outputs are wanted."""
    return x if layout.last is None else x[:, -layout.last :]


class PostNorm(Sublayer):
    """``norm(x + dropout(body(x)))``.

    Args:
        body: a mixer.
        d_model: D.
        dropout: on the body's output, in [0, 1).
        eps: of the layer norm.

    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, body: nn.Module, d_model: int, dropout: float = 0.1, eps: float = 1e-6) -> None:
        super().__init__(body, nn.Identity(), nn.LayerNorm(d_model, eps), nn.Identity(), dropout)


class PreNorm(Sublayer):
    """``x + dropout(body(norm(x)))``; a stack of these wants ``final_norm``.

    Args: as :class:`PostNorm`.
    """

    def __init__(self, body: nn.Module, d_model: int, dropout: float = 0.1, eps: float = 1e-6) -> None:
        super().__init__(body, nn.LayerNorm(d_model, eps), nn.Identity(), nn.Identity(), dropout)


class Residual(Sublayer):
    """``x + dropout(body(x))``, without a norm.

    Args:
        body: a mixer.
        d_model: D.
        dropout: on the body's output, in [0, 1).
    """

    def __init__(self, body: nn.Module, d_model: int, dropout: float = 0.0) -> None:
        super().__init__(body, nn.Identity(), nn.Identity(), nn.Identity(), dropout)


class Plain(Residual):
    """``dropout(body(x))``: without a norm and without a shortcut.

    Args: as :class:`Residual`.
    """

    def forward(self, x: Tensor, state: State, layout: Layout) -> Mixed:
        """Applies the body to ``x (B, T, D)``."""
        return self.branch(x, state, layout)
