"""Numbers of records of batches, counted from headers or decoded."""

import struct

import numpy as np
import pytest

from kafkalog.decoding.record_counts import count_records, suffices_to_count
from kafkalog.formats.batch_headers import has_count, scan_headers
from kafkalog.formats.layout import MAX_BATCH_BYTES
from tests.query.batches import KINDS, build


def test_batches_of_any_kind_are_counted_at_any_position():
    sizes = [1 + i % 4 for i in range(len(KINDS))]
    parts = [
        build(magic, codec, 10 * i, size)
        for i, ((magic, codec), size) in enumerate(zip(KINDS, sizes, strict=True))
    ]
    data = np.frombuffer(b"".join(parts), np.uint8)
    rows, _, end = scan_headers(data, 0, 1000)
    assert end == len(data)
    counts = count_records(rows, data, 1000)
    assert (
        np.add.reduceat(
            counts, np.searchsorted(rows["last_offset"] // 10, range(len(KINDS)))
        ).tolist()
        == sizes
    )
    assert suffices_to_count(rows).tolist() == (rows["magic"] == 2).tolist()


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("count", [-(2**31), -1, 2**31 - 1])
def test_a_batch_with_an_impossible_number_of_records_has_none(codec, count):
    damaged = bytearray(build(2, codec, 3))
    struct.pack_into(">i", damaged, 57, count)
    data = np.frombuffer(build(2, codec, 0) + damaged + build(2, codec, 6), np.uint8)
    rows, _, _ = scan_headers(data)
    assert has_count(rows, MAX_BATCH_BYTES).tolist() == [True, False, True]
    assert count_records(rows, data, 0).tolist() == [3, 0, 3]
