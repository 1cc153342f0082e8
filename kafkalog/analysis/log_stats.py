"""`stats`: records and bytes by topic, producer, codec, key, size or hour.

Where headers of batches suffice, no record is decoded: ``topic``, ``partition``,
``segment``, ``producer``, ``codec`` and ``batch_size`` are the same for all records of
a batch. The other groups, and the sizes of keys and values, need the records.

A batch is stored as a whole. So its bytes are divided among its records in proportion
to their sizes, with `MIN_RECORD_BYTES` more for each: a compressed batch has no other
answer to how many bytes one of its records takes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from threading import Lock
from typing import Any, Final, TypeAlias, TypeVar, Unpack

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.analysis.group_totals import GroupTotals, Keys, function_of
from kafkalog.analysis.stats_report import StatsReport, report_of
from kafkalog.array_types import Int64s
from kafkalog.decoding.batch_decoder import RecordViews, decode, find_headers
from kafkalog.decoding.decompression import first_offsets
from kafkalog.decoding.read_policy import ReadPolicy
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, begin_times
from kafkalog.formats.layout import (
    CODEC_MASK,
    MIN_RECORD_BYTES,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
)
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.progress import Progress
from kafkalog.query.header_columns import batch_values
from kafkalog.query.header_counts import count_batches, counting_reader
from kafkalog.query.partition_reader import PartitionReader, ScanProblem, SegmentStep
from kafkalog.query.scan import Scan, ScanArguments, Source, scan
from kafkalog.query.sources import PartitionSource
from kafkalog.query.splits import Split, divide_scan
from kafkalog.renamed import renamed_arguments
from kafkalog.text.close_matches import with_close_matches

StepResult = TypeVar("StepResult")
Rows: TypeAlias = "Mapping[str, npt.NDArray[Any]]"

MAX_GROUPS: Final = 1_000_000
"""Default number of groups above which those with the least bytes are dropped."""

OF_BATCHES: Final = ("topic", "partition", "segment", "producer", "codec", "batch_size")
"""Groups that follow from the headers of batches."""

OF_RECORDS: Final = ("key", "size", "hour", "day")
"""Groups that records are decoded for."""

GROUPS: Final = (*OF_BATCHES, *OF_RECORDS)

HOUR_MS: Final = 60 * 60 * 1000
PERIODS: Final = {"hour": HOUR_MS, "day": 24 * HOUR_MS}

TIMES: Final = ("first_timestamp", "max_timestamp")
OFFSETS: Final = ("first_offset", "last_offset")
SIZES: Final = (
    "uncompressed_bytes",
    "key_bytes",
    "value_bytes",
    "header_bytes",
    "null_values",
)
"""Measures that records are decoded for."""

PART_BYTES: Final = 32 << 20
"""Size of the parts that threads read."""

NOT_OF_STATS: Final = (
    *("columns", "text", "progress"),
    *("keys", "headers", "producer_ids", "sample", "sample_by", "seed"),
)
"""Options of a scan that do not apply."""


@renamed_arguments(most="limit")
def stats(
    source: Source,
    by: str | Iterable[str] = "topic",
    *,
    sizes: bool = False,
    limit: int | None = None,
    max_groups: int = MAX_GROUPS,
    **as_scan: Unpack[ScanArguments],
) -> StatsReport:
    """Return how many records and bytes there are by topic, producer, key, hour, ...

    Parameters
    ----------
    source : path, URL, bytes-like, or list of these
        As for `scan`.
    by : str or iterable of str
        The groups, in this order: ``topic``, ``partition``, ``segment``, ``producer``
        (its id, -1 for none), ``codec``, ``batch_size``, ``key``, ``size``, ``hour`` or
        ``day``. For the first six, only headers of batches are read. Sizes are powers
        of two: 64 stands for 64 to 127 bytes. The size of a record is that of its key,
        value and headers. Hours and days are those of the timestamps, in UTC.
    sizes : bool
        Whether records are decoded even if headers suffice, for the bytes of keys,
        values and headers, null values and uncompressed bytes. The groups of records
        have these in any case.
    limit : int, optional
        Maximum number of groups in the report: those with the most bytes. The others
        are added up in `StatsReport.other`.
    max_groups : int
        Number of groups that bounds the memory. If there are more than twice as many,
        which take about 300 bytes and the key each, those with the least bytes are
        dropped, and `StatsReport.error_bytes` is the greatest number of bytes that may
        be missing in a group. With ``threads``, this holds for each of them.
    **as_scan : ScanArguments
        The options of `scan`, but ``columns`` and ``text``. By default control records
        are counted as well, since they take space. Threads read parts of the logs, and
        are named ``kafkalog-stats``.

    Returns
    -------
    StatsReport
        The groups, their total, and what was skipped.

    Raises
    ------
    TypeError, ValueError
        If a group is unknown or listed twice, or an option is invalid.
    CorruptRecordError
        At damage, unless it is skipped. CRCs are checked of batches that are decoded.

    Examples
    --------
    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> for key in (b"a", b"b", b"a"):
    ...     batch.append(key, b"value", timestamp=1)
    >>> report = kafkalog.stats(batch.build(), by="key")
    >>> report.to_arrow().select(["key", "records", "bytes"]).to_pylist()
    [{'key': b'a', 'records': 2, 'bytes': 67}, {'key': b'b', 'records': 1, 'bytes': 33}]
    """
    if unsupported := sorted(set(as_scan).intersection(NOT_OF_STATS)):
        raise TypeError(f"stats of a scan with {' and '.join(unsupported)}")
    as_scan.setdefault("control_records", True)
    request = scan(source, **as_scan)
    return stats_of(request, by, sizes=sizes, limit=limit, max_groups=max_groups)


def stats_of(
    request: Scan,
    by: str | Iterable[str],
    *,
    sizes: bool = False,
    limit: int | None = None,
    max_groups: int = MAX_GROUPS,
) -> StatsReport:
    """Return the report of `stats` for a scan, whose columns are ignored."""
    chosen = choose_groups(by)
    for name, value in (("limit", limit), ("max_groups", max_groups)):
        if value is not None and value < 1:
            raise ValueError(f"{name} {value}, expected 1 or more")
    needs_records = sizes or not set(OF_BATCHES).issuperset(chosen)
    reading = _StatsReading(
        groups=chosen,
        measures=measures_of(chosen, needs_records=needs_records),
        max_groups=max_groups,
        needs_records=needs_records,
    )
    request = replace(request, problems=[])
    if request.threads == 1:
        totals = reading.no_totals()
        reading.add(request, totals)
    else:
        totals = reading.in_threads(request)
    labels = {"topic": [*reading.topics], "segment": [*reading.segments]}
    return report_of(chosen, totals, labels, limit=limit, problems=request.problems)


def choose_groups(by: str | Iterable[str]) -> tuple[str, ...]:
    """Return valid names of groups, in the same order.

    >>> choose_groups(["topic", "hour"])
    ('topic', 'hour')
    """
    chosen = (by,) if isinstance(by, str) else tuple(by)
    if unknown := [name for name in chosen if name not in GROUPS]:
        named = ", ".join(with_close_matches(name, GROUPS) for name in unknown)
        raise ValueError(f"no such groups: {named}; expected {', '.join(GROUPS)}")
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"groups {chosen}, expected one or more, each once")
    return chosen


def measures_of(groups: Sequence[str], *, needs_records: bool) -> tuple[str, ...]:
    """Return the measures of groups, in the order of the report."""
    of_batches = set(OF_BATCHES).issuperset(groups)
    of_one_log = {"topic", "partition"} <= set(groups)
    return (
        "records",
        *(("batches",) if of_batches else ()),
        "bytes",
        *(SIZES if needs_records else ()),
        *TIMES,
        *(OFFSETS if of_one_log else ()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _StatsReading:
    """Reading of scans as rows to group; topics and segments are numbered."""

    groups: tuple[str, ...]
    measures: tuple[str, ...]
    max_groups: int
    needs_records: bool
    topics: dict[str, int] = field(default_factory=dict)
    segments: dict[str, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def no_totals(self) -> GroupTotals:
        """Return totals without a group."""
        return GroupTotals(
            groups=tuple(name for name in self.groups if name != "key"),
            measures=self.measures,
            max_groups=self.max_groups,
        )

    def in_threads(self, request: Scan) -> GroupTotals:
        """Return the totals of a scan, whose parts are read in threads.

        The threads are named ``kafkalog-stats``, and end with the reading.
        """
        own, every = threading.local(), list[GroupTotals]()

        def add(split: Split) -> list[ScanProblem]:
            if not hasattr(own, "totals"):
                own.totals = self.no_totals()
                every.append(own.totals)
            part = split.scan()
            self.add(part, own.totals)
            return part.problems

        splits = divide_scan(request, PART_BYTES, grows=True)
        sizes = [split.size_in_bytes for split in splits]
        with ThreadPoolExecutor(request.threads, "kafkalog-stats") as pool:
            results = zip(accumulate(sizes), pool.map(add, splits), strict=True)
            for done, problems in results:
                request.problems += problems
                if request.progress is not None:
                    request.progress(done, sum(sizes))
        totals = every.pop() if every else self.no_totals()
        for other in every:
            totals.merge(other)
        return totals

    def add(self, request: Scan, totals: GroupTotals) -> None:
        """Add the rows of a scan to totals; skipped damage goes to its problems."""
        read = self._of_records if self.needs_records else self._of_headers
        for rows, keys in read(request):
            totals.add(rows, keys)

    def _of_headers(self, request: Scan) -> Iterator[tuple[Rows, None]]:
        """Yield a row for each batch with records, mostly from its header."""
        readers = [counting_reader(*each, request.policy) for each in request.sources]
        count = partial(count_batches, problems=request.problems)
        for reader, counted in _reporting(readers, count, request.progress):
            step, records = counted
            rows, records = step.step.rows[records > 0], records[records > 0]
            if len(rows):
                columns = {
                    **self._batch_groups(reader.source, step, rows),
                    "records": records,
                    "batches": np.ones(len(rows), np.int64),
                    "bytes": rows["size_in_bytes"],
                    "first_timestamp": _or_none(begin_times(rows), MAX_INT64),
                    "max_timestamp": _or_none(rows["max_timestamp"], MIN_INT64),
                    "first_offset": self._first_offsets(step, rows, reader.policy),
                    "last_offset": rows["last_offset"],
                }
                yield columns, None

    def _first_offsets(
        self, step: SegmentStep, rows: BatchHeaders, policy: ReadPolicy
    ) -> Int64s:
        """Return the first offset of each batch; wrappers are decompressed for it."""
        if "first_offset" not in self.measures or not (rows["count"] < 0).any():
            return rows["base_offset"]
        data, origin = step.step.data, step.step.origin
        return first_offsets(data, origin, rows, policy.max_batch_bytes)

    def _of_records(self, request: Scan) -> Iterator[tuple[Rows, Keys | None]]:
        """Yield a row for each record, or for each batch if that suffices.

        The rows are valid until the next ones are taken.
        """
        policy = replace(request.policy.checking_first(), needs="records")
        workspace = Workspace()
        of_batches = set(OF_BATCHES).issuperset(self.groups)
        readers = [
            PartitionReader(source=source, bounds=bounds, policy=policy)
            for source, bounds in request.sources
        ]
        steps = PartitionReader.steps
        for reader, step in _reporting(readers, steps, request.progress):
            if isinstance(step, ScanProblem):
                request.problems.append(step)
                continue
            for batches in _decoded(step, policy, workspace, request):
                groups = self._batch_groups(reader.source, step, batches.rows)
                if of_batches:
                    yield batches.of_batches(groups), None
                else:
                    keys = batches.keys if "key" in self.groups else None
                    yield batches.of_records(groups, self.groups), keys

    def _number(self, names: dict[str, int], name: str) -> int:
        """Return the number of a topic or segment."""
        with self._lock:
            return names.setdefault(name, len(names))

    def _batch_groups(
        self, source: PartitionSource, step: SegmentStep, rows: BatchHeaders
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the groups that are the same for all of a batch."""
        columns = dict[str, npt.NDArray[Any]]()
        for name in self.groups:
            if name == "producer":
                columns[name] = rows["producer_id"]
            elif name == "codec":
                columns[name] = batch_values("codec", rows)
            elif name == "batch_size":
                columns[name] = power_of_two(rows["size_in_bytes"])
            elif name in OF_BATCHES:
                value = source.partition
                if name == "topic":
                    value = self._number(self.topics, source.topic)
                elif name == "segment":
                    value = self._number(self.segments, step.segment)
                columns[name] = np.full(len(rows), value, np.int32)
        return columns


