"""Snapshots of the metadata log are parsed, and written again as brokers wrote them."""

import json

import pytest

from kafkalog.decoding.record_batch import Record
from kafkalog.errors import CorruptRecordError
from kafkalog.formats.layout import TimestampType
from kafkalog.log.reading.metadata_snapshot import MetadataSnapshot
from tests import golden_data

FILES = sorted(
    path
    for name in golden_data.SETS
    for path in golden_data.logs(name).rglob("*.checkpoint")
)
VOTERS = {
    "version": 0,
    "voters": [
        {
            "voterId": 1,
            "voterDirectoryId": "AAAAAAAAAAAAAAAAAAAAAQ",
            "endpoints": [{"name": "CONTROLLER", "host": "localhost", "port": 9093}],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
        }
    ],
}


def snapshot(**changes):
    record = Record(1, 5, TimestampType.CREATE_TIME, None, b"value")
    fields = {
        "epoch": 7,
        "last_contained_log_timestamp": 1_700_000_000_000,
        "written": 3,
        "finished": 9,
        "batches": ((record,), (record._replace(offset=2),)),
    }
    return MetadataSnapshot(**{**fields, **changes})


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-3:]))
def test_a_brokers_snapshot_is_written_again_byte_for_byte(path):
    data = path.read_bytes()
    parsed = MetadataSnapshot.parse(data)
    assert parsed.format() == data
    assert parsed.finished >= parsed.written


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-3:]))
def test_header_and_records_are_those_that_kafka_reads(path):
    parsed = MetadataSnapshot.parse(path.read_bytes())
    in_root = path.parent.name == "logs"
    directory = path.name if in_root else path.parent.name
    name = next(s for s in golden_data.SETS if path.is_relative_to(golden_data.logs(s)))
    expected = [
        record
        for record in golden_data.truth(name, directory, "records")
        if record["file"] == path.name
    ]
    header = expected[0]["control"]["data"]
    assert parsed.last_contained_log_timestamp == header["lastContainedLogTimestamp"]
    data = [record["offset"] for record in expected if record.get("control") is None]
    assert [one.offset for batch in parsed.batches for one in batch] == data
    assert json.dumps(expected[-1]["control"]["type"]) == '"SNAPSHOT_FOOTER"'


def test_version_and_voters_survive_a_round_trip():
    expected = snapshot(kraft_version=1, voters=VOTERS)
    parsed = MetadataSnapshot.parse(expected.format())
    assert (parsed.kraft_version, parsed.epoch) == (1, 7)
    assert parsed.voters["voters"][0]["endpoints"][0]["port"] == 9093
    assert [record.offset for batch in parsed.batches for record in batch] == [3, 4]


def test_a_snapshot_without_a_footer_is_not_finished():
    assert MetadataSnapshot.parse(snapshot(finished=None).format()).finished is None


def test_a_misplaced_batch_is_an_error_with_its_byte():
    data = snapshot().format()
    sizes = [83, 73, 73, 75]
    assert sum(sizes) == len(data)
    with pytest.raises(CorruptRecordError, match="no snapshot header") as caught:
        MetadataSnapshot.parse(b"")
    with pytest.raises(CorruptRecordError, match="base offset 1, expected 0"):
        MetadataSnapshot.parse(data[83:])
    patched = bytearray(data)
    patched[83 + 12 : 83 + 16] = (8).to_bytes(4, "big")
    with pytest.raises(
        CorruptRecordError, match="leader epoch 8, expected 7"
    ) as caught:
        MetadataSnapshot.parse(bytes(patched))
    assert caught.value.position == 83


@pytest.mark.parametrize("byte", range(304))
def test_every_flipped_bit_is_found(byte):
    data = snapshot().format()
    assert len(data) == 304
    for bit in range(8):
        flipped = bytearray(data)
        flipped[byte] ^= 1 << bit
        with pytest.raises(CorruptRecordError) as caught:
            MetadataSnapshot.parse(bytes(flipped))
        assert 0 <= caught.value.position <= len(data)


def test_a_truncated_file_is_an_error_or_a_snapshot_without_a_footer():
    data = snapshot().format()
    whole = [size for size in range(len(data)) if unfinished(data[:size]) is not None]
    assert whole == [83, 156, 229]


def unfinished(data):
    try:
        parsed = MetadataSnapshot.parse(data)
    except CorruptRecordError:
        return None
    assert parsed.finished is None
    return parsed
