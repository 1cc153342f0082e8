"""Control records: those of golden data, byte examples, unknown types and versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import CorruptRecordError, InvalidRecordError
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.messages.control_records import (
    control_record,
    end_transaction_marker,
    parse_control,
)
from kafkalog.text.uuid_text import uuid_to_text
from tests import golden_data
from tests.faults import byte_of_fault

T = 1_700_000_000_000
HEADER_BYTES = 61

VOTER_ID = uuid_to_text(bytes([0] * 7 + [1] + [0] * 7 + [2]))
LEADER_CHANGE = {
    "version": 0,
    "leaderId": 1,
    "voters": [{"voterId": 1}, {"voterId": 2}],
    "grantingVoters": [{"voterId": 1}],
}
VOTERS = {
    "version": 0,
    "voters": [
        {
            "voterId": 1,
            "voterDirectoryId": VOTER_ID,
            "endpoints": [{"name": "CONTROLLER", "host": "localhost", "port": 9093}],
            "kRaftVersionFeature": {
                "minSupportedVersion": 0,
                "maxSupportedVersion": 1,
            },
        }
    ],
}

# type, message, and the value that Kafka's own class wrote.
KRAFT = {
    "leader change": (
        ControlRecordType.LEADER_CHANGE,
        LEADER_CHANGE,
        "000000000001030000000100000000020002000000010000",
    ),
    "snapshot header": (
        ControlRecordType.SNAPSHOT_HEADER,
        {"version": 0, "lastContainedLogTimestamp": T},
        "00000000018bcfe5680000",
    ),
    "snapshot footer": (ControlRecordType.SNAPSHOT_FOOTER, {"version": 0}, "000000"),
    "kraft version": (
        ControlRecordType.KRAFT_VERSION,
        {"version": 0, "kRaftVersion": 1},
        "0000000100",
    ),
    "voters": (
        ControlRecordType.KRAFT_VOTERS,
        VOTERS,
        "00000200000001"
        "00000000000000010000000000000002"
        "020b434f4e54524f4c4c45520a6c6f63616c686f7374238500"
        "00000001000000",
    ),
}

# Whole batches, one record each, as Kafka wrote them: producer 4242/1, epoch 9.
BATCHES = {
    ControlRecordType.COMMIT: (
        "00000000000000c80000004200000003020ef3f3140030000000000000018bcfe5680000"
        "00018bcfe5680000000000000010920001ffffffff000000012000000008000000010c00"
        "000000000900"
    ),
    ControlRecordType.ABORT: (
        "00000000000000c8000000420000000302facd255c0030000000000000018bcfe5680000"
        "00018bcfe5680000000000000010920001ffffffff000000012000000008000000000c00"
        "000000000900"
    ),
    ControlRecordType.LEADER_CHANGE: (
        "0000000000000000000000540000000502725319f00020000000000000018bcfe5680000"
        "00018bcfe56800ffffffffffffffffffffffffffff000000014400000008000000023000"
        "000000000103000000010000000002000200000001000000"
    ),
}


def varint(data, position):
    """Read a zig-zag varint; return it and the position after it."""
    raw = shift = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return raw >> 1 ^ -(raw & 1), position


def records_of(batch):
    """Yield the key and value of each record of an uncompressed batch."""
    position = HEADER_BYTES
    while position < len(batch):
        length, position = varint(batch, position)
        end = position + length
        position += 1  # attributes
        for _ in ("timestamp delta", "offset delta"):
            _, position = varint(batch, position)
        fields = []
        for _ in ("key", "value"):
            length, position = varint(batch, position)
            fields.append(batch[position : position + length])
            position += length
        yield tuple(fields)
        position = end


def golden_control_records():
    """Yield each control record of golden data: Kafka's JSON, and key and value."""
    for set_name in golden_data.SETS:
        for directory in golden_data.directories(set_name):
            rows = golden_data.truth(set_name, directory, "records")
            controls = [row for row in rows if row.get("control")]
            for position, file in {(r["batch_position"], r["file"]) for r in controls}:
                logs = golden_data.logs(set_name)
                lone = directory == file
                data = (logs / file if lone else logs / directory / file).read_bytes()
                size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
                here = [
                    row
                    for row in controls
                    if (row["batch_position"], row["file"]) == (position, file)
                ]
                pairs = records_of(data[position : position + size])
                yield from zip(here, pairs, strict=True)


def test_every_control_record_is_parsed_as_kafka_parsed_it():
    kinds = set()
    for row, (key, value) in golden_control_records():
        assert (key.hex(), value.hex()) == (row["key"], row["value"])
        record = parse_control(key, value)
        truth = row["control"]
        assert record.type.name == truth["type"]
        assert record.coordinator_epoch == truth.get("coordinator_epoch")
        assert record.message == truth.get("data")
        if record.message is None:
            written = end_transaction_marker(record.type, record.coordinator_epoch)
        else:
            written = control_record(record.type, record.message)
        assert written == (key, value)
        kinds.add(record.type.name)
    assert {"COMMIT", "ABORT", "LEADER_CHANGE", "SNAPSHOT_HEADER"} <= kinds


@pytest.mark.parametrize("kind", BATCHES)
def test_batches_that_kafka_wrote_are_parsed(kind):
    ((key, value),) = records_of(bytes.fromhex(BATCHES[kind]))
    record = parse_control(key, value)
    assert (record.type, record.version, record.key) == (kind, 0, key)
    if kind.is_marker:
        assert record.coordinator_epoch == 9
        assert end_transaction_marker(kind, 9) == (key, value)
    else:
        assert record.message == LEADER_CHANGE


