"""Scans of a directory in which another process merges segments, as compaction does.

No record is removed: each scan returns all records that existed when it began.
"""

from __future__ import annotations

import itertools

import pytest

import kafkalog
from tests.query.writers import writing

pytestmark = pytest.mark.slow

STEPS = 1_500
SEED = 1_848

WAYS = [{}, {"threads": 2}, {"isolation": "read_committed"}, {"check_crcs": False}]


def read_all(place, options):
    scan = kafkalog.scan(place, columns=["offset"], **options)
    return [offset for chunk in scan.chunks() for offset in chunk.offset.tolist()]


def test_scans_of_a_directory_that_is_compacted_miss_no_record(tmp_path):
    place, journal = tmp_path / "live-0", tmp_path / "journal"
    place.mkdir()
    scans = 0
    with writing("tests.query.merging_writer", place, journal, STEPS, SEED) as writer:
        for options in itertools.cycle(WAYS):
            if writer.poll() is not None:
                break
            written = int(journal.read_text().splitlines()[-1])
            offsets = read_all(place, options)
            assert offsets == list(range(len(offsets)))
            assert len(offsets) >= written
            scans += 1
    assert scans > 20
