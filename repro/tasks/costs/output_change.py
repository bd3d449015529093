"""The change of a network's output when all its weights change a little, by its depth."""

import copy
import math
import statistics
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from repro.models.body import Body
from repro.nn.init import glorot
from repro.nn.layers.shortcut import begin_by_variance, sublayers_of, weighted_stacks
from repro.record import Measurement
from repro.tasks.costs.measuring import Measuring, measurement, slope
from repro.tasks.task import OptimizerMaker, ScheduleMaker


class OutputChange(Measuring[Body]):
    """Measures bodies of layers at initialisation; trains next to nothing.

    For every draw a body gets new weights, its shortcuts begin where they are weighted, and all its matrices (not
    norms, biases and omegas) are moved by ``size``, up or down at random. The change is the mean square of
    ``norm(x*) - norm(x)`` over random tokens and channels, where ``norm`` has neither gain nor bias; of draws it is the
    geometric mean, since a few deep post-norm bodies change a hundred times as much as all others.

    The output of the first ``n`` layers of a deep body is that of a body of ``n`` layers: neither random weights nor
    shortcuts that begin by variances know of what follows them. Growth is the exponent of a power of the number of
    branches, fitted by least squares to logarithms; 1 is linear, and a logarithm's own is near ``1 / ln n``.

    Args:
        net: a :class:`~repro.models.Body` as deep as the last of the depths.
        optimizer: maker of the optimiser.
        schedule: maker of the schedule.
        depths: in layers, ascending.
        fitted_from: depth from which growth is fitted; three depths at least.
        init: draws weights in place, here and for every draw.
        draws: of weights, moves and tokens.
        size: of a move.
        rows: sequences of a draw.
        length: of a sequence.

    Raises:
        ValueError: depths or numbers that do not fit.

    Source: Liu et al. 2020, section 4, theorem 2 and the figure of output changes; moves as in their code.
    """

    def __init__(
        self,
        net: nn.Module,
        optimizer: OptimizerMaker,
        schedule: ScheduleMaker,
        depths: list[int],
        fitted_from: int = 12,
        init: Callable[[nn.Module], None] = glorot,
        draws: int = 12,
        size: float = 1e-4,
        rows: int = 4,
        length: int = 32,
    ) -> None:
        super().__init__(net, optimizer, schedule)
        init(net)
        n_layers = len(self.net.stack.layers)
        if not depths or sorted(set(depths)) != depths or depths[0] < 1 or depths[-1] != n_layers:
            raise ValueError(f"depths {depths} must ascend to the {n_layers} layers of the network")
        if sum(depth >= fitted_from for depth in depths) < 3:
            raise ValueError(f"growth needs three depths of at least fitted_from {fitted_from}, not {depths}")
        if min(draws, rows, length) < 1 or not size > 0:
            raise ValueError(f"draws {draws}, rows {rows}, length {length} and size {size} must be above 0")
        self.depths = depths
        self.fitted_from = fitted_from
        self.init = init
        self.draws = draws
        self.size = size
        self.shape = (rows, length, self.net.d_model)
        self.changes: list[list[float]] = []  # of every draw, at every depth

    def measure(self) -> None:
        net = copy.deepcopy(self.net)
        self.changes = [self._draw(net) for _ in range(self.draws)]

    @torch.no_grad()
    def _draw(self, net: Body) -> list[float]:
        """The change at every depth, for one draw of weights, moves and tokens."""
        self.init(net)
        x = torch.randn(self.shape, device=self.device)
        if weighted_stacks(net):
            begin_by_variance(net, lambda: net(x))
        before = self._outputs(net, x)
        for parameter in net.parameters():
            if parameter.dim() > 1:
                parameter.add_(torch.randn_like(parameter).sign_(), alpha=self.size)
        pairs = zip(before, self._outputs(net, x), strict=True)
        return [float((after - first).square().mean()) for first, after in pairs]

    def _outputs(self, net: Body, x: Tensor) -> list[Tensor]:
        """Outputs at every depth, normed, in float64."""
        outputs: list[Tensor] = []
        ends = [list(layer.children())[-1] for layer in net.stack.layers]
        hooks = [
            ends[depth - 1].register_forward_hook(lambda _, __, mixed: outputs.append(mixed.y.double()))
            for depth in self.depths
        ]
        net(x)
        for hook in hooks:
            hook.remove()
        return [layer_norm(y, y.shape[-1:]) for y in outputs]

    # --- the record ---------------------------------------------------------------------------------------------

    def measurements(self) -> list[Measurement]:
        """Growth, and the change at each number of branches, as a sweep."""
        per_layer = len(sublayers_of(self.net.stack)) // len(self.net.stack.layers)
        branches = [depth * per_layer for depth in self.depths]
        columns = list(zip(*self.changes, strict=True))
        means = [statistics.geometric_mean(column) for column in columns]
        protocol = {"size": self.size, "draws": self.draws, "tokens": self.shape[0] * self.shape[1]}
        first = [n >= self.fitted_from * per_layer for n in branches].index(True)
        fitted = growth(branches[first:], means[first:], columns[first:])
        over = protocol | {"branches": branches[first:]}
        drawn = {"exponent": {"exponent_of": "test/output_change", "by": "branches"}}
        results = [
            measurement(f"test/output_change_{name}", value, unit, over | drawn.get(name, {}))
            for name, (value, unit) in fitted.items()
        ]
        for n, value in zip(branches, means, strict=True):
            point = {"sweep": "branches", "of": "test/output_change", "branches": n, **protocol}
            results.append(
                measurement(f"test/output_change_{n}", value, "mean square of a normed output", point)
            )
        return [*results, *super().measurements()]


def growth(
    branches: list[int], means: list[float], columns: list[tuple[float, ...]]
) -> dict[str, tuple[float, str]]:
    """The fitted exponent; beside it that of plain means, and what lines over n and over its logarithm explain.

    Args:
        branches: n.
        means: the change at each n.
        columns: of every draw, at each n.

    Returns:
        Values with their units.
    """
    plain = [statistics.fmean(column) for column in columns]
    logarithms = [math.log(n) for n in branches]
    return {
        "exponent": (slope(branches, means), "exponent"),
        "exponent_of_plain_means": (slope(branches, plain), "exponent"),
        "r2_linear": (statistics.correlation(branches, means) ** 2, "share of variance"),
        "r2_logarithm": (statistics.correlation(logarithms, means) ** 2, "share of variance"),
    }
