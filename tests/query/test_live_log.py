"""One writer and many readers: kafkalog writes a log in a process of its own.

This process reads the log meanwhile, in threads and in all ways. Each read has, in
order, the records that were in the log throughout. Only a truncation or deletion during
a read may end it with an error.
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

STEPS = {"false": 1_000, "true": 400}
"""Steps of the writer, without and with preallocated segments."""
SEED = 2_026
SKIPPED = re.compile(r"skipped offsets (\d+) to (\d+) of ")
TRUNCATED = re.compile(r"log was truncated to offset (\d+): ")
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
    """Yield scans of all records, each of them started when it is iterated."""
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
            for record in batch:
                if record.offset >= offset:
                    yield record.offset, record.key, record.value, record.timestamp
        if found.next_offset == offset:
            return
        offset = found.next_offset


def check_reads(reads, place, journal, is_over):
    """Check reads until the writer has ended; return how many ended in each way."""
    ends = Counter()
    for read in reads(place):
        if is_over():
            return ends
        journal.catch_up()
        present, found, ended = journal.present(), [], None
        try:
            found += read
        except KafkaLogError as error:
            ended = error
        change = journal.catch_up()
        numbers = journal.check(found)
        if ended is None:
            journal.check_missed(present, numbers, change)
        else:
            is_gone = change.has_moved and isinstance(ended, OffsetOutOfRangeError)
            assert is_gone or change.cut < NEVER, repr(ended)
        ends[type(ended).__name__] += 1
    return ends


def follow(place, journal, is_over):
    """Follow the log until the writer has ended; check records, and count polls."""
    scan = kafkalog.scan(place, columns=COLUMNS)
    follower = Follower(scan, lambda: kafkalog.scan(place).sources)
    poll, ends, read, last = follower.first_poll, Counter(), {}, -1
    truncations = [NEVER, NEVER]
    while not is_over():
        found, ended = [], None
        try:
            found += poll()
        except KafkaLogError as error:
            ended = error
        # A truncation during a poll is noticed at the next one.
        truncations = [truncations[1], journal.catch_up().cut]
        assert ended is None or min(truncations) < NEVER, repr(ended)
        ends[type(ended).__name__] += 1
        for item in found:
            if isinstance(item, str) and (skipped := SKIPPED.match(item)):
                assert int(skipped[2]) < journal.start or min(truncations) < NEVER, item
                last = int(skipped[2])
                continue
            if isinstance(item, str):
                assert min(truncations) < NEVER, item
                last = int(TRUNCATED.match(item)[1]) - 1
                continue
            numbers = journal.check(rows_of([item]))
            first, read = min(numbers), read | numbers
            is_next = first == last + 1 or last < first <= journal.start
            assert is_next or min(truncations) <= last, (first, last)
            last = max(numbers)
        poll = follower.poll
    for item in follower.poll():
        read |= {} if isinstance(item, str) else journal.check(rows_of([item]))
    change = journal.catch_up()
    journal.check_missed(journal.present(), read, change._replace(cut=NEVER))
    return ends


WAYS = [partial(check_reads, scanning), partial(check_reads, reading), follow]


# Leader epochs are written in the background after segments are deleted.
@pytest.mark.filterwarnings("ignore::kafkalog.errors.TieredLogWarning")
@pytest.mark.parametrize("preallocate", ["false", "true"])
def test_every_record_is_read_while_kafkalog_writes(tmp_path, preallocate):
    place, path = tmp_path / "live-0", tmp_path / "journal"
    arguments = (place, path, STEPS[preallocate], SEED, preallocate)
    with writing("tests.query.log_writer", *arguments) as writer:

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
        assert journal.present().items() <= found.items()
