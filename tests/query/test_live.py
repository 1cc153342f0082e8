"""Scans of a directory that another process appends to, rolls, cuts and removes from.

Each ends with records that were written, or with a typed error; none with a signal.
"""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

import kafkalog
from kafkalog.query.scan_columns import COLUMNS
from tests.query.writers import writing

pytestmark = pytest.mark.slow

STEPS = 1_000
SEED = 4_711


def ways(end):
    """Return one way after another to read: arguments of scan, arguments of chunks."""
    yield {}, {}
    yield {}, {"views": True}
    yield {"threads": 2}, {}
    yield {"threads": 2, "on_corruption": "skip"}, {"views": True}
    yield {"start_offset": end - 50, "end_offset": end + 50}, {"reuse": True}
    yield {"start_offset": end // 2, "end_offset": end // 2 + 5}, {}
    yield {"on_corruption": "skip"}, {}
    yield {"isolation": "read_committed"}, {}


def numbers_of(chunk):
    """Return (offset, number of the batch) of each record, as its value says."""
    values = [value.split() for value in chunk.value.to_list()]
    assert [int(words[-1]) for words in values] == chunk.offset.tolist()
    return [(int(words[-1]), int(words[0])) for words in values]


def read_once(place, options, taking):
    """Return what was read, and the name of the error that ended it."""
    found = []
    try:
        for chunk in kafkalog.scan(place, columns=COLUMNS, **options).chunks(**taking):
            found += numbers_of(chunk)
    except (kafkalog.KafkaLogError, FileNotFoundError) as error:
        return found, type(error).__name__
    return found, ""


def test_scans_of_a_live_directory_give_what_was_written_or_a_typed_error(tmp_path):
    place, journal = tmp_path / "live-0", tmp_path / "journal"
    place.mkdir()
    read, ends = [], Counter()
    with writing("tests.query.live_writer", place, journal, STEPS, SEED) as writer:
        latest = 0
        for options, taking in itertools.chain.from_iterable(
            ways(latest) for _ in itertools.count()
        ):
            if writer.poll() is not None:
                break
            found, error = read_once(place, options, taking)
            offsets = [offset for offset, _ in found]
            assert offsets == sorted(set(offsets))
            latest = max([latest, *offsets])
            read.append(found)
            ends[error] += 1
    written = {}
    for line in journal.read_text().splitlines():
        number, first, count = map(int, line.split())
        written[number] = range(first, first + count)
    for offset, number in set(itertools.chain.from_iterable(read)):
        assert offset in written[number]
    assert ends[""] > 20, ends
    assert sum(ends.values()) > 30, ends
    # What is there when all is quiet is whole again.
    found, error = read_once(place, {}, {})
    assert error == ""
    assert len(found) > 0
