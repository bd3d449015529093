"""Locality-sensitive hashing: its settings, random rotations, and the bucket of every vector."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from repro.nn.device import seeded, without_autocast

# Above this many buckets the hash is made of two smaller ones: their rotations cost less than the attention.
LARGEST_FACTOR = 128
# Settings that came later: protocols of records name them where they are not the default.
_LATER = ("scaled", "shared_rotations", "wrap")


@dataclass(frozen=True)
class Hashing:
    """Settings of a layer's hashing and of the pairs that it shows. No setting owns a weight.

    The defaults are the paper's masks. ``across_buckets=True, duplicates=True`` is the later public code, see
    :meth:`across`; :meth:`averaged` is the baseline of another paper. Exact attention with plain dot products is
    ``rounds=0, unit_keys=False, see_self=True``.

    Args:
        rounds: R, independent hashes; 0 is exact attention to every key, quadratic in the length.
        chunk: tokens of one chunk, in the order of the buckets; a chunk sees itself and the chunk before it.
        buckets: of one round, even; None takes two for each chunk. More than 128 are the product of two smaller
            hashes where 4 divides them. A list of even numbers, ``[2, 4]``, chooses the hashes whose product they are.
        across_buckets: no bucket mask: a token sees all of its two chunks.
        duplicates: a pair that several rounds bring together counts that often, not once.
        unit_keys: keys are queries of length 1, and scores ``q · k``; else keys are the queries, and scores are
            ``q · k / sqrt(E)``.
        see_self: a token sees itself like any other; else only where it sees nothing else.
        average: rounds have equal weights instead of weights by what they saw.
        scaled: scores of unit keys are divided by ``sqrt(E)``, too.
        shared_rotations: a round has one set of rotations, for all rows and heads; else each of them has its own.
        wrap: the first chunk of a round looks back at the last chunk of the round before; else at itself only.

    Raises:
        ValueError: a setting out of its range, ``average`` without ``duplicates``, ``scaled`` without ``unit_keys``.

    Source: Kitaev, Kaiser and Levskaya 2020, section 2; a list of buckets is that of trax and transformers.
    """

    rounds: int = 1
    chunk: int = 64
    buckets: int | tuple[int, ...] | None = None
    across_buckets: bool = False
    duplicates: bool = False
    unit_keys: bool = True
    see_self: bool = False
    average: bool = False
    scaled: bool = False
    shared_rotations: bool = False
    wrap: bool = True

    def __post_init__(self) -> None:
        if self.rounds < 0:
            raise ValueError(f"rounds must be at least 0, not {self.rounds}")
        if self.chunk < 1:
            raise ValueError(f"chunk must be at least 1, not {self.chunk}")
        sizes = [self.buckets] if isinstance(self.buckets, int) else self.buckets
        if sizes is not None and (not sizes or any(size < 2 or size % 2 for size in sizes)):
            raise ValueError(f"buckets must be even and at least 2, not {self.buckets}")
        if self.average and not self.duplicates:
            raise ValueError("average gives every round its own softmax and needs duplicates: true")
        if self.scaled and not self.unit_keys:
            raise ValueError("scaled applies to unit keys only and needs unit_keys: true")

    @classmethod
    def across(cls, rounds: int = 1, chunk: int = 64, buckets: int | None = None) -> "Hashing":
        """The variant of the later public code: no bucket mask, and pairs count as often as they meet.

        Source: trax from February 2020; transformers; the default of reformer-pytorch.
        """
        return cls(rounds, chunk, buckets, across_buckets=True, duplicates=True)

    @classmethod
    def averaged(cls, rounds: int = 4, chunk: int = 32, buckets: int = 64) -> "Hashing":
        """The baseline of Katharopoulos et al. 2020: the mean of independent rounds, which all rows and heads share.

        Source: idiap/fast-transformers, attention/reformer_attention.py, with ``masked`` as in their experiments.
        Deviation: tokens of one bucket stay in the order of their places; theirs is that of an unstable sort.
        """
        return cls(
            rounds, chunk, buckets, across_buckets=True, duplicates=True, average=True, scaled=True,
            shared_rotations=True, wrap=False,
        )  # fmt: skip

    @property
    def by_bucket(self) -> bool:
        """Whether buckets restrict the keys that a query sees, besides sorting."""
        return self.rounds > 0 and not self.across_buckets

    def sizes(self, length: int) -> list[int]:
        """Buckets of the hashes that make one round, whose product is :meth:`count`."""
        if isinstance(self.buckets, int):
            return factors(self.buckets)
        if self.buckets is not None:
            return list(self.buckets)
        chunks = -(-length // self.chunk)
        if 2 * chunks > LARGEST_FACTOR:  # 4 must divide them
            chunks += chunks % 2
        return factors(max(2, 2 * chunks))

    def count(self, length: int) -> int:
        """Buckets of one round for sequences of ``length`` tokens."""
        return math.prod(self.sizes(length))

    def describe(self) -> dict[str, object]:
        """The settings for the protocol of a record."""
        usual = {field.name: field.default for field in fields(self)}
        return {
            name: value for name, value in vars(self).items() if name not in _LATER or value != usual[name]
        }


def factors(count: int) -> list[int]:
    """The sizes of the hashes whose product has ``count`` buckets: one, or two even ones near its square root."""
    if count <= LARGEST_FACTOR or count % 4:
        return [count]
    half = count // 4
    small = max(d for d in range(1, int(half**0.5) + 1) if half % d == 0)
    return [2 * small, 2 * (half // small)]


def draw_rotations(
    like: Tensor,
    rows: int,
    heads: int,
    width: int,
    rounds: int,
    sizes: Sequence[int],
    seed: int | None = None,
) -> Tensor:
    """Standard normal rotations ``(B, H, E, R, W)``, W half the sum of the sizes.

    Args:
        like: gives the device; half precision is not enough for hashing, so that float32 is the least.
        rows: B.
        heads: H.
        width: E.
        rounds: R.
        sizes: buckets of the hashes that make one round (:meth:`Hashing.sizes`).
        seed: of a generator of its own; None draws from torch's.
    """
    generator = None if seed is None else seeded(like.device, seed)
    shape = (rows, heads, width, rounds, sum(sizes) // 2)
    dtype = torch.promote_types(like.dtype, torch.float32)
    return torch.randn(shape, generator=generator, device=like.device, dtype=dtype)


@torch.no_grad()
def bucket_ids(vectors: Tensor, rotations: Tensor, sizes: Sequence[int]) -> Tensor:
    """``argmax([x R; -x R])`` for every round, in the smallest integer type that also holds their number itself.

    With several hashes of sizes ``f1, f2, f3, ...`` the bucket is ``a1 + f1 (a2 + f2 (a3 + ...))``.

    Args:
        vectors: ``(B, H, T, E)``; their length does not matter, and no gradient flows.
        rotations: ``(B, H, E, R, W)``; B and H may be 1.
        sizes: buckets of the hashes that make one round (:meth:`Hashing.sizes`).

    Returns:
        ``(B, H, R, T)``.

    Raises:
        ValueError: rotations of the wrong width or for another number of buckets.

    Source: Kitaev et al. 2020, section 2 (angular hashing of Andoni et al. 2015).
    """
    if rotations.shape[2] != vectors.shape[-1]:
        raise ValueError(f"rotations turn vectors of width {rotations.shape[2]}, not of {vectors.shape[-1]}")
    if rotations.shape[-1] != sum(sizes) // 2:
        raise ValueError(
            f"rotations for {' x '.join(map(str, sizes))} buckets have {sum(sizes) // 2} columns, "
            f"not {rotations.shape[-1]}"
        )
    with without_autocast(vectors.device):
        turned = torch.matmul(vectors.to(rotations.dtype), rotations.flatten(3))
    turned = turned.unflatten(-1, rotations.shape[3:])
    ids, scale = turned.new_zeros(turned.shape[:-1], dtype=torch.long), 1
    for part in turned.split([size // 2 for size in sizes], dim=-1):
        # The largest of [x; -x] is the largest in size: half as much to compare.
        place = part.abs().argmax(-1)
        negative = part.gather(-1, place[..., None])[..., 0] < 0
        ids += scale * (place + negative * part.shape[-1])
        scale *= 2 * part.shape[-1]
    return ids.to(id_dtype(scale)).transpose(2, 3).contiguous()


def id_dtype(count: int) -> torch.dtype:
    """The smallest integer type for bucket ids 0 to ``count``, the last being that of padding."""
    return next(t for t in (torch.int8, torch.int16, torch.int32) if count <= torch.iinfo(t).max)
