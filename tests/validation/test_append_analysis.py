"""Which batches of an append count: each check of headers, and in which order."""

from __future__ import annotations

import pytest

from kafkalog.validation.appends import UNKNOWN_OFFSET, AppendOrigin
from tests.validation.appending import T, batch, follow, lead, patched, told, written

PLAIN = batch((b"k", b"v", T))
SECOND = batch((b"k", b"v", T + 9), base_offset=1)


def refused(name):
    return (name, None, None)


def follower_batch(offset, epoch, count=1, **settings):
    rows = [(b"k", b"v", T + offset)] * count
    return batch(*rows, base_offset=offset, leader_epoch=epoch, **settings)


def test_a_raft_leaders_batches_carry_its_epoch():
    theirs = follower_batch(0, 6)
    appends = follow(theirs, origin=AppendOrigin.RAFT_LEADER)
    assert told(appends) == refused("InvalidRecordException")
    appends = follow(follower_batch(0, 7), origin=AppendOrigin.RAFT_LEADER)
    assert not appends.errors


def test_only_clients_must_count_from_zero():
    assert told(lead(SECOND)) == refused("InvalidRecordException")
    for origin in (AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION):
        appends = lead(SECOND, origin=origin, timestamp_after_max_ms=100)
        assert not appends.errors


def test_messages_of_old_formats_may_count_from_anywhere():
    assert not lead(batch((b"k", b"v", T), magic=1, base_offset=5)).errors


def test_a_replica_leaves_out_a_newer_epoch_and_all_behind_it():
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


def test_what_is_left_out_must_still_be_entries():
    broken = bytes(8) + b"\0\0\0\x0d" + bytes(40)
    appends = follow(follower_batch(0, 8) + broken)
    assert told(appends) == refused("CorruptRecordException")


def broken(offset, **settings):
    """Spoil the records of a batch, whose checksum is right."""
    whole = follower_batch(offset, 7, 3, **settings)
    return patched(whole[:61] + b"\1" + whole[62:], {"count": 3})


STRANGE = follower_batch(9, 7)[:16] + b"\3" + follower_batch(9, 7)[17:]


@pytest.mark.parametrize(
    ("behind", "name"),
    [
        (b"", "OffsetsOutOfOrderException"),
        (broken(9), "InvalidRecordException"),
        (broken(9, codec="zstd"), "KafkaException"),
        (follower_batch(9, 9, codec="zstd"), "OffsetsOutOfOrderException"),
        (bytes(7), "OffsetsOutOfOrderException"),
        (bytes(12), "CorruptRecordException"),
        (STRANGE, "CorruptRecordException"),
    ],
)
def test_of_offsets_that_fall_all_are_to_be_told_and_so_all_records_read(behind, name):
    falling = follower_batch(5, 7) + follower_batch(5, 7)
    assert told(follow(falling + behind)) == refused(name)


def test_what_breaks_before_offsets_fall_is_told_instead():
    unsound = patched(follower_batch(5, 7), {"producer_epoch": 9}, recrc=False)
    assert told(follow(unsound + follower_batch(2, 7)))[0] == "CorruptRecordException"
    falling = follower_batch(5, 7) + follower_batch(2, 7)
    assert told(follow(falling + unsound))[0] == "OffsetsOutOfOrderException"


def test_an_append_says_its_first_and_last_offsets():
    pieces = [follower_batch(5, 3, 2), follower_batch(7, 4), follower_batch(20, -1)]
    info = follow(b"".join(pieces)).info[0]
    assert [info[n] for n in ("first_offset", "last_offset")] == [5, 20]
    assert info["last_offset_of_first_batch"] == 6
    assert info["last_leader_epoch"] == -1
    assert info["max_timestamp"] == T + 20


def test_the_first_offset_of_old_formats_is_not_known():
    info = follow(batch((b"k", b"v", T), magic=1, codec="gzip", base_offset=9)).info[0]
    assert info["first_offset"] == UNKNOWN_OFFSET
    assert info["last_offset_of_first_batch"] == 9


def test_last_offsets_must_rise_where_none_are_assigned():
    first, second = follower_batch(0, 1, 2), follower_batch(1, 1)
    appends = follow(first + second)
    assert told(appends) == refused("OffsetsOutOfOrderException")
    overlapping = follow(first + follower_batch(1, 1, 2))
    assert not overlapping.errors  # only the last offsets are compared


