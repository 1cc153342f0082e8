"""The bulk index scan: the entries of all indexes below a directory, as one array.

One row an entry, in native integers, ordered by topic, partition and segment, each
index in its own order; a second array says which rows are whose. A file is read once,
the whole array is allocated once. Live directories may be scanned: stale entries at the
end of an index are left out where they contradict those before, and a file that is gone
by the time it is opened counts as empty.

A damaged index gives the entries before the damage, and is named among the problems.
A segment that has no index file of the kind has no rows: that is no problem.

Knows: directories of indexes. Does not know: logs, batches, records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.errors import CorruptIndexError, NotALogDirectoryError
from kafkalog.indexes.index_table import IndexTable, as_int64, read_slots
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.storage.file_names import FileKind, parse_file_names, parse_partition_dir
from kafkalog.storage.location import AnyPath, Location, entries, locate
from kafkalog.storage.remote_source import RemotePath

Rows = npt.NDArray[np.void]
Column = npt.NDArray[np.int64]
Files = dict[int, str | RemotePath | None]
"""Index files by base offset; None for a segment that has none."""

_PLACE: Final = [
    ("topic", np.int32),
    ("partition", np.int32),
    ("base_offset", np.int64),
]
SEGMENT: Final = np.dtype([*_PLACE, ("start", np.int64), ("stop", np.int64)])
"""A segment, and which rows are its entries: ``entries[start:stop]``."""

OFFSET_ROW: Final = np.dtype([*_PLACE, ("offset", np.int64), ("position", np.int64)])
TIME_ROW: Final = np.dtype([*_PLACE, ("timestamp", np.int64), ("offset", np.int64)])
ABORTED_FIELDS: Final = (
    "producer_id",
    "first_offset",
    "last_offset",
    "last_stable_offset",
)
ABORTED_ROW: Final = np.dtype([*_PLACE, *((name, np.int64) for name in ABORTED_FIELDS)])

FOUND: Final = np.dtype([("base_offset", np.int64), ("position", np.int64)])
START: Final = np.dtype(
    [("topic", np.int32), ("partition", np.int32), ("offset", np.int64)]
)


@dataclass(frozen=True, slots=True, eq=False)
class IndexScan:
    """What a bulk scan found.

    `entries` are the rows, `segments` says which are whose (`SEGMENT`). ``topic`` in
    both is a code: ``topics[code]`` is the name. `problems` names damaged files, with
    byte and reason.
    """

    entries: Rows
    segments: Rows
    topics: tuple[str, ...]
    problems: tuple[CorruptIndexError, ...]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.entries)} entries of "
            f"{len(self.segments)} segments, {len(self.problems)} problems)"
        )

    def _partitions(self) -> tuple[Column, Column, Column]:
        """Return a key a partition, ascending; its first segment; one past its last."""
        keys = partition_keys(self.segments["topic"], self.segments["partition"])
        first = np.flatnonzero(np.diff(keys, prepend=np.int64(-1)))
        return keys[first], first, np.append(first[1:], len(keys))[: len(first)]

    def _search(self, field: str, segments: Column, targets: Column) -> Column:
        """Search the rows of each segment by a rising field: rows, -1 for none."""
        rows = np.empty(len(targets), np.int64)
        start, stop = self.segments["start"], self.segments["stop"]
        _speedups.search_ranges(
            self.entries[field], start, stop, segments, targets, rows
        )
        return rows


class OffsetIndexScan(IndexScan):
    """All offset indexes below a directory; rows as in `OFFSET_ROW`."""

    def lookup(
        self, topics: npt.ArrayLike, partitions: npt.ArrayLike, offsets: npt.ArrayLike
    ) -> Rows:
        """Segment and byte from which to read, for many offsets of many partitions.

        The three, names and integers, are broadcast against each other. Rows as in
        `FOUND`: the base offset of the segment, and the position in it of the greatest
        entry at or below the offset, else 0. Both are -1 where there is no such
        partition, or all of it lies above the offset.
        """
        codes, numbers, targets = np.broadcast_arrays(
            self._codes(topics), as_int64(partitions), as_int64(offsets)
        )
        wanted = np.ascontiguousarray(targets).ravel()
        segments = self._segment_of(codes.ravel(), numbers.ravel(), wanted)
        rows = self._search("offset", segments, wanted)
        found = np.full(len(wanted), -1, FOUND)
        known, indexed = np.flatnonzero(segments >= 0), np.flatnonzero(rows >= 0)
        found["base_offset"][known] = self.segments["base_offset"][segments[known]]
        found["position"][known] = 0
        found["position"][indexed] = self.entries["position"][rows[indexed]]
        return found.reshape(targets.shape)

    def _segment_of(self, codes: Column, numbers: Column, offsets: Column) -> Column:
        """Find the segment each offset falls into, by its row; -1 for none."""
        keys, first, end = self._partitions()
        asked = partition_keys(codes, numbers)
        asked[(numbers < -1) | (numbers > np.iinfo(np.int32).max)] = -1
        which = np.searchsorted(keys, asked)
        which[np.append(keys, -2)[which] != asked] = -1
        segments = np.empty(len(offsets), np.int64)
        bases = self.segments["base_offset"]
        _speedups.search_ranges(bases, first, end, which, offsets, segments)
        return segments

    def _codes(self, topics: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return topics' codes; -1 for one that is not here."""
        code = {name: index for index, name in enumerate(self.topics)}
        names = np.asarray(topics, dtype=object)
        codes = [code.get(name, -1) for name in names.ravel().tolist()]
        return np.array(codes, np.int64).reshape(names.shape)


