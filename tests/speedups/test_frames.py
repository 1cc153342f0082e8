"""Frames are measured by RFC 8878; no stream decompresses to more than its bound."""

from __future__ import annotations

import gzip
import struct
import zlib

import numpy as np
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog import _speedups
from kafkalog._speedups import FrameStatus
from kafkalog.codecs.compression import (
    Codec,
    bounded_decompressor,
    compress,
    decompress,
)
from kafkalog.errors import KafkaLogError
from kafkalog.formats.layout import BATCH
from tests.guarded import at_the_end
from tests.reference import Reader

LIMIT = 1 << 20
MAGIC = b"\x28\xb5\x2f\xfd"
TEXT = b"".join(b"line %d of many\n" % i for i in range(20_000))
SAMPLES = [TEXT[at : at + 200] for at in range(0, 40_000, 200)]


# Reference


def little(reader, count):
    return int.from_bytes(reader.take(count), "little")


def header(reader):
    """Read a header; return its declared size, or None, and the checksum flag."""
    assert reader.take(4) == MAGIC
    descriptor = f"{reader.take(1)[0]:08b}"
    size_flag, single, dictionary = descriptor[:2], descriptor[2], descriptor[6:]
    if single == "0":
        reader.take(1)
    reader.take({"00": 0, "01": 1, "10": 2, "11": 4}[dictionary])
    checked = descriptor[5] == "1"
    if size_flag == "00":
        return (little(reader, 1) if single == "1" else None), checked
    if size_flag == "01":
        return little(reader, 2) + 256, checked
    return little(reader, 4 if size_flag == "10" else 8), checked


def blocks(reader, limit):
    """Read blocks up to the last; return the bound of their decompressed size."""
    uncompressed = compressed = 0
    while uncompressed <= limit:
        begin, head = reader.position, little(reader, 3)
        kind, size = head >> 1 & 3, head >> 3
        if kind == 3:
            return FrameStatus.BLOCK_TYPE, begin
        reader.position += 1 if kind == 1 else size
        uncompressed += 0 if kind == 2 else size
        compressed += 128 * 1024 if kind == 2 else 0
        if head & 1 and uncompressed <= limit:
            return FrameStatus.COMPLETE, uncompressed + compressed
    return FrameStatus.CONTENT_SIZE, 0


def measured(data, limit):
    """Measure the frame at the start of `data` as the kernel should."""
    reader = Reader(data)
    try:
        declared, checked = header(reader)
    except ValueError:
        return FrameStatus.HEADER_TRUNCATED, 0
    if declared is not None and declared > limit:
        return FrameStatus.DECLARED_SIZE, 0, declared
    try:
        framing, bound = blocks(reader, limit)
        if framing == FrameStatus.COMPLETE:
            reader.take(4 if checked else 0)
    except ValueError:
        return FrameStatus.TRUNCATED, 0
    if framing == FrameStatus.COMPLETE:
        return framing, reader.position, bound
    return framing, bound


# Frames

sizes = st.integers(0, 40) | st.sampled_from([131_071, 131_072, (1 << 21) - 1])


@st.composite
def frames(draw):
    """Draw a frame of any header and blocks, with valid lengths only."""
    descriptor = draw(st.sampled_from([0, 0, 4]) | st.integers(0, 255))
    body = draw(st.binary(min_size=14, max_size=14))
    extra = 0 if descriptor & 0x20 else 1
    extra += (0, 1, 2, 4)[descriptor & 3]
    size_bytes = (1 if descriptor & 0x20 else 0, 2, 4, 8)[descriptor >> 6]
    size = draw(st.integers(0, 5_000)) % (1 << 8 * size_bytes)
    frame = MAGIC + bytes([descriptor]) + body[:extra]
    frame += size.to_bytes(size_bytes, "little")
    kinds = draw(st.lists(st.sampled_from([0, 0, 1, 1, 2, 2, 2, 3]), max_size=6))
    for place, kind in enumerate([*kinds, draw(st.sampled_from([0, 1, 2]))]):
        size = draw(sizes)
        frame += (place == len(kinds) | kind << 1 | size << 3).to_bytes(3, "little")
        frame += bytes(1 if kind == 1 else min(size, 40))
    return frame + bytes(4 if descriptor & 4 else 0)


