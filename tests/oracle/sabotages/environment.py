"""Sabotages of settings, clock, scheduler, disk, and the lock of the directory."""

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
from tests.oracle.sabotages.register import disable_fast_path, do_nothing, sabotage

# Settings


@sabotage("a missing setting has Kafka's default", "append-timestamp-default-hour")
def _(patch):
    """message.timestamp.after.max.ms is unlimited instead of an hour."""
    rules_with(patch, timestamp_after_max_ms=EVER)


@sabotage("internal.segment.bytes takes precedence over segment.bytes", "roll-by-size")
def _(patch):
    """It is ignored."""
    patch.setattr(LogConfig, "segment_size", property(lambda self: self.segment_bytes))


@sabotage(
    "a setting out of its range is rejected",
    test_settings.test_one_error_lists_all_faults,
)
def _(patch):
    """Any number is accepted."""
    patch.setattr(Range, "fault", do_nothing)


@sabotage(
    "one error lists all invalid settings",
    test_settings.test_one_error_lists_all_faults,
)
def _(patch):
    """It lists only the first."""
    raise_if_any = settings._raise_if_any
    patch.setattr(
        settings, "_raise_if_any", lambda faults: raise_if_any(list(faults)[:1])
    )


@sabotage(
    "new settings apply from the next append on",
    test_writing.test_new_settings_apply_from_the_next_append_on,
)
def _(patch):
    """They apply when the log is opened."""
    patch.setattr(WritableLog, "update_config", do_nothing)


@sabotage("a broker's settings apply to its logs", "producers-expiry")
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


@sabotage("a log uses the clock it was given", "append-log-append-time")
def _(patch):
    """It uses the machine's clock."""
    patch.setattr(
        log_loading,
        "Runtime",
        lambda _, scheduler, disk: Runtime(SystemClock(), scheduler, disk),
    )


@sabotage("delayed work goes to the scheduler", "retention-by-time")
def _(patch):
    """It is done at once."""
    later = Runtime.later

    def at_once(self, name, work, delay_ms=0, *, locked=True):
        return later(self, name, work, 0, locked=locked)

    patch.setattr(Runtime, "later", at_once)


@sabotage(
    "a flush blocks no reader and no writer",
    test_flushing.test_a_flush_blocks_neither_readers_nor_the_writer,
    how="flush",
)
def _(patch):
    """Readers and the writer wait for the disk."""
    join, flush = Thread.join, flushing.flush_unlocked

    def flush_locked(log, *to, **how):
        with log.runtime.lock:
            flush(log, *to, **how)

    patch.setattr(Thread, "join", lambda self, **_: join(self, timeout=0.1))
    patch.setattr(writable_log, "flush_unlocked", flush_locked)


@sabotage(
    "a reader finds all bytes below the log end offset",
    test_writing.test_readers_find_all_records_while_a_writer_appends,
)
def _(patch):
    """The end moves before the bytes are written."""
    extend = appending.extend

    def move_end_first(log, data, entries, next_offset):
        log.end = log.end._replace(offset=next_offset)
        sleep(0.001)
        extend(log, data, entries, next_offset)

    patch.setattr(appending, "extend", move_end_first)
    patch.setattr(runtime, "RLock", lambda: nullcontext())


# Durability


@sabotage("flush.messages flushes the log within the append", "recovery-flush")
def _(patch):
    """It does not."""
    disable_fast_path(patch)
    patch.setattr(appending, "_flush_if_due", do_nothing)


@sabotage("a flush moves the recovery point", "recovery-flush")
def _(patch):
    """It does not."""
    patch.setattr(flushing, "_note_flushed", do_nothing)


@sabotage(
    "records truncated during a flush do not count as flushed",
    test_flushing.test_a_log_truncated_during_a_flush_keeps_its_recovery_point,
    cut=0,
)
def _(patch):
    """They count."""
    patch.setattr(LogState, "truncations", property(lambda _: 0, do_nothing))


@sabotage(
    "a log whose disk failed rejects appends",
    test_writing.test_a_log_whose_disk_fails_rejects_further_calls_and_can_be_opened_again,
    call=1,
)
def _(patch):
    """It accepts them."""
    forgotten = property(do_nothing, do_nothing)
    patch.setattr(Runtime, "failure", forgotten, raising=False)


@sabotage(
    "a disk error is raised",
    test_writing.test_a_log_whose_disk_fails_rejects_further_calls_and_can_be_opened_again,
    call=2,
)
def _(patch):
    """It is ignored."""
    append_many = WritableLog.append_many

    def append_without_error(self, batches):
        with suppress(OSError):
            append_many(self, batches)

    patch.setattr(WritableLog, "append_many", append_without_error)


# The directory


@sabotage(
    "a broker and kafkalog lock each other out",
    test_ownership.test_another_process_finds_the_directory_locked_until_the_last_log_is_closed,
)
def _(patch):
    """Nothing is locked."""
    patch.setattr(ownership.fcntl, "lockf", do_nothing)


@sabotage(
    "the lock is a POSIX record lock, as Java's",
    test_ownership.test_a_directory_locked_by_another_process_is_rejected_and_left_unchanged,
)
def _(patch):
    """It is one of flock."""
    patch.setattr(ownership.fcntl, "lockf", fcntl.flock)


@sabotage(
    "the lock file is opened once in a process",
    test_ownership.test_a_rejected_opening_within_the_process_does_not_release_the_lock,
)
def _(patch):
    """It is opened and closed for each log."""
    own_directory = ownership.own_directory

    def own_anew(path, *how):
        (path / LOCK).open("a").close()
        return own_directory(path, *how)

    patch.setattr(opening, "own_directory", own_anew)


@sabotage(
    "the clean shutdown marker is removed while a log is open",
    test_ownership.test_the_marker_is_removed_while_a_log_is_open_and_restored_if_it_existed,
)
def _(patch):
    """It stays."""

    patch.setattr(OwnedDirectory, "begin", do_nothing)


@sabotage(
    "the marker is written only if all logs were closed cleanly",
    test_ownership.test_the_marker_is_not_restored_after_a_log_was_abandoned,
)
def _(patch):
    """It is written with the last close."""
    release = OwnedDirectory.release

    def release_as_closed(self, name, *, in_order, **how):
        release(self, name, in_order=True, **how)

    patch.setattr(OwnedDirectory, "release", release_as_closed)


@sabotage(
    "only a log's own lines in a checkpoint change",
    test_ownership.test_closing_writes_only_the_checkpoint_lines_of_its_own_partition,
)
def _(patch):
    """The other lines are dropped."""
    patch.setattr(ownership, "read_offsets_or_none", lambda *_: {})
