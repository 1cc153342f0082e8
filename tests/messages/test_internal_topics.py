"""Records of internal topics: golden data as Kafka decodes them, and damage."""

import base64
import json
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.errors import (
    CorruptMessageError,
    InvalidRecordError,
    UnsupportedFormatError,
)
from kafkalog.messages.internal_records import (
    COORDINATORS,
    INTERNAL_TOPICS,
    METADATA,
    InternalRecord,
)
from kafkalog.messages.message_json import message_to_json
from kafkalog.messages.message_parsers import KINDS, TOPICS, describe_record
from kafkalog.messages.schema import UNKNOWN_TAGS
from kafkalog.messages.schema_tables import release, schemas_of
from tests import golden_data
from tests.faults import byte_of_fault
from tests.messages import internal_messages

SNAPSHOT = "bootstrap.checkpoint"
DECODED = [
    (set_name, directory)
    for set_name in golden_data.SETS
    for directory in golden_data.directories(set_name)
    if golden_data.truth(set_name, directory, "decoded")
]
DECODERS = [f"--{kind}-decoder" for kind in KINDS]
DUMPS = [
    (set_name, run)
    for set_name in golden_data.SETS
    for run in golden_data.dump_runs(set_name)
    if not set(DECODERS).isdisjoint(run.arguments)
]


def topic_of(directory):
    return "__cluster_metadata" if directory == SNAPSHOT else directory[:-2]


def records_of(path):
    """Yield offset, key and value of the data records of a file."""
    scan = kafkalog.scan(path, columns=("offset", "key", "value"))
    for records in scan.chunks():
        columns = records.offset.tolist(), records.key, records.value
        yield from zip(columns[0], *(c.to_list() for c in columns[1:]), strict=True)


def as_json(message):
    return None if message is None else json.loads(message_to_json(message))


def test_golden_data_has_records_of_each_topic_except_tiered_segments():
    topics = {topic_of(directory) for _, directory in DECODED}
    assert topics == set(INTERNAL_TOPICS) - {"__remote_log_metadata"}
    assert {name for _, run in DUMPS for name in run.arguments} > {
        "--offsets-decoder",
        "--transaction-log-decoder",
        "--cluster-metadata-decoder",
        "--share-group-state-decoder",
    }


@pytest.mark.parametrize(("set_name", "directory"), DECODED)
def test_records_are_decoded_as_kafkas_own_classes_decode_them(set_name, directory):
    truth = golden_data.truth(set_name, directory, "decoded")
    path = golden_data.logs(set_name) / directory
    found = {}
    for name in {row["file"] for row in truth}:
        file = path if path.is_file() else path / name
        for offset, key, value in records_of(file):
            found[name, offset] = InternalRecord.decode(topic_of(directory), key, value)
    assert len(found) == len(truth)
    for row in truth:
        record = found[row["file"], row["offset"]]
        value = as_json(record.value)
        if "key_type" in row:
            assert (record.type, record.name + "Key") == (
                row["key_type"],
                row["key_name"],
            )
            assert as_json(record.key) == row["key"]
            assert record.version == row.get("value_version")
            assert value == row["value"]
        else:
            assert (record.type, record.version) == (row["type"], row["version"])
            assert record.key is None
            assert value == row["data"]


@pytest.mark.parametrize(
    ("set_name", "run"), DUMPS, ids=[" ".join(run.arguments) for _, run in DUMPS]
)
def test_records_are_described_as_kafka_dump_log_describes_them(set_name, run):
    kind = next(k for k in KINDS if f"--{k}-decoder" in run.arguments)
    file = golden_data.logs(set_name).parent / run.arguments[-1]
    lines = (line for line in run.stdout.splitlines() if "payload: " in line)
    described = 0
    for offset, key, value in records_of(file):
        shown_key, payload = describe_record(kind, key, value, offset)
        before = "" if shown_key is None else f" key: {shown_key}"
        line = next(lines)
        assert line.endswith(f"]{before} payload: {payload}"), line
        assert line.startswith(f"| offset: {offset} ")
        described += 1
    assert described > 0
    assert list(lines) == []


