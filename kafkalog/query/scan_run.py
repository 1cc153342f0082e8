"""One run of a scan: steps are decoded in order, or ahead in threads.

The CRCs of ordinary batches are checked while they are decoded. At a mismatch all steps
read ahead are discarded, and the run resumes from that batch with CRCs checked before
decoding: only the reader of the file can find the next valid batch.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from kafkalog.decoding.batch_decoder import DecodedRecords, decode
from kafkalog.decoding.decoded_columns import (
    ColumnBuffers,
    ColumnWorkspace,
    DecodedColumns,
    RecycledMemory,
)
from kafkalog.decoding.read_policy import Bounds, ReadPolicy
from kafkalog.decoding.workspace import DecodeWorkspace, Workspace
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import BatchHeaders, Bytes
from kafkalog.query.conditions import ANYTHING, BatchCondition
from kafkalog.query.header_counts import Bools, without_gaps
from kafkalog.query.partition_reader import PartitionReader, ScanProblem, SegmentStep
from kafkalog.query.records import Origin, Records, make_records, make_views
from kafkalog.query.scan_columns import COLUMNS
from kafkalog.query.sources import PartitionSource
from kafkalog.segment.file_records import Step
from kafkalog.storage.buffers import BufferPool, Take

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

HEADER_COLUMNS: Final = frozenset(COLUMNS) - {"key", "value", "headers", "timestamp"}
"""Columns that follow from a batch header and the offset within its batch."""

MAX_RECORDS: Final = 1 << 17
"""Maximum number of records of a chunk made from headers."""

MAX_INTERVALS: Final = 16
"""Maximum number of intervals that a step is split into; else all of it is decoded."""

Progress = Callable[[int, int], object]


class CrcMismatch(NamedTuple):
    """A batch found damaged while decoding, from which the run is to resume."""

    partition: int
    step: SegmentStep
    position: int


class DecodeTask(NamedTuple):
    """A step to decode, its origin, and the number of its partition."""

    step: SegmentStep
    origin: Origin
    partition: int


Result: TypeAlias = Records[Any] | ScanProblem | Exception | CrcMismatch
Results = list[Result]


@dataclass(slots=True, kw_only=True)
class ScanRun:
    """One run of a scan, which appends what it skips to `problems`."""

    sources: Sequence[tuple[PartitionSource, Bounds]]
    columns: tuple[str, ...]
    policy: ReadPolicy
    problems: list[ScanProblem]
    condition: BatchCondition = ANYTHING
    progress: Progress | None = None
    reuse: bool = False
    views: bool = False

    def __post_init__(self) -> None:
        policy = self.policy
        header_only = HEADER_COLUMNS.issuperset(self.columns)
        header_only &= not (policy.skips or self.views)
        if policy.needs == "headers" and not header_only:
            self.policy = replace(policy, needs="records")
        elif policy.needs == "headers":
            self.policy = policy.checking_first()

    def in_order(self) -> Iterator[Records]:
        """Yield chunks, each step decoded when it is requested."""
        views_stay = self.views and not self.reuse
        buffers = ColumnBuffers(kept=self.reuse)
        workspace = self._workspace(buffers, stays=views_stay)
        take = None if views_stay else BufferPool().take
        tasks = self._tasks(take, None)
        while (task := next(tasks, None)) is not None:
            if isinstance(task, ScanProblem):
                self.problems.append(task)
                continue
            mismatch = yield from self._records(self._decode(task, workspace, buffers))
            if mismatch is not None:
                tasks = self._tasks(take, mismatch)

    def in_threads(self, threads: int) -> Iterator[Records]:
        """Yield chunks in order, with some steps decoded ahead in `threads` threads.

        The threads are named ``kafkalog-scan``, and end with the run.
        """
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(threads, "kafkalog-scan") as pool:
            mismatch = yield from self._ahead(pool, threads, None)
            while mismatch is not None:
                mismatch = yield from self._ahead(pool, threads, mismatch)

    def _reader(self, partition: int, take: Take | None) -> PartitionReader:
        source, bounds = self.sources[partition]
        return PartitionReader(
            source=source,
            bounds=bounds,
            policy=self.policy,
            condition=self.condition,
            take=take,
            headers_suffice=self._headers_suffice,
        )

    def _headers_suffice(self, rows: BatchHeaders, bounds: Bounds) -> Bools:
        return without_gaps(rows, bounds, self.policy.max_batch_bytes)

    def _tasks(
        self, take: Take | None, mismatch: CrcMismatch | None
    ) -> Iterator[DecodeTask | ScanProblem]:
        """Yield the steps to decode and what is skipped; report the progress."""
        progress, numbers = self.progress, range(len(self.sources))
        sizes = [
            0 if progress is None else self._reader(i, None).size() for i in numbers
        ]
        *before, total = accumulate(sizes, initial=0)
        for i in numbers[0 if mismatch is None else mismatch.partition :]:
            reader, source = self._reader(i, take), self.sources[i][0]
            if mismatch is not None and mismatch.partition == i:
                reader = reader.resumed(mismatch.step, mismatch.position)
            for step in reader.steps():
                if isinstance(step, ScanProblem):
                    yield step
                else:
                    origin = Origin(source.topic, source.partition, (step.segment,))
                    yield DecodeTask(step, origin, i)
                if progress is not None:
                    progress(min(before[i] + reader.bytes_done, total), total)
        if progress is not None:
            progress(total, total)

    def _workspace(
        self, buffers: ColumnBuffers, *, stays: bool
    ) -> DecodeWorkspace[Any]:
        """Return a workspace; with `stays`, the bytes of views stay valid."""
        if self.views:
            return Workspace(keeps_bytes=not stays)
        return ColumnWorkspace(self.columns, buffers)

    def _decode(
        self, task: DecodeTask, workspace: DecodeWorkspace[Any], buffers: ColumnBuffers
    ) -> Iterator[Records | ScanProblem | CrcMismatch]:
        """Yield the records of a step, up to a CRC mismatch."""
        step = task.step.step
        if self.policy.needs == "records":
            yield from self._decode_records(task, step, workspace, buffers)
            return
        suffice = self._headers_suffice(step.rows, task.step.bounds)
        for part, header_only in split_step(step, suffice):
            if not header_only:
                yield from self._decode_records(task, part, workspace, buffers)
                continue
            for run in offsets_of_batches(part.data, part.rows):
                yield make_records(run, task.origin, self.columns, buffers)

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
        make = make_views if self.views else make_records
        for run in results:
            if not isinstance(run, LocatedError):
                yield make(run, task.origin, self.columns, buffers)
            elif run.cause == "crc":
                assert run.position is not None  # every batch has one
                yield CrcMismatch(task.partition, task.step, run.position)
                return
            else:
                yield task.step.skip(run, self.policy)

    def _ahead(
        self, pool: ThreadPoolExecutor, threads: int, mismatch: CrcMismatch | None
    ) -> Generator[Records, None, CrcMismatch | None]:
        """Decode steps in threads, until there are none or a CRC differs.

        While the caller has the records of one step, each thread decodes another. More
        steps ahead would need more memory than the caches have.
        """
        buffers, failure = BufferPool(), None
        queue, decode_step = _DecodeQueue(buffers), self._thread_decoder()
        tasks = self._tasks(None if self.views else buffers.take, mismatch)
        try:
            while True:
                try:
                    task = next(tasks)
                except StopIteration:
                    break
                except (LocatedError, OSError) as error:
                    failure = error  # raised after the records before it
                    break
                if isinstance(task, ScanProblem):
                    queue.append(_done([task]))
                else:
                    data = task.step.step.data
                    queue.append(pool.submit(decode_step, task), data)
                mismatch = yield from self._drained(queue, threads)
                if mismatch is not None:
                    return mismatch
            mismatch = yield from self._drained(queue, 0)
        finally:
            queue.cancel()
        if failure is not None and mismatch is None:
            raise failure
        return mismatch

    def _drained(
        self, queue: _DecodeQueue, most: int
    ) -> Generator[Records, None, CrcMismatch | None]:
        """Yield records from the head of the queue, until `most` steps are left."""
        for results in queue.drain(most):
            mismatch = yield from self._records(results)
            if mismatch is not None:
                return mismatch
        return None

    def _thread_decoder(self) -> Callable[[DecodeTask], Results]:
        """Return the function that a thread decodes a step with, in its own memory."""
        own, memory = threading.local(), RecycledMemory()

        def decode_step(task: DecodeTask) -> Results:
            if not hasattr(own, "workspace"):
                own.buffers = ColumnBuffers(kept=False, memory=memory)
                own.workspace = self._workspace(own.buffers, stays=True)
            results: Results = []
            try:
                for result in self._decode(task, own.workspace, own.buffers):
                    results.append(result)
            except LocatedError as error:
                results.append(error)
            return results

        return decode_step

    def _records(
        self, results: Iterable[Result]
    ) -> Generator[Records, None, CrcMismatch | None]:
        """Yield records and list problems; return the batch to resume from, if any."""
        for result in results:
            if isinstance(result, Exception):
                raise result
            if isinstance(result, CrcMismatch):
                return result
            if isinstance(result, ScanProblem):
                self.problems.append(result)
            else:
                yield result
        return None


@dataclass(slots=True)
class _DecodeQueue:
    """Steps in threads, in their order, and the buffers that hold their bytes."""

    buffers: BufferPool
    waiting: deque[tuple[Future[Results], Bytes | None]] = field(default_factory=deque)

    def append(self, future: Future[Results], data: Bytes | None = None) -> None:
        """Append a step; its `data` is held until it is decoded."""
        if data is not None:
            self.buffers.hold(data)
        self.waiting.append((future, data))

    def drain(self, most: int) -> Iterator[Results]:
        """Yield results from the head, waiting for each, until `most` are left."""
        while len(self.waiting) > most:
            future, data = self.waiting.popleft()
            results = future.result()
            if data is not None:
                self.buffers.release(data)
            yield results

    def cancel(self) -> None:
        """Cancel the steps whose results are not needed any more."""
        for future, _ in self.waiting:
            future.cancel()


def _done(results: Results) -> Future[Results]:
    """Return a future that has its result, to keep the order of the queue."""
    from concurrent.futures import Future

    future: Future[Results] = Future()
    future.set_result(results)
    return future


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
