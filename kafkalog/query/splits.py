"""`splits`: parts of a scan of about the same size, each for a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, Unpack

from kafkalog.decoding.read_policy import Bounds
from kafkalog.query.header_counts import count_batches, counting_reader
from kafkalog.query.scan import Scan, ScanArguments, Source, scan
from kafkalog.query.sources import PartitionSource
from kafkalog.query.task_planning import (
    OffsetRange,
    ReadTask,
    SegmentRange,
    divide,
    file_range,
    growing_ranges,
    segment_ranges,
)
from kafkalog.storage.location import Location

TARGET_BYTES: Final = 128 << 20
SLACK: Final = 1 / 3
"""Part of its size by which a split is smaller or larger to end with a segment."""


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a scan, which pickles; made by `splits`.

    Attributes
    ----------
    offset_ranges : tuple of OffsetRange
        The ``topic``, ``partition``, ``start`` and ``end``, exclusive, of each range of
        offsets, in the order they are read. Empty for bytes in memory.
    size_in_bytes : int
        The number of bytes to read.

    Examples
    --------
    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> [split] = kafkalog.splits(batch.build())
    >>> split.scan().count()
    1
    """

    request: Scan
    offset_ranges: tuple[OffsetRange, ...]
    size_in_bytes: int

    def scan(self) -> Scan:
        """Return the scan of this part.

        Returns
        -------
        Scan
            A scan of its own each time.

        Examples
        --------
        >>> import kafkalog
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> [split] = kafkalog.splits(batch.build())
        >>> [records.offset.tolist() for records in split.scan().chunks()]
        [[7]]
        """
        return replace(self.request, problems=[])


def splits(
    source: Source, target_bytes: int = TARGET_BYTES, **as_scan: Unpack[ScanArguments]
) -> list[Split]:
    """Divide a scan into parts of about `target_bytes`, in order.

    Together the parts have each record once. They are cut where a segment begins, if
    that makes them a third larger or smaller at most, else at a batch in the index;
    small segments and partitions share a part. Offsets are
    chosen now, so a part that is read again has the same records even if its log has
    grown.

    Parameters
    ----------
    source : path, URL, bytes-like, or list of these
        As for `scan`.
    target_bytes : int
        Size of a part. One may be a third larger or smaller, and more where the index
        has no position to cut at.
    **as_scan : ScanArguments
        The options of `scan`, but `limit` and `progress`.

    Returns
    -------
    list of Split
        The parts. Each can be pickled, and read by another process or machine that
        sees the same paths.

    Raises
    ------
    ValueError
        If `target_bytes` is not positive, or an option is invalid.

    Examples
    --------
    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> [split.size_in_bytes for split in kafkalog.splits(batch.build())]
    [70]
    """
    if unsupported := {"limit", "progress"}.intersection(as_scan):
        raise TypeError(f"splits of a scan with {' and '.join(sorted(unsupported))}")
    if target_bytes < 1:
        raise ValueError(f"target_bytes {target_bytes}, expected 1 or more")
    return divide_scan(scan(source, **as_scan), target_bytes)


def divide_scan(
    request: Scan, target_bytes: int, *, grows: bool = False
) -> list[Split]:
    """Return the splits of a scan.

    If it `grows`, the last split of a log has the records that are appended until it is
    read. Few files are opened then.
    """
    found = list[Split]()
    for in_memory, group in groupby(request.sources, _is_in_memory):
        if in_memory:
            found += (_whole(request, *each) for each in group)
            continue
        sources = list(group)
        places = {_place(source): (source, bounds) for source, bounds in sources}
        parts = [part for each in sources for part in _ranges_of(*each, grows=grows)]
        tasks = divide(parts, target_bytes, slack=SLACK)
        found += (_split(request, task, places) for task in tasks)
    return found


def estimate_records(request: Scan) -> int:
    """Return about how many records a scan has: its bytes, as dense as some of them.

    Only the first batches of its largest split are read. Compression and sizes of
    records may differ in the others.
    """
    parts = divide_scan(request, TARGET_BYTES, grows=True)
    size = sum(part.size_in_bytes for part in parts)
    if not size:
        return 0
    largest = max(parts, key=lambda part: part.size_in_bytes)
    # Neither damage in what a query does not read, nor transactions matter here.
    policy = replace(
        request.policy,
        check_crcs="never",
        on_corruption="skip",
        isolation="read_uncommitted",
    )
    for source, bounds in largest.request.sources:
        reader = counting_reader(source, bounds, policy)
        for step, records in count_batches(reader, []):
            read = int(step.step.rows["size_in_bytes"].sum())
            sample = request.filter.sample
            share = 1.0 if sample is None else sample.fraction
            return round(share * size * int(records.sum()) / read)
    return 0


def _is_in_memory(source: tuple[PartitionSource, Bounds]) -> bool:
    return source[0].memory is not None


def _place(source: PartitionSource) -> Location:
    """Return the directory or the file of a source."""
    place = source.directory or source.file
    assert place is not None
    return place


def _whole(request: Scan, source: PartitionSource, bounds: Bounds) -> Split:
    """Return the split of bytes in memory, which are not divided."""
    whole = replace(request, sources=((source, bounds),))
    return Split(whole, (), memoryview(source.memory).nbytes)


def _ranges_of(
    source: PartitionSource, bounds: Bounds, *, grows: bool
) -> Iterator[SegmentRange]:
    """Yield the parts of a source by segment."""
    bounded = bounds.start_offset, bounds.end_offset
    wanted = OffsetRange(source.topic, source.partition, *bounded)
    if source.directory is not None:
        ranges = growing_ranges if grows else segment_ranges
        yield from ranges(wanted, source.directory)
    elif source.file is not None:
        part = file_range(wanted, source.file, grows=grows)
        if part.begin < part.end and part.start < part.stop:
            yield part


def _split(
    request: Scan,
    task: ReadTask,
    places: dict[Location, tuple[PartitionSource, Bounds]],
) -> Split:
    sources = list[tuple[PartitionSource, Bounds]]()
    ranges = list[OffsetRange]()
    for part in task:
        source, bounds = places[part.directory]
        start = part.start
        if sources and sources[-1][0] is source and sources[-1][1].end_offset == start:
            start = sources.pop()[1].start_offset
            ranges.pop()
        within = replace(bounds, start_offset=start, end_offset=part.stop)
        sources.append((source, within))
        ranges.append(OffsetRange(source.topic, source.partition, start, part.stop))
    size = sum(part.size_in_bytes for part in task)
    scan_of = replace(request, sources=tuple(sources), progress=None, problems=[])
    return Split(scan_of, tuple(ranges), size)
