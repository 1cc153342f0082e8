"""Log directories of a broker, with a metadata log written by the test."""

from kafkalog import RecordBatchBuilder
from kafkalog.decoding.record_batch import Record, TimestampType
from kafkalog.formats.partition_files import PartitionMetadata
from kafkalog.log.reading.metadata_snapshot import MetadataSnapshot
from kafkalog.messages.schema_tables import schemas_of
from tests.log.writing import NOW

METADATA = "__cluster_metadata"
IDS = {"orders": "wgPZZe6wRgSsxbpNzQVtow", "state": "JhdWtfmYTw2-GtzgFDgxkA"}
DAY_MS = 24 * 60 * 60 * 1000
OLD = NOW - 30 * DAY_MS
TOPIC, CONFIG, REMOVE, BEGIN, END, ABORT = 2, 4, 9, 23, 24, 25


def record(number, **message):
    """Encode the value of a metadata record."""
    schema = schemas_of(METADATA)["metadata", number]
    return bytes([1, number, 0]) + schema.encode(message, 0)


def topic(name, topic_id=None):
    return record(TOPIC, name=name, topicId=topic_id or IDS[name])


def setting(resource, name, value, kind=2):
    message = {"resourceType": kind, "resourceName": resource}
    return record(CONFIG, **message, name=name, value=value)


def of_broker(node, name, value):
    return setting(node, name, value, kind=4)


TOPICS = (topic("orders"), topic("state"))


def metadata_log(logs, values=TOPICS, start=0, each=3):
    """Write a metadata log of these values, several in each batch; return its file."""
    directory = logs / f"{METADATA}-0"
    directory.mkdir(parents=True, exist_ok=True)
    data = b""
    for at in range(0, len(values), each):
        builder = RecordBatchBuilder(base_offset=start + at, leader_epoch=1)
        for value in values[at : at + each]:
            builder.append(None, value, timestamp=NOW)
        data += builder.build()
    path = directory / f"{start:020d}.log"
    path.write_bytes(data)
    return path


def snapshot(logs, values, offset, *, finished=NOW):
    """Write a snapshot of the metadata log up to an offset; return its file."""
    records = tuple(
        Record(0, NOW, TimestampType.CREATE_TIME, None, value) for value in values
    )
    directory = logs / f"{METADATA}-0"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{offset:020d}-0000000001.checkpoint"
    made = MetadataSnapshot(
        epoch=1,
        last_contained_log_timestamp=NOW,
        written=NOW,
        finished=finished,
        batches=(records,),
    )
    path.write_bytes(made.format())
    return path


def mark_as_brokers(logs, node=1):
    """Write the files that show that a log directory is a broker's."""
    logs.mkdir(parents=True, exist_ok=True)
    text = f"version=1\nnode.id={node}\ncluster.id=Zm9yLWRldmVsb3BlcnMtMQ\n"
    (logs / "meta.properties").write_text(text)
    return logs


def old_partition(logs, name="orders-0", segments=3, topic_id=True):
    """Write a partition of old records, one in each segment, as a broker left it."""
    directory = logs / name
    directory.mkdir(parents=True)
    for offset in range(segments):
        builder = RecordBatchBuilder(base_offset=offset, leader_epoch=0)
        builder.append(b"key", b"value", timestamp=OLD)
        (directory / f"{offset:020d}.log").write_bytes(builder.build())
    if topic_id:
        content = PartitionMetadata(IDS[name.rpartition("-")[0]]).format()
        (directory / "partition.metadata").write_bytes(content)
    return directory
