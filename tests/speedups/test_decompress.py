"""The kernel decompresses streams as the codec's library does, or rejects them."""

from __future__ import annotations

import lz4.block
import numpy as np
import pytest
import snappy
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog import _speedups
from kafkalog.codecs.compression import Codec, compress, decompress
from kafkalog.errors import KafkaLogError
from kafkalog.formats.layout import BATCH
from tests.guarded import at_the_end

LIMIT = 1 << 20
CODECS = st.sampled_from([Codec.SNAPPY, Codec.LZ4])
LZ4_HEADER = compress(Codec.LZ4, b"")[:7]
XERIAL_HEADER = compress(Codec.SNAPPY, b"")


def decompressed_by_kernel(codec, *streams, limit=LIMIT, capacity=3 * LIMIT, filled=0):
    """Decompress streams in one call; return those before it stopped."""
    data = at_the_end(b"".join(streams))
    rows = np.zeros(len(streams), BATCH)
    rows["attributes"] = codec
    lengths = np.array([len(stream) for stream in streams], np.int64)
    starts, sizes = np.cumsum(lengths) - lengths, np.empty(len(streams), np.int64)
    out = np.full(capacity, 0xEE, np.uint8)
    done, end = _speedups.decompress_streams(
        data, rows, starts, lengths, 0, limit, out, filled, sizes
    )
    assert end == filled + sizes[:done].sum()
    assert (out[:filled] == 0xEE).all()
    ends = filled + np.cumsum(sizes[:done])
    return [
        out[end - size : end].tobytes()
        for end, size in zip(ends.tolist(), sizes[:done].tolist(), strict=True)
    ]


def decompressed(codec, stream, limit=LIMIT):
    try:
        return b"".join(decompress(codec, stream, limit=limit))
    except KafkaLogError:
        return None


words = st.lists(st.binary(max_size=30), max_size=12).flatmap(
    lambda some: st.lists(st.sampled_from([b"", *some]), max_size=300).map(b"".join)
)
contents = words | st.binary(max_size=4_000) | st.integers(0, 200_000).map(bytes)


@given(codec=CODECS, several=st.lists(contents, min_size=1, max_size=5))
def test_compressed_streams_are_decompressed(codec, several):
    assert (
        decompressed_by_kernel(
            codec, *(compress(codec, content) for content in several)
        )
        == several
    )


@given(codec=CODECS, content=words, data=st.data())
def test_damaged_streams_are_decompressed_as_the_library_does_or_rejected(
    codec, content, data
):
    stream = bytearray(compress(codec, content))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(stream) - 1))
        stream[place] = data.draw(st.integers(0, 255))
    stream = bytes(stream[: data.draw(st.integers(1, len(stream)))])
    for found in decompressed_by_kernel(codec, stream):
        assert found == decompressed(codec, stream)


@given(block=st.binary(min_size=1, max_size=60), declared=st.integers(0, 200))
@example(block=bytes.fromhex("1f61010000"), declared=0)
def test_any_block_is_decompressed_as_the_library_does_or_rejected(block, declared):
    lz4_stream = LZ4_HEADER + len(block).to_bytes(4, "little") + block + bytes(4)
    for found in decompressed_by_kernel(Codec.LZ4, lz4_stream):
        assert found == decompressed(Codec.LZ4, lz4_stream)
        assert found == lz4.block.decompress(block, uncompressed_size=1 << 16)
    raw = bytes((declared & 0x7F | 0x80, declared >> 7)) + block
    stream = XERIAL_HEADER + len(raw).to_bytes(4, "big") + raw
    for found in decompressed_by_kernel(Codec.SNAPPY, stream):
        assert found == decompressed(Codec.SNAPPY, stream) == snappy.uncompress(raw)


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4])
def test_nothing_is_written_past_the_buffer_or_the_limit(codec):
    content = b"to be or not to be, " * 500
    stream = compress(codec, content)
    assert decompressed_by_kernel(codec, stream, limit=len(content)) == [content]
    assert decompressed_by_kernel(codec, stream, limit=len(content) - 1) == []
    capacity = 7 + 2 * len(content) + 64
    assert (
        decompressed_by_kernel(codec, *[stream] * 3, capacity=capacity, filled=7)
        == [content] * 2
    )
    assert decompressed_by_kernel(codec, stream, capacity=0) == []
    assert decompressed_by_kernel(codec, stream, capacity=5, filled=5) == []


@pytest.mark.parametrize(
    "stream",
    [
        compress(Codec.ZSTD, b"z"),
        b"",
        LZ4_HEADER,
        LZ4_HEADER[:6],
        b"\x04\x22\x4d\x18\x64\x40\xa7" + bytes(8),
        snappy.compress(b"a block without framing"),
    ],
)
def test_the_kernel_stops_at_other_framings(stream):
    for codec in Codec:
        assert decompressed_by_kernel(codec, stream) == []


def test_ranges_outside_the_bytes_are_not_read():
    rows = np.zeros(1, BATCH)
    rows["attributes"] = Codec.LZ4
    data, out = np.zeros(9, np.uint8), np.empty(9, np.uint8)
    sizes = np.empty(1, np.int64)
    for start, length in [(-1, 9), (1, 9), (10, 1), (0, -1), (2**62, 2**62)]:
        place = np.array([start]), np.array([length])
        result = _speedups.decompress_streams(data, rows, *place, 0, 9, out, 0, sizes)
        assert result == (0, 0)
    for first, filled in [(-1, 0), (0, -1), (0, 10)]:
        with pytest.raises(ValueError, match="expected at least 0"):
            _speedups.decompress_streams(
                *(data, rows, sizes, sizes, first, 9, out, filled, sizes)
            )
    with pytest.raises(ValueError, match=r"a column of .* rows, expected"):
        _speedups.decompress_streams(data, rows, sizes, sizes, 0, 9, out, 0, sizes[:0])
