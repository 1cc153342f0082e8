"""`salvage`: everything readable of damaged logs, in a directory that a broker takes.

Of a log directory all partitions are read, of a partition's directory one, and a lone
``.log`` file is a fragment of one partition: see `valid_batches`. Any other file is an
image, in which batches of many partitions may be: see `image_search` and `batch_runs`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

import numpy as np

from kafkalog.array_types import Bytes
from kafkalog.copies.batch_runs import Chain, HeaderFile, RunFinder, chains_of
from kafkalog.copies.copy_directory import (
    NEW_SEGMENTS,
    SOURCE_SEGMENTS,
    CopiedLog,
    CopyDirectory,
    topic_id_of,
)
from kafkalog.copies.image_search import ImageFile, find_batches
from kafkalog.copies.salvage_report import SalvagedPartition, SalvageReport
from kafkalog.copies.valid_batches import ValidBatches
from kafkalog.errors import (
    LogArgumentError,
    NotALogDirectoryError,
)
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.log.ownership import Name
from kafkalog.log.reading.cluster_metadata import METADATA_PARTITION
from kafkalog.log.reading.remote_offsets import find_missing_start
from kafkalog.parallel import Map, mapping
from kafkalog.progress import note_begun
from kafkalog.query.sources import FILE_ENDINGS
from kafkalog.renamed import renamed_arguments
from kafkalog.segment.file_records import STEP_BYTES, Step
from kafkalog.segment.log_segment import LogSegment
from kafkalog.storage.byte_source import FileSource
from kafkalog.storage.file_names import (
    METADATA_TOPIC,
    PARTITION_METADATA,
    parse_partition_dir,
)
from kafkalog.storage.location import AnyPath, local_path, no_such_path
from kafkalog.storage.log_directory import (
    EVERY_PARTITION,
    LINKED,
    Numbers,
    PartitionSelection,
    Topics,
    is_partition,
    linked_partitions,
    list_partitions,
    partitions_under,
)
from kafkalog.storage.pending_directory import destination_of
from kafkalog.verification.name_checks import cluster_topics

SALVAGED: Final = "salvaged"
"""The default topic of batches whose topic is unknown."""


@renamed_arguments(
    src="source",
    dst="destination",
    topic="topics, which select, or output_topic",
    partition="partitions, which select, or output_partition",
)
def salvage(
    source: AnyPath,
    destination: str | os.PathLike[str],
    *,
    topics: Topics = None,
    exclude_topics: Topics = None,
    partitions: Numbers = None,
    output_topic: str | None = None,
    output_partition: int | None = None,
    fragment: bool | None = None,
    undelete: bool = False,
    dry_run: bool = False,
    threads: int = 1,
) -> SalvageReport:
    """Write everything readable of damaged logs to a directory that a broker takes.

    A batch is written if its CRC is valid and its offsets agree with those around it.
    It keeps its offsets, leader epoch, timestamps and bytes; segments keep their names.
    Indexes, producer snapshots, the epoch checkpoint and the checkpoints of the log
    directory are made anew. A valid ``meta.properties`` and the topic ids are copied; a
    topic id that is missing is that in the cluster's metadata, if `source` has it.
    Nothing in `source` is changed.

    `destination` is written as ``<destination>.incomplete``, and renamed at the end.

    In an image, batches of magic 2 up to 16 MiB are found by their headers and CRCs.
    They do not name their partitions. Batches that certainly follow one another become
    one partition. All others become separate ones, even if they were of the same.

    Parameters
    ----------
    source : path
        A log directory, a partition's directory, a part of a ``.log`` file, which may
        begin inside of a batch, or an image: a block device, a tar archive, any bytes.
    destination : path
        The log directory to write, which is missing or empty.
    topics, exclude_topics : str or iterable of str, optional
        Of a log directory, only these topics, and not these; ``*``, ``?`` and ``[...]``
        match as in a shell.
    partitions : int or iterable of int, optional
        Of a log directory, only partitions with these numbers.
    output_topic : str, optional
        The topic that a partition's directory, a file or an image is written as. By
        default that in the name of the directory, or ``salvaged``.
    output_partition : int, optional
        The number that it is written as, by default that in the name of the directory,
        or 0. The partitions of an image are numbered from it on.
    fragment : bool, optional
        Whether a file is a part of one log; otherwise it is an image. By default a file
        with the name of a ``.log`` is.
    undelete : bool
        Whether segments are written, too, that retention or a request to delete records
        has marked ``.deleted`` and not removed yet. The log begins with the first of
        them, or with its first record where only the log start offset has moved.
    dry_run : bool
        Whether nothing is written to `destination`. The copy is written to a temporary
        directory, and removed.
    threads : int
        Number of partitions of a log directory that are read and written at the same
        time. The threads end with the call.

    Returns
    -------
    SalvageReport
        For each partition the numbers of what was written, and what is missing.

    Raises
    ------
    FileNotFoundError
        If `source` does not exist, or the parent of `destination`, or if no partition
        matches a topic or a number.
    NotALogDirectoryError
        If `source` is a directory that is neither a partition nor a log directory, or
        an image without a batch.
    LogStateError
        If `destination` is not empty.
    DiskSpaceError
        If there is not enough free space for the batches found in an image. What a log
        has is known only once it is written.
    LogArgumentError
        If the output's topic and partition are no legal name, or are given for a log
        directory, if partitions of a file are selected, or if `undelete` is given for a
        file.

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
    <SalvageReport: 1 partition, 2 records, 1 offset missing>
    >>> report.partitions[0].missing
    (OffsetInterval(first=1, last=1),)
    """
    place, target = local_path(source).absolute(), local_path(destination)
    selection = PartitionSelection.of(topics, partitions, exclude_topics)
    if not place.exists():
        raise no_such_path(place)
    with (
        destination_of(target, [place], dry_run=dry_run) as written,
        CopyDirectory(written, [place]) as copy,
    ):
        if place.is_dir() and not is_partition(place):
            if output_topic is not None or output_partition is not None:
                reason = "the partitions of a log directory keep their names"
                raise LogArgumentError(f"{reason}, expected no name for the output")
            with mapping(threads, "salvage") as run:
                rows = _of_log_directory(place, copy, selection, run, undelete=undelete)
        else:
            _check_selected(place, selection)
            name = _chosen_name(place, output_topic, output_partition)
            if undelete and not place.is_dir():
                raise LogArgumentError("undelete of a file, expected a directory")
            if fragment is None:
                fragment = place.name.endswith(FILE_ENDINGS)
            if place.is_dir() or fragment:
                rows = [_of_one(place, name, copy, undelete=undelete)]
            else:
                rows = list(_of_image(place, name, copy))
    return SalvageReport(tuple(rows))


def _of_log_directory(
    source: Path,
    copy: CopyDirectory,
    selection: PartitionSelection,
    run: Map,
    *,
    undelete: bool,
) -> list[SalvagedPartition]:
    """Write the chosen partitions of a log directory; list those that are links."""
    chosen = _chosen(source, selection)
    copy.copy_identity(source)
    cluster = cluster_topics(source / METADATA_PARTITION)
    cluster_ids = {} if cluster is None else cluster.topic_ids

    def salvaged(found: tuple[Name, Path]) -> SalvagedPartition:
        name, directory = found
        topic_id = cluster_ids.get(name[0])
        return _of_one(directory, name, copy, topic_id, undelete=undelete)

    listed = [
        ((parsed.topic, parsed.partition), directory)
        for parsed, directory in list_partitions(source)
        if isinstance(directory, Path)
    ]
    links = [
        SalvagedPartition(
            parsed.topic,
            parsed.partition,
            records=0,
            batches=0,
            missing=(),
            bytes_unreadable=0,
            source=str(link),
            notes=(LINKED,),
        )
        for parsed, link in linked_partitions(source)
        if parsed.state is None and (parsed.topic, parsed.partition) in chosen
    ]
    return [*run(salvaged, [each for each in listed if each[0] in chosen]), *links]


def _check_selected(source: Path, selection: PartitionSelection) -> None:
    """Raise an error if the partition of a directory or a file is not requested."""
    if source.is_dir():
        selection.choose(partitions_under(source))
    elif selection != EVERY_PARTITION:
        reason = "topics and partitions select in a log directory, found a file"
        error = LogArgumentError(f"{reason}: {source}")
        error.add_note("Name what is written with output_topic and output_partition.")
        raise error


def _chosen(source: Path, selection: PartitionSelection) -> set[Name]:
    """Return the names of the partitions, links included, that are requested."""
    listed = [*list_partitions(source), *linked_partitions(source)]
    names = sorted({(parsed.topic, parsed.partition) for parsed, _ in listed})
    return {names[i] for i in selection.choose(names)}


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


def _of_one(
    source: Path,
    name: Name,
    copy: CopyDirectory,
    cluster_id: str | None = None,
    *,
    undelete: bool,
) -> SalvagedPartition:
    """Write the partition of a directory or of a file.

    `cluster_id` is the topic's id in the cluster's metadata, for a directory that has
    no valid one: a broker would take it for a stray.
    """
    note_begun(source)
    is_directory = source.is_dir()
    batches = ValidBatches()
    try:
        if is_directory:
            find = ValidBatches.undeleted if undelete else ValidBatches.of
            batches = find(source, name)
    except OSError as error:
        unread = f"it cannot be read: {error}"
        return SalvagedPartition(*name, 0, 0, (), 0, str(source), notes=(unread,))
    topic_id = topic_id_of(source) if is_directory else None
    if topic_id is None and cluster_id is not None:
        topic_id = cluster_id
        batches.notes.append(
            f"topic id {topic_id} is from the cluster's metadata, as "
            f"{PARTITION_METADATA} is missing or corrupt"
        )
    settings = SOURCE_SEGMENTS if is_directory else NEW_SEGMENTS
    with copy.open(name, settings, topic_id) as log:
        if is_directory:
            _write_directory(source, name, batches, log)
        else:
            _write_fragment(source, batches, log)
    return SalvagedPartition(
        *name,
        records=log.records,
        batches=log.batches,
        missing=tuple(batches.coverage.missing),
        bytes_unreadable=batches.bytes_unreadable,
        source=str(source),
        notes=tuple(batches.notes),
        undeleted_segments=len(batches.deleted),
    )


def _write_directory(
    source: Path, name: Name, batches: ValidBatches, log: CopiedLog
) -> None:
    """Write the log of a partition's directory, in segments as there."""
    known = batches.known
    assert known is not None  # as of every directory
    segments = batches.segments_in(source)
    missing = find_missing_start(source, segments, known.log_start_offset)
    log_start = None
    if missing is not None:
        batches.notes.append(str(missing))
        log_start = None if missing.is_tiered is False else missing.first_offset
    for each in _until_error(batches.of_directory(source), batches.notes):
        if isinstance(each, LogSegment):
            log.begin_segment(each.start_offset, log_start)
        else:
            _append(log, each.data, each.origin, each.rows, batches.notes)
    batches.coverage.reach_end(known.end)
    if name[0] == METADATA_TOPIC:
        log.copy_quorum_files(source)
    log.finish(known.log_start_offset, known.high_watermark, known.epochs)


