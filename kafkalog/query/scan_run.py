"""One run of a scan: steps are read and decoded in order, or ahead in threads.

The CRCs of ordinary batches are checked while they are decoded. At a mismatch all steps
read ahead are discarded, and the run resumes from that batch with CRCs checked before
decoding: only the reader of the file can find the next valid batch.

A thread decodes the step that it has read, while its processor's caches have the bytes.
The steps of a file are read one after another, as each ends at a batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, pairwise
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from kafkalog.array_types import Bools, Bytes, Int64s
from kafkalog.decoding.batch_decoder import DecodedRecords, decode
from kafkalog.decoding.decoded_columns import (
    ColumnBuffers,
    ColumnWorkspace,
    DecodedColumns,
    RecycledMemory,
    gather_columns,
)
from kafkalog.decoding.read_policy import Bounds, ReadPolicy
from kafkalog.decoding.workspace import DecodeWorkspace, Workspace
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.progress import Progress
from kafkalog.query.conditions import ANYTHING, BatchCondition
from kafkalog.query.header_counts import without_gaps
from kafkalog.query.partition_reader import PartitionReader, ScanProblem, SegmentStep
from kafkalog.query.record_filter import (
    EVERY_RECORD,
    RecordFilter,
    at_offsets,
    taken,
)
from kafkalog.query.records import Origin, Records, make_records, make_views
from kafkalog.query.scan_columns import COLUMNS
from kafkalog.query.sources import PartitionSource
from kafkalog.segment.file_records import Step
from kafkalog.storage.buffers import KeptBuffer, Take

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

HEADER_COLUMNS: Final = frozenset(COLUMNS) - {"key", "value", "headers", "timestamp"}
"""Columns that follow from a batch header and the offset within its batch."""

MAX_RECORDS: Final = 1 << 17
"""Maximum number of records of a chunk made from headers."""

MAX_INTERVALS: Final = 16
"""Maximum number of intervals that a step is split into; else all of it is decoded."""


class CrcMismatch(NamedTuple):
    """A batch found damaged while decoding, from which the run is to resume."""

    partition: int
    step: SegmentStep
    position: int


class DecodeTask(NamedTuple):
    """A step to decode, its origin, and the number of its partition.

    `bytes_done` are the bytes of the partition up to the end of the step. `latest` are
    the offsets of the latest records, if no others are requested.
    """

    step: SegmentStep
    origin: Origin
    partition: int
    bytes_done: int
    latest: Int64s | None = None


class BytesDone(NamedTuple):
    """How much of a partition has been read and decoded."""

    partition: int
    bytes_done: int


Task: TypeAlias = DecodeTask | ScanProblem
Result: TypeAlias = Records[Any] | ScanProblem | BaseException | CrcMismatch | BytesDone
DecodeStep: TypeAlias = Callable[[Task], list[Result]]
"""Function that returns the results of a task."""

Results: TypeAlias = Generator[Iterable[Result], None, None]
"""The results of each task, in order."""

ResultsFrom: TypeAlias = Callable[[CrcMismatch | None], Results]
"""Function that returns the results from a mismatch on; None stands for the start."""

Report: TypeAlias = Callable[[BytesDone | None], None]
"""Function that reports the progress; None stands for the end."""


@dataclass(slots=True, kw_only=True)
class ScanRun:
    """One run of a scan, which appends what it skips to `problems`."""

    sources: Sequence[tuple[PartitionSource, Bounds]]
    columns: tuple[str, ...]
    policy: ReadPolicy
    problems: list[ScanProblem]
    condition: BatchCondition = ANYTHING
    filter: RecordFilter = EVERY_RECORD
    progress: Progress | None = None
    reuse: bool = False
    views: bool = False

    def __post_init__(self) -> None:
        policy = self.policy
        header_only = HEADER_COLUMNS.issuperset(self.columns)
        header_only &= not (policy.skips or self.views or self.filter.of_records)
        if policy.needs == "headers" and not header_only:
            self.policy = replace(policy, needs="records")
        elif policy.needs == "headers":
            self.policy = policy.checking_first()

    def in_order(self) -> Iterator[Records]:
        """Yield chunks, each step read and decoded when it is requested."""
        views_stay = self.views and not self.reuse
        buffers = ColumnBuffers(kept=self.reuse)
        workspace = self._workspace(buffers, stays=views_stay)
        take = RecycledMemory().take_bytes if views_stay else KeptBuffer().take

        def results_from(mismatch: CrcMismatch | None) -> Results:
            for task in self._tasks(take, mismatch):
                yield self._decode(task, workspace, buffers)

        return self._chunks(results_from)

    def in_threads(self, threads: int) -> Iterator[Records]:
        """Yield chunks in order, with some steps read and decoded ahead in threads.

        The threads are named ``kafkalog-scan``, and end with the run.
        """
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(threads, "kafkalog-scan") as pool:
            yield from self._chunks(partial(self._ahead, pool, threads))

    def _chunks(self, results_from: ResultsFrom) -> Iterator[Records]:
        """Yield records; resume at each CRC mismatch, and report the progress."""
        report = self._reporter()
        mismatch = yield from self._until_mismatch(results_from(None), report)
        while mismatch is not None:
            mismatch = yield from self._until_mismatch(results_from(mismatch), report)
        report(None)

    def _until_mismatch(
        self, results: Results, report: Report
    ) -> Generator[Records, None, CrcMismatch | None]:
        """Yield records and list problems; return the batch to resume from, if any."""
        with closing(results):
            for result in chain.from_iterable(results):
                if isinstance(result, BaseException):
                    raise result
                if isinstance(result, CrcMismatch):
                    return result
                if isinstance(result, ScanProblem):
                    self.problems.append(result)
                elif isinstance(result, BytesDone):
                    report(result)
                else:
                    yield result
        return None

    def _reporter(self) -> Report:
        """Return the function that reports the progress to the caller."""
        progress = self.progress
        if progress is None:
            return lambda _done: None
        numbers = range(len(self.sources))
        sizes = [self._reader(i, KeptBuffer().take).size() for i in numbers]
        *before, total = accumulate(sizes, initial=0)

        def report(done: BytesDone | None) -> None:
            if done is None:
                progress(total, total)
            else:
                read = before[done.partition] + done.bytes_done
                progress(min(read, total), total)

        return report

    def _reader(self, partition: int, take: Take) -> PartitionReader:
        source, bounds = self.sources[partition]
        return PartitionReader(
            source=source,
            bounds=bounds,
            policy=self.policy,
            condition=self.condition,
            filter=self.filter,
            take=take,
            headers_suffice=self._headers_suffice,
        )

    def _headers_suffice(self, rows: BatchHeaders, bounds: Bounds) -> Bools:
        return without_gaps(rows, bounds, self.policy.max_batch_bytes)

    def _tasks(self, take: Take, mismatch: CrcMismatch | None) -> Iterator[Task]:
        """Yield the steps to decode and what is skipped, from a mismatch on."""
        first = 0 if mismatch is None else mismatch.partition
        for i in range(first, len(self.sources)):
            reader, source = self._reader(i, take), self.sources[i][0]
            if mismatch is not None and mismatch.partition == i:
                reader = reader.resumed(mismatch.step, mismatch.position)
            latest = None
            if self.filter.latest is not None:
                latest = self.filter.latest.offsets_in(source)
            for step in reader.steps():
                if isinstance(step, ScanProblem):
                    yield step
                else:
                    origin = Origin(source.topic, source.partition, (step.segment,))
                    yield DecodeTask(step, origin, i, reader.bytes_done, latest)

    def _workspace(
        self, buffers: ColumnBuffers, *, stays: bool
    ) -> DecodeWorkspace[Any]:
        """Return a workspace; with `stays`, the bytes of views stay valid."""
        if self.views or self.filter.of_records:
            return Workspace(keeps_bytes=not stays)
        return ColumnWorkspace(self.columns, buffers)

    def _decode(
        self, task: Task, workspace: DecodeWorkspace[Any], buffers: ColumnBuffers
    ) -> Iterator[Result]:
        """Yield the records of a step, up to a CRC mismatch, or a problem."""
        if isinstance(task, ScanProblem):
            yield task
            return
        step = task.step.step
        parts = iter([(step, False)])
        if self.policy.needs == "headers":
            suffice = self._headers_suffice(step.rows, task.step.bounds)
            parts = split_step(step, suffice)
        for part, header_only in parts:
            if not header_only:
                yield from self._decode_records(task, part, workspace, buffers)
                continue
            for run in offsets_of_batches(part.data, part.rows):
                yield make_records(run, task.origin, self.columns, buffers)
        yield BytesDone(task.partition, task.bytes_done)

    def _decode_records(
        self,
        task: DecodeTask,
        step: Step,
        workspace: DecodeWorkspace[Any],
        buffers: ColumnBuffers,
    ) -> Iterator[Records[Any] | ScanProblem | CrcMismatch]:
        """Yield the records of batches that are decoded, up to a CRC mismatch."""
        results = decode(
            step.data,
            step.origin,
            step.rows,
            bounds=task.step.bounds,
            limit=self.policy.max_batch_bytes,
            workspace=workspace,
            before=step.before,
            split_large=True,
            check=step.crcs_deferred,
        )
        for run in results:
            if not isinstance(run, LocatedError):
                yield from self._made(run, task, buffers)
            elif run.cause == "crc":
                assert run.position is not None  # every batch has one
                yield CrcMismatch(task.partition, task.step, run.position)
                return
            else:
                yield task.step.skip(run, self.policy)

    def _made(
        self, run: DecodedRecords[Any], task: DecodeTask, buffers: ColumnBuffers
    ) -> Iterator[Records[Any]]:
        """Yield a chunk of the decoded records that the filter selects, if any."""
        origin = task.origin
        if task.latest is not None:
            run = taken(run, at_offsets(run, task.latest))
        if self.filter.of_records:
            matches = self.filter.matches(run, origin.topic, origin.partition)
            run = taken(run, matches)
            if not len(run.records):
                return
            if not self.views:
                run = gather_columns(run, self.columns, buffers)
        make = make_views if self.views else make_records
        yield make(run, origin, self.columns, buffers)

    def _ahead(
        self, pool: ThreadPoolExecutor, threads: int, mismatch: CrcMismatch | None
    ) -> Results:
        """Yield the results of tasks in order, which threads do ahead.

        While the caller has the records of one step, each thread has another. More
        steps ahead would need more memory than the caches have.
        """
        memory = RecycledMemory()
        tasks = self._tasks(memory.take_bytes, mismatch)
        queue = _TaskQueue(tasks, self._thread_decoder(memory), pool, threads)
        try:
            for _ in range(threads + 1):
                queue.allow_one()
            while (done := queue.get()) is not None:
                yield done
                queue.allow_one()
        finally:
            queue.stop()

    def _thread_decoder(self, memory: RecycledMemory) -> DecodeStep:
        """Return the function that decodes a step in a thread's own workspace."""
        own = threading.local()

        def decode_step(task: Task) -> list[Result]:
            if not hasattr(own, "workspace"):
                own.buffers = ColumnBuffers(kept=False, memory=memory)
                own.workspace = self._workspace(own.buffers, stays=True)
            return list(_with_error(self._decode(task, own.workspace, own.buffers)))

        return decode_step


