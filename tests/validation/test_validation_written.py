"""Batches that a leader writes: unchanged, with new header fields, or rebuilt.

A docstring names the tests of Kafka's `LogValidatorTest` that check the same.
"""

from __future__ import annotations

import pytest

from kafkalog.codecs.compression import Codec, compress
from kafkalog.formats.layout import CODECS
from kafkalog.validation.appends import AppendOrigin
from tests import reference
from tests.validation.appending import (
    ANY_TIME,
    EPOCH,
    ROWS,
    STAMPED,
    T,
    batch,
    entry,
    lead,
    marker,
    patched,
    rejection,
    timestamps,
    wrapper_of,
    written,
)

COORDINATOR = AppendOrigin.COORDINATOR
SQUARES = b"".join(b"%d " % (i * i) for i in range(3000))


# -------------------------------------------------------------------------- in place


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_accepted_in_place_changes_only_in_its_header(codec):
    """checkNonCompressed, checkCompressed, testRelativeOffsetAssignment...V2."""
    producer = {"producer_id": 9, "producer_epoch": 2, "base_sequence": 4}
    data = batch(*ROWS, codec=codec, is_transactional=True, **producer)
    appends = lead(data, next_offset=77)
    found, before = entry(appends), reference.entries(data)[0]
    changed = {"base_offset": 77, "last_offset": 79, "leader_epoch": EPOCH}
    records = [
        {**record, "offset": record["offset"] + 77} for record in before["records"]
    ]
    assert found == {**before, **changed, "records": records}
    assert written(appends)[61:] == data[61:]
    assert appends.info["max_timestamp"][0] == T + 1
    assert not appends.info["rebuilt"][0]


@pytest.mark.parametrize("codec", CODECS)
def test_a_wrong_max_timestamp_is_corrected(codec):
    data = batch(*ROWS, codec=codec, patch={"max_timestamp": T + 99})
    appends = lead(data)
    assert entry(appends)["max_timestamp"] == T + 1
    assert appends.rows["crc"][0] == entry(appends)["crc"]


def test_missing_timestamps_stay_missing():
    appends = lead(batch((b"k", b"v", -1), patch={"max_timestamp": 5}))
    assert entry(appends)["max_timestamp"] == -1
    assert appends.info["max_timestamp"][0] == -1


@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_changes_only_the_header(codec):
    """checkLogAppendTimeNonCompressed, checkLogAppendTimeWithoutRecompression."""
    data = batch(*ROWS, codec=codec)
    appends = lead(data, now=T + 1234, **STAMPED)
    found = entry(appends)
    assert found["timestamp_type"] == "LogAppendTime"
    assert timestamps(found) == [T + 1234] * 3
    assert found["base_timestamp"] == T - 3
    assert written(appends)[61:] == data[61:]
    info = appends.info[0]
    assert info["max_timestamp"] == info["log_append_time"] == T + 1234


def test_unknown_attributes_are_removed_when_attributes_are_written():
    kept = batch((b"k", b"v", T), patch={"attributes": 0x80})
    assert entry(lead(kept))["attributes"] == 0x80
    assert entry(lead(kept, **STAMPED))["attributes"] == 0x08


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_another_level_does_not_cause_recompression(codec):
    """testDifferentLevelDoesNotCauseRecompression."""
    data = batch((b"k", SQUARES, T), codec=codec, level=1)
    appends = lead(data, codec=Codec[codec.upper()], level=9)
    assert written(appends)[61:] == data[61:]
    assert batch((b"k", SQUARES, T), codec=codec, level=9)[61:] != data[61:]


# -------------------------------------------------------------------------- rebuilt


@pytest.mark.parametrize("target", CODECS)
@pytest.mark.parametrize("source", CODECS)
def test_another_codec_causes_recompression(source, target):
    """checkRecompression, testDifferentCodecCausesRecompression."""
    producer = {"producer_id": 9, "producer_epoch": 2, "base_sequence": 4}
    data = batch(*ROWS, codec=source, **producer)
    appends = lead(data, codec=Codec[target.upper()], next_offset=40)
    found, before = entry(appends), reference.entries(data)[0]
    same = ("base_timestamp", "max_timestamp", "timestamp_type", "count", *producer)
    assert {n: found[n] for n in same} == {n: before[n] for n in same}
    assert (found["codec"], found["base_offset"]) == (target, 40)
    assert timestamps(found) == [T - 3, T + 1, T - 1]
    assert appends.info["rebuilt"][0] == (source != target)
    assert CODECS[appends.info["source_codec"][0]] == source


def test_log_append_time_of_a_rebuilt_batch():
    """checkLogAppendTimeWithRecompression: the timestamp deltas are kept."""
    found = entry(lead(batch(*ROWS), codec=Codec.LZ4, now=T + 9, **STAMPED))
    assert timestamps(found) == [T + 9] * 3
    assert (found["base_timestamp"], found["max_timestamp"]) == (T - 3, T + 9)


