"""`salvage`: everything readable of damaged logs, in a directory that a broker takes.

Of a log directory all partitions are read, of a partition's directory one, and a lone
``.log`` file is a fragment of one partition: see `valid_batches`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafkalog.copies.copy_directory import CopiedLog, CopyDirectory, topic_id_of
from kafkalog.copies.offset_coverage import OffsetCoverage
from kafkalog.copies.salvage_report import SalvagedPartition, SalvageReport
from kafkalog.copies.valid_batches import SegmentBegin, ValidBatches
from kafkalog.errors import CorruptCheckpointError, LogArgumentError, LogStateError
from kafkalog.formats.checkpoint import EpochEntry, parse_epochs
from kafkalog.segment.file_records import Step
from kafkalog.storage.byte_source import FileSource
from kafkalog.storage.checkpoint_file import (
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_if_exists,
    read_offsets_or_none,
)
from kafkalog.storage.file_names import (
    METADATA_TOPIC,
    parse_file_names,
    parse_partition_dir,
)
from kafkalog.storage.location import AnyPath, entries, local_path
from kafkalog.storage.log_directory import is_partition, list_partitions

SALVAGED: Final = "salvaged"
"""The default topic of batches whose topic is unknown."""

Name = tuple[str, int]


def salvage(
    src: AnyPath,
    dst: str | os.PathLike[str],
    *,
    topic: str | None = None,
    partition: int | None = None,
) -> SalvageReport:
    """Write everything readable of damaged logs to a directory that a broker takes.

    A batch is written if its CRC is valid and its offsets fit to those around it. It
    keeps its offsets, leader epoch, timestamps and bytes; segments keep their names.
    Indexes, producer snapshots, the epoch checkpoint and the checkpoints of the log
    directory are made anew. A valid ``meta.properties`` and the topic ids are copied.
    Nothing in `src` is changed.

    `dst` is written as ``<dst>.incomplete``, and renamed at the end.

    Parameters
    ----------
    src : path
        A log directory, a partition's directory, or a ``.log`` file under any name,
        which may begin inside of a batch.
    dst : path
        The log directory to write, which is missing or empty.
    topic : str, optional
        The topic of a partition's directory or of a file. By default that in the name
        of the directory, or ``salvaged``.
    partition : int, optional
        The partition's number, by default that in the name of the directory, or 0.

    Returns
    -------
    SalvageReport
        For each partition the numbers of what was written, and what is missing.

    Raises
    ------
    FileNotFoundError
        If `src` does not exist, or the parent of `dst`.
    NotALogDirectoryError
        If `src` is a directory that is neither a partition nor a log directory.
    LogStateError
        If `dst` is not empty.
    LogArgumentError
        If a topic or partition is given for a log directory, or is no legal name.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with kafkalog.open(f"{root}/data/orders-0", "a") as log:
    ...         for value in (b"one", b"two", b"three"):
    ...             _ = log.append_records({"value": [value]})
    ...         [segment] = log.segments
    ...     with open(segment.path, "r+b") as file:
    ...         _ = file.seek(segment.path.stat().st_size // 2), file.write(b"?")
    ...     report = kafkalog.salvage(f"{root}/data", f"{root}/salvaged")
    >>> report
    <SalvageReport: 1 partition, 2 records, 1 offsets missing>
    >>> report.partitions[0].missing
    (OffsetRange(first=1, last=1),)
    """
    source, target = local_path(src).absolute(), local_path(dst)
    if not source.exists():
        raise FileNotFoundError(2, os.strerror(2), str(source))
    target_path = target.absolute()
    if target_path == source or source in target_path.parents:
        raise LogStateError(f"destination inside of the source: {target}")
    with CopyDirectory(target) as copy:
        if source.is_dir() and not is_partition(source):
            if topic is not None or partition is not None:
                raise LogArgumentError(
                    "topic or partition of a log directory, expected none"
                )
            rows = list(_of_log_directory(source, copy))
        else:
            name = _chosen_name(source, topic, partition)
            rows = [_of_one(source, name, copy)]
    return SalvageReport(tuple(rows), sum(row.bytes_unreadable for row in rows))


def _of_log_directory(
    source: Path, copy: CopyDirectory
) -> Iterator[SalvagedPartition]:
    copy.copy_identity(source)
    for parsed, directory in list_partitions(source):
        if isinstance(directory, Path):
            yield _of_one(directory, (parsed.topic, parsed.partition), copy)


def _chosen_name(source: Path, topic: str | None, partition: int | None) -> Name:
    """Return the name of one partition: the given one, or that of its directory."""
    directory = source if source.is_dir() else source.parent
    parsed = parse_partition_dir(directory.name)
    known = (SALVAGED, 0) if parsed is None else (parsed.topic, parsed.partition)
    name = (
        known[0] if topic is None else topic,
        known[1] if partition is None else partition,
    )
    checked = parse_partition_dir(f"{name[0]}-{name[1]}")
    if checked is None or (checked.topic, checked.partition) != name:
        raise LogArgumentError(
            f"topic {name[0]!r} and partition {name[1]}, expected a legal name"
        )
    return name


def _of_one(source: Path, name: Name, copy: CopyDirectory) -> SalvagedPartition:
    """Write the partition of a directory or of a file."""
    coverage = OffsetCoverage()
    batches = ValidBatches(coverage)
    notes: list[str] = []
    topic_id = topic_id_of(source) if source.is_dir() else None
    with copy.open(*name, topic_id) as log:
        if not source.is_dir():
            with FileSource(source) as file:
                _write(batches.of_file(file), log, notes)
        else:
            start = read_offsets_or_none(source.parent, LOG_STARTS).get(name)
            high_watermark = read_offsets_or_none(source.parent, HIGH_WATERMARKS)
            coverage.reached = start
            _write(batches.of_directory(source), log, notes)
            _reach_end(source, name, coverage)
            log.finish(start, high_watermark.get(name), _epochs_of(source))
    return SalvagedPartition(
        *name,
        records=log.records,
        batches=log.batches,
        missing=tuple(coverage.missing),
        bytes_unreadable=batches.bytes_unreadable,
        source=str(source),
        notes=tuple(notes),
    )


def _write(
    found: Iterator[SegmentBegin | Step], log: CopiedLog, notes: list[str]
) -> None:
    for each in found:
        if isinstance(each, Step):
            for index, error in log.append(each.data, each.origin, each.rows):
                at = int(each.rows["position"][index])
                notes.append(f"batch at byte {at}: {error}")
        elif each.base_offset is not None:
            log.begin_segment(each.base_offset)


def _reach_end(directory: Path, name: Name, coverage: OffsetCoverage) -> None:
    """Add the offsets up to the greatest known log end offset, which are missing.

    It is known by the checkpoints, and by the name of the last producer snapshot.
    """
    ends = [
        offsets[name]
        for offsets in (
            read_offsets_or_none(directory.parent, checkpoint)
            for checkpoint in (HIGH_WATERMARKS, RECOVERY_POINTS)
        )
        if name in offsets
    ]
    names = parse_file_names(entry.name for entry in entries(directory))
    ends += [
        each.base_offset
        for each in names.values()
        if each.kind == "snapshot" and each.suffix is None
    ]
    coverage.is_damaged = True
    coverage.reach(max(ends, default=0))


def _epochs_of(directory: Path) -> list[EpochEntry]:
    """Return the entries of the epoch checkpoint; a corrupt file has none."""
    try:
        return read_if_exists(directory / LEADER_EPOCHS, parse_epochs) or []
    except CorruptCheckpointError:
        return []
