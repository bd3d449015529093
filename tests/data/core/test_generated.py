"""Raw random numbers of generated examples, and what their datamodules share."""

import hashlib
import pickle
from itertools import islice

import numpy as np
import pytest

from repro.data import AlignmentData, CopyData, DuplicationData
from repro.data.core.generated import SPLITS, Purpose, below, lengths_between, raw
from repro.errors import UserError
from tests.data.running import placed, same


def test_streams_share_nothing() -> None:
    keys = [
        (p, s, e, i)
        for p in (Purpose.WORD, Purpose.COPY)
        for s in SPLITS
        for e in (0, 1, 2)
        for i in (0, 1, 2)
    ]
    drawn = [
        n for purpose, split, epoch, index in keys for n in raw(50, purpose, split, epoch, index).tolist()
    ]
    assert len(set(drawn)) == len(keys) * 50


def test_no_epoch_is_the_first() -> None:
    assert np.array_equal(raw(5, Purpose.WORD, "val", None, 3), raw(5, Purpose.WORD, "val", 0, 3))


def test_a_stream_goes_on_the_same_however_much_of_it_is_asked_for() -> None:
    assert np.array_equal(raw(9, Purpose.WORD, "val", 2, 3)[:4], raw(4, Purpose.WORD, "val", 2, 3))


def test_numbers_below_a_limit_are_uniform() -> None:
    result = below(raw(60_000, Purpose.WORD, "train", 0), 12)
    counts = np.bincount(result, minlength=12)
    assert (len(counts), result.dtype) == (12, np.int64)
    assert float(((counts - 5000) ** 2 / 5000).sum()) < 31.26, "11 degrees of freedom, 0.1 %"


def test_lengths_do_not_depend_on_which_are_asked_for() -> None:
    whole = lengths_between(3, 9, Purpose.COPY_LENGTH, "train", np.arange(500), 1)
    some = np.array([499, 0, 7, 7])
    assert np.array_equal(lengths_between(3, 9, Purpose.COPY_LENGTH, "train", some, 1), whole[some])
    assert set(whole.tolist()) == set(range(3, 10))
    assert not np.array_equal(lengths_between(3, 9, Purpose.COPY_LENGTH, "train", np.arange(500), 2), whole)
    assert lengths_between(3, 9, Purpose.COPY_LENGTH, "train", np.arange(0), 1).shape == (0,)


def modules() -> dict[str, DuplicationData | CopyData | AlignmentData]:
    return {"duplication": DuplicationData(4), "copy": CopyData(4), "alignment": AlignmentData(4)}


def test_the_generators_cannot_change_unnoticed() -> None:
    """A record says what was trained on by the generator's version: raise it before these digests change."""
    result = {}
    for name, module in modules().items():
        digest = hashlib.sha256()
        for split, epoch in (("train", 3), ("val", None), ("test", None)):
            one = module.examples(split, np.array([0, 1, 999]), epoch)
            digest.update(one.inputs.numpy().tobytes() + one.targets.numpy().tobytes())
        result[name] = digest.hexdigest()
    assert result == PINNED


PINNED = {
    "duplication": "3e6949742fa72c7f9fa7b16550f97ba9ca8d6bf7aa0bfbecaf69d2847a85d00b",
    "copy": "3da4df5b193f5ab992370b8532e8ce2a1c872aaf0a3f30e1546cf488445ac6b4",
    "alignment": "64e626f84074c7b1df06afc0114e6be06f767c370d58a28dbc50baf72514e03c",
}


def test_what_tells_data_apart() -> None:
    hashes = [module.manifest_sha256 for module in modules().values()]
    hashes += [
        DuplicationData(4, length=10).manifest_sha256,
        DuplicationData(4, train_examples=7).manifest_sha256,
        CopyData(4, symbols=3).manifest_sha256,
        AlignmentData(4, noise=0.5).manifest_sha256,
    ]
    assert len(set(hashes)) == len(hashes)
    assert DuplicationData(8, seed=3).manifest_sha256 == hashes[0], "the order of training is not the data"


@pytest.mark.parametrize("kind", [DuplicationData, CopyData, AlignmentData])
@pytest.mark.parametrize("numbers", [{"train_examples": 0}, {"eval_examples": 0}])
def test_no_examples(kind: type[CopyData], numbers: dict[str, int]) -> None:
    with pytest.raises(UserError, match=f"{next(iter(numbers))} must be at least 1"):
        kind(4, **numbers)


@pytest.mark.parametrize("name", ["duplication", "copy", "alignment"])
@pytest.mark.parametrize("split", SPLITS)
def test_targets_are_counted_without_drawing_them(name: str, split: str) -> None:
    module = modules()[name]
    indices = np.array([5, 0, 17, 2])
    for epoch in (None, 2):
        drawn = module.examples(split, indices, epoch).targets
        assert (drawn >= 0).sum(1).tolist() == module.targets_of(split, indices, epoch).tolist()


@pytest.mark.parametrize("name", ["copy", "alignment"])
def test_a_plan_states_the_targets_of_the_global_batch(name: str) -> None:
    module = modules()[name]
    module.sizes["train"] = 21
    rows = module.plan_epoch(1)
    assert len(rows) == 5
    result = [(module.examples("train", row.indices, row.epoch).targets >= 0).sum() for row in rows]
    assert [int(n) for n in result] == [row.step_targets for row in rows]
    assert len({row.step_targets for row in rows}) > 1


@pytest.mark.parametrize("name", ["duplication", "copy", "alignment"])
def test_an_example_does_not_depend_on_its_batch(name: str) -> None:
    module = modules()[name]
    alone, together = (module.examples("test", np.array(which), None) for which in ([4], [9, 4, 0]))
    for a, b in ((alone.inputs, together.inputs), (alone.targets, together.targets)):
        assert np.array_equal(a[0], b[1, : a.shape[1]])
    none = module.examples("test", np.arange(0), None)
    assert (len(none.inputs), len(none.targets)) == (0, 0)
    assert not np.array_equal(module.examples("test", np.array([4]), 1).targets, alone.targets), (
        "epochs differ"
    )


@pytest.mark.parametrize("name", ["duplication", "copy", "alignment"])
def test_a_worker_process_gets_what_it_needs_and_no_trainer(name: str) -> None:
    module = placed(modules()[name])
    loader = module.train_dataloader()
    sent = pickle.loads(pickle.dumps(module.builder("train")))
    for mine, theirs in zip(islice(loader, 2), map(sent, module.plan_epoch(0)), strict=False):
        assert same(mine, theirs)
    assert sent.func.__self__.trainer is None
