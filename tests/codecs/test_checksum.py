"""The two checksums: their check values, and any buffer."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codecs.checksum import crc32, crc32c


def slow_crc(data, polynomial):
    """Return either checksum by bitwise division, for a reversed polynomial."""
    rest = 0xFFFFFFFF
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (polynomial if rest & 1 else 0)
    return rest ^ 0xFFFFFFFF


def test_the_check_values_are_those_of_the_catalogue():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32(b"123456789") == 0xCBF43926


@given(data=st.binary(max_size=64))
def test_both_are_the_remainder_of_a_division(data):
    assert crc32c(data) == slow_crc(data, 0x82F63B78)
    assert crc32(data) == slow_crc(data, 0xEDB88320) == zlib.crc32(data)


@pytest.mark.parametrize(
    "hold", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)]
)
def test_any_buffer_is_accepted(hold):
    data = bytes(range(256))
    assert crc32c(hold(data)) == crc32c(data)
    assert crc32(hold(data)) == crc32(data)
