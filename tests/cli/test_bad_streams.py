"""Bad input around language models: one line that names the value and the remedy, exit code 2, nothing left behind."""

import json

import pytest

from tests.workshop import STREAM, Workshop, call

FULL = '[{"class_path": "repro.nn.FullAttention", "init_args": {"n_heads": 2}}]'
CASES = {
    "a batch that is no multiple of its rows": (["--data.batch_tokens", "33"], ["33", "seq_len 4", "use 32 or 36"]),
    "streams that cannot be shared": (
        ["--trainer.accumulate_grad_batches", "3"], ["8 streams", "1 ranks x 3 micro-batches", "1, 2, 4, 8"],
    ),
    "a text shorter than a batch": (["--data.train_tokens", "20"], ["batch_tokens 32", "19 targets"]),
    "a context that leaves nothing to score": (["--data.context", "4"], ["context 4", "seq_len 4"]),
    "another vocabulary": (
        ["--data.vocab_size", "7", "--model.net.vocabulary.size", "5"], ["has 5 entries", "the data's 7"],
    ),
    "a stage without epochs": (["--data.stages", '[{"epochs": 0, "seq_len": 4}]'], ["epochs", "not 0", "at least 1"]),
    "a negative memory": (["--model.protocol.mem_len", "-1"], ["mem_len must be at least 0, not -1"]),
    "a stride beyond the window": (
        ["--model.protocols.alone.stride", "9"], ["stride must be between 1 and seq_len 4", "9"],
    ),
    "a memory for windows": (["--model.protocol.stride", "2"], ["windows stand alone", "mem_len 6"]),
    "a unit that is none": (["--model.unit", "letter"], ["letter", "character"]),
    "cutoffs out of order": (
        ["--model.net.vocabulary",
         '{"class_path": "repro.nn.AdaptiveVocabulary", "init_args": {"size": 5, "cutoffs": [4, 2]}}'],
        ["cutoffs must increase", "[4, 2]"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_in_one_line(workshop: Workshop, name: str) -> None:
    words, parts = CASES[name]
    output = call("run", workshop.stream(), "--scale", "cpu", *words)
    output.refused(*parts)
    assert not workshop.records()
    assert not list(workshop.runs.rglob("*.ckpt"))


def test_a_model_of_symbols_cannot_read_text(workshop: Workshop) -> None:
    assert call("run", workshop.stream(), "--scale", "cpu").code == 0
    call("generate", STREAM, stdin=b"hello\n").refused("no tokenizer file", "symbols")


def test_a_network_without_a_memory_is_scored_without(workshop: Workshop) -> None:
    output = call("run", workshop.stream(), "--scale", "cpu", "--model.net.blocks.mixers", FULL)
    assert output.code == 0
    assert "mem_len 6" in output.err
    (record,) = workshop.records()
    assert '"mem_len"' not in json.dumps(json.loads(record.read_text())["metrics"])
