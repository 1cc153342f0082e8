"""The cause of an error is the cause that `verify` reports."""

import pytest

import kafkalog
from kafkalog.codecs.checksum import crc32c
from kafkalog.verification.path_verification import verify
from kafkalog.verification.verification_report import Cause
from tests.query.batches import build

ZSTD, UNKNOWN = 4, 5
ATTRIBUTES, PAYLOAD = 22, 61


def with_codec(codec):
    """Return an uncompressed batch with the compression type of another codec."""
    data = bytearray(build(2, "none", 0))
    data[ATTRIBUTES] |= codec
    return with_crc(data)


def with_crc(data):
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4)
    return bytes(data)


def with_flipped_bit(byte, magic=2, codec="none"):
    data = bytearray(build(magic, codec, 0))
    data[byte] ^= 0x40
    return bytes(data)


DAMAGED = {
    "unknown compression type": (with_codec(UNKNOWN), "compression"),
    "compression that is invalid": (with_codec(ZSTD), "compression"),
    "crc": (with_flipped_bit(70), "crc"),
    "magic": (with_flipped_bit(16), "magic"),
    "records": (with_crc(bytearray(with_flipped_bit(PAYLOAD))), "records"),
}


@pytest.mark.parametrize(("data", "cause"), DAMAGED.values(), ids=DAMAGED)
def test_a_scan_and_verify_have_the_same_cause(data, cause, tmp_path):
    file = tmp_path / f"{0:020d}.log"
    file.write_bytes(data + build(2, "none", 3))
    with pytest.raises(kafkalog.LocatedError) as caught:
        list(kafkalog.scan(file).chunks())
    assert caught.value.cause == cause
    found = verify(file).problems[:1]
    assert [problem.cause for problem in found] == [Cause(cause)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_above_the_limit_has_the_cause_too_large(codec, tmp_path):
    file = tmp_path / f"{0:020d}.log"
    file.write_bytes(build(2, codec, 0, text=bytes(2_000)))
    with pytest.raises(kafkalog.BatchTooLargeError) as caught:
        list(kafkalog.scan(file, max_batch_bytes=1_000).chunks())
    assert caught.value.cause == "too_large"
    assert (caught.value.path, caught.value.position) == (file, 0)
