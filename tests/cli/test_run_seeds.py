"""The runs that `run` and `reproduce` begin, one after the other, and their reports about seeds that are not judged."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from repro.cli import runs
from repro.launch.run_list import read_list, resolve_list
from repro.training.stop_request import StopRequest
from tests.workshop import PROJECT, RECIPE, TINY, Workshop, call

Asked = tuple[list[list[str]], list[int]]


class Process:
    """A run that takes no time, and ends with the first of the codes that are to be, else with 0."""

    def __init__(self, codes: list[int]) -> None:
        self.exitcode = codes.pop(0) if codes else 0


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The arguments of the runs that were begun, and the exit codes to be, taken from the front; then 0."""
    begun: list[list[str]] = []
    codes: list[int] = []

    def begin(words: list[str]) -> Process:
        begun.append(words)
        return Process(codes)

    monkeypatch.setattr(runs, "begin", begin)
    return begun, codes


def stopped(request: StopRequest) -> None:
    """Ends with 75 once that is asked for, within ten seconds."""
    for _ in range(100):
        if request.is_requested:
            sys.exit(75)
        time.sleep(0.1)


def tiny_words(seed: int, *settings: str) -> list[str]:
    return ["run", TINY, "--scale", "cpu", "--seed", str(seed), *settings]


def test_reproduce_goes_on_after_a_failure_and_says_so(workshop: Workshop, asked: Asked) -> None:
    begun, codes = asked
    codes += [1, 2]
    output = call("reproduce", TINY, "--scale", "cpu", "--seeds", "2")
    assert output.code == 1
    assert begun == [tiny_words(1), tiny_words(2)]
    assert "ended with exit code 1" in output.err
    assert "ended with exit code 2" in output.err


@pytest.mark.parametrize("code", [75, 130])
def test_after_a_run_that_was_asked_to_stop_none_is_begun(
    workshop: Workshop, asked: Asked, code: int
) -> None:
    begun, codes = asked
    codes += [1, code]
    for words in (("reproduce", TINY), ("run", TINY)):
        assert call(*words, "--scale", "cpu", "--seeds", "1-3").code == code
        assert begun == [tiny_words(1), tiny_words(2)]
        begun.clear()
        codes += [1, code]


def test_every_run_shows_all_of_its_numbers_where_that_is_asked_for(workshop: Workshop, asked: Asked) -> None:
    assert call("run", TINY, "--scale", "cpu", "--seeds", "1-2", "--all").code == 0
    assert asked[0] == [tiny_words(1, "--all"), tiny_words(2, "--all")]


