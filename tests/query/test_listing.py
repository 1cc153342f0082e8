"""Listings of damaged logs, the small ones compared with reading by the index."""

import operator
import random
import shutil
from dataclasses import replace

import pytest

from kafkalog.query import listing
from kafkalog.query.listing import list_path
from kafkalog.segment import log_segment
from kafkalog.segment.log_segment import LogSegment
from tests import golden_data

DAMAGES = 8


def damage(path, chosen):
    """Flip a bit of a file, truncate it, or append zeros or other bytes."""
    data = bytearray(path.read_bytes())
    place = chosen.randrange(len(data) + 1)
    match chosen.randrange(4):
        case 0 if place < len(data):
            data[place] ^= 1 << chosen.randrange(8)
        case 1:
            del data[place:]
        case 2:
            data += bytes(chosen.choice([1, 8, 12, 100]))
        case _:
            data += data[place : place + 70]
    path.write_bytes(data)


def listed(directory):
    """Return the rows of a directory, the end of each segment, and the greatest times.

    The times are not in the rows: a time index that is damaged may lack one that a
    small log has.
    """
    rows = list(list_path(directory))
    ends = []
    for row in rows:
        segment = LogSegment.of(directory / row.file)
        with segment.open() as source:
            ends.append(segment.next_offset(source))
    times = [-1 if row.max_timestamp is None else row.max_timestamp for row in rows]
    return [replace(row, max_timestamp=None) for row in rows], ends, times


@pytest.mark.parametrize("name", golden_data.SETS)
def test_a_small_log_is_listed_as_one_that_is_read_by_its_index(
    name, tmp_path, monkeypatch
):
    chosen = random.Random(name)
    for original in golden_data.partitions(name):
        directory = tmp_path / original.name
        for _ in range(DAMAGES):
            shutil.rmtree(directory, ignore_errors=True)
            shutil.copytree(original, directory)
            files = [
                path for path in sorted(directory.iterdir()) if path.stat().st_size
            ]
            damage(chosen.choice(files), chosen)
            *small, times = listed(directory)
            with monkeypatch.context() as patched:
                patched.setattr(listing, "FIRST_STEP_BYTES", -1)
                patched.setattr(log_segment, "FIRST_STEP_BYTES", -1)
                *by_index, indexed = listed(directory)
            assert small == by_index
            assert all(map(operator.ge, times, indexed))
