"""A segment of any size, made of one batch over and over, with the indexes beside it.

Base offsets lie outside the checksum; times are that of the batch they are in, so each
of some thousand batches is built, and their run is repeated.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.query.batches import T, build

RECORDS = 100
VALUE = bytes(range(97, 123)) * 40


class Written(NamedTuple):
    """A partition's directory with one segment, and what is in it."""

    place: Path
    records: int
    batches: int

    def timestamp(self, offset):
        """Return the time of the record at `offset`."""
        return T + offset


def write_segment(place, size, *, text=VALUE, codec="none", index_every=40):
    """Write a segment of at least `size` bytes below `place`, and index it."""
    place.mkdir(parents=True)
    one = np.frombuffer(build(2, codec, 10**6, RECORDS, text=text), np.uint8)
    count = -(-size // len(one))
    with (place / f"{0:020d}.log").open("wb") as file:
        for first in range(0, count, 1_000):
            file.write(_repeated(one, first, min(1_000, count - first)))
    slots = np.arange(index_every, count, index_every)
    offsets = np.zeros(len(slots), ">i4, >i4")
    offsets["f0"], offsets["f1"] = slots * RECORDS, slots * len(one)
    (place / f"{0:020d}.index").write_bytes(offsets.tobytes())
    times = np.zeros(len(slots), ">i8, >i4")
    times["f0"] = T + slots * RECORDS + RECORDS - 1
    times["f1"] = slots * RECORDS + RECORDS - 1
    (place / f"{0:020d}.timeindex").write_bytes(times.tobytes())
    return Written(place, count * RECORDS, count)


def _repeated(one, first, count):
    """Return `count` batches behind one another, each with its offsets and times."""
    run = np.tile(one, count).reshape(count, len(one))
    numbers = np.arange(first, first + count) * RECORDS
    _put(run, 0, numbers)
    _put(run, 27, T + numbers)
    _put(run, 35, T + numbers + RECORDS - 1)
    _put_checksums(run)
    return run


def _put(run, at, numbers):
    run[:, at : at + 8] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


def _put_checksums(run):
    import crc32c

    for row in run:
        row[17:21] = np.frombuffer(crc32c.crc32c(row[21:].data).to_bytes(4), np.uint8)