@pytest.mark.parametrize("level", [1, 9])
def test_recompression_uses_the_level_of_the_topic(level):
    data = batch((b"k", SQUARES, T))
    appends = lead(data, codec=Codec.GZIP, level=level)
    stream = compress(Codec.GZIP, data[61:], level=level)
    assert written(appends)[61:] == stream


def test_offsets_inside_a_batch_must_be_consecutive_if_it_is_compressed():
    """Kafka would have to rebuild such a batch, but has skipped its keys and values."""
    rows = bytearray(batch(*ROWS))
    assert rows[64] == 0  # the offset delta of the first record
    rows[64] = 4
    uncompressed = patched(bytes(rows), {"base_sequence": -1})
    assert written(lead(uncompressed))[61:] == uncompressed[61:]
    stream = compress(Codec.SNAPPY, uncompressed[61:])
    compressed = uncompressed[:61] + stream
    compressed = patched(compressed, {"length": len(compressed) - 12, "attributes": 2})
    assert rejection(lead(compressed)) == ("UnsupportedOperationException", None, None)
    found = entry(lead(compressed, codec=Codec.GZIP, next_offset=10))
    assert [record["offset"] for record in found["records"]] == [10, 11, 12]


def test_offsets_inside_a_wrapper_are_assigned_again():
    """testValidationOfBatchesWithNonSequentialInnerOffsets."""
    rows = [batch(row, magic=1, base_offset=2 * i) for i, row in enumerate(ROWS)]
    found = entry(lead(wrapper_of(b"".join(rows)), next_offset=10))
    assert [record["offset"] for record in found["records"]] == [10, 11, 12]


def test_an_uncompressed_marker_with_a_base_offset_is_recompressed_as_data():
    """Kafka rebuilds it without the control flag."""
    data = patched(marker(base_sequence=0), {"base_offset": 5})
    appends = lead(data, origin=COORDINATOR, codec=Codec.GZIP)
    found = entry(appends)
    assert (found["codec"], found["is_control"]) == ("gzip", False)


@pytest.mark.parametrize("codec", CODECS[:4])
def test_old_formats_are_converted_to_magic_two(codec):
    """test...UpConversion...: timestamps are kept; magic 0 has none."""
    for magic, times in ((0, [-1] * 3), (1, [T - 3, T + 1, T - 1])):
        data = batch(
            *[
                (key, value, time)
                for (key, value, _), time in zip(ROWS, times, strict=True)
            ],
            magic=magic,
            codec=codec,
        )
        appends = lead(data, next_offset=100)
        found = entry(appends)
        assert (found["magic"], found["codec"]) == (2, codec)
        assert timestamps(found) == times
        assert found["max_timestamp"] == max(times)
        assert (found["producer_id"], found["base_sequence"]) == (-1, -1)
        assert [r["offset"] for r in found["records"]] == [100, 101, 102]


def test_a_marker_stays_uncompressed_in_a_compressed_topic():
    """testControlRecordsNotCompressed."""
    appends = lead(marker(), origin=COORDINATOR, codec=Codec.GZIP)
    found = entry(appends)
    assert (found["codec"], found["is_control"]) == ("none", True)
    assert not appends.info["rebuilt"][0]


def test_a_rebuilt_batch_may_be_too_large():
    data = batch((b"k", bytes(3000), T), codec="zstd")
    appends = lead(data, codec=Codec.NONE, max_message_bytes=1000)
    assert rejection(appends) == ("RecordTooLargeException", None, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"base_timestamp": -9},
        {"attributes": 16},
        {"producer_id": 3, "producer_epoch": -1, "base_sequence": 0},
        {"producer_id": 3, "producer_epoch": 0, "base_sequence": -1},
    ],
)
def test_fields_that_kafkas_builder_rejects_are_rejected(fields):
    data = batch((b"k", b"v", 0), patch=fields)
    assert not lead(data, origin=COORDINATOR).errors
    appends = lead(data, origin=COORDINATOR, codec=Codec.GZIP)
    assert rejection(appends) == ("IllegalArgumentException", None, None)


def test_header_keys_that_are_not_utf8_are_repaired():
    data = bytearray(batch((b"k", b"v", T)))
    record = bytes(data[61:])
    assert record[-1] == 0
    body = record[1:-1] + b"\x02\x02\xff\x01"
    data = bytes(data[:61]) + bytes([2 * len(body)]) + body
    data = patched(data, {"length": len(data) - 12})
    assert entry(lead(data))["records"][0]["headers"] == [(b"\xff", None)]
    found = entry(lead(data, codec=Codec.GZIP))
    assert found["records"][0]["headers"] == [("\ufffd".encode(), None)]


# ---------------------------------------------------------------------------- offsets


def test_offsets_can_be_assigned_again():
    appends = lead(*[batch(*ROWS)] * 3, **ANY_TIME, next_offset=10)
    assert appends.rows["base_offset"].tolist() == [10, 13, 16]
    assert appends.assign_offsets(13, first=2) == 16
    assert entry(appends, 2)["base_offset"] == 13
    assert appends.info["last_offset"].tolist() == [12, 15, 15]
