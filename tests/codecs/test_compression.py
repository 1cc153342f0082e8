"""Streams of the four codecs: decompressed or rejected, and never beyond the limit."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
import zlib

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog.codecs.compression import LEVELS, Codec, compress, decompress
from kafkalog.errors import (
    BatchTooLargeError,
    ConfigError,
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedFormatError,
)
from tests import reference

STREAMS = [
    pytest.param(codec, magic, id=f"{codec.name.lower()}-magic{magic}")
    for codec in Codec
    for magic in (0, 1, 2)
    if codec != Codec.NONE and not (codec == Codec.ZSTD and magic < 2)
]
PACKERS = [pytest.param(codec, id=codec.name.lower()) for codec in Codec if codec]
LIMIT = 1 << 22
TEXT = b"".join(b"record %d of a batch, value %d\n" % (i, i * i) for i in range(3000))
NOISE = b"".join(zlib.crc32(b"%d" % i).to_bytes(4, "big") for i in range(20_000))


def decompressed(codec, stream, limit=LIMIT, magic=2):
    return b"".join(decompress(codec, stream, limit=limit, magic=magic))


def outcome(codec, stream, limit=LIMIT, magic=2):
    """Return the decompressed bytes, or None if the stream is rejected."""
    try:
        return decompressed(codec, stream, limit, magic)
    except (CorruptRecordError, BatchTooLargeError):
        return None


# -------------------------------------------------------------------------- both ways


@pytest.mark.parametrize(("codec", "magic"), STREAMS)
@given(data=st.binary(max_size=300) | st.sampled_from([TEXT, NOISE, bytes(200_000)]))
@example(data=b"")
def test_compressed_data_decompresses_to_the_original(codec, magic, data):
    stream = compress(codec, data, magic=magic)
    assert decompressed(codec, stream, magic=magic) == data
    assert decompressed(codec, memoryview(stream), len(data), magic) == data


@pytest.mark.parametrize(("codec", "magic"), STREAMS)
@pytest.mark.parametrize("data", [TEXT, NOISE], ids=["text", "noise"])
def test_the_reference_decompresses_our_streams(codec, magic, data):
    stream = compress(codec, data, magic=magic)
    assert reference.unpack(codec.name.lower(), stream) == data


@pytest.mark.parametrize("codec", PACKERS)
def test_any_buffer_is_compressed(codec):
    assert compress(codec, memoryview(TEXT)) == compress(codec, TEXT)


def test_no_codec_is_a_copy():
    assert (
        compress(Codec.NONE, TEXT) == TEXT == decompressed(Codec.NONE, memoryview(TEXT))
    )


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_an_unknown_codec_is_rejected(codec):
    with pytest.raises(UnsupportedFormatError, match=f"compression type {codec}"):
        decompress(codec, TEXT, limit=LIMIT)
    with pytest.raises(UnsupportedFormatError, match=f"compression type {codec}"):
        compress(codec, TEXT)


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_rejected_below_magic_2(magic):
    stream = compress(Codec.ZSTD, TEXT)
    with pytest.raises(CorruptRecordError, match="expected magic 2"):
        decompress(Codec.ZSTD, stream, limit=LIMIT, magic=magic)
    with pytest.raises(InvalidRecordError, match="expected magic 2"):
        compress(Codec.ZSTD, TEXT, magic=magic)


@pytest.mark.parametrize("codec", PACKERS)
def test_threads_do_not_share_contexts(codec):
    stream, wrong = compress(codec, NOISE), []

    def work():
        wrong.extend(1 for _ in range(50) if decompressed(codec, stream) != NOISE)
        wrong.extend(1 for _ in range(5) if compress(codec, NOISE) != stream)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ----------------------------------------------------------------------------- levels


@pytest.mark.parametrize("codec", LEVELS)
def test_every_level_of_a_codec_is_written(codec):
    least, most = LEVELS[codec]
    for level in {least, -1, 1, 3, 9, most} & set(range(least, most + 1)):
        assert decompressed(codec, compress(codec, TEXT, level=level)) == TEXT


@pytest.mark.parametrize("codec", LEVELS)
def test_a_level_out_of_range_names_its_setting(codec):
    least, most = LEVELS[codec]
    for level in (least - 1, most + 1):
        with pytest.raises(
            ConfigError, match=rf"compression\.{codec.name.lower()}\.level"
        ):
            compress(codec, TEXT, level=level)


def test_gzip_has_no_level_0():
    with pytest.raises(ConfigError, match=r"compression\.gzip\.level is 0"):
        compress(Codec.GZIP, TEXT, level=0)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_a_codec_without_levels_rejects_them(codec):
    with pytest.raises(ConfigError, match="unknown setting"):
        compress(codec, TEXT, level=1)


@pytest.mark.parametrize(
    ("codec", "worse", "better"),
    [(Codec.GZIP, 1, 9), (Codec.LZ4, 9, 17), (Codec.ZSTD, -100, 19)],
)
def test_a_level_has_an_effect(codec, worse, better):
    at = {level: len(compress(codec, TEXT, level=level)) for level in (worse, better)}
    assert at[better] < at[worse]


# ----------------------------------------------------------------------------- limits


@pytest.mark.parametrize(("codec", "magic"), STREAMS)
@pytest.mark.parametrize("data", [TEXT, NOISE, bytes(300_000)])
def test_the_limit_is_exact(codec, magic, data):
    stream = compress(codec, data, magic=magic)
    assert decompressed(codec, stream, len(data), magic) == data
    for limit in (0, 1, 65_536, len(data) - 1):
        with pytest.raises(BatchTooLargeError):
            decompress(codec, stream, limit=limit, magic=magic)


BOMB = """
import resource, sys
from pathlib import Path
from kafkalog.codecs.compression import compress, decompress
from kafkalog.errors import BatchTooLargeError
codec, path = int(sys.argv[1]), Path(sys.argv[2])
small = compress(codec, bytes(1000))
decompress(codec, small, limit=1000)  # what the library itself takes is not counted
bomb = path.read_bytes()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, bomb, limit=4 << 20)
except BatchTooLargeError:
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(grown // (1024 if sys.platform == "darwin" else 1))
"""


def bombs():
    zeros = bytes(64 << 20)
    yield "gzip", Codec.GZIP, gzip.compress(zeros, 9) * 4
    yield "lz4", Codec.LZ4, lz4.frame.compress(
        zeros * 4, block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False,
        store_size=False,
    )  # fmt: skip
    yield "snappy", Codec.SNAPPY, compress(Codec.SNAPPY, zeros) * 4
    yield "snappy, one block", Codec.SNAPPY, snappy.compress(zeros * 4)
    yield "zstd", Codec.ZSTD, compress(Codec.ZSTD, zeros) * 4
    packer = zstandard.ZstdCompressor()
    yield "zstd, declared", Codec.ZSTD, packer.compress(zeros * 4)


def test_a_decompression_bomb_is_rejected_in_little_memory(tmp_path):
    path = tmp_path / "bomb"
    for name, codec, bomb in bombs():
        path.write_bytes(bomb)
        command = [sys.executable, "-c", BOMB, str(codec.value), str(path)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        grown_kib = int(run.stdout)
        assert grown_kib < 24 * 1024, name


# ----------------------------------------------------------------------------- damage


@pytest.mark.parametrize(("codec", "magic"), STREAMS)
@pytest.mark.parametrize("data", [TEXT[:700], NOISE[:700]], ids=["text", "noise"])
def test_every_truncation_is_detected(codec, magic, data):
    stream = compress(codec, data, magic=magic)
    for cut in range(len(stream)):
        left = outcome(codec, stream[:cut], magic=magic)
        # Two empty streams: no frame at all, and a header without a block.
        nothing = codec == Codec.ZSTD and cut == 0
        nothing |= codec == Codec.SNAPPY and 16 <= cut < 20
        assert left == (b"" if nothing else None), cut


@pytest.mark.parametrize("codec", PACKERS)
def test_every_truncation_of_many_blocks_is_detected(codec):
    stream = compress(codec, NOISE * 2)
    for cut in range(1, len(stream), 4099):
        left = outcome(codec, stream[:cut])
        assert left is None or (codec == Codec.SNAPPY and cut < 20)


@pytest.mark.parametrize("codec", PACKERS)
def test_a_flipped_bit_causes_at_most_an_error(codec):
    stream = bytearray(compress(codec, TEXT[:2000]))
    refused = 0
    for place in range(len(stream)):
        for bit in range(8):
            stream[place] ^= 1 << bit
            refused += outcome(codec, bytes(stream)) is None
            stream[place] ^= 1 << bit
    assert refused > len(stream) // 4


@pytest.mark.parametrize("codec", PACKERS)
@given(garbage=st.binary(max_size=200), limit=st.integers(0, 5000))
def test_arbitrary_bytes_cause_at_most_an_error(codec, garbage, limit):
    left = outcome(codec, garbage, limit)
    assert left is None or len(left) <= limit


@pytest.mark.parametrize("codec", PACKERS)
@given(data=st.data(), garbage=st.binary(max_size=64))
def test_arbitrary_bytes_after_a_valid_start_cause_at_most_an_error(
    codec, data, garbage
):
    stream = compress(codec, TEXT[:500])
    keep = data.draw(st.integers(0, len(stream)))
    left = outcome(codec, stream[:keep] + garbage, 5000)
    assert left is None or len(left) <= 5000


@pytest.mark.parametrize("codec", PACKERS)
def test_an_error_does_not_affect_the_next_stream(codec):
    stream = compress(codec, TEXT)
    for bad in (stream[:-5], stream[:40], b"\xff" * 30):
        with pytest.raises(CorruptRecordError):
            decompress(codec, bad, limit=LIMIT)
        assert decompressed(codec, stream) == TEXT
    with pytest.raises(BatchTooLargeError):
        decompress(codec, stream, limit=100)
    assert decompressed(codec, stream) == TEXT