def from_library(data, *, level=3, **options):
    return zstandard.ZstdCompressor(level=level, **options).compress(data)


REAL = [
    compress(Codec.ZSTD, b""),
    compress(Codec.ZSTD, TEXT[:1000]),
    compress(Codec.ZSTD, TEXT),
    from_library(TEXT[:300], write_checksum=True),
    from_library(TEXT[:300], write_content_size=False, write_checksum=True),
    from_library(bytes(200_000), write_content_size=False),
    from_library(TEXT[:900], dict_data=zstandard.train_dictionary(2000, SAMPLES)),
    from_library(
        b"".join(zlib.crc32(b"%d" % i).to_bytes(4, "big") for i in range(400))
    ),
]
damaged = st.tuples(
    frames() | st.sampled_from(REAL),
    st.lists(st.tuples(st.integers(4, 2_000), st.integers(0, 255)), max_size=3),
    st.none() | st.integers(4, 2_000),
    st.binary(max_size=9),
)


def damage(frame, changes, cut, tail):
    changed = bytearray(frame)
    for place, byte in changes:
        if place < len(changed):
            changed[place] = byte
    return bytes(changed[:cut] + tail)


@given(
    before=st.binary(max_size=9),
    damaged_frame=damaged,
    limit=st.sampled_from([0, 20, 300, 5_000, LIMIT, 2**40, 2**63 - 1]),
)
@example(b"", (MAGIC + b"\xe0" + b"\xff" * 8 + b"\1\0\0", [], None, b""), 2**63 - 1)
@example(b"", (MAGIC, [], None, b""), 0)
@example(b"", (MAGIC + b"\0", [], None, b""), 0)
def test_a_frame_is_measured_as_the_reference_does(before, damaged_frame, limit):
    data = damage(*damaged_frame)
    framing, place, count = _speedups.measure_frame(
        at_the_end(before + data).data, len(before), limit
    )
    expected = measured(data, limit)
    assert (framing, place - len(before), count)[: len(expected)] == expected


def test_frames_of_the_library_are_complete():
    for frame in REAL:
        framing, end, most = _speedups.measure_frame(frame + b"more", 0, LIMIT)
        assert (framing, end) == (FrameStatus.COMPLETE, len(frame))
        assert most <= LIMIT


@pytest.mark.parametrize(("begin", "limit"), [(-1, 5), (9, 5), (10, 5), (0, -1)])
def test_a_start_outside_the_bytes_is_rejected(begin, limit):
    with pytest.raises(ValueError, match="expected within"):
        _speedups.measure_frame(bytes(9), begin, limit)


# Bounds


def bounds_of(codec, *streams, limit=LIMIT, magic=2):
    rows = np.zeros(len(streams), BATCH)
    rows["attributes"], rows["magic"] = codec | 0x18, magic
    lengths = np.array([len(stream) for stream in streams], np.int64)
    bounds = np.full(len(streams), 77)
    data = at_the_end(b"".join(streams))
    starts = np.cumsum(lengths) - lengths
    _speedups.bound_decompressed_sizes(data, rows, starts, lengths, limit, bounds)
    return bounds.tolist()


def decompressed(codec, stream, limit=LIMIT):
    try:
        return b"".join(decompress(codec, stream, limit=limit))
    except KafkaLogError:
        return None


contents = st.sampled_from([b"", TEXT, bytes(150_000)]) | st.binary(max_size=300)


@given(several=st.lists(contents, min_size=1, max_size=5))
def test_streams_as_kafka_writes_them_have_bounds(several):
    zstd = bounds_of(
        Codec.ZSTD, *(compress(Codec.ZSTD, content) for content in several)
    )
    for content, bound in zip(several, zstd, strict=True):
        assert len(content) <= bound
        assert (bound == 0) == (content == b"")
    members = [compress(Codec.GZIP, content) for content in several]
    for magic in (0, 1, 2):
        assert bounds_of(Codec.GZIP, *members, magic=magic) == list(map(len, several))


