"""A simulated broker: appends, rolls, truncates and deletes at random, with a journal.

Run as ``python -m tests.query.live_writer DIRECTORY JOURNAL STEPS SEED``. A batch's
records contain their offset and the number of the batch. The journal has the number and
offsets of a batch before it is written, so it has all that can be read.
"""

from __future__ import annotations

import os
import random
import struct
import sys
import time
from pathlib import Path

from tests.query.batches import build

CODECS = ("none", "none", "lz4", "snappy", "zstd", "gzip")


class Writer:
    """A partition's directory, and the state of its writer."""

    def __init__(self, directory, journal, seed):
        self.directory = Path(directory)
        self.journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.rng = random.Random(seed)
        self.next_offset = 0
        self.number = 0
        self.bases = []
        self.roll()

    def path(self, extension="log"):
        return self.directory / f"{self.bases[-1]:020d}.{extension}"

    def roll(self):
        if self.bases and self.bases[-1] == self.next_offset:
            return
        if self.bases:
            os.truncate(self.path(), self.end)  # as preallocated files are trimmed
            self.trim_index()
        self.bases.append(self.next_offset)
        self.entries = []
        self.end = 0
        for extension in ("log", "index", "timeindex"):
            self.path(extension).touch()

    def batch(self):
        count = self.rng.randrange(1, 40)
        codec = self.rng.choice(CODECS)
        self.number += 1
        text = b"%d " % self.number * self.rng.choice([1, 10, 300])
        line = f"{self.number} {self.next_offset} {count}\n"
        os.write(self.journal, line.encode())
        data = build(2, codec, self.next_offset, count, text=text)
        return data, count

    def append(self):
        data, count = self.batch()
        file = os.open(self.path(), os.O_WRONLY)
        at, end = 0, len(data)
        while at < end:
            part = data[at : at + self.rng.choice([7, 20, 61, 500, 4096, end])]
            os.pwrite(file, part, self.end + at)
            at += len(part)
        os.close(file)
        with self.path("index").open("ab") as index:
            relative = self.next_offset - self.bases[-1]
            index.write(struct.pack(">ii", relative, self.end))
        self.entries.append((self.next_offset, self.end))
        self.next_offset += count
        self.end += len(data)

    def truncate(self):
        if not self.entries:
            return
        keep = self.rng.randrange(len(self.entries))
        self.next_offset, self.end = self.entries[keep]
        del self.entries[keep:]
        os.truncate(self.path(), self.end)
        for _ in range(self.rng.randrange(4)):
            self.append()

    def preallocate(self):
        os.truncate(self.path(), self.end + 100_000)

    def trim_index(self):
        path = self.path("index")
        os.truncate(path, self.rng.randrange(path.stat().st_size + 1) // 8 * 8)

    def delete(self):
        if len(self.bases) < 4:
            return
        stem = f"{self.bases.pop(0):020d}"
        for extension in ("log", "index", "timeindex"):
            path = self.directory / f"{stem}.{extension}"
            path.rename(path.with_name(path.name + ".deleted"))

    def remove(self):
        for path in sorted(self.directory.glob("*.deleted")):
            path.unlink()

    def step(self):
        chosen = self.rng.choices(
            [
                self.append,
                self.roll,
                self.truncate,
                self.preallocate,
                self.trim_index,
                self.delete,
                self.remove,
            ],
            [60, 10, 8, 5, 5, 8, 4],
        )
        chosen[0]()


def main(directory, journal, steps, seed):
    writer = Writer(directory, journal, int(seed))
    print("writing", flush=True)
    for _ in range(int(steps)):
        writer.step()
        time.sleep(writer.rng.random() / 100)


if __name__ == "__main__":
    main(*sys.argv[1:])
