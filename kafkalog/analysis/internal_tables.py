"""Internal topics as Arrow tables: committed offsets, transactions, topics, records.

Names of columns are Kafka's, in snake case. A time of -1 is null.

Source: ``OffsetCommitValue.json``, ``TransactionLogValue.json``,
``TransactionState.java``, ``Topic.java``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kafkalog.errors import (
    CorruptRecordError,
    NotALogDirectoryError,
    UnsupportedFormatError,
)
from kafkalog.export.internal_topic_json import one_line_json, undecoded_json
from kafkalog.formats.partition_files import PartitionMetadata
from kafkalog.log.reading.cluster_metadata import read_cluster_settings
from kafkalog.messages.internal_records import (
    COORDINATORS,
    INTERNAL_TOPICS,
    InternalRecord,
    transaction_state_name,
)
from kafkalog.optional_packages import require
from kafkalog.query.newest_records import (
    CONSUMER_OFFSETS,
    NewestRecords,
    current_messages,
    newest_records,
    partitions_of,
)
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.query.records import Records
from kafkalog.query.scan import Scan, Source, scan
from kafkalog.query.sources import PartitionSource, find_sources
from kafkalog.storage.checkpoint_file import read_if_exists
from kafkalog.storage.file_names import METADATA_TOPIC, PARTITION_METADATA
from kafkalog.storage.location import Location, locate_all

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "arrow")

TRANSACTION_STATE: Final = "__transaction_state"
TRANSACTION: Final = (0,)
TIME: Final = pa.timestamp("ms", tz="UTC")
GROUPS: Final = pa.schema(
    {
        "group": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "leader_epoch": pa.int32(),
        "metadata": pa.string(),
        "commit_timestamp": TIME,
        "expire_timestamp": TIME,
    }
)
GROUP_ORDER: Final = ("group", "topic", "partition")
PARTITIONS: Final = pa.list_(pa.struct({"topic": pa.string(), "partition": pa.int32()}))
TRANSACTIONS: Final = pa.schema(
    {
        "transactional_id": pa.string(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int16(),
        "state": pa.string(),
        "timeout_ms": pa.int32(),
        "partitions": PARTITIONS,
        "last_update_timestamp": TIME,
        "start_timestamp": TIME,
        "previous_producer_id": pa.int64(),
        "next_producer_id": pa.int64(),
        "next_producer_epoch": pa.int16(),
        "client_transaction_version": pa.int16(),
    }
)
TOPICS: Final = pa.schema(
    {
        "topic": pa.string(),
        "topic_id": pa.string(),
        "partitions": pa.int32(),
        "replication_factor": pa.int32(),
        "settings": pa.map_(pa.string(), pa.string()),
        "is_internal": pa.bool_(),
    }
)
RECORDS: Final = pa.schema(
    {
        "offset": pa.int64(),
        "timestamp": TIME,
        "partition": pa.int32(),
        "type": pa.string(),
        "version": pa.int16(),
        "key": pa.string(),
        "value": pa.string(),
        "error": pa.string(),
    }
)
INTERNAL_COLUMNS: Final = ("offset", "timestamp", "partition", "key", "value")

BATCH_ROWS: Final = 1 << 14
Row = tuple[Any, ...]


def committed_rows(newest: Iterable[NewestRecords]) -> Iterator[Row]:
    """Yield a row of `GROUPS` for each committed offset."""
    for key, value in current_messages(newest, CONSUMER_OFFSETS):
        yield (
            key["group"],
            key["topic"],
            key["partition"],
            value["offset"],
            _known(value.get("leaderEpoch", -1)),
            value["metadata"],
            _known(value["commitTimestamp"]),
            _known(value.get("expireTimestamp", -1)),
        )


def transactional_ids(
    source: Source,
    *,
    filesystem: object = None,
    storage_options: Mapping[str, str] | None = None,
) -> pa.Table:
    """Return the state of each transactional id.

    It is in ``__transaction_state``: of each id the last record counts, and one without
    a value deletes it.

    Parameters
    ----------
    source : path, URL, or list of these
        A log directory, several, or directories of partitions of the topic. If a
        partition is in several of them, that with the highest offset is read.
    filesystem, storage_options : optional
        The file system of the paths, or options of that of a URL, as for `scan`.

    Returns
    -------
    pyarrow.Table
        A row for each id, sorted by it. The columns are ``transactional_id``,
        ``producer_id``, ``producer_epoch``, ``state`` (Kafka's name, such as
        ``Ongoing`` or ``CompleteCommit``), ``timeout_ms``, ``partitions`` (a list of
        ``topic`` and ``partition``), ``last_update_timestamp``, ``start_timestamp``,
        ``previous_producer_id``, ``next_producer_id``, ``next_producer_epoch`` and
        ``client_transaction_version``. An id or epoch that is not set is null.

    Raises
    ------
    NotALogDirectoryError
        If there is no partition of ``__transaction_state``.
    CorruptRecordError
        If a record is corrupt, with file and byte.
    MissingDependencyError
        If pyarrow is not installed.

    Examples
    --------
    >>> states = transactional_ids("tests/golden/k431-clean/logs")
    >>> states.group_by("state").aggregate([([], "count_all")]).num_rows
    3
    """
    found = scan(source, filesystem=filesystem, storage_options=storage_options)
    return sorted_table(transaction_rows(found, []), TRANSACTIONS, "transactional_id")


def transaction_rows(found: Scan, problems: list[ScanProblem]) -> Iterator[Row]:
    """Yield a row of `TRANSACTIONS` for each transactional id.

    The damage that the scan skips is appended to `problems`.
    """
    newest = newest_records(found, TRANSACTION_STATE, TRANSACTION)
    for key, value in current_messages(newest, TRANSACTION_STATE):
        yield (
            key["transactionalId"],
            value["producerId"],
            value["producerEpoch"],
            transaction_state_name(value["transactionStatus"]),
            value["transactionTimeoutMs"],
            _partitions(value["transactionPartitions"]),
            _known(value["transactionLastUpdateTimestampMs"]),
            _known(value["transactionStartTimestampMs"]),
            _known(value.get("previousProducerId", -1)),
            _known(value.get("nextProducerId", -1)),
            _known(value.get("nextProducerEpoch", -1)),
            value.get("clientTransactionVersion", 0),
        )
    for of_partition in newest:
        problems += of_partition.problems


def topics(
    source: Source,
    *,
    filesystem: object = None,
    storage_options: Mapping[str, str] | None = None,
) -> pa.Table:
    """Return the topics of a KRaft cluster, or those of which there are partitions.

    Those of the cluster are in ``__cluster_metadata-0``, which each controller and
    broker has: the newest snapshot, and the records of the log after it. The log is
    read to its end, including records that the controllers have not committed. Without
    it, as in a backup, the topics are those of the directories of partitions.

    Parameters
    ----------
    source : path, URL, or list of these
        A log directory, several, or the directory ``__cluster_metadata-0``. If several
        have one, that with the highest offset is read.
    filesystem, storage_options : optional
        The file system of the paths, or options of that of a URL, as for `scan`.

    Returns
    -------
    pyarrow.Table
        A row for each topic, sorted by name. The columns are ``topic``, ``topic_id``,
        ``partitions`` (their number), ``replication_factor`` (that of the first
        partition), ``settings`` (a map of the settings that differ from the broker's)
        and ``is_internal``. Without the metadata of the cluster, ``partitions`` is the
        number of those found, ``topic_id`` is that in their ``partition.metadata``,
        null if they have none, and the replication factor and settings are null.

    Raises
    ------
    NotALogDirectoryError
        If there is no partition.
    CorruptRecordError
        If the metadata log is corrupt, or has a gap.
    CorruptCheckpointError
        If a ``partition.metadata`` that is read is corrupt.
    MissingDependencyError
        If pyarrow is not installed.

    Examples
    --------
    >>> import kafkalog
    >>> topics = kafkalog.topics("tests/golden/k431-clean/logs").to_pylist()
    >>> next(topic["settings"] for topic in topics if topic["topic"] == "expired")
    [('file.delete.delay.ms', '200'), ...]
    """
    places = find_sources(locate_all(source, filesystem, storage_options))
    found = [place for place in places if place.directory is not None]
    if not found:
        raise NotALogDirectoryError(f"no partition: {source}")
    logs = [place.directory for place in found if place.topic == METADATA_TOPIC]
    rows = _cluster_topics(logs) if logs else _topics_of(found)
    return sorted_table(rows, TOPICS, "topic")


def _cluster_topics(logs: Iterable[Location | None]) -> Iterator[Row]:
    """Yield a row of `TOPICS` for each topic in the log with the highest offset."""
    clusters = [read_cluster_settings(log) for log in logs if log is not None]
    cluster = max(clusters, key=lambda cluster: cluster.end_offset)
    replicas: dict[str, dict[int, int]] = {}
    for (topic_id, partition), assigned in cluster.partitions.items():
        replicas.setdefault(topic_id, {})[partition] = len(assigned.brokers)
    for topic, topic_id in cluster.topic_ids.items():
        counts = replicas.get(topic_id, {})
        yield (
            topic,
            topic_id,
            len(counts),
            counts[min(counts)] if counts else None,
            sorted(cluster.topics.get(topic, {}).items()),
            topic in COORDINATORS,
        )


def _topics_of(found: Iterable[PartitionSource]) -> Iterator[Row]:
    """Yield a row of `TOPICS` for each topic of which there is a partition."""
    partitions: dict[str, set[int]] = {}
    ids: dict[str, str | None] = {}
    for place in found:
        partitions.setdefault(place.topic, set()).add(place.partition)
        if ids.get(place.topic) is None and place.directory is not None:
            file = place.directory / PARTITION_METADATA
            stored = read_if_exists(file, PartitionMetadata.parse)
            ids[place.topic] = None if stored is None else stored.topic_id
    for topic, numbers in partitions.items():
        yield topic, ids[topic], len(numbers), None, None, topic in COORDINATORS


def internal(
    source: Source,
    topic: str,
    *,
    filesystem: object = None,
    storage_options: Mapping[str, str] | None = None,
) -> pa.Table:
    """Return every record of an internal topic, decoded.

    Keys and values are JSON texts, as their fields depend on the type: query them with
    the JSON functions of an SQL engine, such as ``value->>'$.offset'`` in DuckDB.
    Control records are not returned, nor are the snapshots of ``__cluster_metadata``.

    Parameters
    ----------
    source : path, URL, or list of these
        A log directory, several, or directories of partitions of the topic.
    topic : str
        ``__consumer_offsets``, ``__transaction_state``, ``__share_group_state``,
        ``__cluster_metadata`` or ``__remote_log_metadata``.
    filesystem, storage_options : optional
        The file system of the paths, or options of that of a URL, as for `scan`.

    Returns
    -------
    pyarrow.Table
        A row for each record: ``offset``, ``timestamp``, ``partition``, ``type``
        (Kafka's name, such as ``OffsetCommit`` or ``TopicRecord``), ``version`` (of the
        value), ``key`` (null for metadata, which has none) and ``value`` (null if the
        record deletes its key). If a record cannot be decoded, ``error`` has the
        reason, and its key and value have the bytes in base64.

    Raises
    ------
    NotALogDirectoryError
        If there is no partition of the topic.
    CorruptRecordError
        If a batch is corrupt, with file and byte.
    ValueError
        If `topic` is not one of the five.
    MissingDependencyError
        If pyarrow is not installed.

    Examples
    --------
    >>> import kafkalog
    >>> logs = "tests/golden/k431-clean/logs"
    >>> records = kafkalog.internal(logs, "__cluster_metadata")
    >>> records.select(["offset", "type", "value"]).to_pylist()[0]
    {'offset': 1, 'type': 'BeginTransactionRecord', 'value': '{"name":"Bootstrap ...
    """
    if topic not in INTERNAL_TOPICS:
        expected = ", ".join(INTERNAL_TOPICS)
        raise ValueError(f"topic {topic!r}, expected one of {expected}")
    found = scan(
        source,
        columns=INTERNAL_COLUMNS,
        filesystem=filesystem,
        storage_options=storage_options,
    )
    parts = partitions_of(found, topic)
    return pa.Table.from_batches(
        [
            _record_batch(topic, records)
            for part in parts
            for records in part.chunks(reuse=True)
        ],
        RECORDS,
    )


def _record_batch(topic: str, records: Records) -> pa.RecordBatch:
    rows = [
        _decoded(topic, key, value)
        for key, value in zip(
            records.key.to_list(), records.value.to_list(), strict=True
        )
    ]
    times = pa.array(records.timestamp, mask=records.timestamp < 0).cast(TIME)
    fixed = [pa.array(records.offset.copy()), times, pa.array(records.partition.copy())]
    decoded = _arrays(rows, RECORDS.names[len(fixed) :], RECORDS)
    return pa.RecordBatch.from_arrays([*fixed, *decoded], schema=RECORDS)


def _decoded(topic: str, key: bytes | None, value: bytes | None) -> Row:
    """Return type, version, key, value and error of a record."""
    try:
        record = InternalRecord.decode(topic, key, value)
    except (CorruptRecordError, UnsupportedFormatError) as error:
        reason = error.reason
        undecoded = undecoded_json(key, reason), undecoded_json(value, reason)
        return None, None, *undecoded, reason
    parts = (record.key, record.value)
    texts = (None if part is None else one_line_json(part) for part in parts)
    return record.name, record.version, *texts, None


def table_of(rows: Iterable[Row], schema: pa.Schema) -> pa.Table:
    """Return a table of rows, with few of them as Python objects at a time."""
    rows = iter(rows)
    batches = [
        pa.RecordBatch.from_arrays(_arrays(some, schema.names, schema), schema=schema)
        for some in iter(lambda: list(islice(rows, BATCH_ROWS)), [])
    ]
    return pa.Table.from_batches(batches, schema)


def sorted_table(rows: Iterable[Row], schema: pa.Schema, *sorted_by: str) -> pa.Table:
    """Return a table of rows, sorted."""
    order = [(name, "ascending") for name in sorted_by]
    return table_of(rows, schema).sort_by(order)


def _arrays(rows: Sequence[Row], names: list[str], schema: pa.Schema) -> list[pa.Array]:
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return [
        pa.array(list(column), schema.field(name).type)
        for name, column in zip(names, columns, strict=True)
    ]


def _known(number: int) -> int | None:
    """Return a time, id or epoch; None for -1."""
    return None if number == -1 else number


def _partitions(of_topics: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    return [
        {"topic": of_topic["topic"], "partition": partition}
        for of_topic in of_topics or ()
        for partition in of_topic["partitionIds"]
    ]
