"""A simulated log cleaner: appends, and merges segments by Kafka's renames.

Run as ``python -m tests.query.merging_writer DIRECTORY JOURNAL STEPS SEED``. No record
is lost: each line of the journal is the offset after the last one written. Two or three
segments are merged into a ``.cleaned`` one, which is renamed to ``.swap``. They are
renamed to ``.deleted``; it gets the name of the first (``LocalLog.replaceSegments``).
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
MAX_SEGMENTS = 12


class Cleaner:
    """A partition's directory, and the base offset and batches of each segment."""

    def __init__(self, directory, journal, seed):
        self.directory = Path(directory)
        self.journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.rng = random.Random(seed)
        self.end = 0
        self.segments = []

    def path(self, base, extension, suffix=""):
        return self.directory / f"{base:020d}.{extension}{suffix}"

    def write(self, base, batches, suffix=""):
        index, position = b"", 0
        for offset, data in batches:
            index += struct.pack(">ii", offset - base, position)
            position += len(data)
        self.path(base, "index", suffix).write_bytes(index)
        self.path(base, "log", suffix).write_bytes(
            b"".join(data for _, data in batches)
        )

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
        base, batches = (
            merged[0][0],
            [batch for _, listed in merged for batch in listed],
        )
        self.write(base, batches, ".cleaned")
        self.rename([base], ".cleaned", ".swap")
        self.rename([old for old, _ in merged], "", ".deleted")
        self.rename([base], ".swap", "")
        self.segments[first : first + len(merged)] = [(base, batches)]

    def rename(self, bases, suffix, new_suffix):
        for base in bases:
            for extension in EXTENSIONS:
                path = self.path(base, extension, suffix)
                path.rename(self.path(base, extension, new_suffix))

    def remove(self):
        for path in self.directory.glob("*.deleted"):
            path.unlink()

    def step(self):
        if len(self.segments) < MAX_SEGMENTS:
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