def _reporting(
    readers: Sequence[PartitionReader],
    steps: Callable[[PartitionReader], Iterator[StepResult]],
    progress: Progress | None,
) -> Iterator[tuple[PartitionReader, StepResult]]:
    """Yield the steps of readers, each with its reader; report the progress."""
    sizes = [0 if progress is None else reader.size() for reader in readers]
    *before, total = accumulate(sizes, initial=0)
    for reader, done in zip(readers, before, strict=True):
        for step in steps(reader):
            yield reader, step
            if progress is not None:
                progress(min(done + reader.bytes_done, total), total)
    if progress is not None:
        progress(total, total)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DecodedBatches:
    """Decoded records of batches, each of which has at least one.

    `stored` are the bytes of each batch in the file, `uncompressed` those without
    compression. Of a batch that is decoded in parts they are those of the part, and
    only the first part is `counted` as a batch.
    """

    views: RecordViews
    rows: BatchHeaders
    counts: Int64s
    stored: Int64s
    uncompressed: Int64s
    counted: Int64s

    def measures(self) -> dict[str, Int64s]:
        """Return the measures of each record, without those that are divided."""
        records = self.views.records
        offset, time = records["offset"], records["timestamp"]
        return {
            "records": np.ones(len(offset), np.int64),
            "key_bytes": _lengths(records["key_length"]),
            "value_bytes": _lengths(records["value_length"]),
            "header_bytes": header_bytes(self.views),
            "null_values": (records["value_length"] < 0).astype(np.int64),
            "first_timestamp": _or_none(time, MAX_INT64),
            "max_timestamp": _or_none(time, MIN_INT64),
            "first_offset": offset,
            "last_offset": offset,
        }

    def of_batches(self, groups: Rows) -> Rows:
        """Return a row for each batch."""
        starts = np.cumsum(self.counts) - self.counts
        return {
            **groups,
            **{
                name: function_of(name).reduceat(values, starts)
                for name, values in self.measures().items()
            },
            "batches": self.counted,
            "bytes": self.stored,
            "uncompressed_bytes": self.uncompressed,
        }

    @property
    def keys(self) -> Keys:
        """The keys of the records."""
        records = self.views.records
        return Keys(self.views.data, records["key_start"], records["key_length"])

    def of_records(self, groups: Rows, names: Sequence[str]) -> Rows:
        """Return a row for each record, with the groups of records in `names`."""
        measures, counts = self.measures(), self.counts
        sizes = measures["key_bytes"] + measures["value_bytes"]
        sizes += measures["header_bytes"]
        weights = sizes + MIN_RECORD_BYTES
        rows = {
            **{name: np.repeat(groups[name], counts) for name in groups},
            **measures,
            "bytes": divide_among(self.stored, weights, counts),
            "uncompressed_bytes": divide_among(self.uncompressed, weights, counts),
        }
        records = self.views.records
        for name in names:
            if name == "size":
                rows[name] = power_of_two(sizes)
            elif name in PERIODS:
                rows[name] = periods(records["timestamp"], PERIODS[name])
        return rows


