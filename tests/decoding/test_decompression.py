"""Many streams are decompressed in one call as each alone, or are errors."""

from __future__ import annotations

import gzip
import zlib

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.codecs.compression import Codec, compress, decompress
from kafkalog.decoding import decompression
from kafkalog.decoding.workspace import DecompressionBuffer
from kafkalog.errors import BatchTooLargeError, LocatedError
from kafkalog.formats.batch_headers import scan_headers
from tests.fuzz.checksums import batch_around

LIMIT = 200_000
CONTENTS = [b"", b"abc", b"to be or not to be, " * 200, bytes(150_000), bytes(300_000)]
CONTENTS.append(b"".join(zlib.crc32(b"%d" % i).to_bytes(4, "big") for i in range(900)))


def unusual_forms(content):
    """Yield streams in forms that Kafka does not write."""
    middle = len(content) // 2
    halves = content[:middle], content[middle:]
    yield Codec.GZIP, b"".join(map(gzip.compress, halves))
    yield Codec.GZIP, gzip.compress(content) + bytes(9)
    yield Codec.ZSTD, b"".join(compress(Codec.ZSTD, half) for half in halves)
    yield Codec.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(content)
    yield Codec.ZSTD, b"\x50\x2a\x4d\x18\0\0\0\0" + compress(Codec.ZSTD, content)


USUAL = [(codec, compress(codec, content)) for content in CONTENTS for codec in Codec]
UNUSUAL = [form for content in CONTENTS for form in unusual_forms(content)]
CUT = [(codec, stream[:-3]) for codec, stream in USUAL if codec]
streams = st.lists(
    st.one_of(*(st.sampled_from(some) for some in (USUAL, USUAL, UNUSUAL, CUT))),
    min_size=1,
    max_size=12,
)


def outcome(codec, stream):
    try:
        return b"".join(decompress(codec, stream, limit=LIMIT)) if stream else b""
    except LocatedError as error:
        return type(error), error.reason


def decompressed(data, workspace):
    """Yield the position of each batch, and its decompressed payload or its error."""
    whole = np.frombuffer(data, np.uint8)
    rows, _, _ = scan_headers(whole)
    for run in decompression.decompress_batches(whole, 0, rows, LIMIT, workspace):
        if isinstance(run, LocatedError):
            yield run.position, (type(run), run.reason)
            continue
        ends = run.starts + run.lengths
        for row, start, end in zip(run.rows, run.starts, ends, strict=True):
            yield int(row["position"]), run.data[start:end].tobytes()


@pytest.mark.parametrize("buffer_bytes", [1, 5_000, decompression.DECOMPRESSED_BYTES])
@settings(max_examples=60)
@given(several=streams, keeps_bytes=st.booleans())
def test_streams_in_one_call_are_decompressed_as_each_alone(
    buffer_bytes, several, keeps_bytes
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decompression, "DECOMPRESSED_BYTES", buffer_bytes)
        batches = [batch_around(stream, codec) for codec, stream in several]
        found = list(decompressed(b"".join(batches), DecompressionBuffer(keeps_bytes)))
    starts = np.cumsum([0, *map(len, batches)])[:-1].tolist()
    expected = [
        (BatchTooLargeError, f"batch of {len(stream)} bytes, expected at most {LIMIT}")
        if len(stream) > LIMIT
        else outcome(codec, stream)
        for codec, stream in several
    ]
    assert found == list(zip(starts, expected, strict=True))
