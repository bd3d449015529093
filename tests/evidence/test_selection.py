import pytest

from repro.evidence.selection import Selection, sample, weaknesses
from repro.record import Measurement
from tests.report.fakes import make_record

SEEDS = frozenset({1, 2, 3, 4, 5})


@pytest.fixture
def made(house):
    """Returns a function that makes a record of one recipe by seed, with changed fields."""
    name = house.recipe("big")

    def make(seed, day=1, **changes):
        record = make_record(name, seed, 30.0)
        record.finished = f"2026-01-{day:02}T00:00:00Z"
        for key, value in changes.items():
            setattr(record, key, value)
        return record

    return make


def select(*records, withdrawn=()):
    today = make_record("toy/big", 1, 30.0).config_hash
    return Selection.from_records(list(records), today, SEEDS, frozenset(r.path for r in withdrawn))


OTHER = "0" * 64


def test_the_first_record_of_a_seed_counts(made):
    late, early, other = made(1, day=9), made(1, day=2), made(2, day=5)
    selection = select(late, other, early)
    assert selection.used == (early, other)
    assert [selection.state(r) for r in (late, early, other)] == ["repeated", "current", "current"]
    assert [*selection.notes, *weaknesses(selection.used)] == []


def test_a_record_of_another_device_counts_for_what_it_alone_measured(made):
    def timed(name, value):
        return [Measurement(name, value, "s", "test"), Measurement("test/bleu", 30.0 + value, "BLEU", "test")]

    cpu = made(1, day=1, hardware={"device": "CPU", "threads": 2}, metrics=timed("draw/seconds_cpu", 5.0))
    gpu = made(1, day=2, hardware={"device": "GPU"}, metrics=timed("draw/seconds_gpu", 1.0))
    again = made(1, day=3, hardware={"device": "GPU"}, metrics=timed("draw/seconds_gpu", 0.5))
    selection = select(cpu, gpu, again)
    assert [selection.state(r) for r in (cpu, gpu, again)] == ["current", "current", "repeated"]
    assert (selection.used, selection.also) == ((cpu,), (gpu,)), "a seed counts once"
    for name, value in (("draw/seconds_cpu", 5.0), ("draw/seconds_gpu", 1.0), ("test/bleu", 35.0)):
        result = sample(name, selection)
        assert [m.value for _, m in result.measured] == [value]
        assert result.notes == ()
    same = made(1, day=2, hardware={"device": "GPU"}, metrics=cpu.metrics)
    assert select(cpu, same).state(same) == "repeated", "another device alone adds nothing"


def test_after_a_withdrawal_the_next_one_counts(made):
    first, second, third = made(1, day=1), made(1, day=2), made(1, day=3)
    selection = select(first, second, third, withdrawn=[first])
    assert selection.used == (second,)
    assert [selection.state(r) for r in (first, second, third)] == ["withdrawn", "current", "repeated"]


MIXED = [{"code_sha256": code, "first": 5 * i, "last": 5 + 5 * i} for i, code in enumerate("ab")]


@pytest.mark.parametrize(
    ("seed", "changes", "state"),
    [
        (2, {"config_hash": OTHER}, "superseded"),
        (2, {"config_hash": OTHER, "overrides": ["--trainer.max_steps=9"]}, "overridden"),
        (2, {"overrides": ["--model.width=8"]}, "overridden"),  # which the recipe has taken over since
        (2, {"attempts": MIXED}, "mixed"),
        (100, {}, "tuning"),
        (6, {}, "tuning"),
        (0, {}, "tuning"),
    ],
)
def test_what_does_not_count_adds_no_note(made, seed, changes, state):
    good = [made(1), made(2, day=2)]
    odd = made(seed, day=1, dirty=True, commit="fedcba98", curves={"val/loss": [[1, None]]}, **changes)
    selection = select(*good, odd)
    assert selection.used == tuple(good)
    assert selection.state(odd) == state
    assert [*selection.notes, *weaknesses(selection.used)] == []


def test_tuning_seeds_are_tuning_whatever_the_recipe_says(made):
    record = made(100)
    selection = Selection.from_records([record], record.config_hash, frozenset({100}), frozenset())
    assert selection.state(record) == "tuning"


def test_a_setting_that_decides_nothing_does_not_set_a_run_aside(made):
    record = made(1, overrides=["--trainer.devices=2"])
    assert select(record).used == (record,)


def test_missing_seeds_are_judged_ones_between_those_recorded(made):
    assert select(made(2), made(4)).missing == (3,)
    assert "seed 3" in select(made(2), made(4)).notes[0]
    assert select(made(2), made(3)).missing == ()
    assert (
        Selection.from_records(
            [made(1), made(4)], made(1).config_hash, frozenset({1, 4}), frozenset()
        ).missing
        == ()
    )
    assert select(made(1), made(5, config_hash=OTHER)).missing == (), "of another recipe"
    assert select().missing == ()
    gone = made(2)
    assert select(made(1), gone, made(3), withdrawn=[gone]).notes == ["a record was withdrawn (seed 2)"]


def test_many_missing_seeds_are_not_all_named(made):
    judged = frozenset(range(1, 60))
    (note,) = Selection.from_records([made(1), made(50)], made(1).config_hash, judged, frozenset()).notes
    assert "2, 3, 4, 5, 6 and 43 more" in note


def test_weaknesses_of_what_counts_are_said(made):
    selection = select(made(1, commit="a" * 40), made(2, commit="b" * 40, dirty=True))
    assert len(weaknesses(selection.used)) == 2