@pytest.mark.parametrize("name", KRAFT)
def test_kraft_records_have_the_bytes_that_kafka_wrote(name):
    kind, message, written = KRAFT[name]
    key, value = control_record(kind, message)
    assert value.hex() == written
    assert key == bytes([0, 0, 0, kind])
    record = parse_control(key, value)
    assert (record.type, record.message) == (kind, message)
    assert record.coordinator_epoch is None


def test_a_leader_change_of_version_1_has_directory_ids():
    voter = {"voterId": 1, "voterDirectoryId": VOTER_ID}
    message = {
        "version": 1,
        "leaderId": 1,
        "voters": [voter],
        "grantingVoters": [voter],
    }
    key, value = control_record(ControlRecordType.LEADER_CHANGE, message)
    assert value.count(bytes([0] * 7 + [1] + [0] * 7 + [2])) == 2
    assert parse_control(key, value).message == message


@given(kind=st.sampled_from(list(BATCHES)[:2]), epoch=st.integers(-(2**31), 2**31 - 1))
def test_a_marker_is_read_back(kind, epoch):
    record = parse_control(*end_transaction_marker(kind, epoch))
    assert (record.type, record.coordinator_epoch) == (kind, epoch)


@pytest.mark.parametrize("type_id", [-1, -32768, 7, 32767])
def test_a_record_of_an_unknown_type_keeps_its_bytes(type_id):
    key = b"\0\0" + type_id.to_bytes(2, "big", signed=True)
    for value in (None, b"", b"anything"):
        record = parse_control(key, value)
        assert record.type is ControlRecordType.UNKNOWN
        assert (record.type_id, record.key, record.value) == (type_id, key, value)
        assert record.message is None
        assert record.coordinator_epoch is None


def test_later_versions_are_parsed_as_known_ones():
    record = parse_control(b"\0\5\0\1more", b"\0\7\0\0\0\x09more")
    assert (record.type.name, record.version) == ("COMMIT", 5)
    assert record.coordinator_epoch == 9
    record = parse_control(b"\0\0\0\5", b"\0\7\0\1\0")
    assert record.message == {"version": 7, "kRaftVersion": 1}


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"", "control record key of -1 bytes, expected at least 4"),
        (b"\0\0\0", b"", "control record key of 3 bytes, expected at least 4"),
        (b"\xff\xff\0\0", b"", "control record key version -1, expected"),
        (b"\0\0\0\0", None, "control record value: null, expected an int16 version"),
        (b"\0\0\0\1", b"\0", "control record value: 1 bytes, expected an int16"),
        (b"\0\0\0\1", b"\0\0\0\0\0", "coordinatorEpoch: 3 bytes left, expected 4"),
        (
            b"\0\0\0\1",
            b"\x80\0\0\0\0\0",
            "transaction marker version -32768, expected 0",
        ),
        (b"\0\0\0\4", None, "control record value: null, expected an int16 version"),
    ],
)
def test_an_invalid_control_record_is_rejected(key, value, reason):
    with pytest.raises(CorruptRecordError) as caught:
        parse_control(key, value)
    assert caught.value.reason.startswith(reason)
    assert caught.value.position is not None


@pytest.mark.parametrize("name", KRAFT)
def test_a_value_cut_at_any_byte_is_rejected(name):
    kind, message, _ = KRAFT[name]
    key, value = control_record(kind, message)
    for cut in range(len(value)):
        with pytest.raises(CorruptRecordError) as caught:
            parse_control(key, value[:cut])
        assert 0 <= caught.value.position <= cut


@given(type_id=st.integers(-2, 8), value=st.none() | st.binary(max_size=80))
def test_any_value_is_a_control_record_or_a_typed_error(type_id, value):
    key = b"\0\0" + type_id.to_bytes(2, "big", signed=True)
    assert 0 <= byte_of_fault(parse_control, key, value) <= len(value or b"")


def test_only_abort_and_commit_are_transaction_markers():
    with pytest.raises(InvalidRecordError, match="LEADER_CHANGE, expected ABORT or"):
        end_transaction_marker(ControlRecordType.LEADER_CHANGE, 0)
    with pytest.raises(InvalidRecordError, match="coordinatorEpoch"):
        end_transaction_marker(ControlRecordType.COMMIT, 2**31)


@pytest.mark.parametrize(
    ("kind", "message", "reason"),
    [
        (
            ControlRecordType.COMMIT,
            {},
            "type COMMIT, expected one of LEADER_CHANGE, SN",
        ),
        (ControlRecordType.UNKNOWN, {}, "type UNKNOWN, expected one of LEADER_CHANGE"),
        (
            ControlRecordType.SNAPSHOT_FOOTER,
            {},
            "SnapshotFooterRecord version None, ex",
        ),
        (
            ControlRecordType.SNAPSHOT_FOOTER,
            {"version": 1},
            "version 1, expected 0 to 0",
        ),
        (
            ControlRecordType.KRAFT_VERSION,
            {"version": 0},
            "missing fields of version 0: kRaftVersion",
        ),
    ],
)
def test_an_unknown_control_record_is_not_encoded(kind, message, reason):
    with pytest.raises(InvalidRecordError, match=reason):
        control_record(kind, message)
