"""`scan_indexes`: all indexes of one kind below a directory, as one array.

The rows of every index, with offsets made absolute, are in one structured array, each
index in its own order; a second array states which rows belong to which segment. Each
file is read once. The directory of a running broker may be scanned: stale entries at
the end of an index are ignored where they contradict those before, and a file that was
removed before it was opened counts as empty.

For a damaged index, the entries before the damage are returned, and the index is listed
in `problems`. A segment without an index of the kind has no rows; this is not a
problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, Literal, NamedTuple, TypeVar, overload

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.array_types import Bytes, Int64s
from kafkalog.errors import CorruptIndexError, NotALogDirectoryError
from kafkalog.indexes.index_table import IndexTable, as_int64, read_slots
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.integer_limits import MIN_INT64
from kafkalog.reports import counted
from kafkalog.storage.file_names import FileKind, parse_file_names, parse_partition_dir
from kafkalog.storage.location import (
    AnyPath,
    Location,
    entries,
    is_directory,
    is_file,
    locate,
)
from kafkalog.storage.remote_source import RemotePath

IndexRows = npt.NDArray[np.void]
Files = dict[int, str | RemotePath | None]
"""Index files by base offset; None for a segment that has none."""

_PLACE: Final = [
    ("topic", np.int32),
    ("partition", np.int32),
    ("base_offset", np.int64),
]
SEGMENT: Final = np.dtype([*_PLACE, ("start", np.int64), ("stop", np.int64)])
"""A segment, and the range of its rows: ``entries[start:stop]``."""

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
    """The rows of many indexes.

    Attributes
    ----------
    entries : ndarray
        A row for each index entry.
    segments : ndarray
        A row for each segment, with the range of its entries (`SEGMENT`).
    topics : tuple of str
        ``topics[code]`` is the name for the ``topic`` code in both arrays.
    problems : tuple of CorruptIndexError
        The damaged files, each with path, position and reason.
    """

    entries: IndexRows
    segments: IndexRows
    topics: tuple[str, ...]
    problems: tuple[CorruptIndexError, ...]

    def __repr__(self) -> str:
        entries = counted(len(self.entries), "entry", "entries")
        segments = counted(len(self.segments), "segment")
        problems = counted(len(self.problems), "problem")
        return f"{type(self).__name__}({entries} of {segments}, {problems})"

    def _partitions(self) -> tuple[Int64s, Int64s, Int64s]:
        """Return a key for each partition, ascending, its first segment and its end."""
        keys = partition_keys(self.segments["topic"], self.segments["partition"])
        first = np.flatnonzero(np.diff(keys, prepend=np.int64(-1)))
        return keys[first], first, np.append(first[1:], len(keys))[: len(first)]

    def _search(self, field: str, segments: Int64s, targets: Int64s) -> Int64s:
        """Return the row of each target in its segment, by a sorted field; -1: none."""
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
    ) -> IndexRows:
        """Return the segments and positions from which to read many offsets.

        Parameters
        ----------
        topics : array_like of str
            Topic names.
        partitions : array_like of int
            Partitions, broadcast against `topics`.
        offsets : array_like of int
            Offsets, broadcast against `topics`.

        Returns
        -------
        ndarray
            Rows as in `FOUND`: the base offset of the segment, and the position in it
            of the greatest entry at or below the offset, else 0. Both are -1 where
            there is no such partition, or all of it is above the offset.

        Examples
        --------
        See `scan_offset_indexes`.
        """
        codes, numbers, targets = np.broadcast_arrays(
            self._codes(topics), as_int64(partitions), as_int64(offsets)
        )
        flat = np.ascontiguousarray(targets).ravel()
        segments = self._segment_of(codes.ravel(), numbers.ravel(), flat)
        rows = self._search("offset", segments, flat)
        result = np.full(len(flat), -1, FOUND)
        known, indexed = np.flatnonzero(segments >= 0), np.flatnonzero(rows >= 0)
        result["base_offset"][known] = self.segments["base_offset"][segments[known]]
        result["position"][known] = 0
        result["position"][indexed] = self.entries["position"][rows[indexed]]
        return result.reshape(targets.shape)

    def _segment_of(self, codes: Int64s, numbers: Int64s, offsets: Int64s) -> Int64s:
        """Return the row of the segment that each offset is in; -1 for none."""
        keys, first, end = self._partitions()
        requested = partition_keys(codes, numbers)
        requested[(numbers < -1) | (numbers > np.iinfo(np.int32).max)] = -1
        which = np.searchsorted(keys, requested)
        which[np.append(keys, -2)[which] != requested] = -1
        segments = np.empty(len(offsets), np.int64)
        bases = self.segments["base_offset"]
        _speedups.search_ranges(bases, first, end, which, offsets, segments)
        return segments

    def _codes(self, topics: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the codes of topics; -1 for a topic without indexes."""
        code = {name: index for index, name in enumerate(self.topics)}
        names = np.asarray(topics, dtype=object)
        codes = [code.get(name, -1) for name in names.ravel().tolist()]
        return np.array(codes, np.int64).reshape(names.shape)