def test_every_message_of_every_version_is_decoded_and_encoded_again():
    seen = set()
    for topic, key, value in internal_messages.records(seed=5, each=20):
        record = InternalRecord.decode(topic, key, value)
        assert InternalRecord.decode(topic, key, value) == record
        described = "metadata" if key is None else "coordinator-value"
        schema = schemas_of(topic)[described, record.type]
        written = schema.encode(record.value, record.version)
        again, _ = schema.decode(written, record.version)
        assert again == record.value
        seen.add((topic, record.type, record.version))
    assert len(seen) == sum(
        schema.highest_version - schema.lowest_version + 1
        for topic in INTERNAL_TOPICS
        for (described, _), schema in schemas_of(topic).items()
        if described != "coordinator-key"
    )


def test_subscriptions_and_assignments_are_printed_decoded_if_they_are_valid():
    shown = [
        json.loads(describe_record("offsets", key, value, 0)[1])["data"]["members"][0]
        for key, value in internal_messages.groups(seed=6, count=300)
    ]
    for part, first in (("subscription", "topics"), ("assignment", "assignedParti")):
        messages = [each[part] for each in shown if isinstance(each[part], dict)]
        unread = [each[part] for each in shown if isinstance(each[part], str)]
        assert len(messages) > 50
        assert len(unread) > 50
        assert all(next(iter(message)).startswith(first) for message in messages)
        assert all(base64.b64decode(text) is not None for text in unread)


@pytest.mark.parametrize("kind", [k for k in KINDS if TOPICS[k] in COORDINATORS])
def test_a_record_without_a_key_is_rejected_as_the_tool_rejects_it(kind):
    with pytest.raises(InvalidRecordError) as caught:
        describe_record(kind, None, b"", 7)
    assert str(caught.value) == (
        "Failed to decode message at offset 7 using the specified decoder "
        "(message had a missing key)"
    )


TEXTS = [
    ("offsets", "0063", None, "Unknown record type 99 at offset 7, skipping.", None),
    ("offsets", "00", None, "Could not read version from key's buffer.", None),
    (
        "offsets",
        "000300016700",
        "0009",
        "Found an unknown record version 9 for 3 type",
        None,
    ),
    (
        "transaction-log",
        "000000026162",
        "0000",
        "Could not read record with version 0 from value's buffer due to: null.",
        None,
    ),
    (
        "share-group-state",
        "0000ffff",
        None,
        "Could not read record with version 0 from key's buffer due to: "
        "non-nullable field groupId was serialized as null.",
        None,
    ),
    (
        "cluster-metadata",
        None,
        "01630000",
        None,
        "org.apache.kafka.common.errors.UnsupportedVersionException: "
        "Unknown metadata id 99",
    ),
    ("cluster-metadata", None, None, None, "Error while reading frame version"),
    (
        "cluster-metadata",
        None,
        "0114000000",
        None,
        "Found 1 byte(s) of garbage after 20",
    ),
    (
        "cluster-metadata",
        None,
        "01140900",
        None,
        '{"type":"NO_OP_RECORD","version":9,"data":{}}',
    ),
]


@pytest.mark.parametrize(("kind", "key", "value", "shown_key", "payload"), TEXTS)
def test_a_record_that_cannot_be_decoded_has_the_text_of_kafkas_tool(
    kind, key, value, shown_key, payload
):
    parts = [None if part is None else bytes.fromhex(part) for part in (key, value)]
    described = describe_record(kind, *parts, 7)
    expected = shown_key if payload is None else payload
    text = described[0] if payload is None else described[1]
    before = "" if expected.startswith(("Unknown record", "{")) else "Error at "
    assert text.startswith(before)
    assert text.endswith(expected)
    assert None in described