def test_a_signal_waits_for_the_run_and_begins_no_other(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[list[str]] = []

    def interrupted(words: list[str]) -> Process:
        os.kill(os.getpid(), signal.SIGINT)
        begun.append(words)
        return Process([])

    monkeypatch.setattr(runs, "begin", interrupted)
    assert call("run", TINY, "--scale", "cpu", "--seeds", "1-3").code == 130
    assert begun == [tiny_words(1)]


@pytest.mark.parametrize("number", ["USR1", "TERM"])
def test_a_signal_to_the_parent_alone_reaches_the_run(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    def run(words: list[str]) -> None:
        with StopRequest() as request:
            os.kill(os.getppid(), signal.Signals[f"SIG{number}"])
            stopped(request)

    monkeypatch.setattr(runs, "_called", run)
    output = call("run", TINY, "--scale", "cpu", "--seeds", "1-3")
    assert output.code == 75
    assert output.err.endswith("ended with exit code 75\n")
    assert output.out.count("\n") == 1, "no other is begun"


def test_run_takes_several_seeds_each_in_its_own_process(workshop: Workshop, asked: Asked) -> None:
    begun, _ = asked
    output = call("run", TINY, "--scale", "cpu", "--seeds", "11-12,3", "--trainer.max_steps", "1")
    assert output.code == 0, output.err
    assert begun == [tiny_words(seed, "--trainer.max_steps=1") for seed in (11, 12, 3)]
    begun.clear()
    workshop.recipe("{seeds: 11-15, set: {trainer.max_steps: 2}}", scale="cpu")
    call("run", TINY, "--scale", "cpu", "--seeds", "2")
    assert begun == [tiny_words(11), tiny_words(12)]


@pytest.mark.parametrize(
    ("words", "seed", "lines"),
    [
        ((), 11, []),
        (("--seed", "12"), 12, []),
        (("--seed", "7"), 7, [f"{TINY}, seed 7"]),
        (("--seed", "101"), 101, [f"{TINY}, seed 101"]),
    ],
)
def test_run_begins_with_the_first_judged_seed_and_says_which_is_not_judged(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], seed: int, lines: list[str]
) -> None:
    from repro.experiment import run as running

    ran: list[tuple[int, str]] = []
    monkeypatch.setattr(running, "run", lambda recipe, seed, command, *_: ran.append((seed, command)))
    monkeypatch.setattr(runs, "conclude", lambda *_: None)
    workshop.recipe(f"seeds: 11-15\n{RECIPE}")
    output = call("run", TINY, "--scale", "cpu", *words)
    assert output.code == 0, output.err
    assert ran == [(seed, f"repro run {TINY} --scale cpu --seed {seed}")]
    assert [line.partition(":")[0] for line in output.err.splitlines()] == lines


def test_reproduce_dry_run_says_which_runs_are_not_judged(workshop: Workshop) -> None:
    output = call("reproduce", TINY, "--scale", "cpu", "--seeds", "5-6", "--dry-run")
    assert [line.rpartition("/")[2][:3] for line in output.out.splitlines()[1:]] == ["s5-", "s6-"]
    assert [line.partition(":")[0] for line in output.err.splitlines()] == [f"{TINY}, seed 6"]


def test_reproduce_makes_the_runs_of_a_list_in_its_order(workshop: Workshop, asked: Asked) -> None:
    Path("list.yaml").write_text(
        f"- {{targets: [{TINY}], scale: cpu, seeds: 101-102, set: {{trainer.max_steps: 1}}}}\n"
        f"- {{targets: [{TINY}], scale: cpu, seeds: 1}}\n"
    )
    assert call("reproduce", "--list", "list.yaml").code == 0
    steps = "--trainer.max_steps=1"
    assert asked[0] == [tiny_words(101, steps), tiny_words(102, steps), tiny_words(1)]


def test_a_grid_with_a_wrong_value_begins_nothing(workshop: Workshop, asked: Asked) -> None:
    words = ("run", TINY, "--scale", "cpu", "--grid", "trainer.max_steps=1,none")
    call(*words).refused("max_steps", "none")
    assert asked[0] == []


@pytest.mark.parametrize("setting", ["trainer.max_steps: none", "trainer.no_such_key: 1"])
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_list_with_a_wrong_setting_begins_nothing(
    workshop: Workshop, asked: Asked, setting: str, more: list[str]
) -> None:
    Path("list.yaml").write_text(
        f"- {{targets: [{TINY}], scale: cpu, seeds: 1}}\n"
        f"- {{targets: [{TINY}], scale: cpu, seeds: 101-101, set: {{{setting}}}}}\n"
    )
    key = setting.partition(":")[0].rpartition(".")[2]
    call("reproduce", "--list", "list.yaml", *more).refused(key)
    assert asked[0] == []


@pytest.mark.parametrize("words", [("reproduce",), ("submit", "--cluster", "site")])
def test_an_option_of_another_verb_is_not_the_beginning_of_one(
    workshop: Workshop, asked: Asked, words: tuple[str, ...]
) -> None:
    call(*words, TINY, "--scale", "cpu", "--seed", "7").refused("'--seed'", "--seeds")
    assert asked[0] == []


def test_settings_may_stand_before_the_experiment(workshop: Workshop, asked: Asked) -> None:
    output = call("run", "--trainer.max_steps", "1", "--scale", "cpu", TINY, "--seeds", "1-1")
    assert output.code == 0, output.err
    assert asked[0] == [tiny_words(1, "--trainer.max_steps=1")]


def test_after_the_hours_the_run_is_stopped_and_no_other_is_begun(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(words: list[str]) -> None:
        with StopRequest() as request:
            stopped(request)

    monkeypatch.setattr(runs, "_called", run)
    result = call("reproduce", TINY, "--scale", "cpu", "--hours", "2e-4")
    assert result.code == 75
    assert result.out.count(f"{TINY}/cpu/s") == 1


def test_no_run_is_begun_after_the_hours(workshop: Workshop, asked: Asked) -> None:
    assert call("reproduce", TINY, "--scale", "cpu", "--hours", "1e-12").code == 75
    assert asked[0] == []


@pytest.mark.parametrize(
    ("content", "words", "parts"),
    [
        ("- {target: x}", (), ["list.yaml", "target", "targets: [...]"]),
        ("targets: [x]", (), ["list.yaml", "targets: [...]"]),
        ("5", (), ["list.yaml", "targets: [...]"]),
        ("- {targets: [admin/nothing]}", (), ["unknown target 'admin/nothing'"]),
        ("- {targets: []}", (), ["list.yaml", "targets must be a list of names, not []"]),
        ("- {targets: toy/tiny}", (), ["list.yaml", "targets must be a list of names, not 'toy/tiny'"]),
        ("- {targets: [toy/tiny], set: [a]}", (), ["list.yaml", "set must be a mapping", "['a']"]),
        ("- {targets: [toy/tiny], set: {1: 2}}", (), ["list.yaml", "set must be a mapping", "{1: 2}"]),
        ("[]", (TINY,), ["list.yaml", "excludes targets"]),
        ("[]", ("--seeds", "1"), ["list.yaml", "--seeds"]),
        ("[]", ("--scale", "cpu"), ["list.yaml", "--scale"]),
        ("[]", ("--hours", "0"), ["--hours must be above 0"]),
    ],
)
def test_a_list_that_is_none_is_refused_in_one_line(
    workshop: Workshop, content: str, words: tuple[str, ...], parts: list[str]
) -> None:
    Path("list.yaml").write_text(content)
    call("reproduce", *words, "--list", "list.yaml").refused(*parts)


def test_the_list_for_a_gpu_names_what_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    monkeypatch.setenv("REPRO_RESULTS", str(PROJECT / "results"))
    entries = read_list(PROJECT / "configs" / "gpu-queue.yaml")
    specs, notices = resolve_list(entries)
    assert len({spec.run_id for spec in specs}) == len(specs) > len(entries)
    assert notices == []


def test_a_run_is_a_process_of_its_own_that_has_what_this_one_imported(workshop: Workshop) -> None:
    started = runs.begin(["run", TINY, "--scale", "nowhere"])
    started.join(100)
    assert started.exitcode == 2
    assert sys.argv[1:2] != ["run"]