class TimeIndexScan(IndexScan):
    """All time indexes below a directory; rows as in `TIME_ROW`."""

    def start_offsets(self, timestamp: int) -> IndexRows:
        """Return where to start reading each partition for records from a time on.

        Parameters
        ----------
        timestamp : int
            A time in ms since 1970.

        Returns
        -------
        ndarray
            Rows as in `START`, one for each partition. According to the time indexes,
            no record with a timestamp at or above `timestamp` has a lower offset. A
            segment whose time index is empty or missing may hold any timestamp.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> index = TimeIndex.build([1000, 2000], [510, 520], base_offset=500)
        >>> with tempfile.TemporaryDirectory(suffix="-0") as folder:
        ...     name = Path(folder, f"{500:020}.timeindex")
        ...     _ = name.write_bytes(index.to_bytes())
        ...     scan_time_indexes(folder).start_offsets(1500)["offset"]
        array([511])
        """
        segments = self.segments
        targets = np.full(len(segments), timestamp, np.int64)
        targets[targets > MIN_INT64] -= 1  # entries below the time
        rows = self._search("timestamp", np.arange(len(segments)), targets)
        _, first, end = self._partitions()
        entries_below = np.maximum(rows + 1, segments["start"])
        candidate = entries_below < segments["stop"]
        candidate |= segments["start"] == segments["stop"]
        candidate[end - 1] = (
            True  # the last segment may have grown since its last entry
        )
        candidates = np.flatnonzero(candidate)
        chosen = candidates[np.searchsorted(candidates, first)]
        starts = np.empty(len(first), START)
        for name in ("topic", "partition"):
            starts[name] = segments[name][chosen]
        starts["offset"] = segments["base_offset"][chosen]
        entered = np.flatnonzero(rows[chosen] >= 0)
        following = self.entries["offset"][rows[chosen[entered]]] + 1
        starts["offset"][entered] = following
        return starts


class TransactionIndexScan(IndexScan):
    """All transaction indexes below a directory; rows as in `ABORTED_ROW`."""


@overload
def scan_indexes(
    path: AnyPath, kind: Literal["offset"] = "offset"
) -> OffsetIndexScan: ...
@overload
def scan_indexes(path: AnyPath, kind: Literal["time"]) -> TimeIndexScan: ...
@overload
def scan_indexes(
    path: AnyPath, kind: Literal["transaction"]
) -> TransactionIndexScan: ...


