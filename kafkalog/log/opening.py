"""Opening of a partition's log, to read or to append to it.

Source: ``LogManager.scala``.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Literal, overload

from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.errors import LogArgumentError, NotALogDirectoryError
from kafkalog.log.clock import Clock, Scheduler
from kafkalog.log.log import Log
from kafkalog.log.ownership import Name, own_directory
from kafkalog.log.reading.remote_offsets import warn_of_missing_start
from kafkalog.log.recovery.log_loading import check_log, load_log
from kafkalog.log.recovery.recovery_report import warn_of_lost_offsets
from kafkalog.log.state import checked_topic_id
from kafkalog.log.topic_settings import TopicSettings, warn_of_settings
from kafkalog.log.writable_log import WritableLog
from kafkalog.storage.durable_file import DISK, Disk
from kafkalog.storage.file_names import parse_partition_dir
from kafkalog.storage.location import AnyPath, local_path
from kafkalog.storage.log_directory import check_no_links


@overload
def open(
    path: AnyPath, mode: Literal["r"] = "r", *, memory_map: bool = False
) -> Log: ...
@overload
def open(
    path: str | os.PathLike[str],
    mode: Literal["a"],
    config: LogConfig | None = None,
    *,
    broker: BrokerConfig | None = None,
    topic_id: str | None = None,
) -> WritableLog: ...


def open(
    path: AnyPath,
    mode: Literal["r", "a"] = "r",
    config: LogConfig | None = None,
    *,
    broker: BrokerConfig | None = None,
    topic_id: str | None = None,
    memory_map: bool = False,
) -> Log | WritableLog:
    """Open the log in a partition's directory.

    With mode ``"r"`` nothing is changed, and a broker may be writing to the log.

    With mode ``"a"`` the log is opened as a broker opens it. The log directory around
    it is locked until the log is closed, so that no broker starts on it. A missing
    partition directory is created, and so is a missing log directory. Checkpoints and
    the clean shutdown marker are read, and written again on closing, for this log
    alone. If opening is refused, nothing is changed.

    A log opened with ``"a"`` has one background thread, named ``kafkalog-scheduler``:
    it forces rolled segments to disk, removes deleted files and expires producers. It
    starts here and ends when the log is closed, abandoned or deleted.

    Parameters
    ----------
    path : str or path-like
        The partition's directory, ``<topic>-<partition>``. With ``"r"`` also a URL.
    mode : {"r", "a"}
        ``"r"`` to read, ``"a"`` to append as well.
    config : LogConfig, optional
        The log's settings. By default those of its topic in ``__cluster_metadata-0``
        of the same log directory, if that is a broker's, else Kafka's defaults.
    broker : BrokerConfig, optional
        The settings in the broker's ``server.properties``.
    topic_id : str, optional
        The topic's id, which ``partition.metadata`` has or gets.
    memory_map : bool
        With ``"r"``, whether local segments are mapped to be read, see `scan`.

    Returns
    -------
    Log or WritableLog
        A `Log` for ``"r"``, a `WritableLog` for ``"a"``.

    Raises
    ------
    FileNotFoundError
        If the directory, or with ``"a"`` the parent of its log directory, is missing.
    NotALogDirectoryError
        If `path` is not a partition's directory.
    LogLockedError
        If a broker, or another `open`, has the log open for writing.
    InconsistentTopicIdError
        If the log on disk has another topic id.
    CorruptCheckpointError, StrayFileError
        If a checkpoint, or a file name, in the directory cannot be read.
    LogArgumentError
        With ``"a"``, if `path` is a URL, or if another argument is invalid.
    OSError
        With ``"a"``, if a file in the directory is a symbolic link or of another
        special kind, or if the disk fails.

    Warns
    -----
    UnknownSettingsWarning
        If the settings of a broker's log are unknown: nothing is deleted from it.
    TieredLogWarning
        If the log has offsets before its first segment, which are in remote storage, or
        lost.
    LostOffsetsWarning
        If the log ends before records that are still in its files.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> batch = kafkalog.RecordBatchBuilder()
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> with tempfile.TemporaryDirectory() as root:
    ...     directory = Path(root, "orders-0")
    ...     with kafkalog.open(directory, "a") as log:
    ...         result = log.append(batch.build())
    ...         log.flush()
    ...     with kafkalog.open(directory) as log:
    ...         result.last_offset, log.log_end_offset
    (0, 1)
    """
    if mode == "r":
        reader = Log(path, memory_map=memory_map)
        warn_of_missing_start(reader.path, reader.missing_start)
        return reader
    if mode != "a":
        raise ValueError(f"mode {mode!r}, expected 'r' or 'a'")
    if memory_map:
        raise LogArgumentError("memory_map, expected only with mode 'r'")
    return open_to_append(path, config, broker=broker, topic_id=topic_id)


def open_to_append(
    path: AnyPath,
    config: LogConfig | None = None,
    *,
    broker: BrokerConfig | None = None,
    topic_id: str | None = None,
    clock: Clock | None = None,
    scheduler: Scheduler | None = None,
    disk: Disk = DISK,
) -> WritableLog:
    """Open a log as `open` does with mode ``"a"``, with a clock, scheduler and disk.

    Warnings name the line that called the caller of this function.
    """
    directory = local_path(path).absolute()
    name = _name_of(directory)
    _check_parent(directory.parent)
    topic_id = checked_topic_id(topic_id)
    topics = TopicSettings([directory.parent], config, None, broker)
    owned = log = None
    is_untouched = True
    try:
        owned = own_directory(directory.parent, name, disk)
        if directory.is_dir():
            check_no_links(directory)
        stored_topic_id = check_log(directory, topic_id)
        settings = topics.of(name[0], stored_topic_id)
        warn_of_settings({directory.name: settings}, stacklevel=4)
        # From here on a failure leaves no marker of a clean shutdown.
        is_untouched = False
        owned.begin()
        if not directory.exists():
            owned.forget(name)
        log = load_log(
            directory,
            settings.config,
            broker=broker,
            log_start_offset=owned.log_start_offset(name),
            is_tiered=settings.is_tiered,
            recovery_point=owned.recovery_point(name),
            lower_recovery_point=partial(owned.lower_recovery_point, name),
            clean=owned.is_clean(name),
            topic_id=topic_id,
            clock=clock,
            scheduler=scheduler,
            disk=disk,
        )
        log.owned_directory = owned
        is_alone = not topics.is_of_broker(log.topic_id)
        log.start_high_watermark(owned.high_watermark(name), is_alone=is_alone)
        warn_of_lost_offsets(log.report, directory, stacklevel=4)
        warn_of_missing_start(directory, log.missing_start)
    except BaseException:
        if log is not None:
            log.owned_directory = owned
            log.abandon()
        elif owned is not None:
            owned.release(name, in_order=is_untouched)
        raise
    return log


def _check_parent(log_directory: Path) -> None:
    """Raise `FileNotFoundError` if the directory around a log directory is missing."""
    parent = log_directory.parent
    if not parent.is_dir():
        error = FileNotFoundError(2, "No such directory", str(parent))
        error.add_note("A missing log directory is created, its parent is not.")
        raise error


def _name_of(directory: Path) -> Name:
    parsed = parse_partition_dir(directory.name)
    if parsed is None or parsed.state is not None:
        raise NotALogDirectoryError(f"not a partition's directory: {directory}")
    if directory.exists() and not directory.is_dir():
        raise NotALogDirectoryError(f"not a partition's directory: {directory}")
    return parsed.topic, parsed.partition