@dataclass(slots=True)
class _BatchParts:
    """The parts of large batches, which are decoded one after another."""

    position: int = -1
    """That of the batch whose parts are decoded."""
    records: int = 0
    """Its records so far."""

    def add(self, part: np.void, whole: np.void) -> tuple[bool, int]:
        """Return whether a part is its batch's first, and its part of the bytes.

        The bytes of the batch are divided by the number of records.
        """
        position, count = int(part["position"]), int(whole["count"])
        is_first = position != self.position
        before = 0 if is_first else self.records
        self.position, self.records = position, before + int(part["count"])
        size = int(whole["size_in_bytes"])
        return is_first, size * self.records // count - size * before // count


def _decoded(
    step: SegmentStep, policy: ReadPolicy, workspace: Workspace, scan: Scan
) -> Iterator[_DecodedBatches]:
    """Decode the batches of a step; what is skipped goes to the problems of the scan.

    A result is valid until the next is taken.
    """
    parts = _BatchParts()
    for views in decode(
        step.step.data,
        step.step.origin,
        step.step.rows,
        bounds=step.bounds,
        limit=policy.max_batch_bytes,
        workspace=workspace,
        before=step.step.before,
        split_large=True,
    ):
        if isinstance(views, LocatedError):
            scan.problems.append(step.skip(views, policy))
            continue
        kept = views.counts > 0
        rows, counts = views.rows[kept], views.counts[kept]
        assert views.lengths is not None  # they are those of `find_records`
        whole = step.step.rows[step.indexes_of(rows)]
        stored = whole["size_in_bytes"].copy()
        of_messages = whole["magic"] < 2
        single = of_messages & (whole["attributes"] & CODEC_MASK == 0)
        uncompressed = views.lengths[kept] + np.where(
            of_messages, 0, RECORD_BATCH_OVERHEAD
        )
        uncompressed[single] = stored[single]
        counted = np.ones(len(rows), np.int64)
        if len(rows) == 1 and rows["count"][0] < whole["count"][0]:
            is_first, stored[0] = parts.add(rows[0], whole[0])
            if not is_first:
                counted[0] = 0
                uncompressed[0] -= RECORD_BATCH_OVERHEAD
        yield _DecodedBatches(
            views=views,
            rows=rows,
            counts=counts,
            stored=stored,
            uncompressed=uncompressed,
            counted=counted,
        )


