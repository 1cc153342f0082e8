"""Scans of a directory that another process appends to, rolls, truncates and deletes.

Each scan returns only records that were written, and may end with a typed error.
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
    """Yield ways to read: arguments of `scan` and of `chunks`."""
    yield {}, {}
    yield {}, {"views": True}
    yield {"threads": 2}, {}
    yield {"threads": 2, "on_corruption": "skip"}, {"views": True}
    yield {"start_offset": end - 50, "end_offset": end + 50}, {"reuse": True}
    yield {"start_offset": end // 2, "end_offset": end // 2 + 5}, {}
    yield {"on_corruption": "skip"}, {}
    yield {"isolation": "read_committed"}, {}


def numbers_of(chunk):
    """Return offset and batch number of each record, from its value."""
    values = [value.split() for value in chunk.value.to_list()]
    assert [int(words[-1]) for words in values] == chunk.offset.tolist()
    return [(int(words[-1]), int(words[0])) for words in values]


def read_once(place, options, chunk_options):
    """Return the records read, and the name of the error that ended the scan."""
    found = []
    try:
        for chunk in kafkalog.scan(place, columns=COLUMNS, **options).chunks(
            **chunk_options
        ):
            found += numbers_of(chunk)
    except (kafkalog.KafkaLogError, FileNotFoundError) as error:
        return found, type(error).__name__
    return found, ""


def test_scans_of_a_live_directory_have_written_records_or_a_typed_error(tmp_path):
    place, journal = tmp_path / "live-0", tmp_path / "journal"
    place.mkdir()
    read, ends = [], Counter()
    with writing("tests.query.live_writer", place, journal, STEPS, SEED) as writer:
        latest = 0
        for options, chunk_options in itertools.chain.from_iterable(
            ways(latest) for _ in itertools.count()
        ):
            if writer.poll() is not None:
                break
            found, error = read_once(place, options, chunk_options)
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
    # The log is complete after the writer has ended.
    found, error = read_once(place, {}, {})
    assert error == ""
    assert len(found) > 0
