"""The journal of a process that writes a log, and what a reader of that log must find.

A line is written before an operation: ``write NUMBER FIRST COUNT`` before a batch is
appended, ``start OFFSET`` before lower offsets are deleted, ``cut OFFSET`` before the
log is truncated. ``end OFFSET`` is written after it: all lower offsets are in the log.
"""

from __future__ import annotations

import os
from typing import NamedTuple

NEVER = 2**63
T = 1_700_000_000_000
FILLERS = (0, 10, 100, 400)


def record_of(number, offset):
    """Return the key, value and timestamp of the record of a batch at an offset."""
    filler = bytes([number % 251]) * FILLERS[number % len(FILLERS)]
    return b"k%d" % offset, b"%d %d " % (number, offset) + filler, T + offset


class JournalWriter:
    """A journal open for writing."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, *words):
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


class Change(NamedTuple):
    """A change of a log: the offset it was truncated to, whether its start moved."""

    cut: int = NEVER
    has_moved: bool = False


class Journal:
    """A journal that is read meanwhile, and the records that must be in the log."""

    def __init__(self, path):
        self._file = path.open()
        self._rest = ""
        self._begun = Change()
        self.start = self.end = 0
        self.batches = {}
        self.numbers = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def catch_up(self):
        """Read new lines; return changes since the last call, or still unfinished."""
        change = self._begun
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        for line in lines:
            operation, *numbers = line.split()
            numbers = list(map(int, numbers))
            if operation == "write":
                number, first, count = numbers
                self.batches[number] = range(first, first + count)
                self.numbers |= dict.fromkeys(self.batches[number], number)
                continue
            [offset] = numbers
            if operation == "end":
                self.end, self._begun = offset, Change()
                continue
            if operation == "start":
                self.start = max(self.start, offset)
                begun = self._begun._replace(has_moved=True)
            else:
                self.end = min(self.end, offset)
                begun = self._begun._replace(cut=offset)
            self._begun = begun
            change = Change(
                min(change.cut, begun.cut), change.has_moved or begun.has_moved
            )
        return change

    def present(self):
        """Return the number of the batch of each offset that is in the log now."""
        return {offset: self.numbers[offset] for offset in range(self.start, self.end)}

    def check(self, records):
        """Check (offset, key, value, timestamp) of records; return {offset: number}."""
        found, last = {}, -1
        for offset, *record in records:
            number = int(record[1].split()[0])
            assert offset in self.batches[number], (offset, number)
            assert tuple(record) == record_of(number, offset), (offset, number)
            assert offset > last, (offset, last)
            found[offset], last = number, offset
        return found

    def check_missed(self, present, found_numbers, change):
        """Check that no record is missing that was present and not changed."""
        missed = {
            offset: (number, found_numbers.get(offset))
            for offset, number in present.items()
            if self.start <= offset < change.cut and found_numbers.get(offset) != number
        }
        assert not missed