def test_no_bound_is_above_the_limit():
    member, frame = compress(Codec.GZIP, TEXT), compress(Codec.ZSTD, TEXT)
    (most,) = bounds_of(Codec.ZSTD, frame)
    assert bounds_of(Codec.ZSTD, frame, limit=most) == [most]
    assert bounds_of(Codec.ZSTD, frame, limit=most - 1) == [-1]
    assert bounds_of(Codec.GZIP, member, limit=len(TEXT)) == [len(TEXT)]
    assert bounds_of(Codec.GZIP, member, limit=len(TEXT) - 1) == [-1]
    assert bounds_of(Codec.GZIP, member[:-4] + b"\xff" * 4, limit=2**31) == [-1]


FRAME = compress(Codec.ZSTD, TEXT)
SKIPPED = struct.pack("<II", 0x184D2A53, 5) + b"notes"


@pytest.mark.parametrize(
    "stream",
    [
        *(b"", b"\0", FRAME[:-1], FRAME[:4], FRAME[:5], FRAME + b"\0", FRAME * 2),
        *(SKIPPED + FRAME, FRAME + SKIPPED, MAGIC + b"\x00\x58\x07\x00\x00"),
        *(*REAL[3:5], *REAL[6:]),
    ],
)
def test_zstd_in_other_framings_has_no_bound(stream):
    assert bounds_of(Codec.ZSTD, stream) == [-1]


def test_zstd_below_magic_2_has_no_bound():
    for magic in (0, 1, 3):
        assert bounds_of(Codec.ZSTD, FRAME, magic=magic) == [-1]


@pytest.mark.parametrize("codec", [0, 2, 3, 5, 6, 7])
def test_other_codecs_have_no_bounds(codec):
    assert bounds_of(codec, FRAME, compress(Codec.GZIP, TEXT)) == [-1, -1]


def test_gzip_with_optional_fields_has_no_bound():
    member = compress(Codec.GZIP, TEXT)
    for flag in range(8):
        flagged = member[:3] + bytes([1 << flag]) + member[4:]
        assert bounds_of(Codec.GZIP, flagged) == [-1]
    assert bounds_of(Codec.GZIP, member[:17], b"", b"\x1f\x8b\x08\0") == [-1] * 3


@given(
    codec=st.sampled_from([Codec.GZIP, Codec.ZSTD]),
    content=contents,
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
    cut=st.none() | st.integers(1, 400),
    tail=st.sampled_from([b"", b"\0", bytes(20), gzip.compress(b"more"), FRAME]),
)
def test_bounded_streams_are_decompressed_as_others_or_rejected(
    codec, content, changes, cut, tail
):
    stream = damage(compress(codec, content), changes, cut, tail)
    (bound,) = bounds_of(codec, stream)
    if bound < 1:
        return
    decompress_bounded, errors = bounded_decompressor(codec)
    try:
        found = decompress_bounded(memoryview(stream), bound)
    except errors:
        return
    assert len(found) <= bound
    assert found == decompressed(codec, stream)


def test_ranges_outside_the_bytes_have_no_bounds():
    rows = np.zeros(1, BATCH)
    rows["attributes"], rows["magic"] = Codec.ZSTD, 2
    data, bounds = np.frombuffer(FRAME, np.uint8), np.zeros(1, np.int64)
    size = len(FRAME)
    for start, length in [
        (-1, size),
        (1, size),
        (size + 1, 1),
        (0, -1),
        (2**62, 2**62),
    ]:
        place = np.array([start]), np.array([length])
        _speedups.bound_decompressed_sizes(data, rows, *place, LIMIT, bounds)
        assert bounds[0] == -1
    with pytest.raises(ValueError, match="limit -1"):
        _speedups.bound_decompressed_sizes(data, rows, bounds, bounds, -1, bounds)
    with pytest.raises(ValueError, match=r"a column of .* rows, expected"):
        _speedups.bound_decompressed_sizes(
            data, rows, bounds, bounds, LIMIT, bounds[:0]
        )