class _TaskQueue:
    """Tasks in their order, which threads read in turn and decode side by side.

    As many tasks are read ahead as are allowed. A thread does one after another while
    there are any, as to wake it for each would take longer, and never waits for more:
    it would keep an interpreter from ending whose script leaves a reading unfinished.
    """

    def __init__(
        self,
        tasks: Iterator[Task],
        decode_step: DecodeStep,
        pool: ThreadPoolExecutor,
        threads: int,
    ) -> None:
        self._tasks = tasks
        self._decode_step = decode_step
        self._pool = pool
        self._idle = threads
        self._allowed = 0
        self._changing = threading.Lock()  # the two numbers
        self._reading = threading.Lock()
        self._done: SimpleQueue[SimpleQueue[list[Result] | None]] = SimpleQueue()

    def allow_one(self) -> None:
        """Let the threads read one more task ahead."""
        with self._changing:
            self._allowed += 1
            if not self._idle:
                return
            self._idle -= 1
        self._pool.submit(self._work)

    def get(self) -> list[Result] | None:
        """Wait for the next task, and return its results; None at the end."""
        return self._done.get().get()

    def stop(self) -> None:
        """Let no thread begin to read another task."""
        with self._changing:
            self._allowed = 0

    def _work(self) -> None:
        """Do the tasks that are allowed, in one of the threads."""
        while self._takes_one():
            self._next()

    def _takes_one(self) -> bool:
        with self._changing:
            if self._allowed:
                self._allowed -= 1
                return True
            self._idle += 1
            return False

    def _next(self) -> None:
        """Read and decode the next task."""
        done: SimpleQueue[list[Result] | None] = SimpleQueue()  # cheaper than a future
        try:
            with self._reading:
                self._done.put(done)
                task = next(self._tasks, None)
            done.put(None if task is None else self._decode_step(task))
        except BaseException as error:  # for the caller, who waits for this task
            done.put([error])


