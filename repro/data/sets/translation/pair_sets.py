"""Data sets of sentence pairs.

The large ones are cleaned as the recipes of the field clean them (:class:`repro.data.sets.translation.pairs.Cleaning`).

Deviation: where those recipes cut text with Moses' tokeniser and learn subwords inside its tokens, here byte-level BPE
is learned from the raw text; no word is unknown, and what is decoded needs no detokeniser.
"""

from dataclasses import replace

from repro.data.data_set import Hub
from repro.data.sets.translation.cleaning import Cleaning
from repro.data.sets.translation.given_subwords import GivenSubwords
from repro.data.sets.translation.pairs import GeneratedNumbers, SentencePairs

_MULTI30K = SentencePairs(
    name="multi30k",
    title="Multi30k task 1, English-German image captions (Elliott et al. 2016, 2017)",
    licence="non-commercial research and education (Flickr30k terms); cite Elliott et al. 2016 and 2017",
    size="4 MB, 29,000 training pairs",
    parts=("en", "de"),
    splits=("train", "val", "test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"),
    optional=("test_2017_flickr", "test_2017_mscoco"),
    aliases={"test": "test_2016_flickr"},
    vocab_size=4000,
    hub=Hub(
        "bentrevett/multi30k", splits={"train": "train", "val": "validation", "test_2016_flickr": "test"}
    ),
    sha256={
        "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
        "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
        "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
        "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
        "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
        "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
        "test_2017_flickr.en": "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98",
        "test_2017_flickr.de": "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081",
        "test_2017_mscoco.en": "43051fdfa86fd5395182e718a94ca67b1b227b9f7c79596ff0f6b813216981d2",
        "test_2017_mscoco.de": "58277df3c75f92f7145a11b910b553d1cf82c439249d4dc237c899609eafac22",
    },
    stripped={"train.de": "67aa53ff412b6af1f47c604a623e112e2c28c61519aa7cf8a5348af21722b67a"},
)
_RAW = "byte-level BPE on raw text, without Moses' tokeniser"
_COUNTED = "lengths are words and punctuation marks of the raw text, not Moses' tokens or subwords"
_WMT14_SPLITS = {"train": "train", "newstest2013": "validation", "newstest2014": "test"}
_STATMT = (
    "training", "training-parallel-*", "training-parallel-*/training", "training-parallel-*/un", "un", "dev", "test",
    "test-full",
)  # fmt: skip
_NEWSTEST2013 = ("newstest2013.{part}", "newstest2013-{role}.{part}.sgm")
_WMT14_EN_DE = SentencePairs(
    name="wmt14-en-de",
    title="WMT14 English-German: Europarl v7, Common Crawl, News Commentary v9; newstest2013, newstest2014",
    licence="research; each part has its own terms (statmt.org/wmt14)",
    size="1.5 GB, 4.5 million training pairs",
    parts=("en", "de"),
    splits=("train", "newstest2013", "newstest2014"),
    aliases={"val": "newstest2013", "test": "newstest2014"},
    vocab_size=37000,
    hub=Hub("wmt/wmt14", "de-en", splits=_WMT14_SPLITS),
    sha256={
        "newstest2013.en": "ace268a1d9724ca76f6d8e5c720ffdc08f01bdce45630ed8b269dc7918e1c16e",
        "newstest2013.de": "d7ea35ab91ff3709e03ad9cb6bf5b4f2cc775cd2d72efd5254c4aec5e69663ca",
        "newstest2014.en": "7294bccf2879a97b3706b95c9595f1459617a8ee7130d5d8581c910e69736971",
        "newstest2014.de": "ae5d110486bc33d7175e9e28c7d0051eb3e5fcd2166dd93371089852c091a20e",
    },
    names={
        "train": (
            ("europarl-v7.de-en.{part}",),
            ("commoncrawl.de-en.{part}",),
            ("news-commentary-v9.de-en.{part}", "news-commentary-v12.de-en.{part}"),
        ),
        "newstest2013": (_NEWSTEST2013,),
        "newstest2014": (("newstest2014.{part}", "newstest2014-deen-{role}.{part}.sgm"),),
    },
    ready={"train": ("train.{part}",)},
    folders=_STATMT,
    lines={"newstest2013": 3000, "newstest2014": 3003},
    cleaning=Cleaning(max_words=256),  # what training drops of longer pairs anyway, by subwords
    deviations=(_RAW,),
)
_WMT14_EN_FR = replace(
    _WMT14_EN_DE,
    name="wmt14-en-fr",
    title="WMT14 English-French: Europarl v7, Common Crawl, UN, News Commentary v9, 10^9; newstest2013, newstest2014",
    size="13 GB, 36 million training pairs",
    parts=("en", "fr"),
    vocab_size=32000,
    hub=Hub("wmt/wmt14", "fr-en", splits=_WMT14_SPLITS),
    names={
        "train": (
            ("europarl-v7.fr-en.{part}",),
            ("commoncrawl.fr-en.{part}",),
            ("undoc.2000.fr-en.{part}",),
            ("news-commentary-v9.fr-en.{part}", "news-commentary-v12.fr-en.{part}"),
            ("giga-fren.release2.fixed.{part}",),
        ),
        "newstest2013": (_NEWSTEST2013,),
        # as a plain file, its English side has the name of another one in German's pair
        "newstest2014": (("newstest2014-fren-{role}.{part}.sgm", "newstest2014.{part}"),),
    },
    cleaning=Cleaning(max_words=250, ratio=1.5),
    vocabulary_every=8,
    deviations=(_RAW, _COUNTED, "the vocabulary is learned from every 8th training pair"),
    sha256={},
)
_TEST_TALKS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
_IWSLT14 = SentencePairs(
    name="iwslt14-de-en",
    title="IWSLT14 German-English: TED talks (Cettolo et al. 2014), lower-cased",
    licence="CC BY-NC-ND (TED talks); cite Cettolo et al. 2012",
    size="40 MB, 160,000 training pairs",
    parts=("de", "en"),
    vocab_size=10000,
    names={
        "train": (("train.tags.de-en.{part}",),),
        "test": tuple((f"IWSLT14.{talks}.de-en.{{part}}.xml",) for talks in _TEST_TALKS),
    },
    ready={"train": ("train.{part}",), "val": ("valid.{part}", "val.{part}"), "test": ("test.{part}",)},
    folders=("de-en",),
    straight=True,
    cleaning=Cleaning(max_words=175, ratio=1.5, lower=True),
    held_every=23,
    deviations=(_RAW, _COUNTED),
    files=("train.tags.de-en.{de,en}", "IWSLT14.TED*.de-en.{de,en}.xml"),
)
_NUMBERS = GeneratedNumbers(
    name="numbers-en-de",
    title="spelled-out numbers, years, counted things and dates, English-German, generated",
    licence="MIT (generated by this package)",
    size="5 MB at the default 40,000 training pairs; any size",
    parts=("en", "de"),
    vocab_size=512,
)
# data/multi30k-en-de and data/multi30k-en-fr of LividWo/Revisit-MMT, commit dc368d0
_MULTI30K_BPE_EN_DE = GivenSubwords(
    name="multi30k-bpe-en-de",
    title="Multi30k, English-German, lower-cased, tokenised and cut into subwords by Wu et al. 2021",
    licence=_MULTI30K.licence,
    size="3 MB, 29,000 training pairs",
    parts=("en", "de"),
    splits=("train", "valid", "test.2016", "test.2017", "test.coco"),
    optional=("test.2017", "test.coco"),
    aliases={"val": "valid", "test": "test.2016"},
    prefix="en-de.",
    merges=("en-de.codes", "code"),
    sha256={
        "train.en": "0ffe3e3bac16e6aa33ef0dd6a7dca81587479b0d18dff0db2a92ac3f32b00c86",
        "train.de": "b2c74def7ec129f7ea7023a51501c77174c377ef06c6ccc2f031adcfb5cfadbd",
        "valid.en": "193d0d18fef5d1bc9d1cddafa13a644de3c5d6a24b45ac44476dcc5e96bfac6e",
        "valid.de": "eeb95680d6a06eafb13e3494eed9f9fa99783b892f4a3c72dd36e7ce2e000b68",
        "test.2016.en": "13b5fe3f92f78c54446d66afcaaa0a00a33ab653a8411f16812c9c5ca3795d6d",
        "test.2016.de": "375c20d50f4c486149a78dfcfb161a430a04ddabe2b7d150f0c7811dc455ac60",
        "test.2017.en": "5252390a58d57bce8d6a69a973e4908e98c7b70d3fc7ccc9c3963747ae8b177d",
        "test.2017.de": "9deefbe5705b60c3b5a790146e232b411a0da0420fd194ed6f6ad3a2674340a0",
        "test.coco.en": "82d825317109d12260cfd637a23d2bf7c564308546f56e341047b2067c0dba8b",
        "test.coco.de": "5cfc9d5e6511565c53c390598d7a69d14dd302c1a374a16c56959224c5a54d99",
        "merges": "5b545f318e49f24367c7399019c9aeb5e3720b6379a08f887c2792af71c37f2a",
    },
)
_MULTI30K_BPE_EN_FR = replace(
    _MULTI30K_BPE_EN_DE,
    name="multi30k-bpe-en-fr",
    title="Multi30k, English-French, lower-cased, tokenised and cut into subwords by Wu et al. 2021",
    parts=("en", "fr"),
    prefix="en-fr.",
    merges=("en-fr.codes", "code"),
    sha256={
        "train.en": "a253fe5a3e61a0d356f23814db8a1acca19385057b0d4b97aff21987e3d373a2",
        "train.fr": "6b3fdb2e9347ee2e6c817487138d4e691b4698093d4e4ddca26de20fb1454a23",
        "valid.en": "4160f60e73cdf91b36c4c10c4be638f5989c9b8ebce01a76d7c963dfcbd03165",
        "valid.fr": "5595032da1ce18598a2b6177b2546a33930314422e77e687a859220dd85765b3",
        "test.2016.en": "df33d29aaada0076b9fcfc0c9b89eaab6887ff134e6e940a037ee1ce7e112e3a",
        "test.2016.fr": "d9026dc67ef35c054c102fe61c0c5e1d5c71d2d960ae0967b3f39a8b9f86f580",
        "test.2017.en": "272e9a95028296592fe40f099c5d2a1083a9a671a0f422b52a0d48d7220973fc",
        "test.2017.fr": "76f1579b8b2e1313c5034a1ec8e900a7d5434b89b29ad36f02c7495c9ee3cdd6",
        "test.coco.en": "b8ff691459e4288f3ded5cd91fa2e0e03ab88b1a8266d09157f169c3a330774d",
        "test.coco.fr": "b85e1a69eaf4f3fdcb7f06d3adf592e26ba2518393e24860151c4539a6aab22b",
        "merges": "10d33e184381e776cf1bfe863734673de7539164041dafd915363697d49f00e6",
    },
)
PAIRS = (
    _MULTI30K, _MULTI30K_BPE_EN_DE, _MULTI30K_BPE_EN_FR, _WMT14_EN_DE, _WMT14_EN_FR, _IWSLT14, _NUMBERS,
)  # fmt: skip
