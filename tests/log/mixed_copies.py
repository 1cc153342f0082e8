"""Copies of compacted partitions that have a new segment beside old ones.

A segment is written from its batches, each with the offsets that compaction left and
the last offset in its header. The value of a record is the name of its generation, so
that a test sees which segment it was read from.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kafkalog import OffsetIndex, RecordBatchBuilder, TimeIndex
from kafkalog.storage.file_names import file_name

TIME = 1_700_000_000_000


class Batch(NamedTuple):
    """A batch from offset `first` to `last` in its header, with records at `kept`."""

    first: int
    last: int
    kept: tuple[int, ...]


def full(first, last, size=4):
    """Return batches of `size` records without a gap."""
    return [
        Batch(start, start + size - 1, tuple(range(start, start + size)))
        for start in range(first, last + 1, size)
    ]


def even(first, last, size=4):
    """Return the same batches after a compaction that left the even offsets."""
    return [
        batch._replace(kept=tuple(offset for offset in batch.kept if offset % 2 == 0))
        for batch in full(first, last, size)
    ]


def encode(batch, generation, *, time=TIME, **settings):
    """Return the bytes of a batch."""
    builder = RecordBatchBuilder(
        base_offset=batch.first, last_offset=batch.last, leader_epoch=0, **settings
    )
    for offset in batch.kept:
        key = b"key-%d" % offset
        builder.append(key, generation.encode(), timestamp=time + offset, offset=offset)
    return builder.build()


def write_segment(directory: Path, base, batches, generation, *, time=TIME):
    """Write a segment with its indexes, as the cleaner does, and return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    data = b"".join(encode(batch, generation, time=time) for batch in batches)
    path = directory / file_name(base, "log")
    path.write_bytes(data)
    latest = [batch for batch in batches if batch.kept][-1:]
    times = TimeIndex.build(
        [time + batch.kept[-1] for batch in latest],
        [batch.last for batch in latest],
        base,
    )
    (directory / file_name(base, "timeindex")).write_bytes(times.to_bytes())
    index = OffsetIndex.build([], [], base_offset=base)
    (directory / file_name(base, "index")).write_bytes(index.to_bytes())
    return path


CASES = {
    "one stale segment": (
        (0, even(0, 39), "new"),
        (8, full(8, 15), "old"),
        (40, full(40, 47), "tail"),
    ),
    "all stale segments": (
        (0, even(0, 39), "new"),
        (8, full(8, 15), "old"),
        (16, full(16, 23), "old"),
        (24, full(24, 31), "old"),
        (32, full(32, 39), "old"),
        (40, full(40, 47), "tail"),
    ),
    "the new segment ends inside an old one": (
        (0, even(0, 27), "new"),
        (8, full(8, 15), "old"),
        (24, full(24, 31), "old"),
        (32, full(32, 39), "tail"),
    ),
    "an old segment before the new one": (
        (0, full(0, 7), "old"),
        (8, even(8, 31), "new"),
        (16, full(16, 23), "old"),
        (32, full(32, 39), "tail"),
    ),
    "two new segments": (
        (0, even(0, 15), "new"),
        (8, full(8, 15), "old"),
        (16, even(16, 39), "new"),
        (24, full(24, 31), "old"),
        (32, full(32, 39), "old"),
        (40, full(40, 43), "tail"),
    ),
    "an old segment that reaches further than a later one": (
        (0, even(0, 23), "new"),
        (8, full(8, 47), "older"),
        (20, full(20, 31), "old"),
        (48, full(48, 51), "tail"),
    ),
    "the next segment is the last": (
        (0, even(0, 39), "new"),
        (32, full(32, 39), "old"),
    ),
    "only one batch is past the next segment": (
        (0, even(0, 11), "new"),
        (8, full(8, 11), "old"),
        (12, full(12, 15), "tail"),
    ),
}
"""Segments by case: base offset, batches, generation."""


def write_case(directory: Path, name):
    """Write the segments of a case."""
    for base, batches, generation in CASES[name]:
        write_segment(directory, base, batches, generation)
    return directory
