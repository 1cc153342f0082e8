"""The states of logs in compaction, and the checkpoint of compacted offsets.

    none -> in progress -> none                a round starts and ends
            in progress -> aborted -> paused   a caller ends the round
    none -> paused -> none                     a caller prevents rounds

Pauses are counted: a log is paused until each caller has resumed it. The end offset of
a round is written to ``cleaner-offset-checkpoint`` in the log directory. Each write
drops the lines of partitions that are no longer in the directory.

Source: ``LogCleanerManager.java``, ``LogCleaningState.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from threading import Condition, RLock, get_ident
from typing import Final

from kafkalog.cleaner.cleanable_range import CleanableLog, find_cleanable
from kafkalog.errors import KafkaLogError, LogCleaningAbortedError, LogStateError
from kafkalog.log.ownership import Name
from kafkalog.log.runtime import DISK_FAILURES
from kafkalog.log.writable_log import WritableLog
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    Offsets,
    read_offsets,
    write_offsets,
)
from kafkalog.storage.file_names import PartitionDir
from kafkalog.storage.forked_process import leave_after_fork

WAIT_SECONDS: Final = 0.1


class State(Enum):
    """The state of a log in a round; for a paused log, the number of pauses is kept."""

    IN_PROGRESS = "in progress"
    ABORTED = "aborted"


class CleaningStates:
    """The states of logs, by (topic, partition); `logs` are the open logs."""

    def __init__(self, logs: Mapping[Name, WritableLog]) -> None:
        self.logs = logs
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._states: dict[Name, State | int] = {}
        self._threads: dict[Name, int] = {}  # those of the rounds
        leave_after_fork(self)
        self._uncleanable: dict[Name, tuple[WritableLog, Exception]] = {}

    def _leave_to_parent(self) -> None:
        """Drop all rounds and pauses in a forked process: it has no such thread."""
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._states = {}

    # Choosing a log

    def take_filthiest(self) -> CleanableLog | None:
        """Return the log with the highest cleanable ratio; mark it as in progress.

        Returns None if no log is dirty enough. A log whose range cannot be computed is
        marked as uncleanable, or closed if the checkpoint is corrupt or the disk fails;
        the error is raised.
        """
        with self._lock:
            dirty = [self._find(log) for _, log in self._free()]
            candidates = [log for log in dirty if log.is_dirty_enough]
            if not candidates:
                return None
            filthiest = max(candidates, key=lambda log: log.cleanable_ratio)
            self._begin([filthiest.name])
            return filthiest

    def take(self, name: Name, now_ms: int) -> CleanableLog | None:
        """Return a log if it has bytes to compact, and mark it as in progress."""
        with self._lock:
            if name in self._states:
                raise LogStateError(f"the log is {self._describe(name)}: {name}")
            cleanable = self._range(self.logs[name], now_ms, checks_age=False)
            if not cleanable.cleanable_bytes:
                return None
            self._begin([name])
            return cleanable

    def take_deletable(self) -> dict[Name, WritableLog]:
        """Return the compacted logs, for retention; mark them as in progress."""
        with self._lock:
            logs = dict(self._free())
            self._begin(logs)
            return logs

    def _begin(self, names: Iterable[Name]) -> None:
        for name in names:
            self._threads[name] = get_ident()
            self._states[name] = State.IN_PROGRESS

    def _is_running(self, name: Name) -> bool:
        """Return whether another thread is in a round over a log.

        One of this thread was interrupted, as this thread is here.
        """
        is_round = isinstance(self._states.get(name), State)
        return is_round and self._threads.get(name) != get_ident()

    @contextmanager
    def uncompacted_paused(self) -> Iterator[set[Name]]:
        """Pause the logs without compaction, for retention; yield their names."""
        with self._lock:
            names = {
                name
                for name, log in self._current()
                if not log.config.compact and name not in self._states
            }
            self._states |= dict.fromkeys(names, 1)
        try:
            yield names
        finally:
            self.resume(names)

    def _current(self) -> Iterator[tuple[Name, WritableLog]]:
        """Yield the open logs; other threads may open and delete logs meanwhile."""
        for name in list(self.logs):
            if (log := self.logs.get(name)) is not None:
                yield name, log

    def _free(self) -> Iterator[tuple[Name, WritableLog]]:
        for name, log in self._current():
            marked, _ = self._uncleanable.get(name, (None, None))
            is_free = name not in self._states and marked is not log
            is_open = not log.runtime.closed and log.runtime.failure is None
            if log.config.compact and is_free and is_open:
                yield name, log

    def _find(self, log: WritableLog) -> CleanableLog:
        try:
            return self._range(log, log.runtime.now_ms())
        except KafkaLogError as error:
            if log.runtime.failure is None:
                self.mark_uncleanable(log, error)
            raise

    def _range(
        self, log: WritableLog, now_ms: int, *, checks_age: bool = True
    ) -> CleanableLog:
        with failing(log):
            log.runtime.disk.create_if_missing(_directory_of(log) / CLEANED_TO)
        offset = self.checkpointed(log)
        cleanable = find_cleanable(log, offset, now_ms, checks_age=checks_age)
        if cleanable.must_reset_checkpoint:
            self.set_checkpoint(log, cleanable.first_dirty_offset)
        return cleanable

    @property
    def uncleanable(self) -> dict[Name, Exception]:
        """The logs that are not compacted because of an error, with the errors."""
        with self._lock:
            return {name: error for name, (_, error) in self._uncleanable.items()}

    def mark_uncleanable(self, log: WritableLog, error: Exception) -> None:
        """Exclude a log from compaction until it is opened again."""
        with self._lock:
            self._uncleanable[log.topic, log.partition] = log, error

    def forget_missing(self) -> None:
        """Remove the marks of logs that were deleted or opened again."""
        with self._lock:
            for name, (log, _) in list(self._uncleanable.items()):
                if self.logs.get(name) is not log:
                    del self._uncleanable[name]

    # States

    def _describe(self, name: Name) -> str:
        state = self._states.get(name)
        if isinstance(state, State):
            return state.value
        return "not paused" if state is None else "paused"

    def check(self, name: Name) -> None:
        """Raise `LogCleaningAbortedError` if the round over a log was aborted."""
        if self._states.get(name) is State.ABORTED:
            raise LogCleaningAbortedError(f"compaction was aborted: {name}")

    def end_cleaning(self, log: WritableLog, end_offset: int) -> None:
        """End a round; unless it was aborted, checkpoint its `end_offset`."""
        name = log.topic, log.partition
        with self._lock:
            try:
                if self._states.get(name) is State.IN_PROGRESS and name in self.logs:
                    self.set_checkpoint(log, end_offset)
            finally:
                self.end_work([name])

    def end_work(self, names: Iterable[Name]) -> None:
        """End the rounds of logs; a log whose round was aborted becomes paused."""
        with self._lock:
            for name in names:
                state = self._states.get(name)
                if state is State.IN_PROGRESS:
                    del self._states[name]
                elif state is State.ABORTED:
                    self._states[name] = 1
                else:
                    reason = f"the log is {self._describe(name)}, expected in progress"
                    raise LogStateError(f"{reason}: {name}")
            self._changed.notify_all()

    def abort_and_pause(self, name: Name) -> None:
        """Pause compaction of a log; abort its round, and wait until that has ended."""
        with self._lock:
            state = self._states.get(name)
            if state is State.ABORTED:
                raise LogStateError(f"compaction is aborted already: {name}")
            if state is State.IN_PROGRESS:
                self._states[name] = State.ABORTED
            else:
                self._states[name] = 1 if state is None else state + 1
            while self._is_running(name):
                self._changed.wait(WAIT_SECONDS)

    def wait_until_idle(self) -> None:
        """Wait until no round is in progress."""
        with self._lock:
            while any(map(self._is_running, list(self._states))):
                self._changed.wait(WAIT_SECONDS)

    def resume(self, names: Iterable[Name]) -> None:
        """End one pause of each log."""
        with self._lock:
            for name in names:
                state = self._states.get(name)
                if not isinstance(state, int):
                    reason = f"the log is {self._describe(name)}, expected paused"
                    raise LogStateError(f"{reason}: {name}")
                if state == 1:
                    del self._states[name]
                else:
                    self._states[name] = state - 1

    @contextmanager
    def paused(self, names: Iterable[Name]) -> Iterator[None]:
        """Pause compaction of logs."""
        paused: list[Name] = []
        try:
            for name in names:
                self.abort_and_pause(name)
                paused.append(name)
            yield
        finally:
            self.resume(paused)

    # The checkpoint

    def checkpointed(self, log: WritableLog) -> int | None:
        """Return the checkpointed first dirty offset of a log, if there is one.

        Raises `CorruptCheckpointError`.
        """
        with failing(log):
            offsets = read_offsets(_directory_of(log), CLEANED_TO)
        return offsets.get((log.topic, log.partition))

    def set_checkpoint(self, log: WritableLog, offset: int) -> None:
        """Write the first dirty offset of a log."""
        directory = _directory_of(log)

        def change(offsets: Offsets) -> None:
            for name in list(offsets):
                if name not in self.logs and not _is_here(directory, name):
                    del offsets[name]
            offsets[log.topic, log.partition] = offset

        self._update(log, change)

    def lower_checkpoint(self, log: WritableLog) -> None:
        """Lower the first dirty offset to the start of the active segment."""
        name = log.topic, log.partition
        base = log.growing_segments[-1].base_offset

        def change(offsets: Offsets) -> None:
            offsets[name] = base

        with self._lock:
            if log.config.compact and (self.checkpointed(log) or 0) > base:
                self._update(log, change)

    def _update(self, log: WritableLog, change: Callable[[Offsets], None]) -> None:
        with self._lock, failing(log):
            if log.owned_directory is not None:
                log.owned_directory.update(CLEANED_TO, change)
                return
            directory = _directory_of(log)
            offsets = read_offsets(directory, CLEANED_TO)
            change(offsets)
            write_offsets(directory, CLEANED_TO, offsets, log.runtime.disk)


@contextmanager
def failing(log: WritableLog) -> Iterator[None]:
    """Record a failure of the disk in the log, which closes it to writers."""
    try:
        yield
    except DISK_FAILURES as error:
        if log.runtime.failure is None:
            log.runtime.fail(error)
        raise


def _is_here(directory: Path, name: Name) -> bool:
    """Return whether a log directory has a partition, which may be a symbolic link."""
    try:
        return (directory / PartitionDir(*name).name).is_dir()
    except ValueError:  # no legal name, as of a path that leads elsewhere
        return False


def _directory_of(log: WritableLog) -> Path:
    return Path(str(log.path)).parent
