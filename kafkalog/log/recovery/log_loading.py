"""Loading of a writable log from a directory and its checkpointed offsets.

This is the interface of a broker, which keeps the offsets, the clock and the tasks of a
log. `kafkalog.open` reads them from the checkpoints next to the directory. This module
reads no checkpoint of offsets, and takes no lock.

Source: ``UnifiedLog.create``, and its constructor.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.log.clock import Clock, Scheduler, SystemClock, Task
from kafkalog.log.leader_epochs import LeaderEpochs, read_epochs
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.producers.snapshot_files import SnapshotFiles
from kafkalog.log.recovery.leftover_files import check_names, list_files
from kafkalog.log.recovery.log_loader import LoadedOffsets, LogLoader
from kafkalog.log.runtime import Runtime
from kafkalog.log.segment_map import SegmentMap
from kafkalog.log.state import LogState, TopicIdFile
from kafkalog.log.watermarks import find_first_unstable, set_log_start
from kafkalog.log.writable_log import WritableLog
from kafkalog.segment.segment_files import checked_size
from kafkalog.storage.checkpoint_file import LEADER_EPOCHS
from kafkalog.storage.durable_file import DISK, Disk
from kafkalog.storage.file_names import SWAP


def check_log(directory: Path, topic_id: str | None = None) -> str | None:
    """Check that the log in a directory can be loaded, without changing anything.

    Kafka finds the same errors while it loads the log, when some files are changed.

    Returns the topic id on disk, None without one or without the directory. Raises
    `CorruptCheckpointError` or `LogArgumentError` for an unreadable
    ``partition.metadata`` or ``leader-epoch-checkpoint``, `InconsistentTopicIdError`
    for the id of another topic, `StrayFileError` for a segment file without an offset
    in its name, and `OversizedSegmentError`.
    """
    if not directory.is_dir():
        return None
    files = list_files(directory)
    check_names(files)
    for name in (*files[".log"], *files[SWAP]):
        if name.removesuffix(SWAP).endswith(".log"):
            with suppress(FileNotFoundError):  # a broker has removed it since
                checked_size(directory / name)
    read_epochs(directory / LEADER_EPOCHS)
    stored = TopicIdFile(directory, DISK)
    return stored.topic_id if stored.start(topic_id) else None


def load_log(
    directory: str | os.PathLike[str],
    config: LogConfig | None = None,
    *,
    broker: BrokerConfig | None = None,
    log_start_offset: int | None = None,
    is_tiered: bool | None = False,
    recovery_point: int = 0,
    lower_recovery_point: Callable[[int], None] | None = None,
    clean: bool = True,
    topic_id: str | None = None,
    clock: Clock | None = None,
    scheduler: Scheduler | None = None,
    disk: Disk = DISK,
) -> WritableLog:
    """Load the log in a directory for appends; create the directory if it is missing.

    `log_start_offset` is the checkpointed one, or None. `is_tiered` is whether the
    topic has remote storage; with None the checkpointed log start offset decides.

    `clean` states that the last shutdown was clean. If not, the segments at and after
    `recovery_point` are recovered, and truncated after the last valid batch; the
    `report` of the log has the result. `lower_recovery_point` is called before an index
    is rebuilt, so that recovery is repeated from there after an interruption. Without a
    `scheduler`, the log has a thread of its own. If loading fails, all files are
    closed, and no thread is running.

    Raises `CorruptCheckpointError` for a checkpoint that cannot be rebuilt, and
    `InconsistentTopicIdError`.

    >>> import tempfile, kafkalog
    >>> batch = kafkalog.RecordBatchBuilder()
    >>> batch.append(b"k", b"v")
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with load_log(Path(root, "orders-0")) as log:
    ...         log.append(batch.build()).last_offset, log.log_end_offset
    (0, 1)
    """
    path = Path(directory)
    config = LogConfig() if config is None else config
    broker = BrokerConfig() if broker is None else broker
    clock = SystemClock() if clock is None else clock
    runtime = Runtime(clock, scheduler, disk)
    if not path.is_dir():
        disk.make_directory(path)
        disk.sync_directory(path.parent)

    snapshots = SnapshotFiles(path, disk)  # not listed again for each segment

    def new_producers() -> ProducerStateManager:
        return ProducerStateManager(
            path,
            snapshots=snapshots,
            clock=clock,
            disk=disk,
            producer_id_expiration_ms=broker.producer_id_expiration_ms,
            transaction_verification=broker.transaction_partition_verification_enable,
        )

    loader = LogLoader(
        directory=path,
        config=config,
        runtime=runtime,
        segments=SegmentMap(),
        epochs=LeaderEpochs(path / LEADER_EPOCHS, disk, runtime.later),
        producers=new_producers(),
        new_producers=new_producers,
        lower_recovery_point=lower_recovery_point or (lambda _: None),
        clean=clean,
        checkpointed_start=log_start_offset,
        is_tiered=is_tiered,
        recovery_point=recovery_point,
    )
    try:
        state = _state_of(loader, loader.load())
        _start(state, topic_id)
        every_ms = broker.producer_id_expiration_check_interval_ms
        return WritableLog(state, loader.report, _schedule(state, every_ms))
    except BaseException:
        runtime.closed = True
        loader.abandon()
        runtime.stop()
        raise


def _state_of(loader: LogLoader, loaded: LoadedOffsets) -> LogState:
    return LogState(
        directory=loader.directory,
        config=loader.config,
        runtime=loader.runtime,
        segments=loader.segments,
        producers=loader.producers,
        leader_epochs=loader.epochs,
        topic_id_file=TopicIdFile(loader.directory, loader.runtime.disk),
        log_start_offset=loaded.log_start_offset,
        is_tiered=loader.is_tiered,
        keeps_log_start=loaded.keeps_log_start,
        is_fragment=loaded.log_start_offset < loader.segments.first.base_offset,
        recovery_point=loaded.recovery_point,
        end=loaded.end,
        high_watermark=OffsetMetadata(loaded.log_start_offset),
        last_flushed_ms=loader.runtime.now_ms(),
    )


def _schedule(state: LogState, interval_ms: int) -> Task:
    """Schedule the removal of expired producers."""

    def expire() -> None:
        runtime = state.runtime
        with runtime.lock:
            state.producers.remove_expired_producers(runtime.now_ms())

    return state.runtime.scheduler.schedule(
        "PeriodicProducerExpirationCheck", expire, interval_ms, interval_ms
    )


def _start(state: LogState, topic_id: str | None) -> None:
    """Set the offsets and the topic id of a loaded log."""
    set_log_start(state, state.log_start_offset)
    find_first_unstable(state)
    if not state.topic_id_file.start(topic_id):
        state.runtime.later("flush-metadata-file", state.topic_id_file.flush)
