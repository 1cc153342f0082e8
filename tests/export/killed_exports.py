"""Exports to a Delta table that are killed, each in a process forked from this one.

``python -m tests.export.killed_exports LOGS TABLE SEED RUNS``. Between runs the logs
grow. The last run is not killed. Prints the records of the logs, and how many runs were
killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import deltalake

import kafkalog
from kafkalog.export import delta_table
from tests.spark.growing import GrowingLog

POINTS = ("create", "before", "within", "after", "anywhere")
COMMIT_BYTES = 3000


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def die_after(seconds):
    threading.Thread(target=lambda: die(time.sleep(seconds)), daemon=True).start()


def arm(point, count, seconds):
    """Arrange that this process is killed at a point of the commit number `count`."""
    write, create = deltalake.write_deltalake, deltalake.DeltaTable.create
    calls = iter(range(1 << 30))

    def killed_write(*arguments, **named):
        here = next(calls) == count
        if here and point == "before":
            die()
        if here and point == "within":
            die_after(seconds)
        write(*arguments, **named)
        if here and point == "after":
            die()

    def killed_create(*arguments, **named):
        if count % 2:
            create(*arguments, **named)
            die()
        die_after(seconds)
        return create(*arguments, **named)

    deltalake.write_deltalake = killed_write
    if point == "create":
        deltalake.DeltaTable.create = killed_create
    if point == "anywhere":
        die_after(seconds * 20)


def run(logs, out, point=None, count=0, seconds=0.0):
    """Run an export in a fork; return whether it was killed."""
    child = os.fork()
    if not child:
        if point is not None:
            arm(point, count, seconds)
        scan = kafkalog.scan(logs)
        delta_table.append_new(scan, out, commit_bytes=COMMIT_BYTES)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, status
    return os.WIFSIGNALED(status)


def main(logs, out, seed, runs):
    """Grow the logs and export them, killed `runs` times; then once to the end."""
    dice, killed = random.Random(seed), 0
    log = GrowingLog(logs, partitions=3)
    for number in range(runs):
        log.append(10 * dice.randint(0, 6))
        if not dice.randint(0, 3):
            log.roll()
        point = "create" if number < 2 else dice.choice(POINTS[1:])
        killed += run(logs, out, point, dice.randint(0, 3), dice.random() * 0.01)
    assert not run(logs, out)
    written = sorted([p, offset, value.decode()] for p, offset, value in log.written)
    print(json.dumps({"killed": killed, "written": written}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