def _until_error(
    found: Iterator[LogSegment | Step], notes: list[str]
) -> Iterator[LogSegment | Step]:
    """Yield what is found up to an error of the disk that is read, which is noted."""
    try:
        yield from found
    except OSError as error:
        notes.append(f"what follows cannot be read: {error}")


def _write_fragment(source: Path, batches: ValidBatches, log: CopiedLog) -> None:
    """Write the batches of a part of a ``.log`` file."""
    with FileSource(source) as file:
        for step in batches.of_file(file):
            if not log.has_begun:
                log.begin_segment(int(batches.first_offsets[0]))
            _append(log, step.data, step.origin, step.rows, batches.notes)


def _of_image(
    source: Path, name: Name, copy: CopyDirectory
) -> Iterator[SalvagedPartition]:
    """Write the partitions of an image, numbered from that of `name` on."""
    with ImageFile(source) as image, TemporaryFile(dir=copy.path) as file:
        headers = HeaderFile(file)
        runs = RunFinder(headers).add_all(find_batches(image))
        if not runs:
            raise NotALogDirectoryError(f"no valid batch of magic 2: {source}")
        chains = chains_of(headers, runs)
        copy.check_space_for(
            rows for chain in chains for rows in _steps(headers, chain)
        )
        for number, chain in enumerate(chains, name[1]):
            notes: list[str] = []
            with copy.open((name[0], number), NEW_SEGMENTS) as log:
                log.begin_segment(chain.first_offset)
                ranges = _write_chain(image, _steps(headers, chain), log, notes)
                log.finish(None, None, ())
            yield SalvagedPartition(
                name[0],
                number,
                records=log.records,
                batches=log.batches,
                missing=(),
                bytes_unreadable=0,
                source=str(source),
                source_ranges=tuple(ranges),
                notes=tuple(notes),
            )