def scan_indexes(
    path: AnyPath, kind: Literal["offset", "time", "transaction"] = "offset"
) -> OffsetIndexScan | TimeIndexScan | TransactionIndexScan:
    """Read every index of one kind of a partition, or of a whole log directory.

    Files and directories marked for deletion (``.deleted``, ``-delete``, ...) are
    ignored, unless `path` is the marked directory of a partition.

    Parameters
    ----------
    path : str, path-like or URL
        A partition's directory, or a log directory.
    kind : {"offset", "time", "transaction"}
        Which indexes: ``.index``, ``.timeindex`` or ``.txnindex`` files.

    Returns
    -------
    OffsetIndexScan, TimeIndexScan or TransactionIndexScan
        All entries in one array, and damaged files in `problems`.

    Raises
    ------
    NotALogDirectoryError
        If `path` is neither.
    ValueError
        If `kind` is none of the three.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> from pathlib import Path
    >>> index = OffsetIndex.build([510, 520], [4096, 8192], base_offset=500)
    >>> with tempfile.TemporaryDirectory(suffix="-0") as folder:
    ...     _ = Path(folder, f"{500:020}.index").write_bytes(index.to_bytes())
    ...     kafkalog.scan_indexes(folder, kind="offset").entries["position"]
    array([4096, 8192])
    """
    match kind:
        case "offset":
            return scan_offset_indexes(path)
        case "time":
            return scan_time_indexes(path)
        case "transaction":
            return scan_transaction_indexes(path)
    raise ValueError(f"kind {kind!r}, expected offset, time or transaction")


def scan_offset_indexes(path: AnyPath) -> OffsetIndexScan:
    """Read every ``.index`` of a partition directory, or of a whole log directory.

    Files and directories marked for deletion (``.deleted``, ``-delete``, ...) are
    ignored, unless `path` is the marked directory of a partition.

    Parameters
    ----------
    path : str, path-like or URL
        A partition's directory, or a log directory.

    Returns
    -------
    OffsetIndexScan
        All entries, with `OffsetIndexScan.lookup`.

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
    (OffsetIndexScan(2 entries of 1 segment, 0 problems), array([510, 520]))
    >>> scan.lookup(scan.topics[0], 0, [505, 515, 499])
    array([(500,    0), (500, 4096), ( -1,   -1)],
          dtype=[('base_offset', '<i8'), ('position', '<i8')])
    """
    return _scan(path, _OFFSETS)


def scan_time_indexes(path: AnyPath) -> TimeIndexScan:
    """Read every ``.timeindex``; otherwise as `scan_offset_indexes`.

    Parameters
    ----------
    path : str, path-like or URL
        A partition's directory, or a log directory.

    Returns
    -------
    TimeIndexScan
        All entries, with `TimeIndexScan.start_offsets`.
    """
    return _scan(path, _TIMES)


def scan_transaction_indexes(path: AnyPath) -> TransactionIndexScan:
    """Read every ``.txnindex``; otherwise as `scan_offset_indexes`.

    Parameters
    ----------
    path : str, path-like or URL
        A partition's directory, or a log directory.

    Returns
    -------
    TransactionIndexScan
        All entries: the aborted transactions.
    """
    return _scan(path, _ABORTED)


def partition_keys(
    topics: npt.NDArray[np.signedinteger], partitions: npt.NDArray[np.signedinteger]
) -> Int64s:
    """Return topic codes and partitions (from -1) as one int64 each, in order."""
    return (topics.astype(np.int64) << 32) + partitions + 1


class _IndexedSegment(NamedTuple):
    """A segment of a scan, and its index file if there is one."""

    topic: int
    partition: int
    base_offset: int
    path: str | RemotePath | None


ScanT = TypeVar("ScanT", bound=IndexScan)
_NOTHING: Final[Bytes] = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class _IndexKind(Generic[ScanT]):
    """One of the three kinds of index: its extension, its table, its rows."""

    extension: FileKind
    table: type[IndexTable]
    row: np.dtype[np.void]
    scan: type[ScanT]
    fill: Callable[[Bytes, _IndexedSegment, IndexRows], object]


def _fill_offsets(data: Bytes, segment: _IndexedSegment, rows: IndexRows) -> None:
    topic, partition, base, _ = segment
    out = rows.view(np.int64).reshape(-1, 4)
    fields = (0, 4, base), (4, 4, 0)
    _speedups.widen_slots(data, 8, *fields, topic | partition << 32, base, out)


def _fill_times(data: Bytes, segment: _IndexedSegment, rows: IndexRows) -> None:
    topic, partition, base, _ = segment
    out = rows.view(np.int64).reshape(-1, 4)
    fields = (0, 8, 0), (8, 4, base)
    _speedups.widen_slots(data, 12, *fields, topic | partition << 32, base, out)


