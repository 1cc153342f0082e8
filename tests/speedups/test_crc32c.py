"""CRCs of entries are checked; those of entries outside of the bytes do not match."""

from __future__ import annotations

import pytest

from kafkalog.formats.batch_headers import find_crc_mismatches, scan_headers
from tests.guarded import at_the_end
from tests.query.batches import KINDS, build


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
