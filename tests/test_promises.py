"""Fifteen complaints that users of such suites make most, and the tests that show that none can be made here."""

import ast
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROMISES = {
    "a requeue happens, and never starts over": [
        "slurm/test_preemption.py::test_preempted_three_times_a_run_ends_bit_equal_under_one_id",
        "experiment/test_signals.py::test_all_ranks_save_and_ask_to_be_requeued",
        "launch/test_batch.py::test_a_run_that_asks_for_it_is_requeued",
    ],
    "the checkpoint of another run is refused": [
        "cli/test_bad_state.py::test_a_checkpoint_of_another_signature_is_refused_and_the_keys_are_named",
        "cli/test_bad_state.py::test_a_store_prepared_anew_with_another_vocabulary_is_refused_on_resume",
    ],
    "a resumed run has the losses and the order of examples of an uninterrupted one": [
        "experiment/test_resume.py::test_an_interrupted_run_ends_as_the_uninterrupted_one",
        "experiment/test_resume.py::test_three_interruptions_within_one_epoch",
    ],
    "a damaged last checkpoint does not block resuming": [
        "training/test_checkpoints.py::test_killed_in_any_phase_of_a_save_the_newest_sound_checkpoint_loads",
        "training/test_checkpoints.py::test_damage_is_found_and_lightning_does_not_get_to_load_it",
        "experiment/test_find.py::test_a_damaged_checkpoint_is_set_aside_aloud_and_the_run_ends_the_same",
    ],
    "what is said to be saved is on disk": [
        "training/test_checkpoints.py::test_a_full_disk_fails_loudly_and_leaves_the_last_checkpoint_intact",
        "training/test_checkpoints.py::test_a_failing_system_call_is_never_taken_for_a_save",
        "training/test_saving.py::test_a_failed_save_ends_training",
    ],
    "a signal neither hangs a run nor leaves half a checkpoint": [
        "experiment/test_signals.py::test_all_ranks_save_and_ask_to_be_requeued",
        "training/test_stop_request.py::test_a_signal_sets_the_flag_and_handlers_are_put_back",
    ],
    "restarts are one W&B run, and every step is in it once": [
        "slurm/test_preemption.py::test_preempted_three_times_a_run_ends_bit_equal_under_one_id",
        "mirror/test_process.py::test_three_requeues_are_one_run_and_each_row_is_there_once",
    ],
    "offline runs arrive whole": [
        "mirror/test_sync.py::test_with_the_default_folder_the_command_sends",
        "mirror/test_process.py::test_a_server_that_fails_gets_it_later",
    ],
    "W&B trouble does not touch training": [
        "mirror/test_run.py::test_whatever_fails_training_reaches_the_same_weights_and_does_not_wait",
        "mirror/test_process.py::test_a_mirror_that_is_killed_leaves_no_gap",
    ],
    "a published number is compared like with like": [
        "tasks/metrics/test_bleu.py::test_a_perfect_translation_scores_100",
        "training/test_saving.py::test_the_average_is_of_planned_checkpoints",
        "experiment/test_ranks.py::test_shares_of_a_batch_follow_the_whole_batch",
    ],
    "a test metric is the same on any number of ranks": [
        "experiment/test_ranks.py::test_evaluation_is_exact_at_any_world_size",
        "tasks/test_translation.py::test_a_lost_sentence_or_token_stops_the_evaluation",
    ],
    "a step is an optimiser update everywhere": [
        "experiment/test_run.py::test_validation_intervals_count_updates",
        "training/test_stopping.py::test_a_signal_between_micro_batches_waits_for_the_update",
        "test_layering.py::test_nothing_forbidden",
    ],
    "one rank that fails or sees NaN ends all of them soon": [
        "experiment/test_watchdogs.py::test_nan_on_one_rank_stops_both_at_that_step",
        "experiment/test_watchdogs.py::test_a_dead_or_stopped_rank_ends_the_others_within_the_limit",
    ],
    "data that moved, changed or cannot be reached is said so": [
        "data/test_prepare.py::test_a_hub_out_of_reach_names_the_other_way",
        "data/test_prepare.py::test_other_content_on_the_hub_is_refused",
        "data/test_store.py::test_verify_notices_one_changed_byte",
    ],
    "Slurm has no surprises": [
        "launch/slurm/test_render.py::test_trainer_values_follow_from_slurm",
        "launch/slurm/test_render.py::test_requeue_is_bounded_and_names_one_array_task",
        "launch/test_batch.py::test_a_port_in_use_is_passed_over",
        "launch/test_submit.py::test_all_is_there_before_sbatch_is_called",
        "slurm/test_cluster.py::test_a_requeued_job_starts_again_and_appends_to_its_log",
        "slurm/test_submit.py::test_an_edit_after_submission_does_not_reach_the_job",
    ],
}


def marks(decorator: ast.expr) -> set[str]:
    """The marks of a decorator, and those that every case of its list has: a test with one case left still runs."""
    call = decorator if isinstance(decorator, ast.Call) else None
    cases = call.args[1].elts if call and len(call.args) > 1 and isinstance(call.args[1], ast.List) else []
    shared = set.intersection(*map(attributes, cases)) if cases else set()
    return attributes(call.func if call else decorator) | shared


def attributes(node: ast.expr) -> set[str]:
    return {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


@cache
def functions_in(file: str) -> dict[str, set[str]]:
    """The test functions of a file, each with the names of its decorators' marks."""
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    return {
        node.name: {mark for decorator in node.decorator_list for mark in marks(decorator)}
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def test_there_are_fifteen() -> None:
    assert len(PROMISES) == 15


@pytest.mark.parametrize("promise", PROMISES)
def test_each_promise_has_a_test_that_is_there_and_runs(promise: str) -> None:
    for node in PROMISES[promise]:
        file, _, name = node.partition("::")
        assert name in functions_in(file), f"{promise}: {node} is not there"
        assert not functions_in(file)[name] & {"skip", "xfail", "matrix"}, f"{promise}: {node} is not run"


@pytest.mark.parametrize(
    ("decorator", "runs"),
    [
        ("pytest.mark.matrix", False),
        ("pytest.mark.skip(reason='x')", False),
        ("pytest.mark.parametrize('a', [pytest.param(1, marks=pytest.mark.matrix), 2])", True),
        ("pytest.mark.parametrize('a', [pytest.param(1, marks=pytest.mark.matrix)])", False),
    ],
)
def test_a_test_that_is_not_run_is_seen(decorator: str, runs: bool) -> None:
    result = marks(ast.parse(decorator, mode="eval").body)
    assert bool(result & {"skip", "xfail", "matrix"}) != runs
