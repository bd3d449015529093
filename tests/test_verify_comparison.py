"""The comparison of a record with a second run of its command."""

import copy
from typing import Any

import pytest

from repro.evidence.verified import BIT_EQUAL, DIFFERS, EQUAL_METRICS
from repro.record import Measurement, RunRecord
from repro.verify.comparison import compare, measures_the_machine
from tests.fake_checkout import make_record


def number(name: str, value: float, unit: str = "percent", **protocol: Any) -> Measurement:
    return Measurement(name, value, unit, "test", protocol)


def made() -> RunRecord:
    record = make_record("a" * 40)
    record.metrics = [number("test/accuracy", 1.0), number("test/exact", 7.0)]
    return record


def again(record: RunRecord, value: float, weights: str | None = "other") -> RunRecord:
    """The verification of a record, with another first number and other weights."""
    new = copy.deepcopy(record)
    new.metrics[0].value = value
    new.checkpoint_sha256 = weights
    return new


def test_equal_weights_and_numbers_are_bit_equal_and_without_weights_equal_metrics() -> None:
    old = made()
    assert compare(old, copy.deepcopy(old)).outcome == BIT_EQUAL
    assert compare(old, again(old, 1.0)).outcome == EQUAL_METRICS
    old.checkpoint_sha256 = None
    assert compare(old, again(old, 1.0, None)).outcome == EQUAL_METRICS


def test_equal_weights_do_not_excuse_another_number() -> None:
    old = made()
    result = compare(old, again(old, 1.0 + 1e-12, old.checkpoint_sha256))
    assert (result.outcome, result.differences) == (DIFFERS, ["test/accuracy (test) {} 1.0 → 1.000000000001"])


@pytest.mark.parametrize("key", ["parameters", "steps", "tokens", "config_hash"])
def test_another_run_differs_whatever_its_numbers(key: str) -> None:
    old, new = made(), made()
    setattr(new, key, "other" if key == "config_hash" else 99)
    result = compare(old, new)
    assert result.outcome == DIFFERS
    assert result.differences[0].startswith(key)


def test_a_number_that_one_lacks_or_that_was_measured_otherwise_differs() -> None:
    old, fewer, otherwise = made(), made(), made()
    fewer.metrics.pop()
    otherwise.metrics[0].protocol = {"beam": 4}
    assert compare(old, fewer).differences == ["test/exact (test) {} 7.0 → none"]
    assert compare(fewer, old).differences == ["test/exact (test) {} none → 7.0"]
    assert len(compare(old, otherwise).differences) == 2


def test_what_only_the_run_finds_is_no_protocol() -> None:
    old, new = made(), made()
    old.metrics[0].protocol, new.metrics[0].protocol = {"best": 1.0}, {"best": 2.0}
    assert compare(old, new).outcome == BIT_EQUAL


@pytest.mark.parametrize(
    ("measurement", "machine"),
    [
        (number("test/tokens_per_s", 1.0, "symbols per second"), True),
        (number("train/seconds_per_epoch", 1.0, "s"), True),
        (number("x", 1.0, "tokens/s"), True),
        (number("x", 1.0, "ms"), True),
        (number("x", 1.0, "GiB"), True),
        (number("cost/milliseconds_n64", 1.0, "milliseconds"), True),
        (number("cost/bytes_per_token_512", 1.0, "bytes per token"), True),
        (number("cost/time_exponent_n", 1.0, "exponent"), True),
        (number("cost/memory_exponent", 1.0, "exponent"), True),
        (number("cost/crossover_milliseconds", 1.0, "length"), True),
        (number("cost/max_length", 1.0, "tokens", memory=4e9), True),
        (number("cost/crossover_operations", 1.0, "length"), False),
        (number("cost/operations_exponent_n", 1.0, "exponent"), False),
        (number("test/bpb", 1.0, "bits per byte"), False),
        (number("test/loss_memory", 1.0, "nats per symbol", memory=3), False),
        (number("test/output_change_exponent", 1.0, "exponent", size=1), False),
        (number("val/converged_at", 1.0, "gradient steps"), False),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_what_measures_the_machine(measurement: Measurement, machine: bool) -> None:
    assert measures_the_machine(measurement) is machine


def test_what_measures_the_machine_is_not_compared() -> None:
    old = made()
    old.metrics.append(number("speed", 10.0, "tokens per second"))
    new = copy.deepcopy(old)
    new.metrics[-1].value = 99.0
    result = compare(old, new)
    assert (result.outcome, result.compared) == (BIT_EQUAL, 2)


def test_another_build_or_layout_is_named_and_decides_nothing() -> None:
    old, new = made(), made()
    new.versions["torch"], new.hardware["threads"] = "9.9", 7
    new.precision, new.data["manifest_sha256"] = "bf16-mixed", "f"
    result = compare(old, new)
    assert result.outcome == BIT_EQUAL
    assert [difference.split()[0] for difference in result.build] == ["torch", "threads", "precision", "data"]
    assert compare(old, made()).build == []
