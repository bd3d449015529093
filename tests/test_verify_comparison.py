"""What counts as the same when a record's command has run again."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from repro.evidence.selection import protocol_of
from repro.record import Measurement, RunRecord
from repro.verify import BIT_EQUAL, DIFFERS, EQUAL_METRICS, WITHIN_SPREAD, compare
from repro.verify.comparison import allowance, measures_the_machine
from tests.fake_checkout import make_record


def number(name: str, value: float, unit: str = "percent", **protocol: Any) -> Measurement:
    return Measurement(name, value, unit, "test", protocol)


def seeds(*values: float) -> list[RunRecord]:
    """Records of seeds 1, 2, ...; the first is the one that is verified."""
    made = []
    for seed, value in enumerate(values, 1):
        record = make_record("a" * 40, seed=seed)
        record.metrics = [number("test/accuracy", value), number("test/exact", 7.0)]
        made.append(record)
    return made


def again(record: RunRecord, value: float, weights: str | None = "other") -> RunRecord:
    """The verification of a record, with another first number and other weights."""
    new = copy.deepcopy(record)
    new.metrics[0].value = value
    new.checkpoint_sha256 = weights
    return new


def test_equal_weights_and_numbers_are_bit_equal_and_without_weights_equal_metrics() -> None:
    records = seeds(1.0, 2.0, 3.0)
    old = records[0]
    assert compare(old, copy.deepcopy(old), records, protocol_of).outcome == BIT_EQUAL
    assert compare(old, again(old, 1.0), records, protocol_of).outcome == EQUAL_METRICS
    old.checkpoint_sha256 = None
    assert compare(old, again(old, 1.0, None), records, protocol_of).outcome == EQUAL_METRICS


def test_equal_weights_do_not_excuse_another_number() -> None:
    records = seeds(1.0, 1.0)
    found = compare(records[0], again(records[0], 2.0, records[0].checkpoint_sha256), records, protocol_of)
    assert found.outcome == DIFFERS


def test_the_spread_allows_t_times_s_times_the_root_of_two() -> None:
    records = seeds(1.0, 2.0, 3.0)  # s = 1
    allowed = 4.302652729911275 * 2**0.5
    assert allowance([1.0, 2.0, 3.0]) == pytest.approx(allowed, rel=1e-8)
    inside = compare(records[0], again(records[0], 1 + 0.999 * allowed), records, protocol_of)
    outside = compare(records[0], again(records[0], 1 - 1.001 * allowed), records, protocol_of)
    assert (inside.outcome, outside.outcome) == (WITHIN_SPREAD, DIFFERS)
    [deviation] = inside.deviations
    assert (deviation.metric, deviation.old) == ("test/accuracy", 1.0)
    assert deviation.allowed == pytest.approx(allowed, rel=1e-8)


@pytest.mark.parametrize("values", [(1.0,), (1.0, 1.0)])
def test_without_a_spread_nothing_but_equality_passes(values: tuple[float, ...]) -> None:
    records = seeds(*values)
    assert compare(records[0], again(records[0], 1.0 + 1e-12), records, protocol_of).outcome == DIFFERS


@pytest.mark.parametrize(
    "changes",
    [
        {"scale": "small"},
        {"config_hash": "b" * 64},
        {"experiment": "p/other"},
        {"dirty": True},
    ],
    ids=str,
)
def test_the_spread_is_that_of_clean_records_of_the_same_recipe(changes: dict[str, Any]) -> None:
    old, *others = seeds(1.0, 2.0, 3.0)
    foreign = [replace(record, **changes) for record in others]
    assert compare(old, again(old, 1.5), [old, *others], protocol_of).outcome == WITHIN_SPREAD
    assert compare(old, again(old, 1.5), [old, *foreign], protocol_of).outcome == DIFFERS


def test_a_seed_counts_once() -> None:
    old, other = seeds(1.0, 3.0)
    later = replace(old, finished="2027-01-01T00:00:00Z", metrics=[number("test/accuracy", 99.0)])
    assert compare(old, again(old, 2.0), [later, old, other], protocol_of).deviations[0].allowed == allowance(
        [1.0, 3.0]
    )


@pytest.mark.parametrize("key", ["parameters", "steps", "tokens", "config_hash"])
def test_another_run_differs_whatever_its_numbers(key: str) -> None:
    records = seeds(1.0, 2.0)
    new = copy.deepcopy(records[0])
    setattr(new, key, "other" if key == "config_hash" else 99)
    found = compare(records[0], new, records, protocol_of)
    assert found.outcome == DIFFERS
    assert key in found.facts[0]
    assert key in found.detail


def test_a_number_that_one_lacks_or_that_was_measured_otherwise_differs() -> None:
    old = seeds(1.0)[0]
    fewer, otherwise = copy.deepcopy(old), copy.deepcopy(old)
    fewer.metrics.pop()
    otherwise.metrics[0].protocol = {"beam": 4}
    assert compare(old, fewer, [], protocol_of).outcome == DIFFERS
    assert compare(fewer, old, [], protocol_of).outcome == DIFFERS
    assert len(compare(old, otherwise, [], protocol_of).deviations) == 2


def test_what_only_the_run_finds_is_no_protocol() -> None:
    old = seeds(1.0, 2.0)[0]
    old.metrics[0].protocol = {"best": 1.0}
    new = copy.deepcopy(old)
    new.metrics[0].protocol = {"best": 2.0}
    assert compare(old, new, [], protocol_of).outcome == BIT_EQUAL


def test_the_largest_deviation_comes_first() -> None:
    records = seeds(1.0, 2.0, 3.0)
    for i, record in enumerate(records):
        record.metrics = [number("wide", 1.0 + 10 * i), number("narrow", 1.0 + 0.1 * i), number("same", 1.0)]
    new = copy.deepcopy(records[0])
    new.metrics[0].value, new.metrics[1].value, new.metrics[2].value = 3.0, 2.0, 1.01
    found = compare(records[0], new, records, protocol_of)
    assert [deviation.metric for deviation in found.deviations] == ["same", "narrow", "wide"]


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


def test_what_measures_the_machine_is_not_compared_but_counted() -> None:
    old = seeds(1.0)[0]
    old.metrics.append(number("speed", 10.0, "tokens per second"))
    new = copy.deepcopy(old)
    new.metrics[-1].value = 99.0
    found = compare(old, new, [], protocol_of)
    assert (found.outcome, found.compared, found.left_out) == (BIT_EQUAL, 2, 1)


def test_another_build_or_layout_is_named_and_decides_nothing() -> None:
    old = seeds(1.0)[0]
    new = copy.deepcopy(old)
    new.versions["torch"] = "9.9"
    new.hardware["threads"] = 7
    new.precision = "bf16-mixed"
    found = compare(old, new, [], protocol_of)
    assert (found.outcome, found.same_build) == (BIT_EQUAL, False)
    assert [difference.split()[0] for difference in found.build or ()] == ["torch", "threads", "precision"]
    assert compare(old, copy.deepcopy(old), [], protocol_of).same_build is True
