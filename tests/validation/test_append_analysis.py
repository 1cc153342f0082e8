"""The checks of batch headers and checksums of an append, and their order."""

from __future__ import annotations

import pytest

from kafkalog.validation.appends import UNKNOWN_OFFSET, AppendOrigin
from tests.validation.appending import (
    T,
    batch,
    follow,
    lead,
    patched,
    rejection,
    written,
)

VALID = batch((b"k", b"v", T))
SECOND = batch((b"k", b"v", T + 9), base_offset=1)


def rejected(name):
    return (name, None, None)


def follower_batch(offset, epoch, count=1, **settings):
    rows = [(b"k", b"v", T + offset)] * count
    return batch(*rows, base_offset=offset, leader_epoch=epoch, **settings)


def test_a_raft_leaders_batches_carry_its_epoch():
    of_epoch_6 = follower_batch(0, 6)
    appends = follow(of_epoch_6, origin=AppendOrigin.RAFT_LEADER)
    assert rejection(appends) == rejected("InvalidRecordException")
    appends = follow(follower_batch(0, 7), origin=AppendOrigin.RAFT_LEADER)
    assert not appends.errors


def test_only_a_clients_base_offset_must_be_zero():
    assert rejection(lead(SECOND)) == rejected("InvalidRecordException")
    for origin in (AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION):
        appends = lead(SECOND, origin=origin, timestamp_after_max_ms=100)
        assert not appends.errors


def test_messages_of_old_formats_may_have_any_offset():
    assert not lead(batch((b"k", b"v", T), magic=1, base_offset=5)).errors


def test_a_replica_drops_the_first_batch_of_a_newer_epoch_and_all_after_it():
    first, newer = follower_batch(0, 7), follower_batch(1, 8)
    appends = follow(first + newer + follower_batch(2, 7))
    assert not appends.errors
    assert written(appends) == first
    assert appends.info["valid_bytes"][0] == len(first)
    appends = follow(newer)
    assert not appends.errors
    assert (written(appends), appends.info["valid_bytes"][0]) == (b"", 0)


def test_a_batch_without_an_epoch_is_not_newer():
    assert written(follow(follower_batch(0, -1), epoch=-5)) != b""


def test_dropped_bytes_must_still_be_entries():
    too_small = bytes(8) + b"\0\0\0\x0d" + bytes(40)
    appends = follow(follower_batch(0, 8) + too_small)
    assert rejection(appends) == rejected("CorruptRecordException")


def invalid_records(offset, **settings):
    """Return a batch with invalid records and a valid checksum."""
    valid = follower_batch(offset, 7, 3, **settings)
    return patched(valid[:61] + b"\1" + valid[62:], {"count": 3})


MAGIC_3 = follower_batch(9, 7)[:16] + b"\3" + follower_batch(9, 7)[17:]


@pytest.mark.parametrize(
    ("following", "name"),
    [
        (b"", "OffsetsOutOfOrderException"),
        (invalid_records(9), "InvalidRecordException"),
        (invalid_records(9, codec="zstd"), "KafkaException"),
        (follower_batch(9, 9, codec="zstd"), "OffsetsOutOfOrderException"),
        (bytes(7), "OffsetsOutOfOrderException"),
        (bytes(12), "CorruptRecordException"),
        (MAGIC_3, "CorruptRecordException"),
    ],
)
def test_all_records_are_read_when_offsets_descend(following, name):
    descending = follower_batch(5, 7) + follower_batch(5, 7)
    assert rejection(follow(descending + following)) == rejected(name)


def test_a_corrupt_batch_before_descending_offsets_is_reported_instead():
    corrupt = patched(follower_batch(5, 7), {"producer_epoch": 9}, recrc=False)
    assert (
        rejection(follow(corrupt + follower_batch(2, 7)))[0] == "CorruptRecordException"
    )
    descending = follower_batch(5, 7) + follower_batch(2, 7)
    assert rejection(follow(descending + corrupt))[0] == "OffsetsOutOfOrderException"


def test_the_summary_has_the_first_and_last_offsets_of_an_append():
    batches = [follower_batch(5, 3, 2), follower_batch(7, 4), follower_batch(20, -1)]
    info = follow(b"".join(batches)).info[0]
    assert [info[n] for n in ("first_offset", "last_offset")] == [5, 20]
    assert info["last_offset_of_first_batch"] == 6
    assert info["last_leader_epoch"] == -1
    assert info["max_timestamp"] == T + 20


def test_the_first_offset_of_old_formats_is_unknown():
    info = follow(batch((b"k", b"v", T), magic=1, codec="gzip", base_offset=9)).info[0]
    assert info["first_offset"] == UNKNOWN_OFFSET
    assert info["last_offset_of_first_batch"] == 9


def test_last_offsets_must_be_ascending_on_a_follower():
    first, second = follower_batch(0, 1, 2), follower_batch(1, 1)
    appends = follow(first + second)
    assert rejection(appends) == rejected("OffsetsOutOfOrderException")
    overlapping = follow(first + follower_batch(1, 1, 2))
    assert not overlapping.errors  # only the last offsets are compared