def divide_among(totals: Int64s, weights: Int64s, counts: Int64s) -> Int64s:
    """Divide each total among its records in proportion to their weights.

    Record i of a total has the part between the cumulative weights before and after it,
    rounded down, so that the parts add up to the total. `counts` are the records of
    each total.

    >>> divide_among(np.array([10, 5]), np.array([1, 1, 1, 2]), np.array([3, 1]))
    array([3, 3, 4, 5])
    """
    parts = np.empty(len(weights), np.int64)
    done = _speedups.divide_totals(totals, weights, counts, parts)
    assert done == len(weights)
    return parts


def power_of_two(sizes: npt.NDArray[Any]) -> Int64s:
    """Return the greatest power of two that is not above each size; 0 for 0.

    >>> power_of_two(np.array([0, 1, 2, 3, 4, 1023]))
    array([  0,   1,   2,   2,   4, 512])
    """
    _, exponents = np.frexp(sizes.astype(np.float64))
    return np.where(sizes > 0, 1 << np.maximum(exponents - 1, 0).astype(np.int64), 0)


def periods(timestamps: Int64s, length_ms: int) -> Int64s:
    """Return the beginning of the period of each timestamp; `MIN_INT64` for none.

    >>> periods(np.array([7_199_999, -1]), 3_600_000).tolist()
    [3600000, -9223372036854775808]
    """
    begins = timestamps // length_ms * length_ms
    return np.where(timestamps == NO_TIMESTAMP, MIN_INT64, begins)


def header_bytes(views: RecordViews) -> Int64s:
    """Return the bytes of the keys and values of each record's headers."""
    if not views.records["header_count"].any():
        return np.zeros(len(views.records), np.int64)
    offsets, (_, keys, _, values) = find_headers(views)
    reached = np.concatenate(([0], np.cumsum(_lengths(keys) + _lengths(values))))
    return np.diff(reached[offsets])


def _lengths(lengths: npt.NDArray[np.int32]) -> Int64s:
    """Return lengths where null has none."""
    return np.maximum(lengths, 0).astype(np.int64)


def _or_none(timestamps: Int64s, none: int) -> Int64s:
    return np.where(timestamps == NO_TIMESTAMP, none, timestamps)
