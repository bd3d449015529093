"""A project of its own below a temporary folder: recipes, results, data, runs; and the command line in-process."""

import io
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from repro.cli.main import main
from tests.recipe_files import write_recipe

PROJECT = Path(__file__).resolve().parent.parent
PAPER = "attention-is-all-you-need"
TINY = f"{PAPER}/tiny"
STORE = "numbers-en-de/bpe300-n300"
CPU = "{hours: 0.001, hardware: 1 CPU core, set: {trainer.max_steps: 2}}"  # the scale
RECIPE = """\
# A network so small that a test can train it.
title: Tiny
trainer: {max_steps: 2, val_check_interval: 2, accelerator: cpu}
model:
  class_path: repro.tasks.Translation
  init_args:
    beam: 1
    max_extra: 4
    optimizer: {class_path: torch.optim.Adam, init_args: {lr: 1.0}}
    schedule: {class_path: repro.tasks.Noam, init_args: {d_model: 8, warmup_steps: 10}}
    net:
      class_path: repro.models.EncoderDecoder
      init_args:
        d_model: 8
        encoder_layers: 1
        decoder_layers: 1
        vocabulary: {class_path: repro.nn.Vocabulary, init_args: {size: 300}}
        blocks:
          mixers: [{class_path: repro.nn.FullAttention, init_args: {n_heads: 2}}]
          cross: {class_path: repro.nn.CrossAttention, init_args: {n_heads: 2}}
          feed_forward: {class_path: repro.nn.FeedForward, init_args: {d_ff: 16}}
          sublayer: {class_path: repro.nn.PostNorm, init_args: {dropout: 0.1}}
data:
  class_path: repro.data.TranslationData
  init_args: {store: numbers-en-de/bpe300-n300, vocab_size: 300, batch_tokens: 400, max_length: 60}
checkpoints: {every_steps: 1, average_last: 2}
"""

STREAM = "transformer-xl/stream"
STREAM_RECIPE = """\
# A language model with a memory, so small that a test can train it: 7 updates in an epoch.
title: Stream
trainer: {max_steps: 2, val_check_interval: 2, accelerator: cpu}
model:
  class_path: repro.tasks.LanguageModel
  init_args:
    unit: symbol
    protocol: {seq_len: 3, rows: 4, mem_len: 6, same_length: true}
    protocols:
      alone: {seq_len: 4, rows: 3, stride: 2}
    accuracy: true
    optimizer: {class_path: torch.optim.Adam, init_args: {lr: 0.01}}
    schedule: {class_path: repro.tasks.WarmupCosine, init_args: {steps: 2, warmup_steps: 1}}
    net:
      class_path: repro.models.DecoderLM
      init_args:
        d_model: 8
        n_layers: 2
        positions: repro.nn.NoPositions
        vocabulary: {class_path: repro.nn.Vocabulary, init_args: {size: 5}}
        blocks:
          mixers: [{class_path: repro.nn.RelativeAttention, init_args: {n_heads: 2, mem_len: 4, dropout: 0.1}}]
          feed_forward: {class_path: repro.nn.FeedForward, init_args: {d_ff: 16}}
          sublayer: {class_path: repro.nn.PostNorm, init_args: {dropout: 0.1}}
data:
  class_path: repro.data.EchoData
  init_args: {vocab_size: 5, batch_tokens: 32, seq_len: 4, lag: 5, train_tokens: 240, eval_tokens: 83}
checkpoints: {every_steps: 1, average_last: 2}
"""

COMPILED = "transformer-xl/compiled"

STICKY = "infinity-former/sticky"
_SHORT = "{class_path: repro.nn.RelativeAttention, init_args: {n_heads: 2, mem_len: 4, dropout: 0.1}}"
_SIGNAL = "{basis: 8, widths: [0.05, 0.1], samples: 6, bins: 7, ridge: 0.3, kl_weight: 0.01}"
STICKY_RECIPE = STREAM_RECIPE.replace("title: Stream", "title: Sticky").replace(
    _SHORT,
    "{class_path: repro.nn.ContinuousMemory, init_args: "
    f"{{block: 4, short_term: {_SHORT}, signal: {_SIGNAL}}}}}",
)

