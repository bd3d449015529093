"""The representation of a past as a continuous signal: settings without weights."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ContinuousSignal:
    """Basis functions, ridge regression, contraction, sampling and regulariser of a continuous memory.

    The released code has three versions with different constants: :meth:`sorting`, :meth:`language_model` and
    :meth:`dialogue`. The defaults are those of :meth:`sorting`.

    Args:
        basis: N, Gaussian basis functions; every centre is used once with each width.
        widths: standard deviations of the basis functions, each in (0, 1].
        ridge: penalty of the regression, above 0.
        tau: share of [0, 1] that the past keeps at an update, in (0, 1).
        samples: positions at which the past is read for an update.
        bins: None reads the past at evenly spaced positions. A number makes memories sticky: so many bins of [0, 1] are
            drawn in proportion to the attention that fell on them, and the past is read at their left edges.
        least_variance: lower bound of the variance of a query's density, above 0.
        kl_weight: factor of the auxiliary loss; 0 leaves it out.
        kl_sigma: standard deviation of the prior, above 0.
        kl_mean: mean of the prior; None compares variances only.
        forget_after: an update of a memory that holds at least so many tokens starts an empty one; None for never.
        normed: the memory holds inputs behind the norm of a pre-norm sublayer; else those in front of it.

    Raises:
        ValueError: a setting out of its range.

    Source: Martins, Marinho and Martins 2022, sections 3 and 4; constants of deep-spin/infinite-former.
    """

    basis: int = 512
    widths: tuple[float, ...] = (0.01, 0.05)
    ridge: float = 1.0
    tau: float = 0.75
    samples: int = 512
    bins: int | None = None
    least_variance: float = 1e-6
    kl_weight: float = 1e-6
    kl_sigma: float = 0.05
    kl_mean: float | None = None
    forget_after: int | None = None
    normed: bool = False

    def __post_init__(self) -> None:
        if not self.widths or any(not 0 < width <= 1 for width in self.widths):
            raise ValueError(f"widths must be one or more numbers in (0, 1], not {self.widths}")
        if self.basis < 2 * len(self.widths) or self.basis % len(self.widths):
            raise ValueError(
                f"basis must be a multiple of the {len(self.widths)} widths, with at least two centres, "
                f"not {self.basis}"
            )
        if not 0 < self.tau < 1:
            raise ValueError(f"tau must be in (0, 1), not {self.tau}")
        for name in ("samples", "bins", "forget_after"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        for name in ("ridge", "least_variance", "kl_sigma"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        if self.kl_weight < 0:
            raise ValueError(f"kl_weight must be at least 0, not {self.kl_weight}")

    @classmethod
    def sorting(cls, basis: int = 512) -> "ContinuousSignal":
        """The version of the sorting task. Source: sorting/long_term_attention.py."""
        return cls(basis)

    @classmethod
    def language_model(cls, basis: int = 512, sticky: bool = True) -> "ContinuousSignal":
        """The version of the GPT-2 language model. Source: finetune_gpt2, long_term_attention.py.

        Its KL has a mean of -1, as the released configurations have it, and it forgets after 2,048 tokens.
        """
        return cls(
            basis, (0.005, 0.01), 0.5, 0.5, bins=128 if sticky else None, least_variance=1e-4, kl_mean=-1.0,
            forget_after=2048,
        )  # fmt: skip

    @classmethod
    def dialogue(cls, basis: int = 512, sticky: bool = True) -> "ContinuousSignal":
        """The version of document grounded dialogue. Source: document_grounded_generation, long_term_attention.py.

        Its memory holds normed inputs. ``kl_sigma`` stands in a configuration that is not released.
        """
        return cls(
            basis, (0.005, 0.01), 0.5, 0.5, bins=128 if sticky else None, least_variance=1e-4, kl_weight=1e-5,
            normed=True,
        )  # fmt: skip