def test_a_fault_of_the_same_batch_is_found_before_its_order():
    second = patched(follower_batch(0, 1), {"crc": 5}, recrc=False)
    appends = follow(follower_batch(1, 1) + second)
    assert told(appends) == refused("CorruptRecordException")


def test_a_batch_may_be_as_large_as_the_limit_and_no_larger():
    assert not lead(PLAIN, max_message_bytes=len(PLAIN)).errors
    appends = lead(PLAIN, max_message_bytes=len(PLAIN) - 1)
    assert told(appends) == refused("RecordTooLargeException")
    assert not follow(follower_batch(0, 1), max_bytes=None).errors


def test_size_is_looked_at_before_the_checksum():
    spoilt = patched(PLAIN, {"crc": 5}, recrc=False)
    small = lead(spoilt, max_message_bytes=20)
    assert told(small) == refused("RecordTooLargeException")
    assert told(lead(spoilt)) == refused("CorruptRecordException")


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_wrong_checksum_is_refused_of_every_format(magic):
    data = bytearray(batch((b"k", b"v", -1), magic=magic))
    data[-1] ^= 1
    assert told(lead(data)) == refused("CorruptRecordException")
    assert told(follow(data)) == refused("CorruptRecordException")


@pytest.mark.parametrize("size", [26, 30, 60])
def test_a_batch_smaller_than_its_header_is_refused(size):
    data = bytearray(size)
    data[8:12] = (size - 12).to_bytes(4, "big")
    data[16] = 2
    assert told(lead(data)) == refused("CorruptRecordException")


@pytest.mark.parametrize("cut", [1, 11, 12, 16, 17, 40, len(PLAIN) - 1])
def test_a_partial_tail_is_cut_off(cut):
    appends = lead(PLAIN + PLAIN[:cut], PLAIN)
    assert not appends.errors
    assert appends.info["valid_bytes"].tolist() == [len(PLAIN)] * 2
    assert written(appends, 0)[61:] == written(appends, 1)[61:] == PLAIN[61:]


def test_nothing_whole_is_nothing_and_no_error():
    appends = lead(b"", PLAIN[:40])
    assert not appends.errors
    assert appends.info["valid_bytes"].tolist() == [0, 0]
    assert (len(appends.rows), len(appends.data)) == (0, 0)


@pytest.mark.parametrize("size", [-1, 0, 13])
def test_a_size_below_any_format_is_refused(size):
    data = bytes(8) + size.to_bytes(4, "big", signed=True)
    assert told(lead(data)) == refused("CorruptRecordException")
    assert told(follow(PLAIN + data)) == refused("CorruptRecordException")


def test_a_magic_that_there_is_none_of_is_refused():
    data = PLAIN[:16] + b"\x03" + PLAIN[17:]
    assert told(lead(data)) == refused("CorruptRecordException")


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_there_is_none_of_is_refused(codec):
    data = patched(PLAIN, {"attributes": codec})
    assert told(lead(data)) == refused("IllegalArgumentException")


def test_the_last_codec_of_an_append_is_its_source():
    packed = follower_batch(0, 1, codec="lz4") + follower_batch(1, 1, codec="zstd")
    assert follow(packed + follower_batch(2, 1)).info["source_codec"][0] == 4


def test_appends_of_a_call_are_judged_each_by_itself():
    spoilt = patched(PLAIN, {"crc": 5}, recrc=False)
    appends = lead(PLAIN, spoilt, SECOND, PLAIN, next_offset=50)
    assert sorted(appends.errors) == [1, 2]
    assert appends.info["first_offset"][[0, 3]].tolist() == [50, 51]
    assert len(appends.data) == 2 * len(PLAIN)
    assert appends.rows["position"].tolist() == [0, len(PLAIN)]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_may_come_as_any_buffer_and_stay_as_they_are(kind):
    piece = kind(PLAIN)
    appends = lead(piece, next_offset=9)
    assert written(appends) != PLAIN
    assert bytes(piece) == PLAIN


def test_an_append_of_many_batches_is_taken_whole():
    whole = b"".join(follower_batch(i, 1) for i in range(1500))
    appends = follow(whole, follower_batch(1500, 1))
    assert appends.row_bounds.tolist() == [0, 1500, 1501]
    assert appends.data[: len(whole)].tobytes() == whole
