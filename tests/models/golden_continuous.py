"""Our continuous memory with the weights of the official one, step by step on its inputs."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from repro.nn.attention.continuous import ContinuousSignal
from repro.nn.attention.continuous.gaussian import divergence, histogram
from repro.nn.attention.continuous.long_term import LongTermMemory, Read
from tests.models import golden

# Our names, and theirs.
NAMES = {
    "gate": "mask_net", "key": "proj_key", "value": "proj_value", "mean": "mu", "spread": "sigma", "out": "attn_out"
}  # fmt: skip
VERSIONS = {
    "infty_sorting": ContinuousSignal.sorting(16),
    "infty_gpt2_sticky": ContinuousSignal.language_model(16),
}


class Run:
    """A golden file of three segments, through ours.

    Args:
        name: of the file.
        changes: settings that differ from the official ones, to show that a mistake shows.
    """

    def __init__(self, name: str, **changes: Any) -> None:
        self.arrays, meta = golden.read(name)
        self.options, self.tolerance = meta["options"], meta["tolerance"]
        self.signal = replace(VERSIONS[name], **changes)
        self.time_first = name == "infty_sorting"
        heads, width = self.options["n_heads"], self.options["head_size"]
        self.memory = LongTermMemory(heads * width, heads, width, self.signal).double()
        self.memory.load_state_dict({key: self.of("w", key) for key in self.memory.state_dict()})
        self.empty, self.cut = [True, False, False], True

    def of(self, kind: str, key: str) -> Tensor:
        """Their array of a weight of ours."""
        ours, rest = key.split(".", 1)
        return self.arrays[f"{kind}/{NAMES[ours]}.{rest}"]

    def batch_first(self, name: str) -> Tensor:
        result = self.arrays[name]
        return result.transpose(0, 1) if self.time_first else result

    def query(self, segment: int) -> Tensor:
        """``(B, T, H, E)``."""
        given = self.arrays[f"in/seg{segment}/q"]
        if self.time_first:
            return given.transpose(0, 1).unflatten(-1, (self.options["n_heads"], -1))
        return given.transpose(1, 2)

    def bins(self, segment: int) -> Tensor | None:
        given = self.arrays.get(f"in/seg{segment}/bin_index")
        return None if given is None else given.long().sort(-1).values

    def steps(self) -> list[tuple[Tensor, Read, Tensor]]:
        """Coefficients, what was read, and the divergence, segment by segment."""
        result, coefficients = [], self.memory.empty(self.options["batch"])
        for s in range(3):
            block, empty = (
                self.batch_first(f"in/seg{s}/k"),
                torch.full((self.options["batch"],), self.empty[s]),
            )
            past = coefficients.detach() if self.cut else coefficients
            coefficients = self.memory.update(past, block, empty, self.bins(s))
            read = self.memory(coefficients, self.query(s))
            kl = divergence(read.mean, read.variance, self.signal.kl_sigma, self.signal.kl_mean)
            result.append((coefficients, read, kl))
        return result

    def loss(self) -> Tensor:
        """Weighted sum of the outputs, and 0.01 times the mean divergence, of every segment."""
        return torch.stack(
            [
                (read.y * self.batch_first(f"in/seg{s}/loss_weight")).sum() + 1e-2 * kl.mean()
                for s, (_, read, kl) in enumerate(self.steps())
            ]
        ).sum()

    def probabilities(self, read: Read) -> Tensor:
        """The probabilities of the bins from which the next segment's are drawn."""
        mean, variance = read.mean.flatten(1), read.variance.flatten(1)
        assert self.signal.bins is not None
        mass = histogram(mean, variance, torch.ones(mean.shape, dtype=torch.bool), self.signal.bins)
        return mass / mass.sum(-1, keepdim=True)