class TimeIndexScan(IndexScan):
    """All time indexes below a directory; rows as in `TIME_ROW`."""

    def start_offsets(self, timestamp: int) -> Rows:
        """Where each partition has to be read from, for records at or after a time.

        Rows as in `START`, one a partition: no record with a timestamp (ms) at or
        above `timestamp` has a lower offset, so far as the time indexes say. A segment
        whose time index is empty or missing may hold any.
        """
        segments = self.segments
        targets = np.full(len(segments), timestamp, np.int64)
        targets[targets > np.iinfo(np.int64).min] -= (
            1  # entries below, not at, the time
        )
        rows = self._search("timestamp", np.arange(len(segments)), targets)
        _, first, end = self._partitions()
        entries_below = np.maximum(rows + 1, segments["start"])
        candidate = entries_below < segments["stop"]
        candidate |= segments["start"] == segments["stop"]
        candidate[end - 1] = True  # what the last segment took in since its last entry
        candidates = np.flatnonzero(candidate)
        chosen = candidates[np.searchsorted(candidates, first)]
        starts = np.empty(len(first), START)
        for name in ("topic", "partition"):
            starts[name] = segments[name][chosen]
        starts["offset"] = segments["base_offset"][chosen]
        entered = np.flatnonzero(rows[chosen] >= 0)
        behind = self.entries["offset"][rows[chosen[entered]]] + 1
        starts["offset"][entered] = behind
        return starts


class TransactionIndexScan(IndexScan):
    """All transaction indexes below a directory; rows as in `ABORTED_ROW`."""


def scan_offset_indexes(path: AnyPath) -> OffsetIndexScan:
    """Read every ``.index`` of a partition directory, or of a whole log directory.

    Files and directories that are about to go (``.deleted``, ``-delete``, ...) are
    left out, unless the partition's directory is itself given.

    Raises
    ------
    NotALogDirectoryError
        If `path` is neither.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> index = OffsetIndex.build([510, 520], [4096, 8192], base_offset=500)
    >>> with tempfile.TemporaryDirectory(suffix="-0") as folder:
    ...     _ = Path(folder, f"{500:020}.index").write_bytes(index.to_bytes())
    ...     scan = scan_offset_indexes(folder)
    >>> scan, scan.entries["offset"]
    (OffsetIndexScan(2 entries of 1 segments, 0 problems), array([510, 520]))
    >>> scan.lookup(scan.topics[0], 0, [505, 515, 499])
    array([(500,    0), (500, 4096), ( -1,   -1)],
          dtype=[('base_offset', '<i8'), ('position', '<i8')])
    """
    return _scan(path, _OFFSETS)


def scan_time_indexes(path: AnyPath) -> TimeIndexScan:
    """Read every ``.timeindex``; otherwise as `scan_offset_indexes`."""
    return _scan(path, _TIMES)


def scan_transaction_indexes(path: AnyPath) -> TransactionIndexScan:
    """Read every ``.txnindex``; otherwise as `scan_offset_indexes`."""
    return _scan(path, _ABORTED)


def partition_keys(
    topics: npt.NDArray[np.signedinteger], partitions: npt.NDArray[np.signedinteger]
) -> Column:
    """Pack topic codes and partitions (from -1) into one int64 each, in their order."""
    return (topics.astype(np.int64) << 32) + partitions + 1


class _Segment(NamedTuple):
    """A segment of a scan, and its index file if there is one."""

    topic: int
    partition: int
    base_offset: int
    path: str | RemotePath | None


ScanT = TypeVar("ScanT", bound=IndexScan)
Data = npt.NDArray[np.uint8]
_NOTHING: Final[Data] = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class _Kind(Generic[ScanT]):
    """One of the three kinds of index: how it is called, read and widened."""

    extension: FileKind
    table: type[IndexTable]
    row: np.dtype[np.void]
    scan: type[ScanT]
    fill: Callable[[Data, _Segment, Rows], object]


def _fill_offsets(data: Data, segment: _Segment, rows: Rows) -> None:
    topic, partition, base, _ = segment
    out = rows.view(np.int64).reshape(-1, 4)
    _speedups.widen_slots(data, 8, 4, 4, base, 0, topic | partition << 32, base, out)


