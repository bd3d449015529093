"""Hash settings, rotations and buckets."""

import math
from dataclasses import asdict, replace

import pytest
import torch
from torch import Tensor

from repro.nn import Hashing, Layout, LSHAttention
from repro.nn.attention.hashed.hashing import bucket_ids, draw_rotations, factors, id_dtype
from repro.nn.settings import CallSettings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": -1}, "rounds must be at least 0, not -1"),
        ({"chunk": 0}, "chunk must be at least 1, not 0"),
        ({"buckets": 7}, "buckets must be even and at least 2, not 7"),
        ({"buckets": 0}, "buckets must be even and at least 2, not 0"),
        ({"buckets": (2, 3)}, r"buckets must be even and at least 2, not \(2, 3\)"),
        ({"buckets": ()}, r"buckets must be even and at least 2, not \(\)"),
        ({"average": True}, "needs duplicates: true"),
        ({"scaled": True, "unit_keys": False}, "needs unit_keys: true"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Hashing(**settings)  # type: ignore[arg-type]


def test_the_later_variant_has_a_name() -> None:
    assert Hashing.across(4, 32) == Hashing(4, 32, across_buckets=True, duplicates=True)


@pytest.mark.parametrize(
    ("length", "buckets"), [(1, 2), (64, 2), (65, 4), (1024, 32), (4096, 128), (4160, 132), (65_536, 2048)]
)
def test_two_buckets_for_each_chunk(length: int, buckets: int) -> None:
    assert Hashing().count(length) == buckets
    assert Hashing(buckets=8).count(length) == 8


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(2, [2]), (128, [128]), (130, [130]), (256, [16, 16]), (512, [16, 32]), (132, [6, 22])],
)
def test_large_hashes_are_two_even_ones(count: int, sizes: list[int]) -> None:
    assert factors(count) == sizes


def test_given_factors_are_the_buckets_whatever_the_length() -> None:
    hashing = Hashing(buckets=(2, 4, 16))
    assert [hashing.sizes(length) for length in (1, 10_000)] == [[2, 4, 16]] * 2
    assert hashing.count(10_000) == 128


def test_a_record_names_later_settings_only_where_they_are_set() -> None:
    """Protocols of records from before and after agree."""
    old = ["rounds", "chunk", "buckets", "across_buckets", "duplicates", "unit_keys", "see_self", "average"]
    assert list(Hashing(3).describe()) == old
    output = Hashing.averaged(4, 29).describe()
    assert output == asdict(Hashing.averaged(4, 29))
    assert output.keys() - old == {"scaled", "shared_rotations", "wrap"}


def test_shared_rotations_are_one_set_for_all_rows_and_heads() -> None:
    """Rows and heads that hold the same vectors fall into the same buckets; rounds differ."""
    torch.manual_seed(0)
    mixer = LSHAttention(8, 2, Hashing(3, 8, 8))
    width = mixer.widths[0] // 2
    mixer.qk_v.weight.data[width : 2 * width] = mixer.qk_v.weight.data[:width]  # both heads alike
    x = torch.randn(1, 30, 8).expand(3, -1, -1)
    for shared in (True, False):
        mixer.hashing = replace(mixer.hashing, shared_rotations=shared)
        ids = mixer(x, None, Layout(True)).bucket_replay
        state = mixer(x, mixer.init_state(3, 30), Layout(True))
        for result in (ids, state.bucket_replay):
            assert torch.equal(result, result[:1, :1].expand_as(result)) is shared
            assert not torch.equal(result[:, :, 0], result[:, :, 1])
        assert state.state["rotations"].shape == (3, 2, 4, 3, 4)


def naive(vector: Tensor, rotations: Tensor, sizes: list[int]) -> int:
    """The bucket of one vector ``(E,)`` under rotations ``(E, W)``."""
    result, scale, first = 0, 1, 0
    for size in sizes:
        turned = [float(vector @ rotations[:, first + i]) for i in range(size // 2)]
        both = turned + [-t for t in turned]
        result += scale * max(range(size), key=lambda i: both[i])
        scale *= size
        first += size // 2
    return result


@pytest.mark.parametrize("hashing", [2, 6, 256, (2, 4), (6, 2, 4), (8,)])
def test_buckets_are_those_of_the_formula(hashing: int | tuple[int, ...]) -> None:
    sizes = Hashing(buckets=hashing).sizes(9)
    count = math.prod(sizes)
    torch.manual_seed(0)
    x = torch.randn(2, 3, 9, 5, dtype=torch.float64)
    rotations = draw_rotations(x, 2, 3, 5, 4, sizes)
    assert rotations.shape == (2, 3, 5, 4, sum(sizes) // 2)
    ids = bucket_ids(x, rotations, sizes)
    assert ids.shape == (2, 3, 4, 9)
    for b, h, r, t in [(0, 0, 0, 0), (1, 2, 3, 8), (0, 1, 2, 5), (1, 0, 1, 7), (0, 2, 3, 4)]:
        assert int(ids[b, h, r, t]) == naive(x[b, h, t], rotations[b, h, :, r], sizes)
    assert int(ids.max()) < count
    if count > 2:
        assert len(ids.unique()) > 4


def test_rotations_differ_by_row_head_and_round_and_follow_the_seed() -> None:
    like = torch.zeros(())
    first = draw_rotations(like, 2, 2, 3, 2, [4], seed=1)
    assert len(first.flatten().unique()) == first.numel()
    assert torch.equal(first, draw_rotations(like, 2, 2, 3, 2, [4], seed=1))
    assert not torch.equal(first, draw_rotations(like, 2, 2, 3, 2, [4], seed=2))
    assert draw_rotations(like.half(), 1, 1, 3, 1, [4]).dtype == torch.float32


def test_near_vectors_share_buckets_and_length_does_not_matter() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 1, 50, 16)
    rotations = draw_rotations(x, 1, 1, 16, 64, [8])
    ids = bucket_ids(x, rotations, [8])
    assert torch.equal(bucket_ids(7.0 * x, rotations, [8]), ids)
    near = (bucket_ids(x + 0.1 * torch.randn_like(x), rotations, [8]) == ids).float().mean()
    far = (bucket_ids(torch.randn_like(x), rotations, [8]) == ids).float().mean()
    assert near > 0.8
    assert far < 0.2


@pytest.mark.parametrize(
    ("count", "dtype"), [(126, torch.int8), (128, torch.int16), (2048, torch.int16), (40_000, torch.int32)]
)
def test_the_smallest_type_holds_padding_too(count: int, dtype: torch.dtype) -> None:
    assert id_dtype(count) == dtype
    assert count <= torch.iinfo(dtype).max


def test_rotations_of_the_wrong_width_are_refused() -> None:
    x = torch.randn(1, 1, 4, 6)
    with pytest.raises(ValueError, match="rotations turn vectors of width 5, not of 6"):
        bucket_ids(x, draw_rotations(x, 1, 1, 5, 1, [4]), [4])
    with pytest.raises(ValueError, match="rotations for 8 buckets have 4 columns, not 2"):
        bucket_ids(x, draw_rotations(x, 1, 1, 6, 1, [4]), [8])


def test_a_call_hashes_otherwise_and_leaves_nothing_behind() -> None:
    torch.manual_seed(0)
    own, other = Hashing(1, 8), CallSettings(hashing=Hashing(0))
    mixer, x = LSHAttention(8, 2, own), torch.randn(1, 32, 8)
    assert mixer(x, None, Layout(True, settings=other)).bucket_replay is None
    assert mixer(x, None, Layout(True)).bucket_replay is not None
    assert mixer.hashing == own
