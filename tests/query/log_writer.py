"""A process in which kafkalog writes a log: appends, rolls, retains, truncates.

Run as ``python -m tests.query.log_writer DIRECTORY JOURNAL STEPS SEED PREALLOCATE``.
A thread reads the log meanwhile through the writable log, and must find all records.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from pathlib import Path

import kafkalog
from kafkalog import LogConfig, OffsetOutOfRangeError, RecordBatchBuilder
from tests.query.journal import Change, Journal, JournalWriter, record_of

CODECS = ("none", "none", "lz4", "snappy", "zstd", "gzip")
SEGMENT_BYTES = 20_000
KEPT = 6
"""Number of segments that retention leaves at least."""

CONFIG = LogConfig(
    internal_segment_bytes=SEGMENT_BYTES,
    segment_index_bytes=2_000,
    index_interval_bytes=1_000,
    retention_bytes=KEPT * SEGMENT_BYTES,
    retention_ms=-1,
    file_delete_delay_ms=50,
)


class Writer:
    """A log, the journal of its changes, and a source of random steps."""

    def __init__(self, log, journal, seed):
        self.log, self.journal = log, journal
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
        self.journal.write("write", self.number, first, count)
        self.log.append(builder.build())
        self.write_end()
        self.log.update_high_watermark(first + count)

    def write_end(self):
        self.journal.write("end", self.log.log_end_offset)

    def roll(self):
        self.log.roll()

    def retain(self):
        bases = [each.base_offset for each in self.log.growing_segments]
        self.journal.write("start", bases[-KEPT:][0])
        self.log.delete_old_segments()
        self.write_end()

    def delete_records(self):
        start, end = self.log.log_start_offset, self.log.log_end_offset
        offset = start + self.rng.randrange(1 + (end - start) // 4)
        self.journal.write("start", offset)
        self.log.delete_records(offset)
        self.log.delete_old_segments()
        self.write_end()

    def truncate(self):
        """Truncate some of the last batches."""
        if self.firsts:
            self.truncate_to(self.firsts[-self.rng.randrange(1, 5) :][0])

    def truncate_to(self, offset):
        if offset < self.log.log_start_offset:
            return
        self.firsts = [first for first in self.firsts if first < offset]
        self.journal.write("cut", offset)
        self.log.truncate_to(offset)
        self.epoch += 1
        self.log.assign_epoch(self.epoch)
        self.write_end()

    def truncate_fully(self):
        self.journal.write("cut", self.log.log_start_offset)
        start = self.log.log_end_offset + 10
        self.journal.write("start", start)
        self.log.truncate_fully(start)
        self.write_end()

    def flush(self):
        self.log.flush()

    def step(self):
        shares = {
            self.append: 70,
            self.roll: 8,
            self.retain: 8,
            self.delete_records: 4,
            self.truncate: 5,
            self.truncate_fully: 0.5,
            self.flush: 3,
        }
        [chosen] = self.rng.choices(list(shares), list(shares.values()))
        chosen()


def records_of(log):
    """Yield all records of a log that is open for writing."""
    offset = log.log_start_offset
    while True:
        found = log.read(offset, max_bytes=10_000)
        for batch in found.batches():
            yield from (
                (record.offset, record.key, record.value, record.timestamp)
                for record in batch
                if record.offset >= offset
            )
        if found.next_offset == offset:
            return
        offset = found.next_offset


def read_as_owner(log, path, done, errors):
    """Read the log repeatedly until `done` is set; append an error to `errors`."""
    reads = 0
    try:
        with Journal(path) as journal:
            while not done.is_set():
                reads += is_read_whole(log, journal)
        assert reads > 10
    except BaseException as error:
        errors.append(error)


def is_read_whole(log, journal):
    """Check one read; return whether no truncation or deletion ended it."""
    journal.catch_up()
    present, found, is_whole = journal.present(), [], True
    try:
        found += records_of(log)
    except OffsetOutOfRangeError:
        is_whole = False
    change = journal.catch_up()
    found_numbers = journal.check(found)
    if is_whole:
        journal.check_missed(present, found_numbers, change)
    else:
        assert change != Change()
    return is_whole


def main(directory, journal, steps, seed, preallocate):
    config = CONFIG.with_changes({"preallocate": preallocate})
    done, errors = threading.Event(), []
    with kafkalog.open(directory, mode="a", config=config) as log:
        writer = Writer(log, JournalWriter(journal), int(seed))
        writer.append()
        print("writing", flush=True)
        owner = threading.Thread(
            target=read_as_owner, args=(log, journal, done, errors)
        )
        owner.start()
        for _ in range(int(steps)):
            writer.step()
            time.sleep(writer.rng.random() / 200)
        done.set()
        owner.join()
        # Closing the log writes the checkpoint of its start, which readers use.
        writer.journal.write("start", log.log_start_offset)
    if errors:
        raise errors[0]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
