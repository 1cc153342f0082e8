"""The committed offsets of consumer groups and their lag, now and at a past time.

The time of a log's record is its timestamp, and that of a commit is the timestamp of
its record in ``__consumer_offsets``. A log at a past time consists of the records below
the first one with a later timestamp.

What is removed since then is unknown, and null:

- an offset, if compaction removed records of ``__consumer_offsets`` from before the
  time, and of this group and partition only later ones are left;
- a log end offset, if the record before the first later one is removed, or if the last
  record has no timestamp;
- a log start offset that is not 0, as records are removed without a record of when.

Source: ``ConsumerGroupCommand.java``, ``OffsetMetadataManager.java``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog.analysis.internal_tables import (
    GROUP_ORDER,
    GROUPS,
    Row,
    committed_rows,
    sorted_table,
)
from kafkalog.analysis.share_offsets import (
    SHARE_STATE,
    SHARE_TOPICS,
    SharePlace,
    ShareState,
    name_topics,
    share_states,
    share_topics,
)
from kafkalog.decoding.read_policy import Bounds
from kafkalog.errors import LocatedError, NotALogDirectoryError
from kafkalog.formats.timestamps import Time, as_ms
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.log.reading.offset_lookup import NOT_FOUND, find_offset_for_time
from kafkalog.messages.internal_records import InternalRecord
from kafkalog.optional_packages import require
from kafkalog.query.newest_records import (
    CONSUMER_OFFSETS,
    OFFSET_COMMIT,
    NewestRecords,
    newest_records,
    partitions_of,
)
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.query.readable_offsets import Replica, earliest_offset, longest_replicas
from kafkalog.query.scan import Scan, Source, scan
from kafkalog.storage.log_directory import (
    PartitionSelection,
    Topics,
    matching_topics,
)
from kafkalog.text.close_matches import close_matches, first_few

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "arrow")

LAG: Final = pa.schema(
    [
        *GROUPS,
        pa.field("is_share_group", pa.bool_()),
        pa.field("is_beyond_log_end", pa.bool_()),
        pa.field("log_start_offset", pa.int64()),
        pa.field("log_end_offset", pa.int64()),
        pa.field("lag", pa.int64()),
    ]
)
BY_IMPORTANCE: Final = (
    *GROUP_ORDER,
    "lag",
    "offset",
    "log_end_offset",
    "is_beyond_log_end",
    "commit_timestamp",
)
"""The columns that a narrow table shows, the most important first."""
MARKED_GROUPS: Final = LAG.names[: -len(("log_start_offset", "log_end_offset", "lag"))]
UNKNOWN_COMMIT: Final = (None,) * (len(GROUPS) - len(GROUP_ORDER))

Problems = list[ScanProblem]
Place = tuple[str, int]
"""A topic and the number of a partition."""

Commit = tuple[Row, ShareState | None]
"""A row of `GROUPS`; that of a share group, and its state."""


class LogOffsetsAt(NamedTuple):
    """The start and the end of a log; None if unknown."""

    start: int | None
    end: int | None


NO_REPLICA: Final = LogOffsetsAt(None, None)


def groups(
    source: Source,
    *,
    groups: Iterable[str] | None = None,
    topics: Topics = None,
    exclude_topics: Topics = None,
    at: Time | None = None,
    filesystem: object = None,
    storage_options: Mapping[str, str] | None = None,
) -> pa.Table:
    """Return the committed offsets of consumer groups, now or at a past time.

    A share group has no committed offsets. Its rows have its start offsets: records
    below are done.

    Parameters
    ----------
    source : path, URL, or list of these
        A log directory, several, or directories of partitions of
        ``__consumer_offsets``.
    groups : iterable of str, optional
        Only these consumer groups.
    topics, exclude_topics : str or iterable of str, optional
        Only these topics, and not these; ``*``, ``?`` and ``[...]`` match as in a
        shell.
    at : int, datetime or str, optional
        The time, as for `scan`: records up to it count,
        those after it do not. A commit in a transaction counts if the transaction was
        committed by then.
    filesystem, storage_options : optional
        The file system of the paths, or options of that of a URL, as for `scan`.

    Returns
    -------
    pyarrow.Table
        A row for each group, topic and partition, sorted by these. The columns are
        ``group``, ``topic``, ``partition``, ``offset``, ``leader_epoch`` (null if the
        consumer did not know it), ``metadata``, ``commit_timestamp`` and
        ``expire_timestamp``, which only consumers before Kafka 2.1 have set. If
        compaction removed what the group may have committed by then, all of them after
        the first three are null: it had an offset or none.
        ``is_share_group`` marks share groups, and ``is_beyond_log_end`` offsets above
        the log end: a consumer that continues there is out of range, or skips
        records. It is null if no directory has the partition.

    Raises
    ------
    NotALogDirectoryError
        If there is no partition of ``__consumer_offsets``.
    CorruptRecordError
        If a record is corrupt, with file and byte.
    MissingDependencyError
        If pyarrow is not installed.

    Examples
    --------
    >>> import kafkalog
    >>> from datetime import UTC, datetime
    >>> noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    >>> logs = "tests/golden/k431-clean/logs"
    >>> kafkalog.groups(logs).num_rows, kafkalog.groups(logs, at=noon).num_rows
    (5, 0)
    """
    found = scan(source, filesystem=filesystem, storage_options=storage_options)
    table, _ = readable_groups(found, at)
    return selected(table, groups, topics, exclude_topics)


def readable_groups(found: Scan, at: Time | None) -> tuple[pa.Table, Problems]:
    """Return the table of `groups`, and the damage that the scan skips.

    A commit that is lost with a batch leaves the one before it. Damage in the logs of
    the groups' topics is not among the problems.
    """
    commits, problems = _readable_commits(found, at)
    logs = replace(found, policy=replace(found.policy, on_corruption="skip"))
    table = _lag_table(logs, commits, at, Problems())
    return table.select(MARKED_GROUPS), problems


def selected(
    table: pa.Table,
    groups: Iterable[str] | None = None,
    topics: Topics = None,
    exclude_topics: Topics = None,
) -> pa.Table:
    """Return the rows of a table of these groups and topics."""
    chosen = PartitionSelection.of(topics, None, exclude_topics)
    names = None if groups is None else frozenset(groups)
    rows = zip(*(table[name].to_pylist() for name in ("group", "topic")), strict=True)
    is_selected = [
        (names is None or group in names) and chosen.has_topic(topic)
        for group, topic in rows
    ]
    return table.filter(pa.array(is_selected, pa.bool_()))


def absent(
    table: pa.Table, groups: Iterable[str] | None = None, topics: Topics = None
) -> Iterator[str]:
    """Yield a line for each group, and each topic or pattern, that no row has."""
    known = {name: {*table[name].to_pylist()} for name in ("group", "topic")}
    patterns = PartitionSelection.of(topics).topics
    missing = [("group", name) for name in groups or () if name not in known["group"]]
    missing += [
        ("topic", pattern)
        for pattern in patterns
        if not matching_topics(known["topic"], pattern)
    ]
    for column, name in missing:
        advice = close_matches(name, known[column])
        advice = advice or f"there are {first_few(known[column]) or 'none'}"
        yield f"no committed offset of {column} {name}; {advice}"
    if not missing and not len(table):
        yield "no committed offset"


def lag(
    source: Source,
    *,
    groups: Iterable[str] | None = None,
    topics: Topics = None,
    exclude_topics: Topics = None,
    at: Time | None = None,
    filesystem: object = None,
    storage_options: Mapping[str, str] | None = None,
) -> pa.Table:
    """Return how far the committed offsets are from the log end, now or at a past time.

    Parameters
    ----------
    source : path, URL, or list of these
        A log directory, or several. Of a partition that several have, that with the
        highest offset is read.
    groups : iterable of str, optional
        Only these consumer groups.
    topics, exclude_topics : str or iterable of str, optional
        Only these topics, and not these; ``*``, ``?`` and ``[...]`` match as in a
        shell.
    at : int, datetime or str, optional
        The time, as for `scan`. A log ends then before its
        first record with a later timestamp.
    filesystem, storage_options : optional
        The file system of the paths, or options of that of a URL, as for `scan`.

    Returns
    -------
    pyarrow.Table
        The table of `groups`, and the columns ``log_start_offset``, ``log_end_offset``
        and ``lag``, the difference of ``log_end_offset`` and ``offset``. They are null
        if no directory has the partition, or if retention or compaction removed the
        records that they depend on. The lag is negative if the group had committed an
        offset that this log does not have. That of a share group does not count the
        records above its start offset that are done.

    Raises
    ------
    NotALogDirectoryError
        If there is no partition of ``__consumer_offsets``.
    CorruptRecordError
        If a record is corrupt, with file and byte.
    MissingDependencyError
        If pyarrow is not installed.

    Examples
    --------
    >>> import kafkalog
    >>> table = kafkalog.lag("tests/golden/k431-clean/logs")
    >>> table.select(["group", "offset", "log_end_offset", "lag"]).to_pylist()[-1]
    {'group': 'readers-txn', 'offset': 11, 'log_end_offset': 212, 'lag': 201}
    """
    found = scan(source, filesystem=filesystem, storage_options=storage_options)
    table, _ = readable_lag(found, at)
    return selected(table, groups, topics, exclude_topics)


def readable_lag(found: Scan, at: Time | None) -> tuple[pa.Table, Problems]:
    """Return the table of `lag`, and the damage that the scan skips.

    A commit that is lost with a batch leaves the one before it. The offsets of a
    corrupt log are null.
    """
    commits, problems = _readable_commits(found, at)
    return _lag_table(found, commits, at, problems), problems


def _lag_table(
    found: Scan, commits: list[Commit], at: Time | None, problems: Problems
) -> pa.Table:
    places = {(topic, number) for (_, topic, number, *_), _ in commits}
    ends = _offsets_of(found, places, at, problems)
    rows = (_with_lag(commit, ends[commit[0][1], commit[0][2]]) for commit in commits)
    return sorted_table(rows, LAG, *GROUP_ORDER)


def _with_lag(commit: Commit, log: LogOffsetsAt) -> Row:
    row, share = commit
    offset, is_share = row[len(GROUP_ORDER)], share is not None
    if offset is None or log.end is None:
        return (*row, is_share, None, *log, None)
    left = log.end - offset
    if share is not None:
        lag = None if share.completed is None else left - share.completed
    else:
        lag = left
    if lag is not None and not MIN_INT64 <= lag <= MAX_INT64:
        lag = None  # no log can have the committed offset
    return (*row, is_share, left < 0, *log, lag)


def _readable_commits(found: Scan, at: Time | None) -> tuple[list[Commit], Problems]:
    """Return the rows of `GROUPS` and those of share groups, and what is skipped."""
    replicas = defaultdict(list)
    for part in partitions_of(found, CONSUMER_OFFSETS):
        [(source, bounds)] = part.sources
        replicas[source.partition].append((source, bounds))
    commits, problems = list[Commit](), Problems()
    names: dict[SharePlace, str] = {}
    for sources in replicas.values():
        with _skipping(found, problems):
            of_partition = replace(found, sources=tuple(sources))
            rows, of_groups = _commits(of_partition, at, problems)
            commits += [(row, None) for row in rows]
            names |= of_groups
    states = dict[SharePlace, ShareState]()
    with _skipping(found, problems):
        then = found if at is None else _up_to(found, SHARE_STATE, as_ms(at))
        states = share_states(then, problems)
    for place, state in name_topics(states, names).items():
        of_group = state.start_offset, state.leader_epoch, None, state.timestamp, None
        commits.append(((*place, *of_group), state))
    return commits, problems


@contextmanager
def _skipping(found: Scan, problems: Problems) -> Iterator[None]:
    """Append damage to the problems, if the scan skips it."""
    try:
        yield
    except LocatedError as error:
        if not found.policy.skips:
            raise
        problems.append(ScanProblem.of(error, None, None))


def _commits(
    found: Scan, at: Time | None, problems: Problems
) -> tuple[list[Row], dict[SharePlace, str]]:
    """Return the rows of `GROUPS` of a partition, and the topics of its share groups.

    What is skipped is appended to the problems.
    """
    then = found if at is None else _up_to(found, CONSUMER_OFFSETS, as_ms(at))
    types = (*OFFSET_COMMIT, *SHARE_TOPICS)
    [newest] = newest_records(then, CONSUMER_OFFSETS, types)
    commits = newest.of_types(OFFSET_COMMIT)
    rows = list(committed_rows([commits]))
    if at is not None:
        rows += _removed_commits(commits)
    names = share_topics(newest.of_types(SHARE_TOPICS))
    problems += newest.problems
    return rows, names


def _up_to(found: Scan, topic: str, at_ms: int) -> Scan:
    """Return a scan of an internal topic as it was at a time."""
    sources = []
    for source, bounds in found.sources:
        if source.topic != topic:
            continue
        if source.directory is None:
            raise NotALogDirectoryError(
                f"expected the directory of a partition, found {source}"
            )
        start = earliest_offset(source.directory, source)
        later = find_offset_for_time(source.directory, at_ms + 1, start, found.policy)
        end = MAX_INT64 if later == NOT_FOUND else later
        sources.append((source, replace(bounds, end_offset=end)))
    return replace(found, sources=tuple(sources))


def _removed_commits(then: NewestRecords) -> Iterator[Row]:
    """Yield a row without an offset for each key whose earlier record may be removed.

    Compaction removes a record if there is a later one of its key. So where an earlier
    record is left, none between it and the bound is removed.
    """
    [(source, bounds)] = then.scan.sources
    end = bounds.end_offset
    policy = replace(then.scan.policy, control_records=True)
    if end == MAX_INT64 or replace(then.scan, policy=policy).count() == end:
        return
    after = replace(bounds, start_offset=end, end_offset=MAX_INT64)
    [later] = newest_records(
        replace(then.scan, sources=((source, after),)), CONSUMER_OFFSETS, OFFSET_COMMIT
    )
    undecided = (later.committed, *later.pending.values(), *then.pending.values())
    keys = {
        place: record[1]
        for records in undecided
        for place, record in records.items()
        if place not in then.committed
    }
    for key in keys.values():
        fields = InternalRecord.decode(CONSUMER_OFFSETS, key, None).key
        assert fields is not None  # it is a coordinator's
        yield tuple(fields[name] for name in GROUP_ORDER) + UNKNOWN_COMMIT


def _offsets_of(
    found: Scan, places: Collection[Place], at: Time | None, problems: Problems
) -> dict[Place, LogOffsetsAt]:
    """Return the start and end of the logs of these partitions; append damage."""
    sources = (source for source, _ in found.sources)
    replicas = longest_replicas(
        source for source in sources if (source.topic, source.partition) in places
    )
    offsets = dict.fromkeys(places, NO_REPLICA)
    for place, log in replicas.items():
        start, end = log.log_start_offset, log.log_end_offset
        if at is None:
            offsets[place] = LogOffsetsAt(start, end)
        else:
            with _skipping(found, problems):
                then = _end_at(found, log, as_ms(at))
                offsets[place] = LogOffsetsAt(0 if start == 0 else None, then)
    return offsets


def _end_at(found: Scan, log: Replica, at_ms: int) -> int | None:
    """Return the log end offset at a time; None if the record before it is removed."""
    later = find_offset_for_time(log.directory, at_ms + 1, log.log_start_offset)
    then = log.log_end_offset if later == NOT_FOUND else later
    if then == 0:
        return then
    last = replace(
        found,
        sources=((log.source, Bounds(start_offset=then - 1, end_offset=then)),),
        columns=("timestamp",),
        policy=replace(found.policy, control_records=True),
    )
    times = [time for records in last.chunks() for time in records.timestamp.tolist()]
    return then if times and times[0] >= 0 else None
