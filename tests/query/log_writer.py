"""A process in which kafkalog itself writes a log: appends, rolls, retains and cuts.

Run as ``python -m tests.query.log_writer DIRECTORY JOURNAL STEPS SEED PREALLOCATE``.
A thread reads the log meanwhile as its owner may, and must find all that is there.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from pathlib import Path

import kafkalog
from kafkalog import LogConfig, OffsetOutOfRangeError, RecordBatchBuilder
from tests.query.journal import Change, Journal, Notes, record_of

CODECS = ("none", "none", "lz4", "snappy", "zstd", "gzip")
SEGMENT_BYTES = 20_000
KEPT = 6
"""Retention leaves at least so many segments."""

CONFIG = LogConfig(
    internal_segment_bytes=SEGMENT_BYTES,
    segment_index_bytes=2_000,
    index_interval_bytes=1_000,
    retention_bytes=KEPT * SEGMENT_BYTES,
    retention_ms=-1,
    file_delete_delay_ms=50,
)


class Writer:
    """A log, the journal of what is done to it, and dice."""

    def __init__(self, log, notes, seed):
        self.log, self.notes = log, notes
        self.rng = random.Random(seed)
        self.number = self.epoch = 0
        self.firsts = []

    def append(self):
        first, count = self.log.log_end_offset, self.rng.randrange(1, 40)
        self.number += 1
        builder = RecordBatchBuilder(codec=self.rng.choice(CODECS))
        for offset in range(first, first + count):
            key, value, timestamp = record_of(self.number, offset)
            builder.append(key, value, timestamp=timestamp)
        self.firsts.append(first)
        self.notes.note("write", self.number, first, count)
        self.log.append(builder.build())
        self.note_end()
        self.log.update_high_watermark(first + count)

    def note_end(self):
        self.notes.note("end", self.log.log_end_offset)

    def roll(self):
        self.log.roll()

    def retain(self):
        bases = [one.base_offset for one in self.log.growing_segments]
        self.notes.note("start", bases[-KEPT:][0])
        self.log.delete_old_segments()
        self.note_end()

    def delete_records(self):
        start, end = self.log.log_start_offset, self.log.log_end_offset
        offset = start + self.rng.randrange(1 + (end - start) // 4)
        self.notes.note("start", offset)
        self.log.delete_records(offset)
        self.log.delete_old_segments()
        self.note_end()

    def truncate(self):
        """Cut off some of the last batches; half a batch is cut off wholly."""
        if self.firsts:
            self.cut(self.firsts[-self.rng.randrange(1, 5) :][0])

    def cut(self, offset):
        if offset < self.log.log_start_offset:
            return
        self.firsts = [first for first in self.firsts if first < offset]
        self.notes.note("cut", offset)
        self.log.truncate_to(offset)
        self.epoch += 1
        self.log.assign_epoch(self.epoch)
        self.note_end()

    def begin_anew(self):
        self.notes.note("cut", self.log.log_start_offset)
        anew = self.log.log_end_offset + 10
        self.notes.note("start", anew)
        self.log.truncate_fully(anew)
        self.note_end()

    def flush(self):
        self.log.flush()

    def step(self):
        shares = {
            self.append: 70,
            self.roll: 8,
            self.retain: 8,
            self.delete_records: 4,
            self.truncate: 5,
            self.begin_anew: 0.5,
            self.flush: 3,
        }
        [chosen] = self.rng.choices(list(shares), list(shares.values()))
        chosen()


def records_of(log):
    """Read all of a log that is open for writing, as its owner."""
    offset = log.log_start_offset
    while True:
        found = log.read(offset, max_bytes=10_000)
        for batch in found.batches():
            yield from (
                (one.offset, one.key, one.value, one.timestamp)
                for one in batch
                if one.offset >= offset
            )
        if found.next_offset == offset:
            return
        offset = found.next_offset


def read_as_owner(log, path, done, faults):
    """Read again and again, until done; and say what was wrong."""
    reads = 0
    try:
        with Journal(path) as journal:
            while not done.is_set():
                reads += is_read_whole(log, journal)
        assert reads > 10
    except BaseException as error:
        faults.append(error)


def is_read_whole(log, journal):
    """Whether a read was not ended by what was cut or deleted; it is checked."""
    journal.catch_up()
    sure, found, is_whole = journal.sure(), [], True
    try:
        found += records_of(log)
    except OffsetOutOfRangeError:
        is_whole = False
    change = journal.catch_up()
    given = journal.check(found)
    if is_whole:
        journal.check_missed(sure, given, change)
    else:
        assert change != Change()
    return is_whole


def main(directory, journal, steps, seed, preallocate):
    config = CONFIG.with_changes({"preallocate": preallocate})
    done, faults = threading.Event(), []
    with kafkalog.open(directory, mode="a", config=config) as log:
        writer = Writer(log, Notes(journal), int(seed))
        writer.append()
        print("writing", flush=True)
        owner = threading.Thread(
            target=read_as_owner, args=(log, journal, done, faults)
        )
        owner.start()
        for _ in range(int(steps)):
            writer.step()
            time.sleep(writer.rng.random() / 200)
        done.set()
        owner.join()
        # Closing the log writes down where it starts, for those who open it to read.
        writer.notes.note("start", log.log_start_offset)
    if faults:
        raise faults[0]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
