"""Checksums equal those of the packages, on every path of this processor."""

from __future__ import annotations

import zlib

import crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import _speedups
from kafkalog.formats.batch_headers import find_crc_mismatches, scan_headers
from tests.guarded import at_the_end, at_the_start
from tests.query.batches import KINDS, build

PATHS = range(_speedups.best_path() + 1)
KINDS_OF_CRC = [(True, crc32c.crc32c), (False, zlib.crc32)]
NOISE = np.random.default_rng(20_251_121).bytes(70_000)


def checksums(data, ranges, castagnoli, path):
    starts, lengths = np.array(ranges, np.int64).reshape(-1, 2).T.copy()
    out = np.zeros(len(ranges), np.uint32)
    done = _speedups.crc_many(data, starts, lengths, out, castagnoli, path)
    return done, out.tolist()


@pytest.mark.parametrize(("castagnoli", "reference"), KINDS_OF_CRC)
@pytest.mark.parametrize("path", PATHS)
def test_every_length_up_to_1100_has_the_checksum_of_the_package(
    path, castagnoli, reference
):
    for shift in (0, 1, 7, 8, 15, 33, 63):
        data = at_the_end(NOISE[: shift + 1_101])
        ranges = [(shift, length) for length in range(1_101)]
        done, found = checksums(data, ranges, castagnoli, path)
        assert done == len(ranges)
        assert found == [reference(data[a : a + n].tobytes()) for a, n in ranges]


@pytest.mark.parametrize(("castagnoli", "reference"), KINDS_OF_CRC)
@pytest.mark.parametrize("path", PATHS)
@given(
    start=st.integers(0, 130), length=st.integers(0, 9_000) | st.integers(4_090, 69_000)
)
def test_any_range_has_the_checksum_of_the_package(
    path, castagnoli, reference, start, length
):
    for place in (at_the_end, at_the_start):
        data = place(NOISE[: start + length])
        done, found = checksums(data, [(start, length)], castagnoli, path)
        assert (done, found) == (1, [reference(data[start:].tobytes())])


@pytest.mark.parametrize("path", PATHS)
@given(
    size=st.integers(0, 300),
    bad=st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)),
)
def test_checksums_stop_at_a_range_outside_the_bytes(path, size, bad):
    data = at_the_end(NOISE[:size])
    inside = 0 <= bad[0] <= size and 0 <= bad[1] <= size - bad[0]
    done, _ = checksums(data, [(0, size), bad, (0, 0)], True, path)
    assert done == (3 if inside else 1)


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_the_crc_of_an_entry_matches_until_a_bit_is_flipped(magic, codec):
    data = build(magic, codec, 0)
    rows, _, _ = scan_headers(at_the_end(data), 0, 0)
    assert find_crc_mismatches(at_the_end(data), 0, rows).tolist() == []
    covered = 21 if magic == 2 else 16
    for byte in range(covered, int(rows["size_in_bytes"][0])):
        damaged = bytearray(data)
        damaged[byte] ^= 1 << byte % 8
        assert find_crc_mismatches(at_the_end(damaged), 0, rows).tolist() == [0]
    # The CRC of an entry outside the bytes does not match, and is not read.
    for origin in (1, -1, 2**62, -(2**62)):
        assert 0 in find_crc_mismatches(at_the_end(data), origin, rows)
