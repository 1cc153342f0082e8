"""`LogCleaner`: compaction of the logs of one or several log directories.

Source: ``LogCleaner.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from sys import float_info
from typing import Final

from kafkalog.cleaner.batch_filter import Observer
from kafkalog.cleaner.cleanable_range import CleanableLog
from kafkalog.cleaner.cleaning_round import Cleaner, CleaningResult
from kafkalog.cleaner.cleaning_states import CleaningStates, failing
from kafkalog.cleaner.corrupt_batches import OnCorruptBatch
from kafkalog.cleaner.throttle import Throttle
from kafkalog.config import BrokerConfig
from kafkalog.decoding.offset_map import OffsetMap
from kafkalog.errors import (
    KafkaLogError,
    LogArgumentError,
    LogCleaningAbortedError,
    LogClosedError,
)
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.log.clock import Scheduler
from kafkalog.log.closing import ClosedAtEnd
from kafkalog.log.ownership import Name
from kafkalog.log.runtime import DISK_FAILURES
from kafkalog.log.writable_log import WritableLog

TASK_NAME: Final = "kafka-log-cleaner-thread-"
NO_LIMIT: Final = float_info.max


class LogCleaner(ClosedAtEnd):
    """A cleaner that compacts logs: it keeps the last record of each key.

    Parameters
    ----------
    logs : mapping of (str, int) to WritableLog
        The logs by topic and partition, such as a `LogManager`. It may change.
    dedupe_buffer_size : int
        Memory of the offset maps of all threads, in bytes; each key takes 24.
    load_factor : float
        Share of an offset map that a round fills.
    io_buffer_size : int
        Memory of the buffers of all threads, in bytes.
    max_bytes_per_second : float
        Maximum rate at which all threads read and write.
    threads : int
        Number of background tasks, each of which runs one round at a time.
    backoff_ms : int
        Time between two runs of a background task.
    on_corruption : {"raise", "skip", "keep"}
        Whether a corrupt batch ends a round with an error, is dropped, or is copied
        byte for byte.
    check_crcs : bool
        Whether a batch whose CRC does not match is corrupt. Kafka's cleaner does not
        check CRCs: it may give corrupt records a valid one.
    max_batch_bytes : int
        Greatest size of a batch, uncompressed. A larger one ends a round with an error
        before it is decompressed; Kafka has no such limit.

    Attributes
    ----------
    observer : callable or None
        Called with the `RemovedRecords` of each chunk of batches. It must be set before
        the first round.
    max_batch_bytes : int
        As the parameter. It may be set before the first round.

    Raises
    ------
    LogArgumentError
        If an offset map is too small for one key.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> from pathlib import Path
    >>> config = kafkalog.LogConfig(cleanup_policy="compact")
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with kafkalog.open(Path(root, "state-0"), "a", config) as log:
    ...         for value in (b"old", b"new"):
    ...             batch = kafkalog.RecordBatchBuilder()
    ...             batch.append(b"key", value)
    ...             _ = log.append(batch.build())
    ...         _ = log.roll()
    ...         _ = log.update_high_watermark(log.log_end_offset)
    ...         result = LogCleaner({("state", 0): log}).clean("state", 0)
    ...         result.messages_read, result.messages_written
    (2, 1)
    """

    def __init__(
        self,
        logs: Mapping[Name, WritableLog],
        *,
        dedupe_buffer_size: int = 128 << 20,
        load_factor: float = 0.9,
        io_buffer_size: int = 512 << 10,
        max_bytes_per_second: float = NO_LIMIT,
        threads: int = 1,
        backoff_ms: int = 15_000,
        on_corruption: OnCorruptBatch = "raise",
        check_crcs: bool = True,
        max_batch_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        self._threads = threads
        self._backoff_ms = backoff_ms
        self._memory = dedupe_buffer_size // max(threads, 1)
        self._load_factor = load_factor
        self._io_buffer_size = io_buffer_size // max(threads, 1) // 2
        self._throttle = Throttle(max_bytes_per_second)
        self._on_corruption = on_corruption
        self._check_crcs = check_crcs
        self.max_batch_bytes = max_batch_bytes
        if self._memory // 24 * load_factor <= 1:
            error = LogArgumentError(
                f"offset map of {self._memory} bytes, expected more for one key"
            )
            error.add_note("Raise dedupe_buffer_size, or lower threads.")
            raise error
        self.states = CleaningStates(logs)
        self.observer: Observer | None = None
        self._free: list[Cleaner] = []  # not in use by a round
        self._is_closed = False

    @classmethod
    def from_config(
        cls, logs: Mapping[Name, WritableLog], broker: BrokerConfig
    ) -> LogCleaner:
        """Return a cleaner with a broker's settings, ``log.cleaner.*``."""
        return cls(
            logs,
            dedupe_buffer_size=broker.log_cleaner_dedupe_buffer_size,
            load_factor=broker.log_cleaner_io_buffer_load_factor,
            io_buffer_size=broker.log_cleaner_io_buffer_size,
            max_bytes_per_second=broker.log_cleaner_io_max_bytes_per_second,
            threads=broker.log_cleaner_threads,
            backoff_ms=broker.log_cleaner_backoff_ms,
        )

    @property
    def uncleanable(self) -> dict[Name, Exception]:
        """The logs that a background round failed on, and the errors.

        They are not compacted until they are opened again.
        """
        return self.states.uncleanable

    def clean(self, topic: str, partition: int) -> CleaningResult | None:
        """Compact a log, whatever its share of dirty bytes.

        Returns
        -------
        CleaningResult or None
            The result of the round; None if there is nothing to compact.

        Raises
        ------
        KeyError
            If there is no such log.
        LogCleaningAbortedError
            If another thread aborted the round.
        LogStateError
            If another thread is compacting the log, or has paused compaction.
        CorruptRecordError, InvalidRecordError
            If a batch is corrupt.
        BatchTooLargeError
            If a batch is larger than `max_batch_bytes`, uncompressed.
        CorruptCheckpointError
            If ``cleaner-offset-checkpoint`` cannot be read; the log is then closed.
        """
        log = self.states.logs[topic, partition]
        cleanable = self.states.take((topic, partition), log.runtime.now_ms())
        return None if cleanable is None else self._clean(cleanable)

    def clean_filthiest(self) -> CleaningResult | None:
        """Compact the dirtiest log of those that are dirty enough.

        These are the logs with ``compact`` in ``cleanup.policy`` whose share of dirty
        bytes is above ``min.cleanable.dirty.ratio``, or in which a record has waited
        for ``max.compaction.lag.ms``.

        Returns
        -------
        CleaningResult or None
            The result of the round; None if no log is dirty enough.

        Raises
        ------
        LogCleaningAbortedError, CorruptRecordError, InvalidRecordError
            As for `clean`.
        BatchTooLargeError, CorruptCheckpointError
            As for `clean`.
        """
        cleanable = self.states.take_filthiest()
        return None if cleanable is None else self._clean(cleanable)

    def _clean(self, cleanable: CleanableLog) -> CleaningResult:
        log, end_offset = cleanable.log, cleanable.first_dirty_offset

        def check() -> None:
            if self._is_closed:
                raise LogCleaningAbortedError("the cleaner was closed")
            log.runtime.check()
            self.states.check(cleanable.name)

        try:
            with failing(log), self._borrowed() as cleaner:
                result = cleaner.clean(cleanable, check, log.runtime.now_ms())
            end_offset = result.end_offset
        finally:
            self.states.end_cleaning(log, end_offset)
        return result

    @contextmanager
    def _borrowed(self) -> Iterator[Cleaner]:
        """Yield buffers for one round; they are reused by later rounds."""
        try:
            cleaner = self._free.pop()
        except IndexError:
            cleaner = Cleaner(
                OffsetMap(self._memory),
                self._io_buffer_size,
                self._load_factor,
                self._throttle,
                self.observer,
                self._on_corruption,
                self._check_crcs,
                self.max_batch_bytes,
            )
        try:
            yield cleaner
        finally:
            self._free.append(cleaner)

    def delete_old_segments(self) -> int:
        """Delete the segments of compacted logs that retention does not keep.

        If the disk of a log fails, the log is closed. After another error it is marked
        as uncleanable.

        Returns
        -------
        int
            The number of deleted segments.
        """
        logs, deleted = self.states.take_deletable(), 0
        try:
            for log in logs.values():
                try:
                    with suppress(LogClosedError, OSError):
                        deleted += log.delete_old_segments()
                except KafkaLogError as error:
                    self.states.mark_uncleanable(log, error)
        finally:
            self.states.end_work(logs)
        return deleted

    # Truncating

    def truncate_to(self, log: WritableLog, offset: int) -> bool:
        """Truncate a log, as `WritableLog.truncate_to` does.

        If `offset` is below the active segment, a round in progress is aborted first,
        and the next round begins at the new active segment at the latest.
        """
        if offset >= log.growing_segments[-1].base_offset:
            return log.truncate_to(offset)
        with self.states.paused([(log.topic, log.partition)]):
            truncated = log.truncate_to(offset)
            self.states.lower_checkpoint(log)
        return truncated

    def truncate_fully(
        self, log: WritableLog, offset: int, log_start_offset: int | None = None
    ) -> None:
        """Truncate a log, as `WritableLog.truncate_fully` does; see `truncate_to`."""
        with self.states.paused([(log.topic, log.partition)]):
            log.truncate_fully(offset, log_start_offset)
            self.states.lower_checkpoint(log)

    def abort(self, log: WritableLog) -> None:
        """Abort the round of a log that is in progress, and wait until it has ended."""
        with self.states.paused([(log.topic, log.partition)]):
            pass

    # In the background

    def start(
        self, scheduler: Scheduler, after_work: Callable[[], None] | None = None
    ) -> None:
        """Compact logs in tasks of a scheduler, until `close`.

        There are as many tasks as `threads`, named ``kafka-log-cleaner-thread-0`` and
        so on. Each runs `work`, then `after_work`, every `backoff_ms`.
        """

        def task() -> None:
            self.work()
            if after_work is not None:
                after_work()

        for number in range(self._threads):
            period_ms = max(1, self._backoff_ms)
            scheduler.schedule(f"{TASK_NAME}{number}", task, 0, period_ms)

    def work(self) -> None:
        """Compact logs until none is dirty enough, and delete old segments.

        If the disk of a log fails, the log is closed. After another error it is marked
        as uncleanable.
        """
        while not self._is_closed:
            cleaned = self._clean_one()
            self.delete_old_segments()
            self.states.forget_missing()
            if not cleaned:
                return

    def _clean_one(self) -> bool:
        try:
            cleanable = self.states.take_filthiest()
        except (KafkaLogError, OSError):  # that log is marked as uncleanable
            return False
        if cleanable is None:
            return False
        try:
            self._clean(cleanable)
        except (LogCleaningAbortedError, LogClosedError, *DISK_FAILURES):
            return True
        except Exception as error:
            self.states.mark_uncleanable(cleanable.log, error)
            return False
        return True

    def close(self) -> None:
        """Abort the rounds in progress, and start no others; may be called twice."""
        self._is_closed = True
        self.states.wait_until_idle()

    def abandon(self) -> None:
        """Do the same as `close`: a cleaner owns no files."""
        self.close()
