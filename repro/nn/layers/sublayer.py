"""Norm placement and shortcut: one line, of which post-norm, pre-norm and weighted shortcuts are settings."""

import torch
from torch import Tensor, nn

from repro.nn.idle import applied
from repro.nn.mixer import Layout, MixerOutput, State


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
        self.dropout = nn.Dropout(dropout)

    @property
    def additive(self) -> bool:
        """Whether it is ``x + branch(x)``, which can be undone."""
        bare = isinstance(self.norm_out, nn.Identity) and isinstance(self.shortcut, nn.Identity)
        return bare and type(self).forward is Sublayer.forward

    def branch(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """``dropout(body(norm_in(x)))``; the body finds ``x`` in ``layout.stream``, ``norm_in`` in ``layout.norm``.

        Raises:
            TypeError: the body returns no ``MixerOutput``. A tensor would be taken apart along its rows.
        """
        mixed: object = self.body(applied(self.norm_in, x), state, layout.inside(x, self.norm_in))
        if not isinstance(mixed, MixerOutput):
            kind = type(mixed).__name__
            raise TypeError(f"{type(self.body).__name__} returned a {kind}; return MixerOutput(y, state)")
        y, *others = mixed
        return MixerOutput(applied(self.dropout, wanted(y, layout)), *others)

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Applies the sublayer to ``x (B, T, D)``."""
        y, *others = self.branch(x, state, layout)
        return MixerOutput(applied(self.norm_out, applied(self.shortcut, wanted(x, layout)) + y), *others)


def wanted(x: Tensor, layout: Layout) -> Tensor:
    """The tokens of ``x (B, T, D)`` whose outputs are needed."""
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


class WeightedShortcut(nn.Module):
    """``x * omega``, channel by channel, with a trained omega.

    Args:
        d_model: D.
        omega: what it begins with, above 0; None leaves that to :mod:`repro.nn.layers.shortcut`.
        trained: whether it is a parameter that is trained.

    Attributes:
        omega: ``(D,)``, ones until :meth:`begin`.
        begun: what omega began with, a scalar; 0 until then. Part of the state, so that a network which was saved
            still states that it was begun, and with what.

    Raises:
        ValueError: ``omega`` is not above 0.

    Source: Liu et al. 2020, section 5; a vector although it begins as a number, as in the authors' code.
    """

    begun: Tensor

    def __init__(self, d_model: int, omega: float | None = None, trained: bool = True) -> None:
        super().__init__()
        self.omega = nn.Parameter(torch.ones(d_model), requires_grad=trained)
        self.register_buffer("begun", torch.zeros(()))
        if omega is not None:
            if not omega > 0:
                raise ValueError(f"omega must be above 0, not {omega}")
            self.begin(omega)

    @torch.no_grad()
    def begin(self, value: float) -> None:
        """Fills omega with a number above 0 and remembers it."""
        self.omega.fill_(value)
        self.begun.fill_(value)

    @torch.no_grad()
    def reset(self) -> None:
        """Fills omega with what it began with; with ones where it has not."""
        self.omega.copy_(torch.where(self.begun > 0, self.begun, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        """``x (..., D)``."""
        return x * self.omega


class WeightedPostNorm(Sublayer):
    """``norm(x * omega + dropout(body(x)))`` with a trained omega; see :mod:`repro.nn.layers.shortcut`.

    Without a measuring pass, the same omega may be given to all n branches of a stack: with
    ``sqrt((n + 1) / ln(n + 1) - 1)`` the output change grows with the logarithm of the depth, with ``sqrt(n)`` not.

    Args: as :class:`PostNorm`, and ``omega`` and ``trained`` as :class:`WeightedShortcut`.

    Raises:
        ValueError: ``omega`` is not above 0.

    Source: Liu et al. 2020, section 5 and code; the given omegas: the authors' later package admin-torch. Omega weighs
    the shortcut, not the branch.
    """

    def __init__(
        self,
        body: nn.Module,
        d_model: int,
        dropout: float = 0.1,
        eps: float = 1e-6,
        omega: float | None = None,
        trained: bool = True,
    ) -> None:
        norm, shortcut = nn.LayerNorm(d_model, eps), WeightedShortcut(d_model, omega, trained)
        super().__init__(body, nn.Identity(), norm, shortcut, dropout)


class PreNorm(Sublayer):
    """``x + dropout(body(norm(x)))``; a stack of these needs ``final_norm``.

    Args: as :class:`PostNorm`, and ``bias``: whether the norm has one.
    """

    def __init__(
        self, body: nn.Module, d_model: int, dropout: float = 0.1, eps: float = 1e-6, bias: bool = True
    ) -> None:
        norm = nn.LayerNorm(d_model, eps, bias=bias)
        super().__init__(body, norm, nn.Identity(), nn.Identity(), dropout)


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

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Applies the body to ``x (B, T, D)``."""
        return self.branch(x, state, layout)
