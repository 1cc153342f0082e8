"""Each codec's framing, rule by rule, as Kafka's readers implement it."""

from __future__ import annotations

import gzip
import struct
import zlib

import lz4.frame
import pytest
import snappy
import zstandard

from kafkalog.codecs import gzip_members, lz4_frames, xerial_snappy, zstd_frames
from kafkalog.errors import BatchTooLargeError, CorruptRecordError

TEXT = b"".join(b"line %d of many\n" % i for i in range(20_000))
LIMIT = 1 << 20

ROOMS = {
    "gzip": gzip_members,
    "snappy": xerial_snappy,
    "lz4": lz4_frames,
    "zstd": zstd_frames,
}


def decompressed(codec, stream, **options):
    return b"".join(ROOMS[codec].decompress(stream, LIMIT, **options))


def rejected(codec, stream, match, **options):
    with pytest.raises(CorruptRecordError, match=match) as caught:
        ROOMS[codec].decompress(stream, LIMIT, **options)
    return caught.value.position


# ------------------------------------------------------------------------------- gzip


def test_gzip_begins_as_java_begins_it():
    for level in (None, 1, 9):
        stream = gzip_members.compress(TEXT, level)
        assert stream[:10].hex() == "1f8b08000000000000ff"
        assert gzip.decompress(stream) == TEXT


def test_gzip_members_follow_one_another():
    noise = b"".join(zlib.crc32(b"%d" % i).to_bytes(4, "big") for i in range(40_000))
    parts = [b"x", noise, b"", TEXT, noise, TEXT[:999]]
    assert decompressed("gzip", b"".join(map(gzip.compress, parts))) == b"".join(parts)


@pytest.mark.parametrize("library", [gzip_members._library(), zlib])
def test_reserved_flags_of_gzip_are_ignored(library, monkeypatch):
    monkeypatch.setattr(gzip_members, "_library", lambda: library)
    for flag in (0x20, 0x40, 0x80, 0xE0):
        member = bytearray(gzip.compress(TEXT))
        member[3] |= flag
        assert decompressed("gzip", bytes(member) * 2) == TEXT * 2


def test_gzip_headers_may_have_all_optional_fields():
    head = bytes((0x1F, 0x8B, 8, 2 | 4 | 8 | 16)) + bytes(6)
    head += b"\2\0ab" + b"name\0" + b"comment\0"
    head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
    body = gzip.compress(TEXT)[10:]
    assert decompressed("gzip", head + body) == TEXT


@pytest.mark.parametrize("tail", [bytes(1), bytes(100), b"\x1f\x8b", b"other" * 9])
def test_trailing_bytes_after_gzip_are_ignored(tail):
    assert decompressed("gzip", gzip.compress(TEXT) + tail) == TEXT


def test_a_truncated_second_gzip_member_is_rejected():
    stream = gzip.compress(TEXT) + gzip.compress(TEXT)
    assert rejected("gzip", stream[:-9], "gzip member truncated") == len(
        gzip.compress(TEXT)
    )


@pytest.mark.parametrize("place", [-1, -5])
def test_gzip_checks_crc_and_length(place):
    stream = bytearray(gzip.compress(TEXT))
    stream[place] ^= 1
    rejected("gzip", bytes(stream), "gzip member is corrupt")


# ----------------------------------------------------------------------------- snappy

XERIAL = bytes.fromhex("82534e4150505900 00000001 00000001")


def block(data):
    compressed = snappy.compress(data)
    return struct.pack(">i", len(compressed)) + compressed


def test_snappy_is_cut_into_blocks_of_32_kib():
    data = TEXT[:70_000]
    blocks = [data[at : at + 32768] for at in range(0, len(data), 32768)]
    assert xerial_snappy.compress(data) == XERIAL + b"".join(map(block, blocks))


def test_snappy_without_framing_is_one_raw_block():
    assert decompressed("snappy", snappy.compress(TEXT)) == TEXT
    assert decompressed("snappy", snappy.compress(b"abc")) == b"abc"


def test_snappy_versions_are_ignored():
    head = XERIAL[:8] + bytes.fromhex("00000063 7fffffff")
    assert decompressed("snappy", head + block(TEXT)) == TEXT


def test_snappy_streams_may_be_joined():
    one = XERIAL + block(b"abc") + block(b"def")
    assert decompressed("snappy", one + one + XERIAL) == b"abcdef" * 2


