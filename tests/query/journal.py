"""What the writer of a live log notes, and what follows from it for who reads that log.

A line is written before anything of it can be read, or can be gone: ``write NUMBER
FIRST COUNT``, a batch; ``start OFFSET``, what is below may go; ``cut OFFSET``, what is
at and behind it may go. Once that is done: ``end OFFSET``, all below is there.
"""

from __future__ import annotations

import os
from typing import NamedTuple

NEVER = 2**63
T = 1_700_000_000_000
FILLERS = (0, 10, 100, 400)


def record_of(number, offset):
    """Make the key, value and timestamp that the record of a batch has at an offset."""
    filler = bytes([number % 251]) * FILLERS[number % len(FILLERS)]
    return b"k%d" % offset, b"%d %d " % (number, offset) + filler, T + offset


class Notes:
    """A journal that is written."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, *words):
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


class Change(NamedTuple):
    """What happened to a log: from where on it was cut, whether its start moved."""

    cut: int = NEVER
    has_moved: bool = False


class Journal:
    """A journal that is read meanwhile: what is sure to be in the log."""

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
        """Read on; answers what changed since the last time, or was changing then."""
        change = self._begun
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        for line in lines:
            what, *said = line.split()
            said = list(map(int, said))
            if what == "write":
                number, first, count = said
                self.batches[number] = range(first, first + count)
                self.numbers |= dict.fromkeys(self.batches[number], number)
                continue
            [offset] = said
            if what == "end":
                self.end, self._begun = offset, Change()
                continue
            if what == "start":
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

    def sure(self):
        """Return the number of the batch of each offset that is there now."""
        return {offset: self.numbers[offset] for offset in range(self.start, self.end)}

    def check(self, records):
        """Take (offset, key, value, timestamp) of records; give {offset: number}."""
        found, last = {}, -1
        for offset, *record in records:
            number = int(record[1].split()[0])
            assert offset in self.batches[number], (offset, number)
            assert tuple(record) == record_of(number, offset), (offset, number)
            assert offset > last, (offset, last)
            found[offset], last = number, offset
        return found

    def check_missed(self, sure, given, change):
        """Check that nothing is missed of what was there, and was not changed."""
        missed = {
            offset: (number, given.get(offset))
            for offset, number in sure.items()
            if self.start <= offset < change.cut and given.get(offset) != number
        }
        assert not missed
