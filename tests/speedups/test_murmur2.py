"""The hash of Java's default partitioner."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import _speedups
from kafkalog.encoding.record_columns import ByteColumn

KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""Hashes in Kafka's ``UtilsTest``."""


def murmur2(key):
    """Return the hash, computed one step after another as in Java."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def hashes(keys):
    out = np.empty(len(keys), np.int32)
    assert _speedups.murmur2_keys(*ByteColumn.of(keys), out) == len(keys)
    return out.tolist()


def test_hashes_are_those_of_kafkas_own_test():
    assert hashes(list(KNOWN)) == list(KNOWN.values())


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_hashes_are_those_of_the_reference(keys):
    assert hashes(keys) == [murmur2(key) for key in keys]


def test_a_null_key_has_no_hash():
    assert hashes([None, b"21"]) == [0, KNOWN[b"21"]]


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (2, 2), (3, 1), (0, 4)])
def test_a_key_outside_of_the_data_ends_the_work(start, length):
    out = np.empty(2, np.int32)
    starts, lengths = np.array([0, start]), np.array([1, length], np.int32)
    assert _speedups.murmur2_keys(np.zeros(3, np.uint8), starts, lengths, out) == 1
