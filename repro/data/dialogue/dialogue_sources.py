"""Data sets of conversations about documents. Standard library only."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repro.data.store.data_set import VAL, SubwordSet
from repro.data.store.manifest import Manifest
from repro.data.store.options import Options
from repro.data.text.text_sets import GPT2
from repro.errors import UserError

if TYPE_CHECKING:
    from repro.data.store.store_writer import StoreWriter

PARTS = ("documents", "topics", "speakers", "utterances")


@dataclass(frozen=True, kw_only=True)
class Dialogues(SubwordSet):
    """Conversations of two people, each about a document, in the layout of CMU DoG.

    The level ``gpt2`` has GPT-2's subwords under its own numbers.
    """

    levels: tuple[str, ...] = ("bpe", GPT2)

    def variant(self, options: Options) -> str:
        return GPT2 if options.level == GPT2 else super().variant(options)

    def options_of(self, variant: str) -> Options:
        return Options(level=GPT2, tokenizer=Path("FILE")) if variant == GPT2 else super().options_of(variant)

    def check_options(self, options: Options) -> None:
        super().check_options(options)
        if options.level == GPT2 and options.tokenizer is None:
            raise UserError(
                "--level gpt2 has GPT-2's own subwords; give its tokenizer.json: --tokenizer FILE"
            )

    def fill(self, writer: "StoreWriter", variant: str, options: Options) -> Manifest:
        from repro.data.dialogue.dialogue_store import fill_dialogues

        return fill_dialogues(self, writer, variant, options)


_CMU_DOG = Dialogues(
    name="cmu-dog",
    title="CMU Document Grounded Conversations: two people on a film and its Wikipedia article (Zhou et al. 2018)",
    licence="none stated for the conversations; the articles: Wikipedia, CC BY-SA 3.0; pass nothing on",
    size="3,373 conversations to train on; 5 MB as a store",
    parts=PARTS,
    aliases={"valid": VAL},
    # of all files of a folder, one after another by name, at the last commit of 2018
    sha256={
        "documents": "97465df5b726d96ce0bbb983383e1b7ac4c6ebe84bec8d63efba5c613121e962",
        "train": "82e5ad45680b4ebed691726ac6eb16fd6373db4cfb806eb87f7ba68cf089f2db",
        "val": "4fe0036ca5be3fb9316098bbfaa8b863e0555093192dc877d4930ed196156ed9",
        "test": "b4b7a34067c40be3a264b86a3801c543b3edd6dc74c339221f905d2116ea51e7",
    },
    files=("Conversations/train/*.json, also valid and test", "WikiData/*.json"),
)
DIALOGUES = (_CMU_DOG,)
