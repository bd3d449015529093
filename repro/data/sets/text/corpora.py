"""Data sets of text for language models.

Splits are called train, val and test; ``valid`` is another name of val.
"""

from dataclasses import replace

from repro.data.data_set import Hub
from repro.data.sets.text.text_sets import Books, SplitText, StandardLibrary, WholeText

_HUB_SPLITS = {"train": "train", "val": "validation", "test": "test"}
_WIKITEXT103 = SplitText(
    name="wikitext-103",
    title="WikiText-103: Wikipedia articles as words, 267,735 of them (Merity et al. 2016)",
    licence="Creative Commons Attribution-ShareAlike",
    size="540 MB, 103 million words",
    levels=("words", "bytes"),
    names={
        "train": ("wiki.train.tokens", "train.txt"),
        "val": ("wiki.valid.tokens", "valid.txt"),
        "test": ("wiki.test.tokens", "test.txt"),
    },
    folders=("wikitext-103",),
    documents="articles",
    hub_blank=" ",
    hub=Hub("Salesforce/wikitext", "wikitext-103-v1", splits=_HUB_SPLITS),
)
_WIKITEXT103_RAW = replace(
    _WIKITEXT103,
    name="wikitext-103-raw",
    title="WikiText-103 as raw text, without unknown words (Merity et al. 2016)",
    size="550 MB",
    levels=("bytes", "gpt2"),
    names={
        split: (f"wiki.{name}.raw",)
        for split, name in (("train", "train"), ("val", "valid"), ("test", "test"))
    },
    folders=("wikitext-103-raw",),
    hub_blank="",
    hub=Hub("Salesforce/wikitext", "wikitext-103-raw-v1", splits=_HUB_SPLITS),
)
_WIKITEXT2 = replace(
    _WIKITEXT103,
    name="wikitext-2",
    title="WikiText-2: Wikipedia articles as words, 33,278 of them (Merity et al. 2016)",
    size="13 MB, 2.1 million words",
    folders=("wikitext-2",),
    hub=Hub("Salesforce/wikitext", "wikitext-2-v1", splits=_HUB_SPLITS),
    sha256={
        "train.text": "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
        "val.text": "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
        "test.text": "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
    },
)
_ENWIK8_LICENCE = "GNU Free Documentation License (Wikipedia, 2006)"
_ENWIK8 = WholeText(
    name="enwik8",
    title="enwik8: the first 100,000,000 bytes of a Wikipedia dump (Hutter prize); "
    "bytes-nonl is the benchmark's usual form",
    licence=_ENWIK8_LICENCE,
    size="100 MB; mattmahoney.net/dc/enwik8.zip",
    levels=("bytes", "bytes-nonl"),
    names=("enwik8",),
    folders=("enwik8",),
    cut={"train": 90_000_000, "val": 5_000_000, "test": 5_000_000},
    seen_bytes=True,
    sha256={"whole": "2b49720ec4d78c3c9fabaee6e4179a5e997302b3a70029f30f2d582218c024a8"},
)
_ENWIK8_PREFIX = replace(
    _ENWIK8,
    name="enwik8-prefix",
    title="the first 4,000,000 bytes of enwik8: real bytes to try models on, NOT the benchmark",
    size="4 MB",
    names=("enwik8.first4000000", "enwik8"),
    folders=("enwik8-prefix", "enwik8"),
    cut={"train": 3_600_000, "val": 200_000, "test": 200_000},
    prefix=True,
    sha256={"whole": "9f9ca3a41e2b87a0268d00380577e2c308e07959b22a94c8d7b1e8901bdefc37"},
)
_TEXT8 = WholeText(
    name="text8",
    title="text8: 100,000,000 letters and spaces of cleaned Wikipedia, 27 symbols",
    licence=_ENWIK8_LICENCE,
    size="100 MB; mattmahoney.net/dc/text8.zip",
    levels=("chars",),
    names=("text8",),
    folders=("text8",),
    cut={"train": 90_000_000, "val": 5_000_000, "test": 5_000_000},
    hub=Hub("afmck/text8", splits=_HUB_SPLITS),
)
_PTB = SplitText(
    name="ptb",
    title="Penn Treebank as prepared by Mikolov: 10,000 words of the Wall Street Journal",
    licence="Linguistic Data Consortium LDC99T42; the prepared sample is passed round for research",
    size="6 MB, 0.9 million words",
    levels=("words", "chars", "bytes"),
    names={
        "train": ("ptb.train.txt", "train.txt"),
        "val": ("ptb.valid.txt", "valid.txt"),
        "test": ("ptb.test.txt", "test.txt"),
    },
    folders=("ptb", "penn", "simple-examples/data"),
    strip_lines=True,
    sha256={
        "train.text": "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
        "val.text": "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
        "test.text": "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
    },
)
_LM1B = SplitText(
    name="lm1b",
    title="One Billion Word benchmark (Chelba et al. 2013), release r13output; test is held-out shard 0, val shard 1",
    licence="Apache-2.0 for its scripts; news text of WMT11",
    size="4 GB, 30 million sentences; statmt.org/lm-benchmark",
    # words: the 793,471 of 1b_word_vocab.txt; words-min3: counted here
    levels=("words", "words-min3"),
    names={
        "train": ("training-monolingual.tokenized.shuffled/news.en-*-of-00100",),
        "val": ("heldout-monolingual.tokenized.shuffled/news.en.heldout-00001-of-00050",),
        "test": ("heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050",),
    },
    shards={"train": 99},
    folders=("lm1b", "1-billion-word-language-modeling-benchmark-r13output"),
    line_end="<S>",
    unknown="<UNK>",
    sentences=True,
    vocabulary=("1b_word_vocab.txt", "vocab-2016-09-10.txt"),
)
_BOOKS = Books(
    name="books",
    title="a folder of books as .txt files: your own, or the Toronto Book Corpus where you have it",
    licence="that of your files",
    size="any",
    documents="files",
    levels=("bytes", "words-min3", "bpe", "gpt2"),
    vocab_size=29_000,
)
_PG19 = SplitText(
    name="pg19-2000",
    title="PG-19 (Rae et al. 2020), of training only the first 2,000 books by file name; whole books as .txt files",
    licence="public domain in the United States",
    size="1 GB of 12",
    levels=("bytes", "gpt2"),
    names={"train": ("train/*.txt",), "val": ("validation/*.txt",), "test": ("test/*.txt",)},
    shards={"train": 2000, "val": 50, "test": 100},
    first={"train": 2000},
    folders=("pg19",),
    documents="files",
)
_SHAKESPEARE = WholeText(
    name="tinyshakespeare",
    title="Tiny Shakespeare: 40,000 lines of plays, 90 % train, 10 % val, no test",
    licence="public domain",
    size="1.1 MB",
    levels=("chars", "bytes"),
    names=("input.txt", "tinyshakespeare.txt"),
    folders=("tinyshakespeare",),
    cut={"train": 1_003_854, "val": 111_540},
    splits=("train", "val"),
    sha256={"whole": "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"},
)
_STDLIB = StandardLibrary(
    name="python-stdlib",
    title="the source of the running Python's standard library, tests left out: real text that is on every machine",
    licence="Python Software Foundation License",
    size="about 13 MB; differs between versions of Python",
    documents="files",
    levels=("bytes",),
)
TEXTS = (
    _WIKITEXT103, _WIKITEXT103_RAW, _WIKITEXT2, _ENWIK8, _ENWIK8_PREFIX, _TEXT8, _PTB, _LM1B, _BOOKS, _PG19,
    _SHAKESPEARE, _STDLIB,
)  # fmt: skip
