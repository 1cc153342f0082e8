"""Rejections by a leader, rule by rule: headers, records, wrappers.

A docstring names the tests of Kafka's `LogValidatorTest` that check the same.
"""

from __future__ import annotations

import pytest

from kafkalog import RecordValidationError
from kafkalog.codecs.compression import Codec
from kafkalog.formats.layout import CODECS, TimestampType
from kafkalog.validation import leader_validation
from kafkalog.validation.appends import AppendOrigin
from tests.validation.appending import (
    FOREVER,
    INVALID,
    ROWS,
    STAMPED,
    T,
    batch,
    entry,
    lead,
    marker,
    patched,
    rejected,
    rejection,
    wrapper_of,
)

COMPRESSED = CODECS[1:]
COORDINATOR = AppendOrigin.COORDINATOR


# ------------------------------------------------------------------------ one batch


@pytest.mark.parametrize("codec", CODECS)
def test_a_second_batch_is_rejected(codec):
    """checkOnlyOneBatch: of magic 2, and of any magic if compressed."""
    data = batch(*ROWS, codec=codec)
    assert rejection(lead(data + data)) == INVALID
    assert rejection(lead(data + data, codec=Codec.GZIP)) == INVALID
    if codec not in ("none", "zstd"):
        wrapper = batch(*ROWS, magic=1, codec=codec)
        assert rejection(lead(wrapper + wrapper)) == INVALID


@pytest.mark.parametrize("magic", [0, 1])
def test_an_append_may_have_many_uncompressed_messages(magic):
    """checkAllowMultiBatch: they become one batch, whatever the codec of the topic."""
    rows = [(b"k", b"%d" % i, -1) for i in range(3)]
    for codec in (Codec.NONE, Codec.GZIP):
        found = entry(lead(batch(*rows, magic=magic), codec=codec, next_offset=8))
        assert (found["base_offset"], found["last_offset"]) == (8, 10)
        assert [r["value"] for r in found["records"]] == [b"0", b"1", b"2"]


def test_messages_of_different_magic_are_rejected():
    mixed = batch((b"k", b"v", T), magic=1) + batch((b"k", b"v", -1), magic=0)
    assert rejection(lead(mixed)) == INVALID


# --------------------------------------------------------------------------- headers


@pytest.mark.parametrize(
    "fields",
    [
        {"last_offset_delta": -1},
        {"last_offset_delta": 1},
        {"last_offset_delta": 3},
        {"count": 0},
        {"count": -1},
        {"count": 2},
        {"count": 4},
        {"last_offset_delta": 3, "count": 4},
        {"last_offset_delta": 1, "count": 2},
        {"attributes": 0x20},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": -1},
    ],
)
@pytest.mark.parametrize("codec", CODECS)
def test_an_invalid_header_from_a_client_is_rejected(fields, codec):
    """testInconsistentCountAndOffset, testUnmatchedNumberOfRecords,
    testBatchWithoutRecordsNotAllowed, checkInvalidSequence,
    testNonIncreasingOffsetRecordBatchHasMetricsLogged.
    """
    fields = dict(fields)
    if "attributes" in fields:
        fields["attributes"] |= CODECS.index(codec)
    assert rejection(lead(batch(*ROWS, codec=codec, patch=fields))) == INVALID


def test_control_records_from_a_client_are_rejected():
    """testControlRecordsNotAllowedFromClients."""
    control = marker(base_sequence=0)
    assert rejection(lead(control)) == INVALID
    assert not lead(control, origin=COORDINATOR).errors


def test_offset_gaps_are_rejected_only_from_clients():
    gap = batch(*ROWS, patch={"last_offset_delta": 9})
    assert rejection(lead(gap)) == INVALID
    found = lead(gap, origin=COORDINATOR, next_offset=20)
    assert (entry(found)["base_offset"], entry(found)["last_offset"]) == (13, 22)
    below = lead(gap, origin=COORDINATOR)
    assert below.rows["base_offset"][0] == -7
    assert below.info["first_offset"][0] == 0


# --------------------------------------------------------------------------- records


@pytest.mark.parametrize("codec", CODECS)
def test_compacted_topics_need_keys(codec):
    """checkNoKeyCompactedTopic, testInvalidRecordExceptionHasBatchIndex."""
    data = batch((None, b"1", T), (b"", b"2", T), (None, b"3", T), codec=codec)
    appends = lead(data, compacted=True)
    assert rejection(appends) == rejected("InvalidRecordException", 0, 2)
    empty = batch((b"", None, T), codec=codec)
    assert not lead(empty, compacted=True).errors


def test_the_error_lists_each_invalid_record_with_its_reason():
    appends = lead(batch(*ROWS), compacted=True, timestamp_before_max_ms=2)
    error = appends.errors[0]
    assert isinstance(error, RecordValidationError)
    (first, early), (last, keyless) = error.record_errors
    assert (first, last) == (0, 2)
    assert early == f"timestamp {T - 3}, expected {T - 2} to {T + 3_600_000}"
    assert keyless == "no key in a compacted topic"


