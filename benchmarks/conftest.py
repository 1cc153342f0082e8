"""Segments that benchmarks read, written once for all of them."""

import pytest
from shapes import BATCH_BYTES, columns_of

from kafkalog.formats.builder import BatchSettings, encode_batches


@pytest.fixture(scope="session")
def segment(tmp_path_factory):
    """Write a segment; answer its path, and how many records are in it."""
    made = {}

    def make(shape, codec, size):
        if (shape, codec, size) not in made:
            settings = BatchSettings(codec=codec)
            columns = columns_of(shape)
            data = encode_batches(columns, BATCH_BYTES[size], settings=settings)
            path = tmp_path_factory.mktemp("scan") / f"{20 * '0'}.log"
            path.write_bytes(data)
            made[shape, codec, size] = path, len(columns.offset)
        return made[shape, codec, size]

    return make