def _fill_aborted(data: Bytes, segment: _IndexedSegment, rows: IndexRows) -> None:
    entries = data[: len(rows) * TransactionIndex.ENTRY.itemsize]
    for name in ABORTED_FIELDS:
        rows[name] = entries.view(TransactionIndex.ENTRY)[name]
    for (name, _), value in zip(_PLACE, segment[:3], strict=True):
        rows[name] = value


_OFFSETS: Final = _IndexKind(
    "index", OffsetIndex, OFFSET_ROW, OffsetIndexScan, _fill_offsets
)
_TIMES: Final = _IndexKind("timeindex", TimeIndex, TIME_ROW, TimeIndexScan, _fill_times)
_ABORTED: Final = _IndexKind(
    "txnindex", TransactionIndex, ABORTED_ROW, TransactionIndexScan, _fill_aborted
)


def _scan(path: AnyPath, kind: _IndexKind[ScanT]) -> ScanT:
    topics, partitions = _segments(locate(path), kind.extension)
    problems: list[CorruptIndexError] = []
    read = [_read(segment, kind.table, problems) for segment in partitions]
    segments = np.zeros(len(partitions), SEGMENT)
    for slot, segment in enumerate(partitions):
        segments[slot] = (*segment[:3], 0, 0)
    segments["stop"] = np.cumsum([used for _, used in read])
    segments["start"][1:] = segments["stop"][:-1]
    entries = np.empty(int(segments["stop"][-1]) if len(partitions) else 0, kind.row)
    end = 0
    for segment, (data, used) in zip(partitions, read, strict=True):
        if used:
            kind.fill(data, segment, entries[end : end + used])
        end += used
    return kind.scan(entries, segments, topics, tuple(problems))


def _read(
    segment: _IndexedSegment, table: type[IndexTable], problems: list[CorruptIndexError]
) -> tuple[Bytes, int]:
    """Read a segment's index; return its bytes, and the number of valid entries."""
    if segment.path is None:
        return _NOTHING, 0
    try:
        data, size = read_slots(segment.path, table.ENTRY.itemsize)
    except CorruptIndexError as error:
        problems.append(error)
        return _NOTHING, 0
    except FileNotFoundError:  # renamed or removed since the directory was listed
        return _NOTHING, 0
    used = table.count_valid(data, segment.base_offset)
    damage = table.find_damage(data, used, size, segment.base_offset)
    if damage is not None:
        problems.append(damage.located(segment.path))
    return data, used


def _segments(
    path: Location, kind: FileKind
) -> tuple[tuple[str, ...], list[_IndexedSegment]]:
    """Return the topics, and the segments of their partitions in order."""
    places = [
        (name.topic, name.partition, files) for name, files in _listed(path, kind)
    ]
    topics = tuple(sorted({topic for topic, _, _ in places}))
    code = {topic: index for index, topic in enumerate(topics)}
    partitions = [
        _IndexedSegment(code[topic], partition, base_offset, files[base_offset])
        for topic, partition, files in sorted(places, key=lambda place: place[:2])
        for base_offset in sorted(files)
    ]
    return topics, partitions


class _TopicPartition(NamedTuple):
    topic: str
    partition: int


def _listed(path: Location, kind: FileKind) -> Iterator[tuple[_TopicPartition, Files]]:
    """Yield the partitions at or below `path`, each with its segments."""
    name = parse_partition_dir(path.resolve().name)
    own = (
        _TopicPartition("", -1)
        if name is None
        else _TopicPartition(name.topic, name.partition)
    )
    files, folders = _entries(path, kind)
    below = [
        (_TopicPartition(part.topic, part.partition), folder)
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
    """Return a directory's segments by base offset, with index, and its folders."""
    files: Files = {}
    folders = []
    listed = list(entries(path))
    ends = ".log", f".{kind}"
    names = parse_file_names(
        entry.name for entry in listed if entry.name.endswith(ends)
    )
    for entry in listed:
        if entry.name.endswith(ends):
            name = names.get(entry.name)
            if name is None or not is_file(entry):
                continue
            if name.kind == kind:
                files[name.base_offset] = entry.path
            else:
                files.setdefault(name.base_offset, None)
        elif is_directory(entry):
            folders.append(entry.name)
    return files, folders
