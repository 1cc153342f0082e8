"""Segments that the benchmarks read, written once for all of them."""

import pytest
from segments import write_repeated

TIMES = 4
"""64 MB of values are read, so that the fixed cost of a scan is negligible."""


@pytest.fixture(scope="session")
def segment(tmp_path_factory):
    """Write a segment; return its path, and its number of records."""
    made = {}

    def make(shape, codec, size):
        case = (shape, codec, size)
        if case not in made:
            path = tmp_path_factory.mktemp("scan") / f"{20 * '0'}.log"
            made[case] = (
                path,
                write_repeated(path, *case, lambda times, _: times < TIMES),
            )
        return made[case]

    return make