@pytest.mark.parametrize("tail", [b"\x00", b"\x82SN"])
def test_fewer_than_4_trailing_bytes_after_snappy_are_ignored(tail):
    assert decompressed("snappy", XERIAL + block(TEXT) + tail) == TEXT


def test_a_snappy_header_alone_is_empty():
    assert decompressed("snappy", XERIAL) == b""


@pytest.mark.parametrize("length", [-1, -(2**31), 4, 2**31 - 1])
def test_an_impossible_snappy_length_is_rejected(length):
    stream = XERIAL + block(b"abc") + struct.pack(">i", length) + b"abc"
    assert rejected("snappy", stream, "snappy block of") == len(stream) - 7


@pytest.mark.parametrize(
    ("stream", "match"),
    [
        (b"", "no end in 5 bytes"),
        (XERIAL + struct.pack(">i", 0), "no end in 5 bytes"),
        (b"\xff" * 9, "no end in 5 bytes"),
        (XERIAL + block(b"abc") + XERIAL[:12], "expected 16 bytes"),
        (XERIAL + XERIAL[:4] + b"other words!", "expected 16 bytes"),
        (b"\x80\x40" + b"\x00a", "8192 bytes, expected at most 88"),
        (b"\x05\x00a", "snappy block is corrupt"),
    ],
)
def test_invalid_snappy_is_rejected(stream, match):
    rejected("snappy", stream, match)


def test_a_snappy_block_above_the_limit_is_rejected_before_decompression():
    declared = b"\xff\xff\xff\xff\x0f" + bytes(50)
    with pytest.raises(
        BatchTooLargeError, match="4294967295 bytes, expected at most 1048576"
    ):
        xerial_snappy.decompress(declared, LIMIT)


# -------------------------------------------------------------------------------- lz4

USUAL = bytes.fromhex("04224d18 60 40 82")
OLD = bytes.fromhex("04224d18 60 40 1a")


def framed(**options):
    return lz4.frame.compress(TEXT, **{"block_linked": False, **options})


def test_lz4_begins_as_kafka_begins_it():
    assert lz4_frames.compress(TEXT, None)[:7] == USUAL
    assert lz4_frames.compress(TEXT, None, checked=False)[:7] == OLD
    assert lz4.frame.decompress(lz4_frames.compress(TEXT, 12)) == TEXT


def test_an_incompressible_lz4_block_is_stored():
    assert lz4_frames.compress(b"ab", None) == USUAL + b"\2\0\0\x80ab" + bytes(4)


@pytest.mark.parametrize("size", [4, 5, 6, 7])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("content", [False, True])
@pytest.mark.parametrize("blocks", [False, True])
def test_lz4_frames_of_other_writers_are_read(size, stored, content, blocks):
    stream = framed(
        block_size=size,
        store_size=stored,
        content_checksum=content,
        block_checksum=blocks,
    )
    for tail in (b"", b"more", stream):
        assert decompressed("lz4", stream + tail) == TEXT
    rejected("lz4", stream[:-1], "lz4 frame truncated|checksum of 3 bytes")


def test_lz4_content_size_and_checksum_are_ignored():
    stream = bytearray(framed(store_size=True, content_checksum=True))
    stream[6] ^= 1
    stream[14] = lz4_frames.header_checksum(bytes(stream[4:14]))
    stream[-1] ^= 1
    assert decompressed("lz4", bytes(stream)) == TEXT


def test_an_lz4_content_size_above_the_limit_is_rejected_at_once():
    with pytest.raises(
        BatchTooLargeError, match="content size 368890, expected at most"
    ):
        lz4_frames.decompress(framed(store_size=True), 1000)


def test_lz4_block_checksums_are_checked():
    stream = bytearray(framed(block_checksum=True))
    stream[-5] ^= 1
    rejected("lz4", bytes(stream), "lz4 frame is corrupt")


def test_the_header_checksum_of_magic_0_may_be_any():
    stream = bytearray(lz4_frames.compress(TEXT, None, checked=False))
    for value in (0x1A, 0x82, 0):
        stream[6] = value
        assert decompressed("lz4", bytes(stream), checked=False) == TEXT
    assert rejected("lz4", bytes(stream), "header checksum 00, expected 82") == 6