def test_corruption_of_a_batch_is_reported_before_its_order():
    second = patched(follower_batch(0, 1), {"crc": 5}, recrc=False)
    appends = follow(follower_batch(1, 1) + second)
    assert rejection(appends) == rejected("CorruptRecordException")


def test_a_batch_may_have_as_many_bytes_as_the_limit_and_no_more():
    assert not lead(VALID, max_message_bytes=len(VALID)).errors
    appends = lead(VALID, max_message_bytes=len(VALID) - 1)
    assert rejection(appends) == rejected("RecordTooLargeException")
    assert not follow(follower_batch(0, 1), max_bytes=None).errors


def test_the_size_is_checked_before_the_checksum():
    corrupt = patched(VALID, {"crc": 5}, recrc=False)
    small = lead(corrupt, max_message_bytes=20)
    assert rejection(small) == rejected("RecordTooLargeException")
    assert rejection(lead(corrupt)) == rejected("CorruptRecordException")


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_wrong_checksum_is_rejected_in_every_format(magic):
    data = bytearray(batch((b"k", b"v", -1), magic=magic))
    data[-1] ^= 1
    assert rejection(lead(data)) == rejected("CorruptRecordException")
    assert rejection(follow(data)) == rejected("CorruptRecordException")


@pytest.mark.parametrize("size", [26, 30, 60])
def test_a_batch_smaller_than_its_header_is_rejected(size):
    data = bytearray(size)
    data[8:12] = (size - 12).to_bytes(4, "big")
    data[16] = 2
    assert rejection(lead(data)) == rejected("CorruptRecordException")


@pytest.mark.parametrize("cut", [1, 11, 12, 16, 17, 40, len(VALID) - 1])
def test_a_partial_tail_is_cut_off(cut):
    appends = lead(VALID + VALID[:cut], VALID)
    assert not appends.errors
    assert appends.info["valid_bytes"].tolist() == [len(VALID)] * 2
    assert written(appends, 0)[61:] == written(appends, 1)[61:] == VALID[61:]


def test_nothing_whole_is_nothing_and_no_error():
    appends = lead(b"", VALID[:40])
    assert not appends.errors
    assert appends.info["valid_bytes"].tolist() == [0, 0]
    assert (len(appends.rows), len(appends.data)) == (0, 0)


@pytest.mark.parametrize("size", [-1, 0, 13])
def test_a_size_below_that_of_any_format_is_rejected(size):
    data = bytes(8) + size.to_bytes(4, "big", signed=True)
    assert rejection(lead(data)) == rejected("CorruptRecordException")
    assert rejection(follow(VALID + data)) == rejected("CorruptRecordException")


@pytest.mark.parametrize("lead_or_follow", [lead, follow])
@pytest.mark.parametrize("before", [b"", VALID])
def test_a_size_that_overflows_with_the_bytes_before_it_is_rejected(
    lead_or_follow, before
):
    def sized(size, magic=2):
        return before + bytes(8) + size.to_bytes(4, "big") + bytes([0] * 4 + [magic])

    greatest = 2**31 - 1
    for size in (greatest - 11, greatest):
        appends = lead_or_follow(sized(size))
        assert rejection(appends) == rejected("IllegalArgumentException")
        appends = lead_or_follow(sized(size, magic=3))
        assert rejection(appends) == rejected("CorruptRecordException")
        assert not lead_or_follow(sized(size)[:-1]).errors
    assert not lead_or_follow(sized(greatest - 12)).errors


def test_an_unknown_magic_is_rejected():
    data = VALID[:16] + b"\x03" + VALID[17:]
    assert rejection(lead(data)) == rejected("CorruptRecordException")


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_rejected(codec):
    data = patched(VALID, {"attributes": codec})
    assert rejection(lead(data)) == rejected("IllegalArgumentException")


def test_the_last_codec_of_an_append_is_its_source():
    compressed = follower_batch(0, 1, codec="lz4") + follower_batch(1, 1, codec="zstd")
    assert follow(compressed + follower_batch(2, 1)).info["source_codec"][0] == 4


def test_appends_of_a_call_are_validated_independently():
    corrupt = patched(VALID, {"crc": 5}, recrc=False)
    appends = lead(VALID, corrupt, SECOND, VALID, next_offset=50)
    assert sorted(appends.errors) == [1, 2]
    assert appends.info["first_offset"][[0, 3]].tolist() == [50, 51]
    assert len(appends.data) == 2 * len(VALID)
    assert appends.rows["position"].tolist() == [0, len(VALID)]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_an_append_may_be_any_buffer_and_is_not_changed(kind):
    buffer = kind(VALID)
    appends = lead(buffer, next_offset=9)
    assert written(appends) != VALID
    assert bytes(buffer) == VALID


def test_an_append_of_many_batches_is_accepted():
    many = b"".join(follower_batch(i, 1) for i in range(1500))
    appends = follow(many, follower_batch(1500, 1))
    assert appends.row_bounds.tolist() == [0, 1500, 1501]
    assert appends.data[: len(many)].tobytes() == many