def _fill_times(data: Data, segment: _Segment, rows: Rows) -> None:
    topic, partition, base, _ = segment
    out = rows.view(np.int64).reshape(-1, 4)
    _speedups.widen_slots(data, 12, 8, 4, 0, base, topic | partition << 32, base, out)


def _fill_aborted(data: Data, segment: _Segment, rows: Rows) -> None:
    entries = data[: len(rows) * TransactionIndex.ENTRY.itemsize]
    for name in ABORTED_FIELDS:
        rows[name] = entries.view(TransactionIndex.ENTRY)[name]
    for (name, _), value in zip(_PLACE, segment[:3], strict=True):
        rows[name] = value


_OFFSETS: Final = _Kind(
    "index", OffsetIndex, OFFSET_ROW, OffsetIndexScan, _fill_offsets
)
_TIMES: Final = _Kind("timeindex", TimeIndex, TIME_ROW, TimeIndexScan, _fill_times)
_ABORTED: Final = _Kind(
    "txnindex", TransactionIndex, ABORTED_ROW, TransactionIndexScan, _fill_aborted
)


def _scan(path: AnyPath, kind: _Kind[ScanT]) -> ScanT:
    topics, found = _segments(locate(path), kind.extension)
    problems: list[CorruptIndexError] = []
    read = [_read(segment, kind.table, problems) for segment in found]
    segments = np.zeros(len(found), SEGMENT)
    for slot, segment in enumerate(found):
        segments[slot] = (*segment[:3], 0, 0)
    segments["stop"] = np.cumsum([used for _, used in read])
    segments["start"][1:] = segments["stop"][:-1]
    entries = np.empty(int(segments["stop"][-1]) if len(found) else 0, kind.row)
    end = 0
    for segment, (data, used) in zip(found, read, strict=True):
        if used:
            kind.fill(data, segment, entries[end : end + used])
        end += used
    return kind.scan(entries, segments, topics, tuple(problems))


def _read(
    segment: _Segment, table: type[IndexTable], problems: list[CorruptIndexError]
) -> tuple[Data, int]:
    """Read a segment's index: its bytes, and how many sound entries they begin with."""
    if segment.path is None:
        return _NOTHING, 0
    try:
        data, size = read_slots(segment.path, table.ENTRY.itemsize)
    except CorruptIndexError as error:
        problems.append(error)
        return _NOTHING, 0
    except FileNotFoundError:  # renamed or removed since the directory was listed
        return _NOTHING, 0
    used = table.count_sound(data, segment.base_offset)
    damage = table.find_damage(data, used, size, segment.base_offset)
    if damage is not None:
        problems.append(damage.located(segment.path))
    return data, used


def _segments(path: Location, kind: FileKind) -> tuple[tuple[str, ...], list[_Segment]]:
    """List topics, and the segments of their partitions in order."""
    places = [
        (name.topic, name.partition, files) for name, files in _listed(path, kind)
    ]
    topics = tuple(sorted({topic for topic, _, _ in places}))
    code = {topic: index for index, topic in enumerate(topics)}
    found = [
        _Segment(code[topic], partition, base_offset, files[base_offset])
        for topic, partition, files in sorted(places, key=lambda place: place[:2])
        for base_offset in sorted(files)
    ]
    return topics, found


class _Name(NamedTuple):
    topic: str
    partition: int


def _listed(path: Location, kind: FileKind) -> Iterator[tuple[_Name, Files]]:
    """List the partitions at or below `path`, each with its segments."""
    name = parse_partition_dir(path.resolve().name)
    own = _Name("", -1) if name is None else _Name(name.topic, name.partition)
    files, folders = _entries(path, kind)
    below = [
        (_Name(part.topic, part.partition), folder)
        for folder in folders
        if (part := parse_partition_dir(folder)) is not None and part.state is None
    ]
    if files or (name is not None and not below):
        yield own, files
        return
    if not below:
        raise NotALogDirectoryError(f"no segments and no partitions: {path}")
    for place, folder in below:
        yield place, _entries(path / folder, kind)[0]


def _entries(path: Location, kind: FileKind) -> tuple[Files, list[str]]:
    """List a directory: its segments by base offset with their index, its folders."""
    files: Files = {}
    folders = []
    listed = list(entries(path))
    ends = ".log", f".{kind}"
    names = parse_file_names(one.name for one in listed if one.name.endswith(ends))
    for entry in listed:
        if entry.name.endswith(ends):
            name = names.get(entry.name)
            if name is None or not entry.is_file(follow_symlinks=False):
                continue
            if name.kind == kind:
                files[name.base_offset] = entry.path
            else:
                files.setdefault(name.base_offset, None)
        elif entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
    return files, folders