@pytest.mark.parametrize(
    ("flags", "block", "match"),
    [
        (0x40, 0x40, "flags 0x40"),
        (0x20, 0x40, "flags 0x20"),
        (0xA0, 0x40, "flags 0xa0"),
        (0x61, 0x40, "flags 0x61"),
        (0x62, 0x40, "flags 0x62"),
        (0x60, 0x30, "block descriptor 0x30"),
        (0x60, 0xC0, "block descriptor 0xc0"),
        (0x60, 0x41, "block descriptor 0x41"),
    ],
)
def test_lz4_headers_that_kafka_does_not_read_are_rejected(flags, block, match):
    descriptor = bytes((flags, block))
    check = bytes((lz4_frames.header_checksum(descriptor),))
    stream = USUAL[:4] + descriptor + check + bytes(4)
    rejected("lz4", stream, match)
    rejected("lz4", stream, match, checked=False)


def test_an_lz4_block_above_its_frames_maximum_is_rejected():
    rejected(
        "lz4", USUAL + struct.pack("<I", 65537) + bytes(65537), "lz4 frame is corrupt"
    )


def test_invalid_lz4_is_rejected():
    assert rejected("lz4", b"not a frame", "expected 04224d18") == 0
    assert rejected("lz4", USUAL[:6], "lz4 header of (6|14) bytes") == 6
    assert (
        rejected("lz4", framed(store_size=True)[:14], "lz4 header of (6|14) bytes")
        == 14
    )


# ------------------------------------------------------------------------------- zstd


def zstd(data=TEXT, **options):
    return zstandard.ZstdCompressor(**options).compress(data)


def test_zstd_is_closed_as_zstd_jni_closes_it():
    stream = zstd_frames.compress(TEXT, None)
    assert stream[:6].hex() == "28b52ffd0058"
    assert stream[-3:].hex() == "010000"


@pytest.mark.parametrize("size", [1, 255, 256, 65_791, 65_792, 300_000])
@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("declared", [False, True])
def test_zstd_frames_of_other_writers_are_read(size, check, declared):
    stream = zstd(TEXT[:size], write_checksum=check, write_content_size=declared)
    assert decompressed("zstd", stream) == TEXT[:size]
    assert b"".join(zstd_frames.decompress(stream, size)) == TEXT[:size]
    with pytest.raises(BatchTooLargeError):
        zstd_frames.decompress(stream, size - 1)
    rejected("zstd", stream[:-1], "truncated|is corrupt")


def test_zstd_frames_may_follow_one_another_and_be_skipped():
    skipped = struct.pack("<II", 0x184D2A53, 5) + b"notes"
    stream = zstd() + skipped + zstd(b"") + zstd_frames.compress(b"x", None)
    assert decompressed("zstd", stream) == TEXT + b"x"
    assert decompressed("zstd", b"") == b""


@pytest.mark.parametrize(
    "tail", [b"\0", b"\x28\xb5", bytes(8), b"\x50\x2a\x4d\x18\x09"]
)
def test_trailing_bytes_after_zstd_are_rejected(tail):
    stream = zstd_frames.compress(TEXT, None)
    assert rejected("zstd", stream + tail, "zstd magic") == len(stream)


def test_a_truncated_skippable_frame_is_rejected():
    rejected("zstd", struct.pack("<II", 0x184D2A50, 6) + b"notes", "ends at byte 14")


def test_the_zstd_checksum_is_verified():
    stream = bytearray(zstd(write_checksum=True))
    stream[-1] ^= 1
    rejected("zstd", bytes(stream), "zstd frame is corrupt")


def test_a_zstd_window_above_javas_limit_is_rejected():
    # A descriptor without size, and a window of 256 MiB.
    stream = b"\x28\xb5\x2f\xfd\x00" + bytes((18 << 3,)) + b"\x01\x00\x00"
    rejected("zstd", stream, "zstd frame is corrupt")


def test_zstd_with_a_dictionary_is_rejected():
    samples = [TEXT[at : at + 200] for at in range(0, 40_000, 200)]
    dictionary = zstandard.train_dictionary(2000, samples)
    rejected("zstd", zstd(TEXT[:500], dict_data=dictionary), "zstd frame is corrupt")


def test_an_unknown_zstd_block_type_is_rejected():
    stream = b"\x28\xb5\x2f\xfd\x00\x58" + b"\x07\x00\x00"
    assert rejected("zstd", stream, "block type 3") == 6


def test_a_zstd_frame_whose_bound_exceeds_the_limit_is_counted():
    stream = zstd_frames.compress(TEXT, None)
    assert b"".join(zstd_frames.decompress(stream, len(TEXT))) == TEXT