def _with_error(results: Iterator[Result]) -> Iterator[Result]:
    """Yield results, and the error that ends them instead of raising it."""
    try:
        yield from results
    except LocatedError as error:
        yield error


def split_step(step: Step, header_only: Bools) -> Iterator[tuple[Step, bool]]:
    """Split a step into intervals of batches whose headers suffice, and of others."""
    rows, before = step.rows, step.before
    changes = np.flatnonzero(header_only[1:] != header_only[:-1]) + 1
    if len(changes) >= MAX_INTERVALS:
        yield step, False
        return
    for first, end in pairwise((0, *changes.tolist(), len(rows))):
        if first and step.before is not None:
            before = int(rows["last_offset"][first - 1])
        part = replace(step, rows=rows[first:end], before=before)
        yield part, bool(header_only[first])


def offsets_of_batches(
    data: Bytes, rows: BatchHeaders
) -> Iterator[DecodedRecords[DecodedColumns]]:
    """Yield the offsets of batches without gaps, from their headers.

    >>> from kafkalog import RecordBatchBuilder
    >>> from kafkalog.formats.batch_headers import scan_headers
    >>> batch = RecordBatchBuilder(base_offset=7)
    >>> for value in (b"one", b"two", b"three"):
    ...     batch.append(None, value, timestamp=1)
    >>> data = np.frombuffer(batch.build(), np.uint8)
    >>> rows, _, _ = scan_headers(data)
    >>> [run.records.offset.tolist() for run in offsets_of_batches(data, rows)]
    [[7, 8, 9]]
    """
    counts = rows["count"].astype(np.int64)
    ends = np.cumsum(counts)
    starts = ends - counts
    shifts = rows["base_offset"] - starts  # from a record's number to its offset
    total = int(ends[-1])
    for start in range(0, total, MAX_RECORDS):
        stop = min(start + MAX_RECORDS, total)
        first, last = np.searchsorted(ends, (start, stop - 1), side="right").tolist()
        held = slice(first, last + 1)
        parts = np.minimum(ends[held], stop) - np.maximum(starts[held], start)
        offset = np.arange(start, stop)
        if (shifts[held] == shifts[first]).all():
            offset += shifts[first]
        else:
            offset += np.repeat(shifts[held], parts)
        yield DecodedRecords(data, rows[held], DecodedColumns(offset), parts)
