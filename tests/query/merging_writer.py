"""A log cleaner of sorts: appends, and merges segments by Kafka's renames.

Run as ``python -m tests.query.merging_writer DIRECTORY JOURNAL STEPS SEED``. No record
is ever lost: a line of the journal says up to which offset all is written. Of two or
three segments another is made as ``.cleaned`` and called ``.swap``; they are marked
``.deleted``, and then it takes the name of the first (``LocalLog.replaceSegments``).
"""

from __future__ import annotations

import os
import random
import struct
import sys
import time
from pathlib import Path

from tests.query.batches import build

EXTENSIONS = ("log", "index")
MOST = 12


class Cleaner:
    """A partition's directory; each of its segments as its base offset and batches."""

    def __init__(self, directory, journal, seed):
        self.directory = Path(directory)
        self.journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.rng = random.Random(seed)
        self.end = 0
        self.segments = []

    def path(self, base, extension, mark=""):
        return self.directory / f"{base:020d}.{extension}{mark}"

    def write(self, base, batches, mark=""):
        index, position = b"", 0
        for offset, data in batches:
            index += struct.pack(">ii", offset - base, position)
            position += len(data)
        self.path(base, "index", mark).write_bytes(index)
        self.path(base, "log", mark).write_bytes(b"".join(data for _, data in batches))

    def append(self):
        base, batches = self.end, []
        for _ in range(self.rng.randrange(1, 4)):
            batches.append((self.end, build(2, "none", self.end, 3)))
            self.end += 3
        self.write(base, batches)
        self.segments.append((base, batches))
        os.write(self.journal, f"{self.end}\n".encode())

    def merge(self):
        first = self.rng.randrange(len(self.segments) - 2)
        merged = self.segments[first : first + self.rng.choice([2, 2, 3])]
        base, batches = merged[0][0], [one for _, some in merged for one in some]
        self.write(base, batches, ".cleaned")
        self.rename([base], ".cleaned", ".swap")
        self.rename([old for old, _ in merged], "", ".deleted")
        self.rename([base], ".swap", "")
        self.segments[first : first + len(merged)] = [(base, batches)]

    def rename(self, bases, mark, then):
        for base in bases:
            for extension in EXTENSIONS:
                path = self.path(base, extension, mark)
                path.rename(self.path(base, extension, then))

    def remove(self):
        for path in self.directory.glob("*.deleted"):
            path.unlink()

    def step(self):
        if len(self.segments) < MOST:
            self.append()
        else:
            self.merge()
        if self.rng.random() < 0.2:
            self.remove()


def main(directory, journal, steps, seed):
    cleaner = Cleaner(directory, journal, int(seed))
    cleaner.append()
    print("writing", flush=True)
    for _ in range(int(steps)):
        cleaner.step()
        time.sleep(cleaner.rng.random() / 500)


if __name__ == "__main__":
    main(*sys.argv[1:])
