"""Logs to compact that are not the original: on a rehearsal disk, or copied.

A log on a rehearsal disk is loaded as a broker loads it. Its files are read where they
are, and only what compaction writes is kept, in a temporary directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from kafkalog.cleaner.corrupt_batches import OnCorruptBatch, locating_errors
from kafkalog.cleaner.log_cleaner import LogCleaner
from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.decoding.offset_map import SLOT_BYTES
from kafkalog.errors import (
    CorruptRecordError,
    KafkaLogError,
    LogCleaningAbortedError,
)
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.log.clock import Clock
from kafkalog.log.ownership import Name
from kafkalog.log.recovery.recovery_report import RecoveryReport
from kafkalog.log.topic_settings import PartitionSettings
from kafkalog.log.writable_log import WritableLog
from kafkalog.rehearsal.log_rehearsal import (
    DirectoryOffsets,
    LogRehearsal,
    LogStartError,
    rehearse,
)
from kafkalog.rehearsal.rehearsal_disk import RehearsalDisk
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_offsets_or_none,
    write_offsets,
)
from kafkalog.storage.durable_file import DISK, TEMPORARY
from kafkalog.storage.file_names import CLEAN_SHUTDOWN, DELETED, file_name
from kafkalog.storage.location import is_file

DEDUPE_BYTES: Final = 128 << 20
LOAD_FACTOR: Final = 0.45
"""Half of a cleaner's, so that few keys collide."""

LEAST_SLOTS: Final = 16
UNCOPIED_SUFFIXES: Final = (DELETED, TEMPORARY)
COPIED_CHECKPOINTS: Final = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS)


@contextmanager
def rehearsed(
    directory: Path, name: Name, config: LogConfig, clock: Clock | None = None
) -> Iterator[LogRehearsal]:
    """Load a log on a disk of its own; yield it with its high watermark.

    That is the checkpointed one, or else the log end offset. Errors name the files in
    `directory`. Symbolic links in it count as missing.
    """
    parent = directory.parent
    offsets = DirectoryOffsets.read(parent).of(name)
    with ExitStack() as stack:
        try:
            rehearsal = stack.enter_context(
                rehearse(
                    directory,
                    offsets,
                    PartitionSettings(config, is_tiered=None),
                    BrokerConfig(),
                    partial(_remove_links, directory),
                    clock,
                )
            )
        except LogStartError as error:
            raise error.__cause__ or error from None
        log = rehearsal.log
        marks = read_offsets_or_none(parent, HIGH_WATERMARKS)
        log.update_high_watermark(marks.get(name, log.log_end_offset))
        if offsets.cleaned_to is not None:
            line = {name: offsets.cleaned_to}
            write_offsets(rehearsal.copy.parent, CLEANED_TO, line, rehearsal.disk)
        stack.enter_context(locating_errors(directory, rehearsal.copy))
        yield rehearsal


def try_cleaning(
    rehearsal: LogRehearsal, cleaned_to: int | None, broker: BrokerConfig
) -> tuple[str | None, int]:
    """Compact the log without output.

    Returns the error that stops it, if any, and the number of records without a
    key, which are removed.

    All records up to the log end are compacted, as once they are replicated. The
    log cannot be read afterwards.
    """
    log = rehearsal.log
    name = log.topic, log.partition
    if cleaned_to is not None:
        write_offsets(
            rehearsal.copy.parent, CLEANED_TO, {name: cleaned_to}, rehearsal.disk
        )
    log.update_high_watermark(log.log_end_offset)
    rehearsal.disk.discards_records = True
    try:
        with (
            locating_errors(rehearsal.directory, rehearsal.copy),
            LogCleaner(
                {name: log},
                dedupe_buffer_size=broker.log_cleaner_dedupe_buffer_size,
                load_factor=broker.log_cleaner_io_buffer_load_factor,
                io_buffer_size=broker.log_cleaner_io_buffer_size,
                threads=broker.log_cleaner_threads,
                check_crcs=False,
            ) as cleaner,
        ):
            result = cleaner.clean(*name)
    except LogCleaningAbortedError:  # a segment is split, and the round repeated
        return None, 0
    except (KafkaLogError, OSError) as error:
        return rehearsal.describe(error), 0
    return None, 0 if result is None else result.invalid_messages


def cleaner_of(
    log: WritableLog,
    *,
    on_corruption: OnCorruptBatch = "raise",
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> LogCleaner:
    """Return a cleaner of one log, whose offset map is no larger than its keys need.

    Memory of a map for more keys would be cleared for each log.
    """
    most_keys = log.log_end_offset - log.log_start_offset + 1
    needed = SLOT_BYTES * (int(most_keys / LOAD_FACTOR) + LEAST_SLOTS)
    return LogCleaner(
        {(log.topic, log.partition): log},
        dedupe_buffer_size=min(DEDUPE_BYTES, needed),
        on_corruption=on_corruption,
        max_batch_bytes=max_batch_bytes,
    )


def _remove_links(directory: Path, copy: Path, disk: RehearsalDisk) -> None:
    """Remove what stands in for the symbolic links of a directory."""
    for path in copy.iterdir():
        if (directory / path.name).is_symlink():
            disk.remove(path)


def check_loaded(directory: Path, report: RecoveryReport) -> None:
    """Raise `CorruptRecordError` if loading a log has cut it at corrupt bytes.

    An incomplete batch at the end, which a crash leaves, is no corruption.
    """
    for segment in report.recovered:
        if segment.damage is not None:
            position = segment.bytes_read
            if segment.end_offset == segment.base_offset:
                position = 0
            error = CorruptRecordError(segment.damage, position=position)
            error.add_note("The log was not closed, so opening it cuts it there.")
            raise error.located(directory / file_name(segment.base_offset, "log"))
    if report.lost is not None:
        reason = "no complete batch where the last index entry points"
        error = CorruptRecordError(reason, position=report.lost.position)
        raise error.located(directory / file_name(report.lost.base_offset, "log"))


def copy_partition(source: Path, name: Name, target: Path) -> Path:
    """Copy a partition, and its lines of the checkpoints, to another log directory.

    The line of ``cleaner-offset-checkpoint`` is not copied, and no symbolic link. The
    copy is forced to disk. Returns the new directory.
    """
    directory = target / source.name
    DISK.make_directory(directory)
    for path in sorted(source.iterdir()):
        if is_file(path) and not path.name.endswith(UNCOPIED_SUFFIXES):
            with suppress(FileNotFoundError):  # a broker has deleted it since
                DISK.copy_file(path, directory / path.name)
    DISK.sync_directory(directory)
    for checkpoint in COPIED_CHECKPOINTS:
        offsets = read_offsets_or_none(source.parent, checkpoint)
        if name in offsets:
            copied = read_offsets_or_none(target, checkpoint) | {name: offsets[name]}
            write_offsets(target, checkpoint, copied, DISK)
    return directory


def copy_marker(sources: Iterable[Path], target: Path) -> None:
    """Copy the marker of a clean shutdown, if all log directories have it.

    Logs of a directory that was not closed in order have to be recovered.
    """
    markers = [source / CLEAN_SHUTDOWN for source in sorted(sources)]
    if all(map(is_file, markers)):
        DISK.copy_file(markers[0], target / CLEAN_SHUTDOWN)
