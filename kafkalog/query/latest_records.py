"""`latest`: the latest record of each key, as a scan that reads twice.

The first reading of a partition decodes keys only, and puts the offset of each in a
table of fixed size, by the MD5 of the key. The second one returns the records at these
offsets. If the table gets full, the keys are divided by a hash into two halves, which
are read one after another, and so on. A partition is done before the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Unpack

import numpy as np

from kafkalog import _speedups
from kafkalog.array_types import Bools, Int64s
from kafkalog.decoding.offset_map import MAX_MEMORY, SLOT_BYTES, Keys, OffsetMap
from kafkalog.errors import LogArgumentError
from kafkalog.query.chunk_columns import ViewColumn
from kafkalog.query.header_counts import count_records, counting_reader
from kafkalog.query.scan import Scan, ScanArguments, Source, scan
from kafkalog.query.sources import PartitionSource

if TYPE_CHECKING:
    from kafkalog.progress import Progress

MEMORY_BYTES: Final = 256 << 20
LEAST_MEMORY_BYTES: Final = 1 << 16
LOAD: Final = 0.75
"""Share of the table's slots that keys take at most."""

MAX_PARTS: Final = 1 << 16
"""Maximum number of parts that the keys of a partition are divided into."""

NOT_OF_LATEST: Final = ("control_records", "sample", "sample_by", "seed")
"""Options of a scan that do not apply."""


def latest(
    source: Source,
    *,
    tombstones: bool = False,
    memory_bytes: int = MEMORY_BYTES,
    limit: int | None = None,
    progress: Progress | None = None,
    **as_scan: Unpack[ScanArguments],
) -> Scan:
    """Return a `Scan` of the latest record of each key: the table that a topic states.

    Keys are those of a partition, as in Kafka, whose producers write all records of a
    key to one. Each log is read twice: first its keys, then the records. Records that
    are appended in between do not matter. If records are removed in between, by
    compaction or retention, those are missing: read a copy of such a log.

    Parameters
    ----------
    source : path, URL, bytes-like, or list of these
        As for `scan`. Offsets have to ascend.
    tombstones : bool
        Whether keys whose latest record has no value, and so deletes the key, are
        returned.
    memory_bytes : int
        Maximum size of the table of keys: 32 bytes a key. If it is too small for the
        keys of a partition, its keys are read several times, in parts. In addition,
        16 bytes are taken for each key of a partition.
    limit : int, optional
        Maximum number of records in total.
    progress : callable, optional
        As for `scan`, of the second reading.
    **as_scan : ScanArguments
        The options of `scan`, but ``control_records`` and those of a sample. Of the
        records that they select, the latest are returned: with ``end_timestamp`` the
        table as of that time.

    Returns
    -------
    Scan
        The records, in order of partitions and offsets. Those without a key are left
        out.

    Raises
    ------
    FileNotFoundError, NotALogDirectoryError, TypeError, ValueError
        As `scan` does; also for offsets that do not ascend, and a table that is too
        small.

    Examples
    --------
    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", None)):
    ...     batch.append(key, value, timestamp=1)
    >>> table = kafkalog.latest(batch.build(), columns=["offset", "key", "value"])
    >>> table.to_arrow().to_pylist()
    [{'offset': 9, 'key': b'a', 'value': b'3'}]
    """
    if unsupported := sorted(set(as_scan).intersection(NOT_OF_LATEST)):
        raise TypeError(f"latest of a scan with {' and '.join(unsupported)}")
    request = scan(source, limit=limit, progress=progress, **as_scan)
    return latest_of(request, tombstones=tombstones, memory_bytes=memory_bytes)


def latest_of(
    request: Scan, *, tombstones: bool = False, memory_bytes: int = MEMORY_BYTES
) -> Scan:
    """Return a scan of the latest record of each key among those of a scan."""
    if memory_bytes < LEAST_MEMORY_BYTES:
        raise ValueError(
            f"memory_bytes {memory_bytes}, expected {LEAST_MEMORY_BYTES} or more"
        )
    whole = replace(
        request, columns=("offset", "key"), limit=None, progress=None, problems=[]
    )
    found = replace(
        request.filter,
        tombstones=tombstones,
        latest=LatestRecords(whole, memory_bytes),
    )
    return replace(request, filter=found, problems=[])


@dataclass(frozen=True, slots=True)
class LatestRecords:
    """The latest record of each key among the records of a scan."""

    request: Scan
    memory_bytes: int

    def offsets_in(self, source: PartitionSource) -> Int64s:
        """Return the offsets of the latest records of a source, which ascend."""
        bounds = next(bounds for one, bounds in self.request.sources if one == source)
        part = replace(self.request, sources=((source, bounds),), problems=[])
        memory = min(self.memory_bytes, MAX_MEMORY)
        memory = min(memory, (int(_most_records(part) / LOAD) + 1) * SLOT_BYTES)
        found, waiting = list[Int64s](), [(0, 1)]
        while waiting:
            remainder, parts = waiting.pop()
            offsets = _offsets_of(part, memory, remainder, parts)
            if offsets is not None:
                found.append(offsets)
            elif parts < MAX_PARTS:
                waiting += ((remainder + parts, 2 * parts), (remainder, 2 * parts))
            else:
                raise LogArgumentError(
                    f"keys of {source} need more than {self.memory_bytes} bytes, even "
                    f"in {parts} parts: expected more memory_bytes"
                )
        every = np.concatenate(found)
        every.sort()
        return every


def _most_records(part: Scan) -> int:
    """Return a number that the records of a scan of one source do not exceed.

    Only headers of batches are read, where they suffice.
    """
    [(source, bounds)] = part.sources
    policy = replace(
        part.policy,
        check_crcs="never",
        on_corruption="skip",
        isolation="read_uncommitted",
    )
    untimed = replace(bounds, start_timestamp=None, end_timestamp=None)
    return sum(count_records(counting_reader(source, untimed, policy), []))


def _offsets_of(part: Scan, memory: int, remainder: int, parts: int) -> Int64s | None:
    """Return the offsets of the latest records of a part of the keys.

    It is None if there are more keys than the memory holds.
    """
    offsets_of = OffsetMap(memory, marked_offsets=0)
    most, before = int(offsets_of.slots * LOAD) + 1, -1
    for records in part.chunks(reuse=True, views=True):
        offsets, keys = records.offset, _columns_of(records.key)
        if offsets[0] <= before or not (offsets[1:] > offsets[:-1]).all():
            raise LogArgumentError(
                f"offsets after {before} do not ascend, expected those of one log"
            )
        before = int(offsets[-1])
        if parts > 1:
            rows = np.flatnonzero(_are_in_part(keys, remainder, parts))
            keys, offsets = (keys[0], keys[1][rows], keys[2][rows]), offsets[rows]
        if offsets_of.put(keys, offsets, most) < len(offsets):
            return None
    return offsets_of.offsets()


def _columns_of(keys: ViewColumn) -> Keys:
    return keys.data, keys.start.astype(np.int64), keys.length


def _are_in_part(keys: Keys, remainder: int, parts: int) -> Bools:
    """Return which keys are in a part, of a power of two, by their hash.

    All keys of a partition may have the same low bits of Java's hash.
    """
    data, start, length = keys
    hashes = np.empty(len(length), np.int32)
    _speedups.murmur2_keys(data, start, np.ascontiguousarray(length), hashes)
    mixed = hashes.view(np.uint32).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    chosen: Bools = mixed >> np.uint64(48) & np.uint64(parts - 1) == remainder
    return chosen
