"""A trained run, or one under way, ready for use on new text."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch

from repro.batches import SourceBatch, Tokenizer
from repro.data.core.batches import source_batch
from repro.errors import UserError, at_least, nearest
from repro.events import EVENTS_FILE, read
from repro.experiment import checkpoint
from repro.experiment.build import AnyTask, Parts, build, build_task
from repro.experiment.compiling import compile_decoding
from repro.experiment.pictures.attention import attention_sheet
from repro.experiment.session import MODEL_FILE
from repro.experiment.trainer import quiet, vocabulary_hash
from repro.models import EncoderDecoder
from repro.models.decodable import Decoded
from repro.models.generate import continue_prompt
from repro.models.sampling import sample
from repro.nn.layers.folding import fold
from repro.nn.layers.shortcut import weighted_stacks
from repro.nn.positions.positions import longest_window, restart_each
from repro.nn.settings import AS_BUILT, CallSettings, MemorySettings, has_memory_settings
from repro.paths import runs_dir
from repro.recipe import Recipe, experiments, scales_of
from repro.record import finished_record
from repro.tasks.language.dialogue import DialogueModel
from repro.tasks.language.language_model import LanguageModel
from repro.tasks.metrics.sentences import one_line
from repro.tasks.translation import Search, Translation, decode_batch
from repro.training.checkpoints import checkpoints, fault
from repro.training.saving import best_checkpoints

_COPY = "copy it from the run's folder again, or use the code that wrote it"


@dataclass
class Trained:
    """A model and its tokeniser.

    Attributes:
        folder: folder of the run.
        task: with the final weights, in evaluation mode.
        tokenizer: the one it was trained with.
        max_length: longest source it was trained on, in tokens with the end symbol.
        seq_len: of a language model, tokens of its rows in training.
    """

    folder: Path
    task: AnyTask
    tokenizer: Tokenizer
    max_length: int
    seq_len: int = 0

    def require_encoder(self) -> None:
        """Refuses a model that cannot translate.

        Raises:
            UserError: the network has no encoder.
        """
        if not isinstance(self.task.module, EncoderDecoder):
            raise UserError(f"{self.folder} holds a language model: it can `repro generate`, not translate")

    @property
    def settings(self) -> CallSettings:
        """The memory settings for continuing a text: those of the test, or as long as the rows in training.

        Mixers that keep every token are unchanged.
        """
        if not isinstance(self.task, LanguageModel) or not has_memory_settings(self.task.module):
            return AS_BUILT
        tested = self.task.protocols[""]
        return tested.settings if tested.mem_len else CallSettings(memory=MemorySettings(self.seq_len))

    def encode(self, line: str) -> list[int]:
        """Token ids of a source line, without the end symbol.

        Raises:
            UserError: longer than any source in training.
        """
        ids: list[int] = self.tokenizer.encode(line)
        if len(ids) >= self.max_length:
            raise UserError(
                f"a source of {len(ids) + 1} tokens is longer than the {self.max_length} that the model was "
                f"trained on; split it: {line[:40]!r}..."
            )
        return ids

    def sources(self, lines: list[str]) -> SourceBatch:
        """Source lines as one batch."""
        ids = [self.encode(line) for line in lines]
        return source_batch(ids, self.tokenizer.pad_id, self.tokenizer.eos_id)


def find_run(word: str, scale: str | None, seed: int | None) -> Path:
    """The folder of a run with weights: given as a folder, a run id, or an experiment with scale and seed.

    A finished run is preferred to one that has checkpoints only. Of several, the newest is taken, and stderr names it.

    Raises:
        UserError: there is none; names the command that makes one.
    """
    for folder in (Path(word), runs_dir() / word):
        if (folder / MODEL_FILE).is_file() or _saved(folder):
            return folder
    pattern = f"{word}/{scale or '*'}/s{'*' if seed is None else seed}-*"
    for name in (MODEL_FILE, "checkpoints/step-*.ckpt") if _is_plain(word) else ():
        files = sorted(
            runs_dir().glob(f"{pattern}/{name}"), key=lambda path: path.stat().st_mtime, reverse=True
        )
        folders = dict.fromkeys(path.parents[name.count("/")] for path in files)  # the newest first
        if found := next((one for one in folders if name == MODEL_FILE or _saved(one)), None):
            if len(folders) > 1:
                print(f"{len(folders)} runs of {word}; taken: {found}", file=sys.stderr)
            return found
    if word in experiments():
        made = scale if scale in scales_of(word) else scales_of(word)[-1]
        raise UserError(
            f"{word} has no run with weights here{'' if seed is None else f' on seed {seed}'}; make one: "
            f"repro run {word} --scale {made}{'' if seed is None else f' --seed {seed}'}"
        )
    raise UserError(f"no run {word!r}{nearest(word, experiments())}; `repro run EXPERIMENT` makes one")


def _saved(folder: Path) -> list[Path]:
    """The sound checkpoints of a run: those of the last steps, then the best of the validations."""
    place = folder / "checkpoints"
    return [path for path in (*checkpoints(place), *best_checkpoints(place)) if fault(path) is None]


def read_weights(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Reads the final model of a run; of an unfinished run its best or else its last checkpoint, which stderr names.

    Returns:
        The file and its content, with the recipe under ``config``.

    Raises:
        UserError: a file that cannot be read.
    """
    path = folder / MODEL_FILE
    if not path.is_file() and (saved := _saved(folder)):
        path = saved[-1]
        print(f"{folder} is not finished: weights of {path.name}", file=sys.stderr)
    loaded = checkpoint.read(path)
    if path.name != MODEL_FILE:
        # Lightning lets no callback mark the best; those of the steps stand first
        if checkpoint.STAMP not in loaded:
            loaded[checkpoint.STAMP] = checkpoint.read(saved[0], mmap=True).get(checkpoint.STAMP)
        begun = (event["config"]["recipe"] for event in read(folder / EVENTS_FILE) if "config" in event)
        loaded["config"] = next(begun, {})
    loaded.setdefault("config", {})
    return path, loaded


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Refuses, by its name, a model file whose configuration and weights make no model."""
    try:
        yield
    except (UserError, AttributeError, RuntimeError, TypeError) as error:
        # torch tells what is wrong in its second line
        reason = str(error).removeprefix(f"{path} (): ").splitlines()[:2][-1].strip()
        raise UserError(f"{path}: configuration and weights make no model: {reason}; {_COPY}") from None


def _is_plain(word: str) -> bool:
    return (
        word != "" and not word.startswith("/") and ".." not in word.split("/") and not set(word) & set("*?[")
    )


def load_with_data(word: str, scale: str | None = None, seed: int | None = None) -> tuple[Path, Parts]:
    """Loads a run with the data it was trained on.

    Args:
        word: see :func:`find_run`.
        scale: of an experiment.
        seed: of an experiment.

    Returns:
        The run's folder and its objects, with the final weights.

    Raises:
        UserError: no such run, a damaged model file, or data that are missing or differ from those of its training.
    """
    folder = find_run(word, scale, seed)
    path, loaded = read_weights(folder)
    with _named(path):
        parts = build(Recipe(str(path), "", loaded["config"]))
        parts.task.load_state_dict(loaded["state_dict"])
    parts.data.prepare_data()
    checkpoint.check_stamp(path, loaded, None, vocabulary_hash(parts.data))
    record, here = finished_record(folder), parts.data.manifest_sha256[:8]
    made = loaded[checkpoint.STAMP].get("made_by", {})  # of a checkpoint
    before = str(record.data.get("manifest_sha256"))[:8] if record else made.get("data", here)
    if before != here:
        raise UserError(
            f"{folder} was trained on another {parts.data.store_name} (manifest {before}, here {here}); prepare the "
            "data it was trained on, with the version of repro that did, or train again"
        )
    return folder, parts


def load_trained(
    word: str, scale: str | None = None, seed: int | None = None, compiled: bool = False
) -> Trained:
    """Loads a run; see :func:`read_weights`.

    Args:
        word, scale, seed: see :func:`load_with_data`.
        compiled: whether its layers are compiled; see :func:`repro.experiment.compiling.compile_decoding`.

    Raises:
        UserError: no such run, a damaged model file, a tokeniser that is not the one it was trained with, or a network
            that cannot be compiled.
    """
    from repro.data.tokenizers.loading import load_tokenizer

    quiet()
    folder = find_run(word, scale, seed)
    path, loaded = read_weights(folder)
    files = [p for p in sorted(folder.glob("tokenizer.*")) if p.suffix in (".json", ".model")]
    if not files:
        raise UserError(
            f"{folder} has no tokenizer file; copy it back from the data store it was trained on (a model of generated "
            "symbols has none, and cannot read text)"
        )
    tokenizer = load_tokenizer(files[0])
    checkpoint.check_stamp(path, loaded, None, str(tokenizer.sha256))
    with _named(path):
        data = loaded["config"].get("data", {}).get("init_args", {})
        task = build_task(Recipe(str(path), "", loaded["config"]))
        task.load_state_dict(loaded["state_dict"])
    if weighted_stacks(task.module):
        with contextlib.suppress(ValueError):  # bodies that cannot be folded work unchanged
            task.net = fold(task.module)
    task.eval().requires_grad_(False)
    restart_each(task.module, data.get("seq_len", 0))
    if compiled:
        compile_decoding(task)
    lengths = data.get("max_length", 256), data.get("seq_len", 0)
    return Trained(folder, task, cast(Tokenizer, tokenizer), *lengths)


def best_translations(
    trained: Trained, lines: list[str], beam: int | None = None, n_best: int = 1
) -> list[tuple[float, str]]:
    """Scores and texts of the N best translations of each line, one line after the other.

    Beam search has the settings of the recipe's test where ``beam`` is None.

    Raises:
        UserError: N is not 1 to the beam.
    """
    search: Search = trained.task.search if isinstance(trained.task, Translation) else Search(4, 0.6, 50)
    if beam is not None:
        search = search._replace(beam=beam)
    if not 1 <= n_best <= search.beam:
        raise UserError(f"--n-best must be 1 to the beam, which is {search.beam}, not {n_best}; give --beam")
    source, lengths = trained.sources(lines)
    best = decode_batch(trained.task.net, source, lengths, trained.tokenizer, search._replace(n_best=n_best))
    texts = [one_line(trained.tokenizer.decode(row)) for row in best.ids]
    return list(zip(best.scores, texts, strict=True))


def draw_attention(trained: Trained, line: str, translation: str) -> bytes:
    """The model's attention for a translation, as a PNG.

    Raises:
        UserError: it makes no weights that could be shown.
    """
    ids = [trained.encode(line), trained.tokenizer.encode(translation)]
    return attention_sheet(trained.task.net, trained.tokenizer, *ids)


LONGEST = 1_000_000  # tokens that are sampled at once


@dataclass(frozen=True)
class Sampling:
    """The number of tokens to sample, and arguments of :func:`repro.models.sampling.sample` of the same names.

    Raises:
        UserError: a value out of range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    max_new: int = 100

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise UserError(f"--temperature must be above 0 and finite, not {self.temperature}")
        at_least(1, **{"--top-k": self.top_k})
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError(f"--top-p must be above 0 and at most 1, not {self.top_p}")
        if not 1 <= self.max_new <= LONGEST:
            raise UserError(f"--max-new must be from 1 to {LONGEST:,}, not {self.max_new}")


