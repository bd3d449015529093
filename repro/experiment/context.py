"""Use of context by each of a group of trained language models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repro.batches import Kind
from repro.data.core.draws import Int64s
from repro.data.core.stream_data import StreamData
from repro.errors import UserError, at_least
from repro.experiment.trained import load_with_data
from repro.models import DecoderLM
from repro.paths import runs_dir
from repro.tasks.language.context import (
    THRESHOLD,
    longest_window,
    losses_with_context,
    relative_effective_context_length,
    require_ladder,
)


@dataclass(frozen=True)
class ContextSettings:
    """The settings of a comparison.

    Args:
        start: the first context, in tokens.
        step: increase of the context.
        longest: longest context, and the least number of tokens before every place.
        ratios: shares of hardest places, each with a length of its own.
        places: number of tokens that are scored, evenly spread over those that count.
        split: ``train``, ``val`` or ``test``.

    Raises:
        UserError: a number out of range.
    """

    start: int = 100
    step: int = 100
    longest: int = 1000
    ratios: tuple[float, ...] = (0.1, 0.5, 1.0)
    places: int = 1000
    split: Kind = "test"

    def __post_init__(self) -> None:
        require_ladder(self.start, self.step, self.longest, self.ratios)
        at_least(1, places=self.places)


@dataclass(frozen=True)
class LoadedRun:
    """A finished run of a language model, and the data it was trained on."""

    folder: Path
    net: DecoderLM
    data: StreamData

    @property
    def name(self) -> str:
        """The run's id; of a folder elsewhere, its path."""
        home = runs_dir().resolve()
        place = self.folder.resolve()
        return str(place.relative_to(home) if place.is_relative_to(home) else self.folder)

    def text(self, kind: Kind) -> str:
        """A description of the text: the data set, its vocabulary and the split."""
        name = "/".join(part for part in (self.data.store_name, self.data.variant) if part)
        digest = self.data.manifest_sha256[:8]
        return f"split {self.data.split(kind)} of {name} ({digest}, a vocabulary of {self.data.vocab_size})"


def load_reader(word: str, scale: str | None = None, seed: int | None = None) -> LoadedRun:
    """Loads a finished run of a language model with its data; onto a GPU where there is one.

    Raises:
        UserError: a run of another kind, and the errors of :func:`repro.experiment.trained.load_with_data`.
    """
    folder, parts = load_with_data(word, scale, seed)
    net = parts.task.net
    if not isinstance(parts.data, StreamData) or not isinstance(net, DecoderLM):
        raise UserError(
            f"{word} holds a {type(parts.task).__name__}, not a language model over streams of text"
        )
    net.eval().requires_grad_(False)
    return LoadedRun(folder, net.to("cuda" if torch.cuda.is_available() else "cpu"), parts.data)


def require_group(readers: Sequence[LoadedRun], settings: ContextSettings) -> None:
    """Refuses runs that cannot be compared.

    Raises:
        UserError: they read different data, or one has learned too few positions.
    """
    first = readers[0]
    for other in readers[1:]:
        if first.text(settings.split) != other.text(settings.split):
            texts = (f"{reader.name} reads {reader.text(settings.split)}" for reader in (first, other))
            raise UserError(f"runs are compared on the same text only: {' and '.join(texts)}")
    for reader in readers:
        limit = longest_window(reader.net)
        if limit is not None and limit < settings.longest:
            raise UserError(
                f"{reader.name} learned {limit} positions: --longest must be at most {limit}, not {settings.longest}"
            )


def spread_places(data: StreamData, split: str, count: int, context: int) -> Int64s:
    """Evenly spread places of tokens that count and have ``context`` tokens before them, ``(count,)``, ascending.

    Raises:
        UserError: there are fewer such tokens.
    """
    tokens, scored = data.tokens(split), data.scored(split)
    counts = np.ones(len(tokens), dtype=np.bool_) if scored is None else scored
    candidates: Int64s = np.flatnonzero(counts[context:]).astype(np.int64) + context
    if len(candidates) < count:
        raise UserError(
            f"split {split} of {data.store_name} has {len(tokens)} tokens, {len(candidates)} of them scored behind "
            f"{context} others: fewer than --places {count}; lower --places or --longest"
        )
    return candidates[np.arange(count) * len(candidates) // count]


def compare(
    readers: Sequence[LoadedRun], settings: ContextSettings, report: Callable[[str], None] = lambda line: None
) -> list[dict[str, Any]]:
    """Computes the RECL of every run of a group at every ratio.

    Args:
        readers: the group, at least one run.
        settings: settings of the measurement.
        report: called with a line for each new context.

    Returns:
        For each run ``run``, ``parameters``, ``recl`` by ratio, ``at_longest`` by ratio (true where the model still
        gained when ``longest`` ended the search), and the settings.

    Raises:
        UserError: runs that cannot be compared, or too little text.
    """
    require_group(readers, settings)
    data = readers[0].data
    split = data.split(settings.split)
    places, tokens = spread_places(data, split, settings.places, settings.longest), data.tokens(split)

    @cache
    def losses(context: int) -> Tensor:
        report(f"context {context}: {len(readers)} models, {len(places)} places")
        return torch.stack([losses_with_context(reader.net, tokens, places, context) for reader in readers])

    ladder = settings.start, settings.step, THRESHOLD, settings.longest
    lengths = {f"{r:g}": relative_effective_context_length(losses, r, *ladder) for r in settings.ratios}
    facts = {name: getattr(settings, name) for name in ("start", "step", "longest", "places")}
    facts |= {"threshold": THRESHOLD, "data": data.store_name, "split": split}
    results = []
    for i, reader in enumerate(readers):
        recl = {ratio: values[i] for ratio, values in lengths.items()}
        capped = {ratio: length + settings.step > settings.longest for ratio, length in recl.items()}
        size = sum(parameter.numel() for parameter in reader.net.parameters())
        results.append({"run": reader.name, "parameters": size, "recl": recl, "at_longest": capped, **facts})
    return results
