"""From the raw lines of sentence pairs to the files of a store: one vocabulary for all sides, tokens, a manifest."""

from repro.data.store.data_set import TRAIN
from repro.data.store.manifest import Manifest
from repro.data.store.options import Options
from repro.data.store.store_writer import StoreWriter
from repro.data.tokenizers.tokenizer import subwords
from repro.data.translation.pairs import SentencePairs


def fill_pairs(data_set: SentencePairs, writer: StoreWriter, variant: str, options: Options) -> Manifest:
    """Writes text, tokeniser and tokens of every split; see ``DataSet.fill``."""
    raw = data_set.raw(options)
    # one vocabulary for all sides, from the training split only
    training = (line for part in data_set.parts for line in raw.lines[TRAIN][part])
    tokenizer = subwords(options.tokenizer, training, data_set.learned(options))
    for split, parts in raw.lines.items():
        for part, lines in parts.items():
            writer.write_lines(f"{split}.{part}", lines)
    counts = {split: writer.encode_split(split, data_set.parts, tokenizer) for split in raw.lines}
    return Manifest.of(
        data_set, variant, raw.origin, counts, writer.write_tokenizer(tokenizer),
        [split for split in data_set.splits if split not in raw.lines],
    )  # fmt: skip