def sample_line(trained: Trained, line: str, sampling: Sampling, samples: int, seed: int) -> list[str]:
    """Samples for one line: translations from an encoder-decoder, continuations from a language model.

    Raises:
        UserError: a model of conversations, or more tokens than there are positions.
    """
    net, tokenizer = trained.task.net, trained.tokenizer
    settings = asdict(sampling)
    max_new = settings.pop("max_new")
    draw: Callable[..., Decoded] = partial(sample, **settings, generator=torch.Generator().manual_seed(seed))
    if isinstance(net, EncoderDecoder):
        source, lengths = trained.sources([line] * samples)
        max_new = min(max_new, longest_window(net) or max_new)
        state = net.start(source, lengths, capacity=max_new)
        first = torch.full((samples,), tokenizer.bos_id)
        drawn = draw(net, state, first, max_new, tokenizer.eos_id)
        rows = [ids[:length] for ids, length in zip(drawn.ids.tolist(), drawn.lengths.tolist(), strict=True)]
        return [one_line(tokenizer.decode(ids)) for ids in rows]
    if isinstance(trained.task, DialogueModel):
        raise UserError(
            f"{trained.folder} holds a model of conversations, which continues no plain text; the test of "
            "`repro run` draws and scores its replies"
        )
    prompt = tokenizer.encode(line)
    end = None if isinstance(trained.task, LanguageModel) else tokenizer.eos_id  # a stream of text has no end
    try:
        drawn_rows = continue_prompt(net, [prompt] * samples, max_new, end, draw, trained.settings).ids
    except ValueError as error:
        raise UserError(str(error)) from None
    return [tokenizer.decode([*prompt, *ids]) for ids in drawn_rows]
