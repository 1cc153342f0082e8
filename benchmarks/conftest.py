"""Segments that benchmarks read, written once for all of them."""

import pytest
from segments import write_again

TIMES = 4
"""So that 64 MB of values are read, and what a reading needs once counts as little."""


@pytest.fixture(scope="session")
def segment(tmp_path_factory):
    """Write a segment; answer its path, and how many records are in it."""
    made = {}

    def make(shape, codec, size):
        case = (shape, codec, size)
        if case not in made:
            path = tmp_path_factory.mktemp("scan") / f"{20 * '0'}.log"
            made[case] = path, write_again(path, *case, lambda times, _: times < TIMES)
        return made[case]

    return make
