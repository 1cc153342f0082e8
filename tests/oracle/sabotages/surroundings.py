"""Sabotages of what a log lives on: settings, clock, disk, and its directory's lock."""

import fcntl
from contextlib import nullcontext, suppress
from threading import Thread
from time import sleep

from kafkalog.config import LogConfig, settings
from kafkalog.config.setting_types import Range
from kafkalog.log import appending, flushing, opening, ownership, runtime, writable_log
from kafkalog.log.clock import SystemClock
from kafkalog.log.ownership import OwnedDirectory
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.recovery import log_loading
from kafkalog.log.runtime import Runtime
from kafkalog.log.state import LogState
from kafkalog.log.writable_log import WritableLog
from kafkalog.storage.file_names import LOCK
from tests.config import test_settings
from tests.log import test_flushing, test_ownership, test_writing
from tests.oracle.sabotages.appends import EVER, rules_with
from tests.oracle.sabotages.register import nothing, one_by_one, sabotage

# Settings


@sabotage("what is not set has Kafka's default", "append-timestamp-default-hour")
def _(patch):
    """message.timestamp.after.max.ms is as large as can be, and not an hour."""
    rules_with(patch, timestamp_after_max_ms=EVER)


@sabotage("internal.segment.bytes goes before segment.bytes", "roll-by-size")
def _(patch):
    """It is not looked at."""
    patch.setattr(LogConfig, "segment_size", property(lambda self: self.segment_bytes))


@sabotage(
    "a setting out of its range is wrong",
    test_settings.test_one_error_lists_all_faults,
)
def _(patch):
    """Any number will do."""
    patch.setattr(Range, "fault", nothing)


@sabotage(
    "all that is wrong is named at once",
    test_settings.test_one_error_lists_all_faults,
)
def _(patch):
    """Only the first is."""
    raise_if_any = settings._raise_if_any
    patch.setattr(
        settings, "_raise_if_any", lambda faults: raise_if_any(list(faults)[:1])
    )


@sabotage(
    "new settings count from the next append on",
    test_writing.test_new_settings_count_from_the_next_append_on,
)
def _(patch):
    """They count when the log is opened."""
    patch.setattr(WritableLog, "update_config", nothing)


@sabotage("a broker's settings count beside the topic's", "producers-expiry")
def _(patch):
    """They have their defaults."""
    patch.setattr(
        log_loading,
        "ProducerStateManager",
        lambda path, clock, disk, **_: ProducerStateManager(
            path, clock=clock, disk=disk, transaction_verification=False
        ),
    )


# Clock and scheduler


@sabotage("a log asks the clock that it was given", "append-log-append-time")
def _(patch):
    """It asks the machine's."""
    patch.setattr(
        log_loading,
        "Runtime",
        lambda _, scheduler, disk: Runtime(SystemClock(), scheduler, disk),
    )


@sabotage("what can wait is left to the scheduler", "retention-by-time")
def _(patch):
    """It is done at once."""
    later = Runtime.later

    def at_once(self, name, work, delay_ms=0, *, alone=True):
        return later(self, name, work, 0, alone=alone)

    patch.setattr(Runtime, "later", at_once)


@sabotage(
    "whoever forces a log to disk holds up nobody",
    test_flushing.test_whoever_forces_a_log_to_disk_holds_up_nobody,
    how="flush",
)
def _(patch):
    """Readers and the writer wait for the disk."""
    join, flush = Thread.join, flushing.flush_beside
    patch.setattr(Thread, "join", lambda self, **_: join(self, timeout=0.1))
    patch.setattr(
        writable_log,
        "flush_beside",
        lambda log, *to, **how: log.runtime.run(lambda: flush(log, *to, **how)),
    )


@sabotage(
    "a reader finds all up to the end that it is told",
    test_writing.test_many_read_while_one_writes,
)
def _(patch):
    """The end moves before the bytes are there, and no reader waits."""
    extend = appending.extend

    def move_end_first(log, data, entries, end):
        log.end = log.end._replace(offset=end[0])
        sleep(0.001)
        extend(log, data, entries, end)

    patch.setattr(appending, "extend", move_end_first)
    patch.setattr(runtime, "RLock", lambda: nullcontext())


# Durability


@sabotage("flush.messages forces the log within the append", "recovery-flush")
def _(patch):
    """It does not."""
    one_by_one(patch)
    patch.setattr(appending, "_flush_if_due", nothing)


@sabotage("a flush moves the recovery point", "recovery-flush")
def _(patch):
    """It stays."""
    patch.setattr(flushing, "_note_flushed", nothing)


@sabotage(
    "what is cut off while it is forced to disk does not count",
    test_flushing.test_what_is_cut_off_while_it_is_forced_to_disk_does_not_count,
    cut=0,
)
def _(patch):
    """It counts."""
    patch.setattr(LogState, "cuts", property(lambda _: 0, nothing))


@sabotage(
    "a log whose disk failed takes nothing more",
    test_writing.test_a_log_whose_disk_fails_takes_nothing_more_and_opens_again,
    call=1,
)
def _(patch):
    """It goes on."""
    forgotten = property(nothing, nothing)
    patch.setattr(Runtime, "failure", forgotten, raising=False)


@sabotage(
    "an error of the disk is raised",
    test_writing.test_a_log_whose_disk_fails_takes_nothing_more_and_opens_again,
    call=2,
)
def _(patch):
    """It is swallowed."""
    append_many = WritableLog.append_many

    def append_quietly(self, batches):
        with suppress(OSError):
            append_many(self, batches)

    patch.setattr(WritableLog, "append_many", append_quietly)


# The directory


@sabotage(
    "a broker and kafkalog exclude each other",
    test_ownership.test_another_process_finds_the_directory_locked_until_the_last_log_is_closed,
)
def _(patch):
    """Nothing is locked."""
    patch.setattr(ownership.fcntl, "lockf", nothing)


@sabotage(
    "the lock is the one that Java takes",
    test_ownership.test_a_directory_locked_elsewhere_is_refused_and_left_as_it_is,
)
def _(patch):
    """It is that of flock."""
    patch.setattr(ownership.fcntl, "lockf", fcntl.flock)


@sabotage(
    "the file of the lock is opened once in a process",
    test_ownership.test_a_refusal_within_the_process_does_not_lose_the_lock,
)
def _(patch):
    """It is opened and closed whenever a log is opened."""
    own_directory = ownership.own_directory

    def own_anew(path, *how):
        (path / LOCK).open("a").close()
        return own_directory(path, *how)

    patch.setattr(opening, "own_directory", own_anew)


@sabotage(
    "the marker of a clean stop goes while a log is open",
    test_ownership.test_the_marker_goes_while_a_log_is_open_and_comes_back_if_it_was_there,
)
def _(patch):
    """It stays."""

    patch.setattr(OwnedDirectory, "begin", nothing)


@sabotage(
    "the marker comes back only if all were closed in order",
    test_ownership.test_the_marker_does_not_come_back_after_a_log_was_abandoned,
)
def _(patch):
    """It comes back with the last."""
    release = OwnedDirectory.release

    def release_as_closed(self, name, *, in_order, **how):
        release(self, name, in_order=True, **how)

    patch.setattr(OwnedDirectory, "release", release_as_closed)


@sabotage(
    "of a checkpoint only the log's own lines are changed",
    test_ownership.test_closing_writes_the_lines_of_its_own_partition_alone,
)
def _(patch):
    """The others are dropped."""
    patch.setattr(ownership, "read_offsets_or_none", lambda *_: {})
