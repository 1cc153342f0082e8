"""Which logs are being compacted, which must not be, and where each round ended.

    none -> in progress -> none                a round, and its end
            in progress -> aborted -> paused   a caller wants the log for itself
    none -> paused -> none                     the same without a round under way

A pause counts its callers. The offset at which a round ended is written to
``cleaner-offset-checkpoint`` in the log directory; lines of partitions that are not in
the directory any more are dropped at each write.

Source: ``LogCleanerManager.java``, ``LogCleaningState.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from threading import Condition, RLock
from typing import Final

from kafkalog.cleaner.cleanable_range import CleanableLog, find_cleanable
from kafkalog.errors import KafkaLogError, LogCleaningAbortedError, LogStateError
from kafkalog.log.ownership import Name
from kafkalog.log.writable_log import WritableLog
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    Offsets,
    read_offsets_or_none,
    write_offsets,
)

WAIT_SECONDS: Final = 0.1


class State(Enum):
    """The state of a log that is being compacted; a paused one has a number instead."""

    IN_PROGRESS = "in progress"
    ABORTED = "aborted"


class CleaningStates:
    """The states of logs, by (topic, partition); `logs` are those there are now."""

    def __init__(self, logs: Mapping[Name, WritableLog]) -> None:
        self.logs = logs
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._states: dict[Name, State | int] = {}
        self._uncleanable: dict[Name, tuple[WritableLog, Exception]] = {}

    # Choosing a log

    def take_filthiest(self) -> CleanableLog | None:
        """Return the log with the highest ratio of those dirty enough; in progress.

        A log whose range cannot be computed is marked uncleanable, and the error
        raised.
        """
        with self._lock:
            dirty = [self._find(log) for _, log in self._free()]
            chosen = [one for one in dirty if one.is_dirty_enough]
            if not chosen:
                return None
            filthiest = max(chosen, key=lambda one: one.cleanable_ratio)
            self._states[filthiest.name] = State.IN_PROGRESS
            return filthiest

    def take(self, name: Name, now_ms: int) -> CleanableLog | None:
        """Return a log if it has anything to compact; in progress."""
        with self._lock:
            if name in self._states:
                raise LogStateError(f"the log is {self._describe(name)}: {name}")
            found = self._range(self.logs[name], now_ms, checks_age=False)
            if not found.cleanable_bytes:
                return None
            self._states[name] = State.IN_PROGRESS
            return found

    def take_deletable(self) -> dict[Name, WritableLog]:
        """Return the compacted logs for retention; in progress."""
        with self._lock:
            found = dict(self._free())
            self._states |= dict.fromkeys(found, State.IN_PROGRESS)
            return found

    @contextmanager
    def uncompacted_paused(self) -> Iterator[set[Name]]:
        """Yield the logs without compaction, for retention; they are paused."""
        with self._lock:
            found = {
                name
                for name, log in self._current()
                if not log.config.compact and name not in self._states
            }
            self._states |= dict.fromkeys(found, 1)
        try:
            yield found
        finally:
            self.resume(found)

    def _current(self) -> Iterator[tuple[Name, WritableLog]]:
        """Yield the logs there are; others may be added and removed meanwhile."""
        for name in list(self.logs):
            if (log := self.logs.get(name)) is not None:
                yield name, log

    def _free(self) -> Iterator[tuple[Name, WritableLog]]:
        for name, log in self._current():
            marked, _ = self._uncleanable.get(name, (None, None))
            is_free = name not in self._states and marked is not log
            if log.config.compact and is_free and not log.runtime.closed:
                yield name, log

    def _find(self, log: WritableLog) -> CleanableLog:
        try:
            return self._range(log, log.runtime.now_ms())
        except KafkaLogError as error:
            self.mark_uncleanable(log, error)
            raise

    def _range(
        self, log: WritableLog, now_ms: int, *, checks_age: bool = True
    ) -> CleanableLog:
        with failing(log):
            log.runtime.disk.create_if_missing(_directory_of(log) / CLEANED_TO)
        offset = self.checkpointed(log)
        found = find_cleanable(log, offset, now_ms, checks_age=checks_age)
        if found.must_reset_checkpoint:
            self.set_checkpoint(log, found.first_dirty_offset)
        return found

    @property
    def uncleanable(self) -> dict[Name, Exception]:
        """The logs that are left alone, and what failed on each."""
        with self._lock:
            return {name: error for name, (_, error) in self._uncleanable.items()}

    def mark_uncleanable(self, log: WritableLog, error: Exception) -> None:
        """Leave a log alone until it is opened again."""
        with self._lock:
            self._uncleanable[log.topic, log.partition] = log, error

    def forget_missing(self) -> None:
        """Remove the marks of logs that are gone."""
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
        """End a round; the next one begins at `end_offset`, unless it was aborted."""
        name = log.topic, log.partition
        with self._lock:
            try:
                if self._states.get(name) is State.IN_PROGRESS and name in self.logs:
                    self.set_checkpoint(log, end_offset)
            finally:
                self.end_work([name])

    def end_work(self, names: Iterable[Name]) -> None:
        """End what was in progress; logs whose round was aborted are paused then."""
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
        """Pause compaction of a log: end a round under way, and wait for its end."""
        with self._lock:
            state = self._states.get(name)
            if state is State.ABORTED:
                raise LogStateError(f"compaction is aborted already: {name}")
            if state is State.IN_PROGRESS:
                self._states[name] = State.ABORTED
            else:
                self._states[name] = 1 if state is None else state + 1
            while isinstance(self._states.get(name), State):
                self._changed.wait(WAIT_SECONDS)

    def wait_until_idle(self) -> None:
        """Wait until no round is under way."""
        with self._lock:
            while any(isinstance(one, State) for one in self._states.values()):
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
        """Keep compaction away from logs."""
        held: list[Name] = []
        try:
            for name in names:
                self.abort_and_pause(name)
                held.append(name)
            yield
        finally:
            self.resume(held)

    # The checkpoint

    def checkpointed(self, log: WritableLog) -> int | None:
        """Return the offset at which the next round over a log begins, if known."""
        offsets = read_offsets_or_none(_directory_of(log), CLEANED_TO)
        return offsets.get((log.topic, log.partition))

    def set_checkpoint(self, log: WritableLog, offset: int) -> None:
        """Write the first dirty offset of a log."""
        directory = _directory_of(log)

        def change(offsets: Offsets) -> None:
            for name in list(offsets):
                topic, partition = name
                hosted = (directory / f"{topic}-{partition}").is_dir()
                if name not in self.logs and not hosted:
                    del offsets[name]
            offsets[log.topic, log.partition] = offset

        self._update(log, change)

    def lower_checkpoint(self, log: WritableLog) -> None:
        """Lower the first dirty offset to the active segment, after a truncation."""
        name = log.topic, log.partition
        base = log.growing_segments[-1].base_offset

        def change(offsets: Offsets) -> None:
            offsets[name] = base

        with self._lock:
            if log.config.compact and (self.checkpointed(log) or 0) > base:
                self._update(log, change)

    def _update(self, log: WritableLog, change: Callable[[Offsets], None]) -> None:
        with self._lock, failing(log):
            if log.owner is not None:
                log.owner.update(CLEANED_TO, change)
                return
            directory = _directory_of(log)
            offsets = read_offsets_or_none(directory, CLEANED_TO)
            change(offsets)
            write_offsets(directory, CLEANED_TO, offsets, log.runtime.disk)


@contextmanager
def failing(log: WritableLog) -> Iterator[None]:
    """Close a log to writers if the disk fails, as in all work on it."""
    try:
        yield
    except OSError as error:
        if log.runtime.failure is None:
            log.runtime.fail(error)
        raise


def _directory_of(log: WritableLog) -> Path:
    return Path(str(log.path)).parent
