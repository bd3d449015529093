"""Bad input around continuous memories and segments: one line that names the value and the remedy, exit code 2."""

import pytest

from tests.workshop import CPU, STICKY_RECIPE, Workshop, call

PAPER, SORTING = "infinity-former", "infinity-former/sort"
SORTING_RECIPE = STICKY_RECIPE[: STICKY_RECIPE.index("data:")].replace("size: 5", "size: 7").replace(
    "bins: 7, ", ""
).replace("LanguageModel", "SequenceModel").replace(
    """
    unit: symbol
    protocol: {seq_len: 3, rows: 4, mem_len: 6, same_length: true}
    protocols:
      alone: {seq_len: 4, rows: 3, stride: 2}
    accuracy: true
""", "\n    segment: 8\n") + """\
data:
  class_path: repro.data.SortingData
  init_args: {batch_size: 4, length: 19, symbols: 5, train_examples: 8, eval_examples: 3}
checkpoints: {every_steps: 1}
"""  # fmt: skip
SIGNAL = "--model.net.blocks.mixers.0.signal."
MIXER = "--model.net.blocks.mixers.0."
SIGNALS = {
    "no basis functions": (["basis", "0"], ["basis", "not 0"]),
    "one centre for two widths": (["basis", "2"], ["basis", "not 2"]),
    "basis functions that two widths cannot share": (["basis", "9"], ["basis", "2 widths", "not 9"]),
    "a width of nothing": (["widths", "[0.1, 0]"], ["widths", "(0, 1]", "0.0"]),
    "a width beyond the signal": (["widths", "[2]"], ["widths", "(0, 1]", "2.0"]),
    "no widths": (["widths", "[]"], ["widths", "not ()"]),
    "nothing of the past": (["tau", "0"], ["tau", "(0, 1)", "not 0.0"]),
    "nothing of the new": (["tau", "1"], ["tau", "(0, 1)", "not 1.0"]),
    "more than all": (["tau", "1.5"], ["tau", "(0, 1)", "not 1.5"]),
    "no samples": (["samples", "0"], ["samples", "at least 1", "not 0"]),
    "no bins": (["bins", "0"], ["bins", "at least 1", "not 0"]),
    "no penalty": (["ridge", "0"], ["ridge", "above 0", "not 0.0"]),
}


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_is_refused(workshop: Workshop, name: str) -> None:
    (setting, value), parts = SIGNALS[name]
    call("run", workshop.sticky(), "--scale", "cpu", SIGNAL + setting, value).refused(*parts)
    assert not list(workshop.runs.rglob("*.ckpt"))


def test_a_block_of_nothing_is_refused(workshop: Workshop) -> None:
    call("run", workshop.sticky(), "--scale", "cpu", MIXER + "block", "0").refused("block", "not 0")


@pytest.mark.parametrize("of", ["protocol", "validation"])
def test_a_memory_longer_than_the_text_is_refused(workshop: Workshop, of: str) -> None:
    """There are 83."""
    protocol = "{seq_len: 3, rows: 1, mem_len: %d}"
    run = ("run", workshop.stream(), "--scale", "cpu", f"--model.{of}")
    call(*run, protocol % 84).refused("mem_len 84", "83 tokens", "split val")
    assert not workshop.records()
    assert call(*run, protocol % 83).code == 0


def sorting(workshop: Workshop, *words: str) -> tuple[str, ...]:
    """The command that runs sorting: 24 tokens, of which the last 5 are scored, in segments of 8."""
    workshop.recipe(SORTING_RECIPE, "sort", paper=PAPER)
    workshop.recipe(CPU, "sort", "cpu", PAPER)
    return ("run", SORTING, "--scale", "cpu", *words)


SEGMENTS = {
    "no tokens": ("0", ["segment", "at least 1", "not 0"]),
    "one that begins behind a target": ("7", ["segment 7", "token 21", "token 19", "to 8"]),
    "one longer than a sequence": ("25", ["segment 25", "24 tokens"]),
}


@pytest.mark.parametrize("name", SEGMENTS)
def test_a_segment_is_refused(workshop: Workshop, name: str) -> None:
    value, parts = SEGMENTS[name]
    call(*sorting(workshop, "--model.segment", value)).refused(*parts)
    assert not workshop.records()
    assert not list(workshop.runs.rglob("*.ckpt"))


def test_a_continuous_memory_that_is_never_used_is_said(workshop: Workshop) -> None:
    output = call(*sorting(workshop, MIXER + "short_term.mem_len", "17"))
    assert output.code == 0, output.err
    assert "21 tokens" in output.err
    assert "begins behind 20" in output.err
