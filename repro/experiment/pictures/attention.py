"""Attention weights of a translation model for one sentence, as a sheet of heat maps drawn with matplotlib."""

import io
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from repro.batches import Tokenizer
from repro.data.core.batches import source_batch
from repro.errors import ReproError, UserError
from repro.models import EncoderDecoder
from repro.models.decodable import evaluating
from repro.nn.attention_capture import capture_attention

# All but the first and the last in cells, which have a number each. ABOVE: title, labels and head of a band.
CELL, LEFT, GAP, ABOVE, DPI = 14, 7, 2, 10, 100
LARGEST = 40_000_000  # pixels
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(mix|cross)\.")
_KINDS = {
    ("encoder", "mix"): "Encoder to itself",
    ("decoder", "mix"): "Decoder to itself",
    ("decoder", "cross"): "Decoder to the source",
}


class Band(NamedTuple):
    """Heat maps of the heads of a layer, side by side; the first one shows the labels.

    Attributes:
        title: above them.
        weights: ``(H, T, S)``, from 0 to 1.
        rows: labels of the T.
        columns: labels of the S.
    """

    title: str
    weights: Tensor
    rows: Sequence[str]
    columns: Sequence[str]


def attention_sheet(net: EncoderDecoder, tokenizer: Tokenizer, source: list[int], target: list[int]) -> bytes:
    """Draws the attention of one translation as a PNG, every head of every layer.

    Args:
        net: an encoder-decoder, on any device; in evaluation mode during the call.
        tokenizer: of both sides, for the labels.
        source: ids, without the end symbol.
        target: ids of the translation, without begin and end symbols: the network reads it, as in training.

    Returns:
        The sheet. In each map a row is the token that attends, a column what it attends to. Layers whose weights are
        no table of these, such as those of chunks, are left out.

    Raises:
        UserError: no layer of the network has such attention weights.
    """
    ids, lengths = source_batch([source], tokenizer.pad_id, tokenizer.eos_id)
    inputs = [tokenizer.bos_id, *target]
    device = next(net.parameters()).device
    with evaluating(net), torch.compiler.set_stance("force_eager"), capture_attention(net) as captured:
        net(ids.to(device), lengths.to(device), torch.tensor([inputs], device=device))
    labels = {
        "source": [*_words(tokenizer, source), "<end>"],
        "target": ["<begin>", *_words(tokenizer, target)],
    }
    layers = ((_LAYER.match(name), weights) for name, weights in captured.items())
    made = [_band(match, weights.float().cpu(), labels) for match, weights in layers if match]
    bands = [band for band in made if band is not None]
    if not bands:
        raise UserError("no layer of this network makes attention weights that could be shown")
    title = f"{tokenizer.decode(source)}  \N{RIGHTWARDS ARROW}  {tokenizer.decode(target)}"
    return draw(title, bands)


def short_sample(
    pairs: Iterable[tuple[str, str]], tokenizer: Tokenizer, most: int = 30
) -> tuple[list[int], list[int]] | None:
    """The first pair that fits on a sheet: ids of the source and of the translation; None if all are longer.

    Args:
        pairs: sources and their translations.
        tokenizer: of both sides.
        most: the most tokens of either.
    """
    for source, translation in pairs:
        pair = tokenizer.encode(source), tokenizer.encode(translation)
        if max(map(len, pair)) <= most:
            return pair
    return None


def _words(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.decode([i]).strip() or "\N{OPEN BOX}" for i in ids]


def _band(match: re.Match[str], weights: Tensor, labels: dict[str, list[str]]) -> Band | None:
    """The heads of one layer, ``(1, H, T, S)``, side by side; None for weights of another shape."""
    side, layer, part = match.groups()
    rows = labels["source" if side == "encoder" else "target"]
    columns = labels["target" if (side, part) == ("decoder", "mix") else "source"]
    if weights.dim() != 4 or (len(weights), *weights.shape[2:]) != (1, len(rows), len(columns)):
        return None
    return Band(f"{_KINDS[side, part]}, layer {int(layer) + 1}", weights[0], rows, columns)


def draw(title: str, bands: Sequence[Band]) -> bytes:
    """A sheet of heat maps as a PNG, one band below the other.

    Raises:
        ReproError: the sheet would have more than 40 million pixels.
    """
    import matplotlib
    from matplotlib.figure import Figure

    rows, heads = [len(band.rows) for band in bands], max(len(band.weights) for band in bands)
    columns = max(3, *(len(band.columns) for band in bands))  # three are as wide as the number of a head
    width, height = LEFT + heads * (columns + GAP), GAP + sum(rows) + (ABOVE + GAP) * len(bands)
    if CELL * width * CELL * height > LARGEST:
        raise ReproError(
            f"a picture of {CELL * width} x {CELL * height} pixels is too large; take a shorter sentence or "
            "fewer layers"
        )
    grid = {
        "left": LEFT / width, "right": 1 - GAP / width, "top": 1 - (GAP + ABOVE) / height, "bottom": GAP / height,
        "wspace": GAP / columns, "hspace": (ABOVE + GAP) * len(bands) / sum(rows), "height_ratios": rows,
    }  # fmt: skip
    out = io.BytesIO()
    with matplotlib.rc_context({"text.parse_math": False, "font.size": 7}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(figsize=(width * CELL / DPI, height * CELL / DPI), dpi=DPI)
        figure.text(LEFT / width, 1 - 1.5 / height, _plain(title, 300))
        lines = figure.subplots(len(bands), heads, squeeze=False, gridspec_kw=grid)
        for line, band in zip(lines, bands, strict=True):
            top = line[0].get_position().y1
            figure.text(LEFT / width, top + (ABOVE - 1) / height, _plain(band.title, 300))
            for i, axes in enumerate(line):
                if i >= len(band.weights):
                    axes.remove()
                    continue
                axes.imshow(band.weights[i], "Blues", vmin=0, vmax=1, interpolation="nearest")
                axes.set_anchor("NW")
                axes.set_title(f"head {i + 1}", loc="left", fontsize=7)
                axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
                shown = (band.columns, band.rows) if i == 0 else ((), ())
                axes.set_xticks(range(len(shown[0])), map(_plain, shown[0]), rotation=90)
                axes.set_yticks(range(len(shown[1])), map(_plain, shown[1]))
        figure.savefig(out, format="png")
    return out.getvalue()


def _plain(label: str, most: int = 16) -> str:
    """Replaces control characters in a label, and shortens a long one."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in label)
    return plain if len(plain) <= most else plain[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
