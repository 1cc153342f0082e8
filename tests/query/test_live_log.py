"""One writer and many readers at once: kafkalog writes a log in a process of its own.

Another process reads it meanwhile, in threads and by all ways: each read has what was
there throughout, in order, as it was written. Only a log that is cut while it is read
may end a read with an error.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

import kafkalog
from kafkalog import KafkaLogError, OffsetOutOfRangeError
from kafkalog.query.tailing import Follower
from tests.query.journal import NEVER, Journal
from tests.query.writers import writing

pytestmark = pytest.mark.slow

STEPS = 1_000
SEED = 2_026
SKIPPED = re.compile(r"skipped offsets (\d+) to (\d+) of ")
CUT_BACK = re.compile(r"it was truncated to offset (\d+): ")
COLUMNS = ["offset", "key", "value", "timestamp"]
SCANS = [{}, {"threads": 2}, {"isolation": "read_committed"}, {"check_crcs": False}]


def rows_of(chunks):
    for chunk in chunks:
        yield from zip(
            chunk.offset.tolist(),
            chunk.key.to_list(),
            chunk.value.to_list(),
            chunk.timestamp.tolist(),
            strict=True,
        )


def scanning(place):
    """Yield reads of all records, each begun when it is asked for."""
    for options in itertools.cycle(SCANS):
        yield rows_of(kafkalog.scan(place, columns=COLUMNS, **options).chunks())


def reading(place):
    """Yield reads of all batches through a log that is open for reading."""
    with kafkalog.open(place) as log:
        while True:
            yield read_through(log)


def read_through(log):
    offset = log.log_start_offset
    while True:
        found = log.read(offset, max_bytes=10_000)
        for batch in found.batches():
            for one in batch:
                if one.offset >= offset:
                    yield one.offset, one.key, one.value, one.timestamp
        if found.next_offset == offset:
            return
        offset = found.next_offset


def check_reads(reads, place, journal, is_over):
    """Check one read after another until all is over; count how they ended."""
    ends = Counter()
    for read in reads(place):
        if is_over():
            return ends
        journal.catch_up()
        sure, found, ended = journal.sure(), [], None
        try:
            found += read
        except KafkaLogError as error:
            ended = error
        change = journal.catch_up()
        given = journal.check(found)
        if ended is None:
            journal.check_missed(sure, given, change)
        else:
            is_gone = change.has_moved and isinstance(ended, OffsetOutOfRangeError)
            assert is_gone or change.cut < NEVER, repr(ended)
        ends[type(ended).__name__] += 1
    return ends


def follow(place, journal, is_over):
    """Follow the log until all is over; check what is given, and count the looks."""
    scan = kafkalog.scan(place, columns=COLUMNS)
    follower = Follower(scan, lambda: kafkalog.scan(place).sources)
    look, ends, given, last = follower.first_poll, Counter(), {}, -1
    cuts = [NEVER, NEVER]
    while not is_over():
        found, ended = [], None
        try:
            found += look()
        except KafkaLogError as error:
            ended = error
        # A cut is noticed at the next look if this one was under way.
        cuts = [cuts[1], journal.catch_up().cut]
        assert ended is None or min(cuts) < NEVER, repr(ended)
        ends[type(ended).__name__] += 1
        for one in found:
            if isinstance(one, str) and (skipped := SKIPPED.match(one)):
                assert int(skipped[2]) < journal.start or min(cuts) < NEVER, one
                last = int(skipped[2])
                continue
            if isinstance(one, str):
                assert min(cuts) < NEVER, one
                last = int(CUT_BACK.match(one)[1]) - 1
                continue
            numbers = journal.check(rows_of([one]))
            first, given = min(numbers), given | numbers
            is_next = first == last + 1 or last < first <= journal.start
            assert is_next or min(cuts) <= last, (first, last)
            last = max(numbers)
        look = follower.poll
    for one in follower.poll():
        given |= {} if isinstance(one, str) else journal.check(rows_of([one]))
    change = journal.catch_up()
    journal.check_missed(journal.sure(), given, change._replace(cut=NEVER))
    return ends


WAYS = [partial(check_reads, scanning), partial(check_reads, reading), follow]


@pytest.mark.parametrize("preallocate", ["false", "true"])
def test_all_that_is_there_is_read_while_kafkalog_writes(tmp_path, preallocate):
    place, path = tmp_path / "live-0", tmp_path / "journal"
    given = (place, path, STEPS, SEED, preallocate)
    with writing("tests.query.log_writer", *given) as writer:

        def is_over():
            return writer.poll() is not None

        def check(way):
            with Journal(path) as journal:
                return way(place, journal, is_over)

        with ThreadPoolExecutor(len(WAYS)) as threads:
            for ends in threads.map(check, WAYS):
                assert ends["NoneType"] > 10, ends
    with Journal(path) as journal:
        journal.catch_up()
        found = journal.check(next(scanning(place)))
        assert journal.sure().items() <= found.items()