def _write_chain(
    image: ImageFile, steps: Iterable[BatchHeaders], log: CopiedLog, notes: list[str]
) -> list[tuple[int, int]]:
    """Write the batches of a chain; return the ranges of bytes that they are from."""
    ranges: list[tuple[int, int]] = []
    for rows in steps:
        start = int(rows["position"][0])
        end = int(rows["position"][-1] + rows["size_in_bytes"][-1])
        data = np.empty(end - start, np.uint8)
        data = data[: image.read_into(data, start)]
        _append(log, data, start, rows, notes)
        if ranges and ranges[-1][1] == start:
            start, _ = ranges.pop()
        ranges.append((start, end))
    return ranges


def _steps(headers: HeaderFile, chain: Chain) -> Iterator[BatchHeaders]:
    """Yield the headers of a chain, those together whose bytes are read together."""
    for first, end in chain.runs:
        for rows in headers.blocks(first, end):
            begins = rows["position"] - rows["position"][0]
            parts = np.flatnonzero(np.diff(begins // STEP_BYTES)) + 1
            yield from np.split(rows, parts)


def _append(
    log: CopiedLog, data: Bytes, origin: int, rows: BatchHeaders, notes: list[str]
) -> None:
    for index, error in log.append(data, origin, rows):
        at = int(rows["position"][index])
        notes.append(f"batch at byte {at}: {error}")
