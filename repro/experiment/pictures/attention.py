"""Attention weights of a translation model for one sentence, as a sheet of heat maps."""

import re
from collections.abc import Iterable

import torch
from torch import Tensor

from repro.batches import Tokenizer
from repro.data.core.batches import source_batch
from repro.errors import UserError
from repro.experiment.pictures.heat_maps import Band, HeatMap, draw
from repro.models import EncoderDecoder
from repro.models.decodable import evaluating
from repro.nn.attention_capture import capture_attention

_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(mix|cross)\.")
_KINDS = {
    ("encoder", "mix"): "Encoder to itself",
    ("decoder", "mix"): "Decoder to itself",
    ("decoder", "cross"): "Decoder to the source",
}


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
    maps = [HeatMap(f"head {i}", table.tolist(), rows, columns) for i, table in enumerate(weights[0], 1)]
    return Band(f"{_KINDS[side, part]}, layer {int(layer) + 1}", maps)
