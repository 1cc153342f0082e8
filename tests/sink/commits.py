"""Staged files and commits for tests, and what is in the logs afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import kafkalog
from kafkalog import LogConfig, RecordBatchBuilder
from kafkalog.sink.log_commit import APPENDS_ONLY, CommitPlan, LogCommitter
from kafkalog.sink.staging import CommitIdentity, StagedFile, StagingWriter
from kafkalog.storage.durable_file import DISK
from kafkalog.testing import open_manager

NOW_MS = 1_700_000_000_000
ROWS = {
    ("clicks", 0): [[b"c0"], [b"c1", b"c2"]],
    ("orders", 0): [[b"a0", b"a1"], [b"a2"], [b"a3", b"a4"]],
    ("orders", 2): [[b"b%d" % i for i in range(7)]],
}
"""Batches of values by topic and partition."""

Rows = Mapping[tuple[str, int], Iterable[Iterable[bytes]]]


def build(values: Iterable[bytes], **settings: Any) -> bytes:
    """Return a batch of values, with the values as keys too."""
    builder = RecordBatchBuilder(**settings)
    for value in values:
        builder.append(value, value, timestamp=NOW_MS)
    return builder.build()


def stage(
    root: Path,
    identity: CommitIdentity,
    rows: Rows = ROWS,
    *,
    task: int = 0,
    disk: Any = DISK,
    **settings: Any,
) -> tuple[StagedFile, ...]:
    """Write staged files of one task."""
    with StagingWriter(root, identity, task, 0, disk) as writer:
        for name, batches in rows.items():
            writer.write(*name, [build(values, **settings) for values in batches])
        return writer.finish()


def plan(
    identity: CommitIdentity, files: tuple[StagedFile, ...], **options: Any
) -> CommitPlan:
    """Return a plan that creates topics of three partitions."""
    defaults = {"partitions": 3, "settings": {}, "visibility": "record"}
    return CommitPlan(identity, files, **(defaults | options))


def committer(root: Path, disk: Any) -> LogCommitter:
    """Return a committer whose logs are written by a disk, with small indexes."""

    def open_logs(directory: Path) -> kafkalog.LogManager:
        config = LogConfig(segment_index_bytes=4096, file_delete_delay_ms=0)
        return open_manager(directory, config, broker=APPENDS_ONLY, disk=disk)

    return LogCommitter(root, disk, open_logs)


def values(root: Path, isolation: str = "read_uncommitted") -> dict[Any, list[bytes]]:
    """Return the values of each partition, in offset order."""
    found: dict[Any, list[bytes]] = {}
    columns = ["topic", "partition", "value"]
    scan = kafkalog.scan(root, columns=columns, isolation=isolation)
    for topic, partition, value in zip(
        *scan.to_arrow().to_pydict().values(), strict=True
    ):
        found.setdefault((topic, partition), []).append(value)
    return found


def flat(rows: Rows = ROWS) -> dict[Any, list[bytes]]:
    """Return the values of staged rows by partition, as `values` returns them."""
    return {
        name: [v for batch in batches for v in batch] for name, batches in rows.items()
    }


def staged_names(root: Path) -> list[str]:
    """Return the names of all staged files in a directory."""
    return sorted(path.name for path in root.glob("kafkalog-staged-*"))
