"""`restore`: make a log directory for a broker from a backup or another cluster's.

The copy is written next to its destination, and gets its name when it is complete: see
`pending_directory`. Batches are appended to it as by a follower: offsets and timestamps
stay, indexes, producer states and transaction indexes are made anew. Segments begin
where those of the source do. All records of the source count as replicated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias, Unpack, get_args

from kafkalog.copies.carried_offsets import (
    OFFSETS_PARTITIONS,
    CommittedOffset,
    read_committed_offsets,
)
from kafkalog.copies.erasure_proof import (
    ProofReport,
    SelectionOf,
    search,
    search_originals,
)
from kafkalog.copies.record_selection import (
    RecordFilters,
    RecordSelection,
    as_selection,
)
from kafkalog.copies.repair_originals import kept_originals
from kafkalog.copies.restore_job import (
    RestoreJob,
    absolute,
    log_directories,
    partition_directory,
)
from kafkalog.copies.restore_report import (
    RestoreReport,
)
from kafkalog.copies.selected_batches import (
    SelectedBatches,
)
from kafkalog.copies.target_cluster import (
    target_cluster,
)
from kafkalog.copies.unchanged_copy import why_unchanged
from kafkalog.decoding.read_policy import Bounds, OnCorruption, ReadPolicy
from kafkalog.errors import (
    LogArgumentError,
    LogStateError,
    NotALogDirectoryError,
)
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.integer_limits import MIN_INT64
from kafkalog.log.ownership import Name
from kafkalog.messages.internal_records import INTERNAL_TOPICS
from kafkalog.progress import Progress
from kafkalog.query.newest_records import CONSUMER_OFFSETS
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.query.scan import Source
from kafkalog.query.sources import (
    Offset,
    PartitionSource,
    bounds_of,
    check_known,
    check_offset,
    find_sources,
)
from kafkalog.renamed import renamed_arguments
from kafkalog.storage.file_names import (
    METADATA_TOPIC,
    parse_partition_dir,
)
from kafkalog.storage.location import AnyPath, local_path
from kafkalog.storage.log_directory import PartitionSelection, matching_topics
from kafkalog.storage.pending_directory import PendingDirectory
from kafkalog.text.close_matches import no_such_name

OpenTransactions: TypeAlias = Literal["keep", "abort"]
OLD_FILTERS: Final = {"include": "topics", "exclude": "exclude_topics"}
INTERNAL_PREFIX: Final = "__"


@renamed_arguments(abort_open="open_transactions", groups="groups_file", **OLD_FILTERS)
def restore(
    source: Source,
    destination: str | Path,
    *,
    target: AnyPath | None = None,
    cluster_id: str | None = None,
    node_id: int | None = None,
    directory_id: str | None = None,
    topic_ids: Mapping[str, str] | AnyPath | None = None,
    leader_epoch: int | None = None,
    keep_producers: bool | None = None,
    open_transactions: OpenTransactions = "keep",
    groups_file: str | Path | None = None,
    offsets_partitions: int = OFFSETS_PARTITIONS,
    on_corruption: OnCorruption = "raise",
    max_batch_bytes: int = MAX_BATCH_BYTES,
    dry_run: bool = False,
    prove: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
    **filters: Unpack[RecordFilters],
) -> RestoreReport:
    """Make a log directory for a broker from a backup, with some or all of its records.

    Every record keeps its offset and timestamp. One that is not selected leaves its
    offset, as compaction does. A batch whose records are all selected is copied byte
    for byte, except for the leader epoch. Control records are always copied.

    The destination gets its name when it is complete: if `restore` is interrupted, it
    does not exist, or is as empty as before. One background thread runs meanwhile,
    beside those of `threads`; all have ended when `restore` returns.

    Parameters
    ----------
    source : path, URL, or list of these
        A log directory, the directory of a partition, or several of them. No broker
        should write to it. Directories marked ``-delete``, ``-future`` and ``-stray``
        are not copied, and neither is ``__cluster_metadata``.
    destination : str or path-like
        The log directory to write. It must not exist, or be empty.
    target : path, optional
        A log directory of the broker that the copy is for. Its cluster, node and
        directory id, and the topic ids of its metadata, become those of the copy.
    cluster_id, node_id : str and int, optional
        The ids for ``meta.properties``. By default those of the source.
    directory_id : str, optional
        The directory id, by default a new one, or that of `target`.
    topic_ids : mapping or path, optional
        The ids of the topics in the target cluster: a mapping, a CSV or JSON file, the
        output of ``kafka-topics.sh --describe``, or the cluster's metadata.
    leader_epoch : int, optional
        The leader epoch that all batches get. By default 0 for another cluster, that
        is with `target`, `cluster_id` or `topic_ids`, as its partitions begin with it;
        otherwise batches keep theirs.
    keep_producers : bool, optional
        Whether the state of producers is kept, so that they continue. By default it is,
        except for another cluster, which gives their ids to others.
    open_transactions : {"keep", "abort"}
        What happens to transactions that are open at the end of the copy. With
        ``abort`` a marker is appended for each; otherwise consumers with
        ``read_committed`` stop there.
    groups_file : path or "internal", optional
        Carry over the committed offsets of consumer groups in ``__consumer_offsets``:
        to a file, JSON if its name ends with ``.json``, otherwise CSV for
        ``kafka-consumer-groups.sh --reset-offsets --from-file``; or into the
        ``__consumer_offsets`` of the copy. They are moved to the copy's offsets.
    offsets_partitions : int
        The number of partitions of ``__consumer_offsets`` in the target cluster.
    on_corruption : {"raise", "skip"}
        Whether damage in the source raises an error, or is skipped and reported.
    max_batch_bytes : int
        Greatest size of a batch, uncompressed. A larger one counts as corrupt.
    dry_run : bool
        Whether nothing is written. The report is that of the copy, without hashes,
        sizes, producer snapshots and transaction indexes.
    prove : bool
        Whether the copy is searched for records that should not be in it.
    threads : int
        Number of partitions that are copied at the same time. With several, `where` is
        called in several threads.
    progress : callable, optional
        Called with the bytes read so far, and those to read.
    topics, exclude_topics : str or iterable of str, optional
        Names or glob patterns of topics to copy, and not to copy. By default all are
        copied. Internal topics are copied only if a pattern of `topics` that begins
        with ``__`` matches. Their records are all copied.
    start_offset, end_offset : int or mapping of (str, int) to int, optional
        The interval of offsets to copy. They become the log start offset and the log
        end offset of the copy, where they are within the log.
    start_timestamp, end_timestamp : int, datetime or str, optional
        The interval of timestamps of the records to copy, as for `scan`; a record
        without a timestamp is outside.
    keys, exclude_keys : iterable of bytes, str or None
        Keys of the records to copy, and not to copy; None is the null key. They are
        compared byte for byte.
    producer_ids, exclude_producer_ids : iterable of int
        Producers of the records to copy, and not to copy; -1 stands for none.
    headers, exclude_headers : iterable
        Headers that a record has to have, each of them, and headers of the records not
        to copy, as for `scan`.
    where : callable, optional
        Called with chunks of `Records` of one partition, which are views. Returns an
        array of bools: which of the records to copy.

    Returns
    -------
    RestoreReport
        The files, partitions and committed offsets of the copy.

    Raises
    ------
    FileNotFoundError
        If the source, a topic, or the parent of the destination does not exist.
    NotALogDirectoryError
        If the source is neither a log directory nor a partition's.
    LogStateError
        If the destination is not empty, if an interrupted copy is next to it, if a
        partition is in several directories, or if the id of a topic is unknown.
    DiskSpaceError
        If there is not enough free space for the segments that are copied whole.
        Nothing is written. With filters of records, the size is not known before.
    CorruptRecordError
        If the source is damaged. Nothing is left of the copy.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with kafkalog.open(f"{root}/logs/people-0", "a") as log:
    ...         columns = {"key": [b"ann", b"bob", b"ann"], "value": [b"1", b"2", b"3"]}
    ...         appended = log.append_records(columns)
    ...     report = kafkalog.restore(
    ...         f"{root}/logs", f"{root}/copy", exclude_keys=["ann"], prove=True
    ...     )
    ...     copy = kafkalog.scan(f"{root}/copy").to_arrow()
    >>> report.excluded_records, report.ok, copy["offset"].to_pylist()
    (2, True, [1])
    """
    if open_transactions not in get_args(OpenTransactions):
        expected = " or ".join(get_args(OpenTransactions))
        reason = f"open_transactions {open_transactions!r}, expected {expected}"
        raise LogArgumentError(reason)
    selection = as_selection(filters)
    start, end = _offsets(filters)
    found = _partitions(source)
    check_known("start_offset", start, found)
    check_known("end_offset", end, found)
    chosen = _chosen(found, *_patterns(filters))
    logs = [
        SelectedBatches(
            each,
            partition_directory(each),
            # The limits and conditions are about users' records.
            Bounds() if each.topic in INTERNAL_TOPICS else _bounds_of(each, start, end),
            RecordSelection() if each.topic in INTERNAL_TOPICS else selection,
            ReadPolicy(on_corruption=on_corruption, max_batch_bytes=max_batch_bytes),
        )
        for each in chosen
    ]
    cluster = target_cluster(
        log_directories(found),
        target=target,
        cluster_id=cluster_id,
        node_id=node_id,
        directory_id=directory_id,
        topic_ids=topic_ids,
        leader_epoch=leader_epoch,
        keep_producers=keep_producers,
    )
    names = [log.name for log in logs]
    carries = groups_file == "internal"
    if carries and any(topic == CONSUMER_OFFSETS for topic, _ in names):
        reason = f"{CONSUMER_OFFSETS} is copied, and groups are carried over into it"
        raise LogArgumentError(f"{reason}, expected one of both")
    cluster.check_topics([*names, (CONSUMER_OFFSETS, 0)] if carries else names)
    copy = PendingDirectory(local_path(destination), log_directories(found))
    # Groups are read for long: a destination that is refused is refused before.
    copy.check()
    committed, problems = None, list[ScanProblem]()
    if groups_file is not None:
        committed, problems = _committed(found, on_corruption)
    job = RestoreJob(
        logs,
        cluster,
        groups_file,
        offsets_partitions,
        committed,
        problems,
        abort_open=open_transactions == "abort",
        threads=threads,
        progress=progress,
    )
    report = job.plan(copy.target) if dry_run else job.write(copy)
    topics = {each.topic for each in found} - {each.topic for each in chosen}
    left_out = topics.difference(INTERNAL_TOPICS)
    report = replace(
        report,
        unchanged_because=why_unchanged(
            filters, selection, logs, left_out, report.partitions
        ),
        backups=_holding_originals(found, logs),
    )
    if prove and not dry_run:
        report = replace(report, proof=_prove(copy.target, logs))
    return report


@renamed_arguments(**OLD_FILTERS)
def prove(path: str | Path, **filters: Unpack[RecordFilters]) -> ProofReport:
    """Search a log directory for records that `restore` would not copy.

    All files with batches are read: also those marked ``.deleted``, ``.cleaned`` and
    ``.swap``, and those in directories marked ``-delete``, ``-future`` and ``-stray``.
    Records below the log start offset are found, too, and bytes of `exclude_keys` that
    are in no valid batch. So are the originals of repairs that are in the log directory
    or next to it. Internal topics are not searched.

    Parameters
    ----------
    path : str or path-like
        A log directory, or the directory of a partition. Nothing in it is changed.
    **filters : RecordFilters
        The options of `restore` that select records, from `topics` to `where`.

    Returns
    -------
    ProofReport
        The files in which something was found.

    Raises
    ------
    FileNotFoundError, NotALogDirectoryError
        If there is no log directory at `path`.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with kafkalog.open(f"{root}/people-0", "a") as log:
    ...         appended = log.append_records({"key": [b"ann"], "value": [b"1"]})
    ...     report = kafkalog.prove(root, exclude_keys=["ann"])
    >>> report.ok, report.findings[0].records
    (False, 1)
    """
    selection = as_selection(filters)
    start, end = _offsets(filters)
    root = local_path(path)
    found = find_sources(root)
    included, excluded = _patterns(filters)

    def selection_of(name: Name) -> tuple[RecordSelection, Bounds]:
        source = PartitionSource(*name)
        if not _chosen_topics({name[0]}, included, excluded):
            return RecordSelection(keys=frozenset()), Bounds()
        return selection, _bounds_of(source, start, end)

    check_known("start_offset", start, found)
    check_known("end_offset", end, found)
    return search(root, selection_of)


def _partitions(source: Source) -> list[PartitionSource]:
    """Return the partitions of a source that can be copied, by topic and number.

    Raises `LogStateError` for a partition in several directories.
    """
    found = [
        each
        for each in find_sources(source)
        if each.topic != METADATA_TOPIC and not _is_marked(each)
    ]
    seen: dict[Name, PartitionSource] = {}
    for each in found:
        other = seen.setdefault((each.topic, each.partition), each)
        if other is not each:
            raise LogStateError(f"partition in two directories: {other} and {each}")
    if not found:
        raise NotALogDirectoryError(f"no partition, expected at least one: {source}")
    return [seen[name] for name in sorted(seen)]


def _bounds_of(source: PartitionSource, start: Offset, end: Offset) -> Bounds:
    """Return the bounds of a partition; without a start, whole segments are copied."""
    unbounded = replace(source, log_start_offset=MIN_INT64)
    return bounds_of(unbounded, start, end, (None, None))


def _is_marked(source: PartitionSource) -> bool:
    directory = partition_directory(source)
    parsed = parse_partition_dir(absolute(directory).name)
    if parsed is None:
        raise NotALogDirectoryError(f"not a partition's directory: {directory}")
    return parsed.state is not None


def _offsets(filters: RecordFilters) -> tuple[Offset, Offset]:
    """Return the first offset and the end offset to copy."""
    start, end = filters.get("start_offset"), filters.get("end_offset")
    check_offset("start_offset", start)
    check_offset("end_offset", end)
    return start, end


def _patterns(filters: RecordFilters) -> tuple[Sequence[str], Sequence[str]]:
    """Return the patterns of topics to copy, and those of topics not to copy."""
    selection = PartitionSelection.of(
        filters.get("topics"), None, filters.get("exclude_topics")
    )
    return selection.topics, selection.excluded


def _chosen(
    found: list[PartitionSource], include: Sequence[str], exclude: Sequence[str]
) -> list[PartitionSource]:
    """Return the partitions of topics to copy.

    Raises `FileNotFoundError` for a pattern of `topics` that matches no topic.
    """
    topics = {each.topic for each in found}
    for pattern in include:
        if not matching_topics(topics, pattern):
            raise no_such_name("topic", pattern, topics)
    included = _chosen_topics(topics, include, exclude)
    return [each for each in found if each.topic in included]


def _chosen_topics(
    topics: set[str], include: Sequence[str], exclude: Sequence[str]
) -> set[str]:
    """Return the topics that are included, and not excluded."""
    internal = topics.intersection(INTERNAL_TOPICS)
    chosen = set() if include else topics - internal
    for pattern in include:
        matching = matching_topics(topics, pattern)
        is_internal = pattern.startswith(INTERNAL_PREFIX)
        chosen |= matching if is_internal else matching - internal
    for pattern in exclude:
        chosen -= matching_topics(topics, pattern)
    return chosen


def _committed(
    found: list[PartitionSource], on_corruption: OnCorruption
) -> tuple[list[CommittedOffset], list[ScanProblem]]:
    directories = [each.directory for each in found if each.topic == CONSUMER_OFFSETS]
    if not directories:
        raise NotALogDirectoryError(f"no partition of {CONSUMER_OFFSETS} in the source")
    return read_committed_offsets(directories, on_corruption)


def _holding_originals(
    found: list[PartitionSource], logs: list[SelectedBatches]
) -> tuple[str, ...]:
    """Return the originals of repairs that hold records which a copy leaves out."""
    every = [
        originals
        for directory in log_directories(found)
        for originals in kept_originals(directory)
    ]
    selection_of = _selection_of(logs)
    return tuple(
        str(originals)
        for originals in every
        if search_originals(originals, selection_of).findings
    )


def _prove(path: Path, logs: list[SelectedBatches]) -> ProofReport:
    return search(path, _selection_of(logs))


def _selection_of(logs: list[SelectedBatches]) -> SelectionOf:
    by_name = {log.name: log for log in logs}

    def selection_of(name: Name) -> tuple[RecordSelection, Bounds]:
        log = by_name.get(name)
        if log is None:
            return RecordSelection(keys=frozenset()), Bounds()
        return log.selection, log.bounds

    return selection_of
