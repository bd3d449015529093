"""translate and generate on standard input."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from repro.data.prepare import open_store
from repro.experiment import checkpoint
from repro.experiment.build import build_task
from repro.experiment.trained import best_translations, load_trained
from repro.models.generate import Hypotheses
from repro.nn import Added, ResidualStack
from repro.recipe import load_recipe
from repro.training.checkpoints import read
from tests.conftest import TrainedRun
from tests.workshop import PAPER, RECIPE, STREAM_RECIPE, TINY, Workshop, call

LINES = "forty-two\nthe third of May\nseventeen\nnine hundred and one\n"


def test_translate_gives_one_line_for_each_line_whatever_the_batch(trained: TrainedRun) -> None:
    whole = call("translate", trained.run_id, stdin=LINES.encode())
    assert whole.code == 0, whole.err
    assert whole.out.count("\n") == 4
    for size in ("1", "3"):
        assert call("translate", trained.run_id, "--batch", size, stdin=LINES.encode()).out == whole.out


@pytest.mark.parametrize("verb", ["translate", "generate"])
def test_layers_are_compiled_where_it_is_wanted(
    verb: str, trained: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[type] = []

    def compile_module(module: nn.Module, **_: object) -> None:
        compiled.append(type(module))

    monkeypatch.setattr(nn.Module, "compile", compile_module)
    assert call(verb, trained.run_id, stdin=b"seventeen\n").code == 0
    assert not compiled
    assert call(verb, trained.run_id, "--compile", stdin=b"seventeen\n").code == 0
    assert compiled == [ResidualStack] * 2  # encoder and decoder


@pytest.mark.parametrize("words", [(TINY,), (TINY, "--scale", "cpu", "--run-seed", "1")])
def test_a_run_is_found_by_its_experiment(trained: TrainedRun, words: tuple[str, ...]) -> None:
    by_id = call("translate", trained.run_id, stdin=LINES.encode()).out
    assert call("translate", *words, stdin=LINES.encode()).out == by_id
    assert call("translate", str(trained.folder), stdin=LINES.encode()).out == by_id
    call("translate", TINY, "--run-seed", "7", stdin=b"one\n").refused(
        "no run with weights here", f"repro run {TINY}"
    )


def test_the_beam_is_the_recipes_unless_given(trained: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    from repro.experiment import trained as module

    seen: list[int] = []
    real = module.decode_batch

    def spy(*arguments: object) -> Hypotheses:
        seen.append(arguments[-1].beam)  # type: ignore[attr-defined]
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "decode_batch", spy)
    assert call("translate", TINY, stdin=b"one\n").code == 0
    assert call("translate", TINY, "--beam", "3", stdin=b"one\n").code == 0
    assert seen == [1, 3]


def test_the_n_best_stand_behind_their_scores(trained: TrainedRun) -> None:
    words = ("translate", TINY, "--beam", "3")
    best = call(*words, stdin=LINES.encode()).out.splitlines()
    lines = call(*words, "--n-best", "3", "--batch", "3", stdin=LINES.encode()).out.splitlines()
    rows = [line.split("\t") for line in lines]
    assert [text for _, text in rows[::3]] == best
    scores = [float(score) for score, _ in rows]
    for at in range(0, 12, 3):
        assert scores[at : at + 3] == sorted(scores[at : at + 3], reverse=True)
        assert len({text for _, text in rows[at : at + 3]}) > 1
    assert call(*words, "--n-best", "1", stdin=LINES.encode()).out.splitlines() == lines[::3]
    for n in ("4", "0"):
        call(*words, "--n-best", n, stdin=b"one\n").refused("--n-best", n, "3", "--beam")


def test_translations_are_those_of_the_test(trained: TrainedRun) -> None:
    outputs = trained.workshop.records()[0].with_suffix(".outputs.txt").read_text().splitlines()
    lines = "".join(f"{line}\n" for line in open_store("numbers-en-de", "bpe300-n300").lines("test", "en"))
    assert call("translate", TINY, stdin=lines.encode()).out.splitlines() == outputs


def test_the_final_model_is_the_mean_of_the_last_checkpoints(trained: TrainedRun) -> None:
    last = sorted((trained.folder / "checkpoints").glob("*.ckpt"))
    assert len(last) == 2
    states = [read(path)["state_dict"] for path in last]
    model = read(trained.folder / "model.pt")["state_dict"]
    for name, value in model.items():
        torch.testing.assert_close(value, (states[0][name] + states[1][name]) / 2, msg=name)
    assert any(not torch.equal(states[0][name], states[1][name]) for name in model)


@pytest.mark.parametrize(
    ("stdin", "parts", "before"),
    [
        (b"\n", ("line 1", "empty", "one sentence a line"), 0),
        (b"one\ntwo\n   \nthree\n", ("line 3", "empty"), 2),
        (b"one\n\xff\xfe\n", ("line 2", "not UTF-8"), 1),
        ((b"twenty-two " * 60) + b"\n", ("line 1", "longer than the 60", "split it", "'twenty-two"), 0),
    ],
)
@pytest.mark.parametrize("verb", ["translate", "generate"])
def test_bad_lines(trained: TrainedRun, verb: str, stdin: bytes, parts: tuple[str, ...], before: int) -> None:
    output = call(verb, TINY, stdin=stdin)
    output.refused(*parts)
    assert output.out.count("\n") == before


def test_a_line_that_is_too_long_costs_no_other_line(trained: TrainedRun) -> None:
    output = call("translate", TINY, stdin=b"one\ntwo\n" + b"twenty-two " * 60 + b"\nthree\n")
    output.refused("line 3", "longer than the 60")
    assert output.out.count("\n") == 2


def test_no_input_is_no_output(trained: TrainedRun) -> None:
    output = call("translate", TINY)
    assert (output.code, output.out) == (0, "")


def test_samples_are_reproducible_by_seed_and_differ_between_seeds(trained: TrainedRun) -> None:
    words = ("generate", TINY, "--samples", "4", "--max-new", "12")
    first = call(*words, "--seed", "1", stdin=b"forty-two\n")
    assert first.code == 0, first.err
    assert first.out == call(*words, "--seed", "1", stdin=b"forty-two\n").out
    assert first.out != call(*words, "--seed", "2", stdin=b"forty-two\n").out
    greedy = call(*words, "--seed", "1", "--top-k", "1", stdin=b"forty-two\n").out.splitlines()
    assert len(greedy) == 4
    assert len(set(greedy)) == 1


def language_model(run: TrainedRun, name: str = "lm") -> Path:
    """Writes a run folder with a decoder-only model of random weights."""
    text = RECIPE.replace("EncoderDecoder", "DecoderLM").replace("        encoder_layers: 1\n", "")
    text = text.replace("decoder_layers: 1", "n_layers: 1")
    return untrained(run, name, "\n".join(line for line in text.splitlines() if "cross:" not in line) + "\n")


def untrained(run: TrainedRun, name: str, text: str) -> Path:
    """Writes a run folder with random weights."""
    run.workshop.recipe(text, name=name)
    recipe = load_recipe(f"{PAPER}/{name}")
    torch.manual_seed(0)
    task = build_task(recipe)
    folder = recipe.run_dir(1)
    folder.mkdir(parents=True)
    content = (run.folder / "tokenizer.json").read_bytes()
    (folder / "tokenizer.json").write_bytes(content)
    vocabulary = load_trained(str(run.folder)).tokenizer.sha256
    mark = checkpoint.stamp(recipe.signature, vocabulary)
    checkpoint.write_model(folder / "model.pt", task.state_dict(), recipe.config, mark)
    return folder


def test_a_language_model_continues_prompts_and_does_not_translate(own_run: TrainedRun) -> None:
    folder = language_model(own_run)
    words = ("generate", str(folder), "--max-new", "6", "--samples", "3")
    output = call(*words, "--seed", "5", stdin=b"forty-two\nseven\n")
    assert output.code == 0, output.err
    lines = output.out.split("\n")
    assert output.out == call(*words, "--seed", "5", stdin=b"forty-two\nseven\n").out
    assert output.out != call(*words, "--seed", "6", stdin=b"forty-two\nseven\n").out
    assert lines[0].startswith("forty-two")
    assert output.out.count("forty-two") >= 3
    call("translate", str(folder), stdin=b"one\n").refused("language model", "repro generate")


def test_blanks_at_the_ends_belong_to_a_prompt(own_run: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    from repro.experiment import trained as module

    prompts: list[str] = []
    monkeypatch.setattr(module, "sample_line", lambda _, line, *__: prompts.append(line) or [line])
    assert call("generate", str(language_model(own_run)), stdin=b" seven \nseven\r\n").out
    assert prompts == [" seven ", "seven"]


def test_positions_that_restart_with_each_block_do_so_in_a_continuation(own_run: TrainedRun) -> None:
    positions = "{class_path: repro.nn.Added, init_args: {restart: true}}"
    text = STREAM_RECIPE.replace("positions: repro.nn.NoPositions", f"positions: {positions}")
    loaded = load_trained(str(untrained(own_run, "stream", text)))
    (added,) = (module for module in loaded.task.modules() if isinstance(module, Added))
    assert added.block == loaded.seq_len == 4


def test_a_sample_of_a_translation_has_no_more_tokens_than_learned_positions(own_run: TrainedRun) -> None:
    table = "{class_path: repro.nn.LearnedPositions, init_args: {max_length: 64}}"
    positions = f"positions: {{class_path: repro.nn.Added, init_args: {{table: {table}}}}}"
    folder = untrained(
        own_run,
        "learned",
        RECIPE.replace("        encoder_layers: 1\n", f"        encoder_layers: 1\n        {positions}\n"),
    )
    assert call("generate", str(folder), stdin=b"forty-two\n").code == 0


def test_padding_and_batch_mates_change_nothing(trained: TrainedRun) -> None:
    loaded = load_trained(TINY)
    lines = ["one", "the twenty-third of September nineteen ninety-nine", "five"]
    together = [text for _, text in best_translations(loaded, lines, beam=2)]
    assert together == [best_translations(loaded, [line], beam=2)[0][1] for line in lines]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda model: [model], "not a checkpoint"),
        (lambda model: {**model, "repro": {}}, "not written by repro"),
        (
            lambda model: {k: v for k, v in model.items() if k != "config"},
            "make no model: the following arguments are required: model; copy",
        ),
        (lambda model: {**model, "state_dict": {}}, "configuration and weights make no model: "),
        (lambda model: {**model, "state_dict": None}, "it has no state_dict; restore it"),
        (lambda model: {**model, "state_dict": {5: 1}}, "configuration and weights make no model: "),
        (
            lambda model: {**model, "repro": {**model["repro"], "vocabulary_sha256": 5}},
            "not written by repro",
        ),
        (lambda model: {**model, "repro": {**model["repro"], "signature": None}}, "not written by repro"),
        (
            lambda model: {**model, "config": {}},
            "make no model: the following arguments are required: model; copy",
        ),
        (lambda model: {**model, "config": {**model["config"], "trainer": 7}}, "make no model: "),
        (lambda model: {**model, "config": {**model["config"], "data": 7}}, "make no model: "),
    ],
)
def test_a_model_file_with_missing_parts(
    trained: TrainedRun, tmp_path: Path, change: Callable[[Any], Any], part: str
) -> None:
    folder = shutil.copytree(trained.folder, tmp_path / "copy")
    torch.save(change(torch.load(folder / "model.pt", weights_only=True)), folder / "model.pt")
    call("translate", str(folder), stdin=b"one\n").refused(str(folder / "model.pt"), part)


def test_an_experiment_never_run_says_how(workshop: Workshop) -> None:
    workshop.recipe(name="large")  # at the paper's scale alone
    missing = f"{TINY} has no run with weights here"
    call("generate", TINY, stdin=b"one\n").refused(missing, f"repro run {TINY} --scale cpu")
    large = f"{PAPER}/large"
    for words in ((), ("--scale", "cpu")):
        call("generate", large, *words, stdin=b"one\n").refused(f"repro run {large} --scale paper")


def test_what_a_translation_looked_at_is_drawn(trained: TrainedRun, tmp_path: Path) -> None:
    from PIL import Image

    picture = tmp_path / "deep" / "attention.png"
    plain = call("translate", trained.run_id, stdin=LINES.encode())
    drawn = call("translate", trained.run_id, "--attention", str(picture), stdin=LINES.encode())
    assert drawn.out == plain.out
    with Image.open(picture) as sheet:
        assert sheet.format == "PNG"
        assert min(sheet.size) > 100
    (tmp_path / "folder.png").mkdir()
    for wrong in ("x.svg", "folder.png"):
        call("translate", trained.run_id, "--attention", str(tmp_path / wrong)).refused("ends in .png")
    (tmp_path / "file").write_text("")
    call(
        "translate", trained.run_id, "--attention", str(tmp_path / "file" / "x.png"), stdin=b"one\n"
    ).refused("cannot write")
