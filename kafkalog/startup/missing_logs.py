"""Partitions that a broker does not serve, and those that it creates again.

A broker registers the ids of its log directories. A partition whose directory has an id
that is not among them gets no leader. A log under the name of another topic is loaded,
and rejected when the partition of that name gets a leader.

Source: ``DirectoryId.isOnline``, ``LogManager.getOrCreateLog``,
``LogManager.isStrayReplica``.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from pathlib import Path

from kafkalog.manager.cluster_image import is_reserved
from kafkalog.startup.loaded_log import LoadedLog
from kafkalog.startup.start_report import StartState
from kafkalog.storage.checkpoint_file import HIGH_WATERMARKS, RECOVERY_POINTS


def is_lost(recorded: str, directory_ids: Container[str]) -> bool:
    """Return whether a recorded directory id is none of the broker's."""
    return not is_reserved(recorded) and recorded not in directory_ids


def describe_lost(recorded: str, actual: str | None) -> str:
    """Return why a partition gets no leader."""
    return (
        f"no leader: the cluster's metadata has it in a directory with id {recorded}, "
        f"and the directory.id here is {actual}"
    )


def is_rejected(log: LoadedLog, topic_ids: Mapping[str, str]) -> bool:
    """Return whether a partition gets a leader, but its log has another topic's id."""
    expected = topic_ids.get(log.name.topic)
    return log.is_current and expected is not None and expected != log.topic_id


def place_missing(loaded: LoadedLog) -> None:
    """Note that a broker creates an empty log, or cannot."""
    path = Path(loaded.start.directory)
    if os.path.lexists(path) and not path.is_dir():
        reason = f"exists, and is not a directory: {path}"
        loaded.note(f"cannot be created: {reason}")
        loaded.found.failures.append(reason)
        return
    checkpoints = loaded.found.checkpoints
    offset = max(
        checkpoints.get(file, {}).get(loaded.key, 0)
        for file in (RECOVERY_POINTS, HIGH_WATERMARKS)
    )
    loaded.note(
        "created empty: the cluster assigns the partition to this broker, and there is "
        "no directory",
        state=StartState.MISSING,
        log_start_offset=0,
        log_end_offset=0,
    )
    if offset:
        reason = f"its log is gone, which had offsets up to {offset - 1}"
        loaded.note(reason, unserved=reason)
