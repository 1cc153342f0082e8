"""A writer that is killed during an append: ``killed_writer.py LOGS``.

It prints the recovery point and the log end offset, and kills itself with SIGKILL when
half of the next batch is written.
"""

from __future__ import annotations

import os
import signal
import sys

import kafkalog
from kafkalog.testing import Disk, Write, open_manager

START_MS = 1_700_000_000_000
RECORDS = 50
BATCH_BYTES = 1 << 20
APPENDS = 480
FLUSHED = 300
CONFIG = kafkalog.LogConfig(segment_bytes=1 << 20, retention_ms=-1)


def value_of(offset: int) -> bytes:
    """Return the value of the record at an offset."""
    return b"%08d " % offset * 40


def append(log: kafkalog.WritableLog) -> None:
    """Append a batch of records, whose values contain their offsets."""
    offsets = range(log.log_end_offset, log.log_end_offset + RECORDS)
    rows = {
        "key": [str(offset) for offset in offsets],
        "value": [value_of(offset) for offset in offsets],
        "timestamp": [START_MS + offset for offset in offsets],
    }
    log.append_records(rows, batch_bytes=BATCH_BYTES)


class KillingDisk(Disk):
    """The file system, which kills the process at the last write."""

    last_write = False

    def write_each(self, writes: list[Write]) -> None:
        """Write all; at the last write, write half and kill the process."""
        file, data, position = writes[0]
        if self.last_write and file.path.suffix == ".log":
            half = memoryview(data).cast("B")[: memoryview(data).nbytes // 2]
            super().write_each([(file, half, position)])
            os.kill(os.getpid(), signal.SIGKILL)
        super().write_each(writes)


def main(directory: str) -> None:
    """Append, flush once, and be killed."""
    disk = KillingDisk()
    logs = open_manager(directory, CONFIG, disk=disk)
    log = logs.open("orders", 0)
    for count in range(APPENDS):
        append(log)
        if count == FLUSHED:
            log.flush()
            logs.checkpoint()
            print(log.recovery_point)
    print(log.log_end_offset, flush=True)
    disk.last_write = True
    append(log)


if __name__ == "__main__":
    main(sys.argv[1])
