"""`RecordSample`: a share of the records or batches of a scan, the same each time.

Whether a record is in a sample depends on its partition, its offset and the seed alone.
So threads, splits and chunks do not matter, and a smaller sample with the same seed is
part of a larger one.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Literal, Self, TypeAlias, get_args

import numpy as np

from kafkalog.array_types import Bools, Int64s

SampleBy: TypeAlias = Literal["record", "batch"]
SAMPLE_BY: Final = get_args(SampleBy)

HASHED_BITS: Final = 53
"""As many as the fraction of a float has."""


@dataclass(frozen=True, slots=True)
class RecordSample:
    """The share of records, or of whole batches, that is read."""

    fraction: float
    by: SampleBy
    seed: int

    @classmethod
    def of(cls, fraction: float | None, by: SampleBy, seed: int) -> Self | None:
        """Return the sample for arguments of `scan`; None without one.

        Raises `TypeError` or `ValueError` for other values.
        """
        if by not in SAMPLE_BY:
            raise ValueError(f"sample_by {by!r}, expected {' or '.join(SAMPLE_BY)}")
        if isinstance(seed, bool) or not hasattr(seed, "__index__"):
            raise TypeError(f"seed {seed!r}, expected an integer")
        if fraction is None:
            return None
        if isinstance(fraction, bool) or not hasattr(fraction, "__float__"):
            raise TypeError(f"sample {fraction!r}, expected a number from 0 to 1")
        if not 0 <= fraction <= 1:
            raise ValueError(f"sample {fraction}, expected a number from 0 to 1")
        return cls(float(fraction), by, int(seed))

    def __str__(self) -> str:
        """Return what is sampled, and by which seed.

        >>> str(RecordSample(0.015, "batch", 7))
        '1.5% by batch, seed 7'
        """
        return f"{100 * self.fraction:g}% by {self.by}, seed {self.seed}"

    def selects(self, offsets: Int64s, topic: str, partition: int) -> Bools:
        """Return which offsets of a partition are in the sample.

        >>> RecordSample(1, "record", 0).selects(np.arange(3), "orders", 0)
        array([ True,  True,  True])
        """
        name = f"{self.seed}/{topic}-{partition}".encode("utf-8", "surrogateescape")
        salt = int.from_bytes(blake2b(name, digest_size=8).digest())
        hashes = _hashed(offsets, salt) >> np.uint64(64 - HASHED_BITS)
        selected: Bools = hashes < np.uint64(round(self.fraction * 2**HASHED_BITS))
        return selected


def _hashed(offsets: Int64s, salt: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the hash of each offset, by SplitMix64."""
    mixed = offsets.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(salt)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
