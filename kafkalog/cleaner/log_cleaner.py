"""`LogCleaner`: compaction of the logs of one or several log directories.

Source: ``LogCleaner.java``.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import float_info
from threading import Event, Thread
from typing import Final, Self

from kafkalog.cleaner.cleanable_range import CleanableLog
from kafkalog.cleaner.cleaning_round import Cleaner, CleaningResult
from kafkalog.cleaner.cleaning_states import CleaningStates
from kafkalog.cleaner.offset_map import OffsetMap
from kafkalog.cleaner.throttle import Throttle
from kafkalog.config import BrokerConfig
from kafkalog.errors import LogArgumentError, LogCleaningAbortedError
from kafkalog.log.ownership import Name
from kafkalog.log.writable_log import WritableLog

THREAD_NAME: Final = "kafka-log-cleaner-thread-"
NO_LIMIT: Final = float_info.max


class LogCleaner:
    """Compacts logs: of the records of each key, it keeps the last one.

    Parameters
    ----------
    logs : mapping of (str, int) to WritableLog
        The logs, by topic and partition; as a `LogManager`. It may change.
    dedupe_buffer_size : int
        Memory of the offset maps of all threads, in bytes; each key takes 24.
    load_factor : float
        Share of an offset map that a round fills.
    io_buffer_size : int
        Memory of the buffers of all threads, in bytes.
    max_bytes_per_second : float
        Limit of the bytes read and written by all threads.
    threads : int
        Number of threads that `start` starts.
    backoff_ms : int
        Time that a thread waits where there was nothing to compact.

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
    ) -> None:
        self._threads = threads
        self._backoff_ms = backoff_ms
        self._memory = dedupe_buffer_size // max(threads, 1)
        self._load_factor = load_factor
        self._io_buffer_size = io_buffer_size // max(threads, 1) // 2
        self._throttle = Throttle(max_bytes_per_second)
        if self._memory // 24 * load_factor <= 1:
            error = LogArgumentError(
                f"offset map of {self._memory} bytes, expected more for one key"
            )
            error.add_note("Raise dedupe_buffer_size, or lower threads.")
            raise error
        self.states = CleaningStates(logs)
        self._cleaner: Cleaner | None = None
        self._running: list[Thread] = []
        self._stopped = Event()

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

    # Compacting in the thread of the caller

    def clean(self, topic: str, partition: int) -> CleaningResult | None:
        """Compact a log, however dirty it is.

        Returns
        -------
        CleaningResult or None
            What was done; None if there is nothing to compact.

        Raises
        ------
        KeyError
            If there is no such log.
        LogCleaningAbortedError
            If another thread aborted the round; the log is as it was.
        LogStateError
            If another thread compacts the log, or has paused it.
        CorruptRecordError, InvalidRecordError
            If a batch cannot be read.
        """
        log = self.states.logs[topic, partition]
        cleanable = self.states.take((topic, partition), log.runtime.now_ms())
        return None if cleanable is None else self._clean(cleanable, self._own())

    def clean_filthiest(self) -> CleaningResult | None:
        """Compact the dirtiest log of those that are dirty enough.

        These are the logs with ``compact`` in ``cleanup.policy`` whose share of dirty
        bytes is above ``min.cleanable.dirty.ratio``, or in which a record has waited
        for ``max.compaction.lag.ms``.

        Returns
        -------
        CleaningResult or None
            What was done; None if no log is dirty enough.

        Raises
        ------
        LogCleaningAbortedError, CorruptRecordError, InvalidRecordError
            As `clean`.
        """
        return self._clean_filthiest(None)

    def _clean_filthiest(self, cleaner: Cleaner | None) -> CleaningResult | None:
        logs = self.states.logs
        first = next(iter(logs.values()), None)
        if first is None:
            return None
        cleanable = self.states.take_filthiest(first.runtime.now_ms)
        if cleanable is None:
            return None
        return self._clean(cleanable, self._own() if cleaner is None else cleaner)

    def _own(self) -> Cleaner:
        """Return the buffers of the caller's thread."""
        if self._cleaner is None:
            self._cleaner = self._new_cleaner()
        return self._cleaner

    def _new_cleaner(self) -> Cleaner:
        return Cleaner(
            OffsetMap(self._memory),
            self._io_buffer_size,
            self._load_factor,
            self._throttle,
        )

    def _clean(self, cleanable: CleanableLog, cleaner: Cleaner) -> CleaningResult:
        log, end_offset = cleanable.log, cleanable.first_dirty_offset

        def check() -> None:
            if self._stopped.is_set():
                raise LogCleaningAbortedError("the cleaner was closed")
            log.runtime.check()
            self.states.check(cleanable.name)

        try:
            result = cleaner.clean(cleanable, check, log.runtime.now_ms())
            end_offset = result.end_offset
        finally:
            self.states.end_cleaning(log, end_offset)
        return result

    def delete_old_segments(self) -> int:
        """Delete what the settings of compacted logs no longer keep.

        Returns
        -------
        int
            The number of segments.
        """
        logs = self.states.take_deletable()
        try:
            return sum(log.delete_old_segments() for log in logs.values())
        finally:
            self.states.end_work(logs)

    def truncate_to(self, log: WritableLog, offset: int) -> bool:
        """Truncate a log as `WritableLog.truncate_to`; later rounds know of it."""
        if offset >= log.growing_segments[-1].base_offset:
            return log.truncate_to(offset)
        with self.states.paused([(log.topic, log.partition)]):
            truncated = log.truncate_to(offset)
            self.states.lower_checkpoint(log)
        return truncated

    def truncate_fully(
        self, log: WritableLog, offset: int, log_start_offset: int | None = None
    ) -> None:
        """Truncate a log as `WritableLog.truncate_fully`; later rounds know of it."""
        with self.states.paused([(log.topic, log.partition)]):
            log.truncate_fully(offset, log_start_offset)
            self.states.lower_checkpoint(log)

    # Threads

    def start(self) -> None:
        """Start the threads, which compact logs until `close`.

        They are named ``kafka-log-cleaner-thread-0`` and so on. A log that cannot be
        compacted is marked uncleanable, and left alone until it is opened again.
        """
        self._stopped.clear()
        for number in range(self._threads):
            name = f"{THREAD_NAME}{number}"
            thread = Thread(target=self._run, name=name, daemon=True)
            self._running.append(thread)
            thread.start()

    def _run(self) -> None:
        cleaner = self._new_cleaner()
        while not self._stopped.is_set():
            if not self.work_once(cleaner):
                self._stopped.wait(self._backoff_ms / 1000)

    def work_once(self, cleaner: Cleaner | None = None) -> bool:
        """Do what a thread does in one turn: compact one log, then delete old segments.

        Returns
        -------
        bool
            Whether a log was compacted.
        """
        cleaned = False
        try:
            cleaned = self._clean_filthiest(cleaner) is not None
        except LogCleaningAbortedError:
            cleaned = True
        self.delete_old_segments()
        self.states.forget_missing()
        return cleaned

    def close(self) -> None:
        """End the threads, and with them a round that is under way; twice is once."""
        self._stopped.set()
        for thread in self._running:
            thread.join()
        self._running.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
