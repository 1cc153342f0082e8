"""Streams come out in runs, or as errors in their place, as each does by itself."""

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
from tests.fuzz.mending import batch_around

LIMIT = 200_000
CONTENTS = [b"", b"abc", b"to be or not to be, " * 200, bytes(150_000), bytes(300_000)]
CONTENTS.append(b"".join(zlib.crc32(b"%d" % i).to_bytes(4, "big") for i in range(900)))


def odd_forms(content):
    """Pack in ways that Kafka's writers do not have."""
    half = len(content) // 2
    halves = content[:half], content[half:]
    yield Codec.GZIP, b"".join(map(gzip.compress, halves))
    yield Codec.GZIP, gzip.compress(content) + bytes(9)
    yield Codec.ZSTD, b"".join(compress(Codec.ZSTD, one) for one in halves)
    yield Codec.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(content)
    yield Codec.ZSTD, b"\x50\x2a\x4d\x18\0\0\0\0" + compress(Codec.ZSTD, content)


USUAL = [(codec, compress(codec, one)) for one in CONTENTS for codec in Codec]
ODD = [form for one in CONTENTS for form in odd_forms(one)]
CUT = [(codec, stream[:-3]) for codec, stream in USUAL if codec]
streams = st.lists(
    st.one_of(*(st.sampled_from(some) for some in (USUAL, USUAL, ODD, CUT))),
    min_size=1,
    max_size=12,
)


def outcome(codec, stream):
    try:
        return b"".join(decompress(codec, stream, limit=LIMIT)) if stream else b""
    except LocatedError as error:
        return type(error), error.reason


def unpacked(data, workspace):
    """Return what each entry's payload became, or the error in its place."""
    whole = np.frombuffer(data, np.uint8)
    rows, _, _ = scan_headers(whole)
    for run in decompression.decompress_batches(whole, 0, rows, LIMIT, workspace):
        if isinstance(run, LocatedError):
            yield run.position, (type(run), run.reason)
            continue
        ends = run.starts + run.lengths
        for row, start, end in zip(run.rows, run.starts, ends, strict=True):
            yield int(row["position"]), run.data[start:end].tobytes()


@pytest.mark.parametrize("at_once", [1, 5_000, decompression.DECOMPRESSED_BYTES])
@settings(max_examples=60)
@given(several=streams, keeps_bytes=st.booleans())
def test_streams_of_any_codec_and_form_come_out_as_each_by_itself(
    at_once, several, keeps_bytes
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decompression, "DECOMPRESSED_BYTES", at_once)
        batches = [batch_around(stream, codec) for codec, stream in several]
        found = list(unpacked(b"".join(batches), DecompressionBuffer(keeps_bytes)))
    starts = np.cumsum([0, *map(len, batches)])[:-1].tolist()
    expected = [
        (BatchTooLargeError, f"batch of {len(stream)} bytes, expected at most {LIMIT}")
        if len(stream) > LIMIT
        else outcome(codec, stream)
        for codec, stream in several
    ]
    assert found == list(zip(starts, expected, strict=True))
