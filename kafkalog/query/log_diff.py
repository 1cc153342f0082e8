"""`diff`: the comparison of two copies of the same partitions.

Both sides are read in order of offsets, with all CRCs checked. While they have the same
batches, bytes are compared, and nothing is decoded. Where batches differ, records are
decoded on both sides, until both reach the end of a batch at the same offset:

    a  | 0 .. 9 | 10 .. 19 |      20 .. 29     | 30 .. 39 |
    b  | 0 .. 9 | 10 .. 19 | 20 .. 24 | 25..29 | 30 .. 39 |
       bytes               records             bytes

At most a step of each side, and a chunk of its records, are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Bytes, Int64s
from kafkalog.decoding.batch_decoder import decode
from kafkalog.decoding.decoded_columns import ColumnBuffers, ColumnWorkspace
from kafkalog.decoding.read_policy import Bounds, ReadPolicy
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, has_count
from kafkalog.formats.layout import (
    MAX_BATCH_BYTES,
    NO_LEADER_EPOCH,
)
from kafkalog.integer_limits import MAX_INT64
from kafkalog.log.reading.log_segments import list_first, list_segments
from kafkalog.log.reading.remote_offsets import MissingStart, find_missing_start
from kafkalog.parallel import mapping
from kafkalog.query.diff_report import DiffReport, PartitionDiff
from kafkalog.query.log_contents import contents_of
from kafkalog.query.partition_reader import PartitionReader, ScanProblem, SegmentStep
from kafkalog.query.record_differences import (
    COMPARED,
    differing_columns,
    match_offsets,
)
from kafkalog.query.records import Origin, Records, make_records
from kafkalog.query.sources import PartitionSource, find_sources
from kafkalog.storage.location import AnyPath, locate
from kafkalog.storage.log_directory import (
    Numbers,
    PartitionSelection,
    Topics,
    is_partition,
)

POLICY: Final = ReadPolicy(on_corruption="skip", control_records=True)
COLUMNS: Final = ("offset", *COMPARED)
SAME_BATCH: Final = ("size_in_bytes", "base_offset", "crc", "leader_epoch", "magic")
MAX_COMPARISONS: Final = 5
"""Comparisons of a partition while retention raises its log start offset."""

MAX_GROUP: Final = 1024
"""Maximum number of batches that are decoded together."""

SHOWN: Final = 3
"""Maximum number of problems of a side that are named."""

Key = tuple[str, int]


def diff(
    a: AnyPath,
    b: AnyPath,
    *,
    compare_bytes: bool = False,
    topics: Topics = None,
    exclude_topics: Topics = None,
    partitions: Numbers = None,
    threads: int = 1,
) -> DiffReport:
    """Compare two replicas, or a backup and its source, partition by partition.

    Records are equal if they have the same offset, leader epoch, timestamp, key, value,
    headers and producer, whatever their batches, compression and segments. Nothing is
    written. Batches without records are ignored.

    The sides are compared from the higher of their log start offsets on. Corrupt
    batches make a partition differ, and are named in `why`.

    Parameters
    ----------
    a, b : path or URL
        Two log directories, or the directories of two partitions, which are then
        compared whatever their names.
    compare_bytes : bool
        Whether to compare batches byte for byte, as they are in replicas that were not
        compacted.
    topics, exclude_topics : str or iterable of str, optional
        Only these topics, and not these; ``*``, ``?`` and ``[...]`` match as in a
        shell.
    partitions : int or iterable of int, optional
        Only partitions with these numbers.
    threads : int
        Number of partitions that are compared at the same time. The threads end with
        the call.

    Returns
    -------
    DiffReport
        A row for each partition, those that only one side has included.

    Raises
    ------
    FileNotFoundError, NotALogDirectoryError
        If a path is missing or is neither a partition nor a log directory, or if no
        partition matches a topic or a number.

    Examples
    --------
    >>> import tempfile
    >>> import kafkalog
    >>> with tempfile.TemporaryDirectory() as root:
    ...     for side, values in (("a", [b"one", b"two"]), ("b", [b"one"])):
    ...         with kafkalog.open(f"{root}/{side}/t-0", "a") as log:
    ...             for value in values:
    ...                 batch = kafkalog.RecordBatchBuilder()
    ...                 batch.append(None, value, timestamp=1700000000000)
    ...                 _ = log.append(batch.build())
    ...     report = kafkalog.diff(f"{root}/a", f"{root}/b")
    >>> report.partitions[0].why
    'b is behind: it ends at offset 1, a at offset 2'
    """
    pairs = _pairs(a, b)
    keys = sorted(pairs)
    chosen = PartitionSelection.of(topics, partitions, exclude_topics).choose(keys)
    with mapping(threads, "diff") as run:
        compared = run(
            lambda key: _compare_pair(key, pairs[key], compare_bytes=compare_bytes),
            [keys[i] for i in chosen],
        )
        return DiffReport(tuple(compared))


def _pairs(
    a: AnyPath, b: AnyPath
) -> dict[Key, tuple[PartitionSource | None, PartitionSource | None]]:
    """Return the partitions of both sides; None where a side has no such partition."""
    places = [locate(a), locate(b)]
    singles = [is_partition(place) for place in places]
    sides = [
        {(source.topic, source.partition): source for source in find_sources(place)}
        for place in places
    ]
    first, second = sides
    if all(singles):
        [(key, source)], [other] = first.items(), second.values()
        return {key: (source, other)}
    return {key: (first.get(key), second.get(key)) for key in {*first, *second}}


def _compare_pair(
    key: Key,
    pair: tuple[PartitionSource | None, PartitionSource | None],
    *,
    compare_bytes: bool,
) -> PartitionDiff:
    """Compare a partition, again if its log start offset was raised meanwhile."""
    for _ in range(MAX_COMPARISONS):
        comparison = _PartitionComparison(key, *pair, compare_bytes=compare_bytes)
        result = comparison.result()
        if result.equal or comparison.starts == _starts(pair):
            break
    return result


def _starts(
    pair: tuple[PartitionSource | None, PartitionSource | None],
) -> list[int | None]:
    """Return the log start offsets of both sides now."""
    return [None if side is None else _log_start(side) for side in pair]


def _log_end(source: PartitionSource) -> int:
    """Return the log end offset, by the headers of the last segment."""
    assert source.directory is not None
    segments = list_segments(source.directory)
    return contents_of(segments[-1]).next_offset if segments else 0


def _log_start(source: PartitionSource) -> int:
    """Return the log start offset: the checkpointed one, or that of the files."""
    assert source.directory is not None
    first = list_first(source.directory)
    base = first[0].base_offset if first else 0
    return max(source.log_start_offset, base, 0)


def _missing_start(source: PartitionSource | None) -> MissingStart | None:
    """Return the offsets before its first segment that the log of a side has."""
    if source is None or source.directory is None:
        return None
    start = source.log_start_offset if source.log_start_offset >= 0 else None
    return find_missing_start(source.directory, list_first(source.directory), start)


class _Side:
    """One side of a comparison: its next batches, or its next decoded records."""

    def __init__(self, name: str, source: PartitionSource | None, start: int) -> None:
        self.name, self.start = name, start
        self.end = start
        self.problems: list[tuple[int, ScanProblem]] = []
        self.rows: BatchHeaders = np.empty(0, np.void)
        self.records: Records | None = None
        self.at = 0  # index of the next record to compare
        self._step: SegmentStep | None = None
        self._bounds = Bounds(start_offset=start)
        self._decoded: Iterator[Records] = iter(())
        self._steps: Iterator[SegmentStep | ScanProblem] = iter(())
        self._workspace = ColumnWorkspace(COLUMNS, ColumnBuffers(kept=False))
        if source is not None:
            self._steps = PartitionReader(
                source=source, bounds=self._bounds, policy=POLICY
            ).steps()

    def has_batches(self) -> bool:
        """Return whether there is a next batch; read the next step if necessary."""
        while not len(self.rows):
            step = next(self._steps, None)
            if step is None:
                return False
            if isinstance(step, ScanProblem):
                self._add(step)
                continue
            self._step = step
            self._bounds = step.bounds  # an earlier segment may have had its first ones
            rows = step.step.rows
            is_next = rows["last_offset"] >= step.bounds.start_offset
            self.rows = rows[is_next & (rows["count"] != 0)]
            self.end = max(self.end, int(rows["last_offset"][-1]) + 1)
        return True

    def has_records(self) -> bool:
        """Return whether there are decoded records that are not compared yet."""
        while self.records is None or self.at == len(self.records):
            self.records, self.at = next(self._decoded, None), 0
            if self.records is None:
                return False
        return True

    def decode(self, count: int) -> bool:
        """Decode up to `count` batches; return whether there is a record."""
        while not self.has_records():
            if not self.has_batches():
                return False
            self._decoded = self._decode(self.take(count))
        return True

    def up_to(self, last: int) -> tuple[int, Int64s]:
        """Return index and offsets of the decoded records up to `last`; move on."""
        assert self.records is not None
        first, offsets = self.at, self.records.offset
        self.at = len(offsets)
        if offsets[-1] > last:
            self.at = first + int(np.searchsorted(offsets[first:], last, side="right"))
        return first, offsets[first : self.at]

    def first_offset(self) -> int:
        """Return the first offset of the next batch."""
        base = int(self.rows["base_offset"][0])
        if base < 0:  # a wrapper's first offset is inside
            decoded = next(self._decode(self.rows[:1]), None)
            base = int(
                self.rows["last_offset"][0] if decoded is None else decoded.offset[0]
            )
        return max(base, self._bounds.start_offset)

    def take(self, count: int) -> BatchHeaders:
        """Return the next batches, and move on."""
        taken, self.rows = self.rows[:count], self.rows[count:]
        return taken

    def bytes_of(self, rows: BatchHeaders) -> Bytes:
        """Return the bytes of batches that follow one another."""
        assert self._step is not None
        step = self._step.step
        start = int(rows["position"][0]) - step.origin
        end = int(rows["position"][-1] + rows["size_in_bytes"][-1]) - step.origin
        return step.data[start:end]

    def count(self, rows: BatchHeaders) -> int:
        """Return the number of records of batches, from their headers if possible."""
        start = self._bounds.start_offset
        known = has_count(rows, MAX_BATCH_BYTES) & (rows["base_offset"] >= start)
        decoded = self._decode(rows[~known]) if not known.all() else ()
        return int(rows["count"][known].sum(dtype=np.int64)) + sum(map(len, decoded))

    def _decode(self, rows: BatchHeaders) -> Iterator[Records]:
        assert self._step is not None
        step = self._step
        results = decode(
            step.step.data,
            step.step.origin,
            rows,
            bounds=self._bounds,
            limit=POLICY.max_batch_bytes,
            workspace=self._workspace,
            split_large=True,
        )
        for run in results:
            if isinstance(run, LocatedError):
                self._add(step.skip(run, POLICY))
            else:
                buffers = ColumnBuffers(kept=False)
                yield make_records(run, Origin(), COLUMNS, buffers)

    def _add(self, problem: ScanProblem) -> None:
        offset = self.end if problem.first_offset is None else problem.first_offset
        self.problems.append((max(offset, self.start), problem))


@dataclass(frozen=True, slots=True)
class _Difference:
    """A difference: its offset, the leader epochs there, and which columns differ.

    The columns are empty where one side has no such record.
    """

    offset: int
    epochs: tuple[int, int]
    columns: tuple[str, ...] = ()


class _PartitionComparison:
    """The comparison of one partition."""

    def __init__(
        self,
        key: Key,
        a: PartitionSource | None,
        b: PartitionSource | None,
        *,
        compare_bytes: bool,
    ) -> None:
        self._key, self._compare_bytes = key, compare_bytes
        self.starts = _starts((a, b))
        start = max(start for start in self.starts if start is not None)
        self._start = start
        self._sides = _Side("a", a, start), _Side("b", b, start)
        self._only = [0, 0]
        self._first: _Difference | None = None
        self._missing = _missing_start(a), _missing_start(b)
        for source, own, side in zip((a, b), self.starts, self._sides, strict=True):
            if source is not None and own is not None and own < start:
                side.end = min(_log_end(source), start)

    def result(self) -> PartitionDiff:
        """Compare the sides, and return the row of the report."""
        self._compare()
        for number, side in enumerate(self._sides):
            self._count_rest(number, side)
        if any(side.end < self._start for side in self._sides):
            self._add(self._start, (NO_LEADER_EPOCH, NO_LEADER_EPOCH))
        first = self._first
        for side in self._sides:
            for offset, _ in side.problems:
                if first is None or offset < first.offset:
                    first = _Difference(offset, (NO_LEADER_EPOCH, NO_LEADER_EPOCH))
        known = [] if first is None else [one for one in first.epochs if one >= 0]
        topic, partition = self._key
        return PartitionDiff(
            topic=topic,
            partition=partition,
            equal=first is None and None not in self.starts and self._misses_the_same,
            first_difference=None if first is None else first.offset,
            leader_epoch=known[0] if known else None,
            records_only_in_a=self._only[0],
            records_only_in_b=self._only[1],
            why="; ".join(
                [*self._reasons(), *self._lost_starts(), *self._not_compared()]
            ),
            not_compared=self._ranges_not_compared(),
        )

    def _compare(self) -> None:
        """Compare up to the end of one side."""
        a, b = self._sides
        group = 1
        while True:
            decoded = [side.has_records() for side in (a, b)]
            if not any(decoded):
                if not (a.has_batches() and b.has_batches()):
                    return
                if _skip_equal(a, b):
                    group = 1
                    continue
                if self._compare_bytes:
                    self._count_batches(a, b)
                    continue
            if not (a.decode(group) and b.decode(group)):
                return
            self._compare_records(a, b)
            group = min(2 * group, MAX_GROUP)

    def _compare_records(self, a: _Side, b: _Side) -> None:
        """Compare decoded records, up to the end of one side's."""
        assert a.records is not None
        assert b.records is not None
        last = min(int(a.records.offset[-1]), int(b.records.offset[-1]))
        (in_a, offsets_a), (in_b, offsets_b) = a.up_to(last), b.up_to(last)
        match_a, match_b = match_offsets(offsets_a, offsets_b)
        columns = differing_columns(
            a.records, match_a + in_a, b.records, match_b + in_b
        )
        differ = np.zeros(len(match_a), np.bool_)
        for column in columns.values():
            differ |= column
        epochs_a = a.records.leader_epoch[in_a:]
        epochs_b = b.records.leader_epoch[in_b:]
        if differ.any():
            i = int(differ.argmax())
            epochs = int(epochs_a[match_a[i]]), int(epochs_b[match_b[i]])
            names = tuple(name for name in columns if columns[name][i])
            self._add(int(offsets_a[match_a[i]]), epochs, names)
        missing_b = np.delete(np.arange(len(offsets_a)), match_a)
        missing_a = np.delete(np.arange(len(offsets_b)), match_b)
        if len(missing_b):
            i = int(missing_b[0])
            self._add(int(offsets_a[i]), (int(epochs_a[i]), NO_LEADER_EPOCH))
        if len(missing_a):
            i = int(missing_a[0])
            self._add(int(offsets_b[i]), (NO_LEADER_EPOCH, int(epochs_b[i])))
        self._only[0] += len(missing_b) + int(differ.sum())
        self._only[1] += len(missing_a) + int(differ.sum())

    def _count_batches(self, a: _Side, b: _Side) -> None:
        """Count the next batches, which differ, of both sides or of the one behind."""
        sides = (a, b)
        lasts = [int(side.rows["last_offset"][0]) for side in sides]
        epochs = [int(side.rows["leader_epoch"][0]) for side in sides]
        firsts = [side.first_offset() for side in sides]
        overlap = max(firsts) <= min(lasts)
        for number, side in enumerate(sides):
            if lasts[number] == min(lasts):
                self._only[number] += side.count(side.take(1))
            elif not overlap:
                epochs[number] = NO_LEADER_EPOCH
        columns = ("bytes",) if overlap else ()
        self._add(min(firsts), (epochs[0], epochs[1]), columns)

    def _count_rest(self, number: int, side: _Side) -> None:
        """Count the records of a side after the end of the other."""
        if not side.decode(1):
            return
        assert side.records is not None
        epochs = [NO_LEADER_EPOCH, NO_LEADER_EPOCH]
        epochs[number] = int(side.records.leader_epoch[side.at])
        self._add(int(side.records.offset[side.at]), (epochs[0], epochs[1]))
        while side.has_records():
            assert side.records is not None
            self._only[number] += len(side.up_to(MAX_INT64)[1])
        while side.has_batches():
            self._only[number] += side.count(side.take(len(side.rows)))

    def _add(
        self, offset: int, epochs: tuple[int, int], columns: tuple[str, ...] = ()
    ) -> None:
        """Add a difference; the one with the lowest offset is reported."""
        if self._first is None or offset < self._first.offset:
            self._first = _Difference(offset, epochs, columns)

    def _reasons(self) -> Iterator[str]:
        """Yield what was found."""
        for side in self._sides:
            for _, problem in side.problems[:SHOWN]:
                yield f"corrupt in {side.name}: {problem}"
            if len(side.problems) > SHOWN:
                yield f"{len(side.problems) - SHOWN} more problems in {side.name}"
        if None in self.starts:
            yield "only in b" if self.starts[0] is None else "only in a"
        elif self._first is not None:
            yield self._difference(self._first)
        elif not any(side.problems for side in self._sides):
            partly = self._ranges_not_compared() or any(self._missing)
            yield f"the same from offset {self._start} on" if partly else "equal"

    def _difference(self, first: _Difference) -> str:
        pairs = self._sides, self._sides[::-1]
        for behind, ahead in pairs:
            if behind.end < self._start:
                return (
                    f"no common offsets: {behind.name} ends at offset {behind.end}, "
                    f"{ahead.name} starts at offset {self._start}"
                )
        for (behind, ahead), only in zip(pairs, self._only, strict=True):
            if not only and first.offset >= behind.end:
                return (
                    f"{behind.name} is behind: it ends at offset {behind.end}, "
                    f"{ahead.name} at offset {ahead.end}"
                )
        epoch_a, epoch_b = first.epochs
        if first.columns and epoch_a != epoch_b:
            return (
                f"diverged at offset {first.offset}: leader epoch {epoch_a} in a, "
                f"{epoch_b} in b"
            )
        if first.columns:
            return f"different {', '.join(first.columns)} at offset {first.offset}"
        missing = "b" if epoch_b == NO_LEADER_EPOCH else "a"
        return f"no record at offset {first.offset} in {missing}"

    @property
    def _misses_the_same(self) -> bool:
        """Whether both sides lack the same offsets at the start of their logs."""
        first, second = self._missing
        return first == second

    def _lost_starts(self) -> Iterator[str]:
        """Yield which offsets at its start a log has, but not its directory."""
        for missing, side in zip(self._missing, self._sides, strict=True):
            if missing is not None:
                yield (
                    f"{side.name} lacks offsets {missing.first_offset} to "
                    f"{missing.last_offset}, which its log has"
                )

    def _ranges_not_compared(self) -> tuple[tuple[int, int], ...]:
        """Return the offsets of one side that are before the log start of the other."""
        starts = [start for start in self.starts if start is not None]
        if len(starts) < len(self.starts) or starts[0] == starts[1]:
            return ()
        return ((min(starts), max(starts) - 1),)

    def _not_compared(self) -> Iterator[str]:
        """Yield which offsets of one side are before the log start of the other."""
        start_a, start_b = self.starts
        if start_a is None or start_b is None or start_a == start_b:
            return
        early, late = ("a", "b") if start_a < start_b else ("b", "a")
        low, high = sorted((start_a, start_b))
        yield (
            f"offsets {low} to {high - 1} of {early} are not compared, as {late} "
            f"starts at offset {high}"
        )


def _skip_equal(a: _Side, b: _Side) -> int:
    """Skip the next batches that are the same on both sides; return their number."""
    count = min(len(a.rows), len(b.rows))
    rows_a, rows_b = a.rows[:count], b.rows[:count]
    same = _follow(rows_a) & _follow(rows_b)
    for name in SAME_BATCH:
        same &= rows_a[name] == rows_b[name]
    if not same.all():
        count = int(same.argmin())
    if count:
        bytes_a, bytes_b = a.bytes_of(rows_a[:count]), b.bytes_of(rows_b[:count])
        unequal = bytes_a != bytes_b
        if unequal.any():
            place = int(rows_a["position"][0]) + int(unequal.argmax())
            count = int(np.searchsorted(rows_a["position"], place, side="right")) - 1
    a.take(count)
    b.take(count)
    return count


def _follow(rows: BatchHeaders) -> npt.NDArray[np.bool_]:
    """Return which batches begin where the one before ends; the first does."""
    follow = np.ones(len(rows), np.bool_)
    ends = rows["position"] + rows["size_in_bytes"]
    follow[1:] = np.logical_and.accumulate(rows["position"][1:] == ends[:-1])
    return follow
