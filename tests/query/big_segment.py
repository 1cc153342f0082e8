"""Writer of a segment of any size, made of copies of batch batch, and of its indexes.

Each copy has its own base offset and timestamps, and the CRC that belongs to them.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.query.batches import T, build

RECORDS = 100
VALUE = bytes(range(97, 123)) * 40


class Written(NamedTuple):
    """A partition's directory with batch segment, and its counts."""

    place: Path
    records: int
    batches: int

    def timestamp(self, offset):
        """Return the time of the record at `offset`."""
        return T + offset


def write_segment(place, size, *, text=VALUE, codec="none", index_every=40):
    """Write a segment of at least `size` bytes below `place`, and index it."""
    place.mkdir(parents=True)
    batch = np.frombuffer(build(2, codec, 10**6, RECORDS, text=text), np.uint8)
    count = -(-size // len(batch))
    with (place / f"{0:020d}.log").open("wb") as file:
        for first in range(0, count, 1_000):
            file.write(_repeated(batch, first, min(1_000, count - first)))
    slots = np.arange(index_every, count, index_every)
    offsets = np.zeros(len(slots), ">i4, >i4")
    offsets["f0"], offsets["f1"] = slots * RECORDS, slots * len(batch)
    (place / f"{0:020d}.index").write_bytes(offsets.tobytes())
    times = np.zeros(len(slots), ">i8, >i4")
    times["f0"] = T + slots * RECORDS + RECORDS - 1
    times["f1"] = slots * RECORDS + RECORDS - 1
    (place / f"{0:020d}.timeindex").write_bytes(times.tobytes())
    return Written(place, count * RECORDS, count)


def _repeated(batch, first, count):
    """Return `count` copies of a batch, each with its offsets and times."""
    copies = np.tile(batch, count).reshape(count, len(batch))
    numbers = np.arange(first, first + count) * RECORDS
    _put(copies, 0, numbers)
    _put(copies, 27, T + numbers)
    _put(copies, 35, T + numbers + RECORDS - 1)
    _put_checksums(copies)
    return copies


def _put(copies, at, numbers):
    copies[:, at : at + 8] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


def _put_checksums(copies):
    import crc32c

    for row in copies:
        row[17:21] = np.frombuffer(crc32c.crc32c(row[21:].data).to_bytes(4), np.uint8)