SEGMENT_ID = (
    "RemoteLogSegmentId{topicIdPartition=AAAAAAAAAAAAAAAAAAAAAQ:t-3, "
    "id=AAAAAAAAAAAAAAAAAAAAAg}"
)
PARTITION = "0274" + 31 * "0" + "1" + "00000003" + "00"
REMOTE = {
    "RemoteLogSegmentMetadata{remoteLogSegmentId="
    + SEGMENT_ID
    + ", startOffset=5, endOffset=9, brokerId=1, maxTimestampMs=-1, eventTimestampMs=7,"
    " segmentLeaderEpochs={0=5, 2=7}, segmentSizeInBytes=100, customMetadata="
    "Optional[CustomMetadata{3 bytes}], state=COPY_SEGMENT_FINISHED, "
    "txnIdxEmpty=true}": (
        "010000" + PARTITION + 31 * "0" + "200000000000000000500000000000000090000000"
        "1ffffffffffffffff000000000000000703000000020000000000000007000000000000000000"
        "000000050000000064046162630101000101"
    ),
    "RemoteLogSegmentMetadataUpdate{remoteLogSegmentId="
    + SEGMENT_ID
    + ", customMetadata=Optional.empty, state=DELETE_SEGMENT_FINISHED, "
    "eventTimestampMs=7, brokerId=1}": (
        "010100" + PARTITION + 31 * "0" + "200000000010000000000000007000300"
    ),
    "RemotePartitionDeleteMetadata{topicPartition=AAAAAAAAAAAAAAAAAAAAAQ:t-3, "
    "state=DELETE_PARTITION_MARKED, eventTimestampMs=7, brokerId=1}": (
        "010200" + PARTITION + "0000000100000000000000070000"
    ),
    "Error at offset 7, skipping. null": (
        "010200" + PARTITION + "0000000100000000000000070900"
    ),
    "RemoteLogSegmentMetadataSnapshot{segmentId=AAAAAAAAAAAAAAAAAAAAAg, startOffset=5, "
    "endOffset=9, maxTimestampMs=-1, segmentLeaderEpochs={0=5}, "
    "segmentSizeInBytes=100, customMetadata=Optional.empty, "
    "state=COPY_SEGMENT_STARTED, txnIdxEmpty=false}": (
        "010300" + 31 * "0" + "20000000000000005000000000000000900000001ffffffffffffff"
        "ff0000000000000007020000000000000000000000050000000064000000"
    ),
}
"""Texts that Kafka's tool printed, and the values of the records."""


@pytest.mark.parametrize("text", REMOTE)
def test_metadata_of_tiered_segments_has_the_text_of_kafkas_classes(text):
    value = bytes.fromhex(REMOTE[text])
    assert describe_record("remote-log-metadata", None, value, 7) == (None, text)


def test_errors_have_the_position_and_kafkas_message():
    with pytest.raises(CorruptMessageError) as caught:
        InternalRecord.decode("__consumer_offsets", b"\0\3\0\5ab", None)
    assert caught.value.position == 4
    assert caught.value.reason.startswith("Error reading byte array of 5 byte(s)")
    assert caught.value.kafka_message.startswith("Could not read record with version 3")
    for topic, key, value in (
        ("__consumer_offsets", b"\0\x63", None),
        ("__consumer_offsets", b"\0\3\0\1g", b"\0\1"),
        ("__cluster_metadata", None, b"\1\x14\1\0"),
        ("__cluster_metadata", None, b"\1\x63\0"),
    ):
        with pytest.raises(UnsupportedFormatError):
            InternalRecord.decode(topic, key, value)
    with pytest.raises(ValueError, match="topic 'orders', expected one of __consumer"):
        InternalRecord.decode("orders", b"", b"")


@given(key=st.binary(max_size=60), value=st.binary(max_size=200))
@pytest.mark.parametrize("topic", INTERNAL_TOPICS)
def test_any_bytes_are_a_record_or_a_typed_error(topic, key, value):
    for number in range(30):
        if topic in METADATA:
            framed = b"\1" + bytes([number, 0]) + value
            assert 0 <= byte_of_fault(InternalRecord.decode, topic, None, framed) <= 203
        else:
            typed = bytes([0, number]) + key
            at = byte_of_fault(InternalRecord.decode, topic, typed, b"\0\0" + value)
            assert 0 <= at <= 202


@given(seed=st.integers(0, 2**32 - 1))
def test_damaged_records_have_a_text(seed):
    valid = list(islice(internal_messages.records(seed, 1), 0, None, 7))
    assert valid
    for topic, key, value in internal_messages.damaged(seed, valid):
        kind = internal_messages.KINDS[topic]
        shown_key, payload = describe_record(kind, key, value, 7)
        assert (shown_key is None) == (topic in METADATA)
        assert shown_key is not None or payload is not None


def test_tagged_fields_of_later_releases_are_kept_and_not_printed():
    value = b"\0\0\0\0\0\7\1\x63\2ab"
    record = InternalRecord.decode("__consumer_offsets", b"\0\3\0\1g", value)
    assert record.value == {"epoch": 7, UNKNOWN_TAGS: {99: b"ab"}}
    _, payload = describe_record("offsets", b"\0\3\0\1g", value, 0)
    assert payload == '{"version":"0","data":{"epoch":7}}'


def test_the_table_has_the_release_of_kafka():
    assert release().startswith("4.")