@pytest.mark.parametrize(
    ("magic", "codec"),
    [(2, codec) for codec in CODECS] + [(1, codec) for codec in CODECS[:4]],
)
def test_timestamps_out_of_range_are_rejected(magic, codec):
    """testRecordWithPastTimestampIsRejected, testRecordWithFutureTimestampIsRejected,
    testInvalidCreateTime..., testInvalidTimestampExceptionHasBatchIndex.
    """
    limits = {"timestamp_before_max_ms": 10, "timestamp_after_max_ms": 5}
    rows = [(b"k", b"v", T + ms) for ms in (-10, 5)]
    settings = {"magic": magic, "codec": codec}
    assert not lead(batch(*rows, (b"k", b"v", -1), **settings), **limits).errors
    late = "InvalidTimestampException"
    if magic == 1 and codec == "none":  # each message is a batch
        rows = []
    for ms in (-11, 6):
        appends = lead(batch(*rows, (b"k", b"v", T + ms), **settings), **limits)
        assert rejection(appends) == rejected(late, len(rows))
    assert not lead(batch((b"k", b"v", 5), **settings), **STAMPED, **limits).errors


def test_an_invalid_timestamp_takes_precedence_over_a_missing_key():
    """testBatchWithInvalidRecordsAndInvalidTimestamp."""
    data = batch((None, b"1", T), (b"k", b"2", T - 50), (None, b"3", T - 50))
    appends = lead(data, compacted=True, timestamp_before_max_ms=10)
    assert rejection(appends) == rejected("InvalidTimestampException", 0, 1, 2)
    only_keys = lead(data, compacted=True)
    assert rejection(only_keys) == rejected("InvalidRecordException", 0, 2)


@pytest.mark.parametrize("codec", CODECS)
def test_a_producer_may_not_send_log_append_time(codec):
    """A topic with CreateTime checks the range, and sets the type to CreateTime."""
    stamped = batch(
        *ROWS,
        codec=codec,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time=T - 7,
    )
    late = "InvalidTimestampException"
    assert rejection(lead(stamped, **STAMPED)) == rejected(late, 0, 1, 2)
    none = patched(stamped, {"max_timestamp": -1})
    assert rejection(lead(none)) == rejected(late, 0, 1, 2)
    found = entry(lead(stamped))
    assert found["timestamp_type"] == "CreateTime"
    assert found["max_timestamp"] == T - 7


def test_a_timestamp_so_old_that_its_age_overflows_is_accepted():
    data = batch((b"k", b"v", T), patch={"base_timestamp": -(2**63)})
    assert not lead(data, timestamp_after_max_ms=FOREVER).errors
    appends = lead(data, timestamp_after_max_ms=5)
    assert rejection(appends) == rejected("InvalidTimestampException", 0)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("by", [-1, 1])
def test_the_records_must_fill_their_batch(codec, by):
    fields = {"count": 3 + by, "last_offset_delta": 2 + by}
    assert rejection(lead(batch(*ROWS, codec=codec, patch=fields))) == INVALID


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_corrupt_stream_is_rejected(codec):
    data = batch(*ROWS, codec=codec)
    cut = data[:-3]
    cut = patched(cut, {"length": len(cut) - 12})
    assert rejection(lead(cut)) == ("KafkaException", None, None)


@pytest.mark.parametrize("part_bytes", [1, 2 * 61, 1 << 20])
def test_records_of_many_batches_are_decompressed_in_parts(part_bytes, monkeypatch):
    batches = [batch(*ROWS[: at % 3 + 1], codec="lz4") for at in range(7)]
    monkeypatch.setattr(leader_validation, "DECOMPRESSED_BYTES", part_bytes)
    with monkeypatch.context() as patch:
        patch.setattr(leader_validation, "analyze_appends", None)
        appends = lead(*batches)
    assert appends.info["records"].tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert appends.info["max_timestamp"].tolist() == [T - 3, T + 1, T + 1] * 2 + [T - 3]
    invalid = batch((b"k", b"v", T + 10**10), codec="lz4")
    assert list(lead(*batches, invalid).errors) == [7]


def test_a_batch_that_decompresses_to_too_many_bytes_is_rejected():
    data = batch((b"k", bytes(5000), T), codec="zstd")
    appends = lead(data, max_decompressed_bytes=1000)
    assert type(appends.errors[0]).__name__ == "BatchTooLargeError"


# --------------------------------------------------------------------------- wrappers


def test_checksums_inside_a_wrapper_are_verified():
    """checkInvalidChecksum."""
    inner = bytearray(batch((b"k", b"v", T), magic=1))
    inner[-1] ^= 1
    appends = lead(wrapper_of(bytes(inner)))
    assert rejection(appends) == ("CorruptRecordException", None, None)


def test_messages_in_a_wrapper_must_have_its_magic():
    """checkMismatchMagic."""
    inner = batch((b"k", b"v", -1), magic=0) + batch((b"k", b"v", T), magic=1)
    appends = lead(wrapper_of(inner))
    assert rejection(appends) == rejected("InvalidRecordException", 0)
    batches = lead(wrapper_of(batch((b"k", b"v", T))))
    assert rejection(batches) == rejected("InvalidRecordException", 0)


def test_a_wrapper_in_a_wrapper_is_rejected():
    inner = batch((b"k", b"v", T), magic=1, codec="gzip")
    assert rejection(lead(wrapper_of(inner))) == INVALID


def test_an_empty_wrapper_is_rejected():
    assert rejection(lead(wrapper_of(b""))) == INVALID


def test_the_offset_of_a_wrapper_must_not_be_below_that_of_its_last_message():
    inner = batch(*ROWS, magic=1, base_offset=7)
    assert rejection(lead(wrapper_of(inner, offset=3))) == INVALID
    assert not lead(wrapper_of(inner)).errors  # offset 0, as some clients send it