TALK = "infinity-former/talk"
TALK_RECIPE = """\
# Generated conversations read with a memory, so small that a test can train on them: 7 updates in an epoch.
title: Talk
trainer: {max_steps: 2, val_check_interval: 2, accelerator: cpu}
model:
  class_path: repro.tasks.DialogueModel
  init_args:
    generation: {max_new: 3, history: 4, synonyms: false}
    optimizer: {class_path: torch.optim.Adam, init_args: {lr: 0.01}}
    schedule: repro.tasks.Constant
    net:
      class_path: repro.models.DecoderLM
      init_args:
        d_model: 8
        n_layers: 2
        positions: {class_path: repro.nn.Added, init_args: {restart: true}}
        vocabulary: {class_path: repro.nn.TypedVocabulary, init_args: {size: 16}}
        blocks:
          mixers:
            - class_path: repro.nn.ContinuousMemory
              init_args:
                short_term: {class_path: repro.nn.FullAttention, init_args: {n_heads: 2, dropout: 0.1}}
                block: 8
                signal: {basis: 8, widths: [0.05, 0.1], samples: 6, bins: 7, ridge: 0.3, kl_weight: 0.01, normed: true}
          feed_forward: {class_path: repro.nn.FeedForward, init_args: {d_ff: 16}}
          sublayer: {class_path: repro.nn.PreNorm, init_args: {dropout: 0.1}}
data:
  class_path: repro.data.GeneratedDialogueData
  init_args:
    batch_size: 8
    window: 8
    talk: {sections: 3, section_words: 3, topics: 3, topic_words: 2, questions: 3, answer_words: 2}
    score_all: true
    train_examples: 60
    eval_examples: 5
    eval_batch_size: 2
checkpoints: {every_steps: 1, average_last: 2}
"""

BITS = "frozen-pretrained-transformer/bits"
BITS_RECIPE = """\
# A classifier over a frozen body, so small that a test can train it: 7 updates in an epoch.
title: Bits
trainer: {max_steps: 2, val_check_interval: 2, accelerator: cpu, gradient_clip_val: 1.0}
model:
  class_path: repro.tasks.Classification
  init_args:
    sampled: {batches: 3, rows: 2}
    train_limit: 5
    optimizer: {class_path: torch.optim.Adam, init_args: {lr: 0.05}}
    schedule: repro.tasks.Constant
    net:
      class_path: repro.models.Classifier
      init_args:
        input: {class_path: repro.nn.VectorEmbedding, init_args: {size: 3}}
        body:
          class_path: repro.models.Gpt2
          init_args: {d_model: 8, n_layers: 2, n_heads: 2, max_length: 8, std: 0.3}
        n_classes: 2
        n_read: 2
        per_token: 3
        trained: [input, output, norms, positions]
data:
  class_path: repro.data.BitMemoryData
  init_args: {batch_size: 8, bits: 6, strings: 2, patch: 3, train_examples: 60, eval_examples: 11, eval_batch_size: 2}
checkpoints: {every_steps: 1, average_last: 2}
"""


@dataclass
class Said:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    def refused(self, *parts: str, code: int = 2) -> str:
        """Asserts one clear line on stderr with every part in it, no traceback; returns the line."""
        complaints = [line for line in self.err.splitlines() if line.startswith("repro: ")]
        assert self.code == code, (self.code, self.err)
        assert len(complaints) == 1, self.err
        assert self.err.rstrip().splitlines()[-1] == complaints[0], self.err
        assert "Traceback" not in self.err
        for part in parts:
            assert part in complaints[0], (part, complaints[0])
        return complaints[0]


@dataclass
class Workshop:
    """Folders of a test's own project."""

    root: Path
    data: Path

    @property
    def configs(self) -> Path:
        return self.root / "configs"

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    def enter(self, patch: pytest.MonkeyPatch) -> "Workshop":
        """Points the environment here."""
        for name in ("configs", "results", "runs", "data"):
            patch.setenv(f"REPRO_{name.upper()}", str(getattr(self, name)))
        patch.chdir(self.root)
        return self

    def recipe(self, text: str = RECIPE, name: str = "tiny", scale: str = "", paper: str = PAPER) -> Path:
        """Writes a recipe of a paper, or one of its scales; returns its path."""
        return write_recipe(self.configs / paper / f"{name}.yaml", text, scale)

    def stream(self) -> str:
        """Writes the recipe of the language model, and that with ``compile``; returns the name of the first."""
        self._write(COMPILED, f"{STREAM_RECIPE}compile: true\n")
        return self._write(STREAM, STREAM_RECIPE)

    def sticky(self) -> str:
        """Writes the recipe of the language model with a sticky continuous memory; returns its name."""
        return self._write(STICKY, STICKY_RECIPE)

    def talk(self) -> str:
        """Writes the recipe of the conversations; returns its name."""
        return self._write(TALK, TALK_RECIPE)

    def bits(self) -> str:
        """Writes the recipe of the classifier; returns its name."""
        return self._write(BITS, BITS_RECIPE)

    def _write(self, experiment: str, text: str) -> str:
        paper, name = experiment.split("/")
        self.recipe(text, name, paper=paper)
        self.recipe(CPU, name, "cpu", paper)
        return experiment

    def records(self) -> list[Path]:
        return sorted((self.results / "runs").rglob("*.json"))


def make_workshop(root: Path, data: Path) -> Workshop:
    """The checkout's published numbers and tests, and one tiny recipe."""
    made = Workshop(root, data)
    for name in ("published", "tests"):
        shutil.copytree(PROJECT / "results" / name, made.results / name)
    made.recipe()
    made.recipe(CPU, scale="cpu")
    return made


def call(*arguments: str, stdin: bytes = b"") -> Said:
    """Calls the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setattr(sys, "argv", ["repro", *arguments])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
    code = stop.value.code
    return Said(code if isinstance(code, int) else int(code is not None), out.getvalue(), err.getvalue())
