"""Exports to one Delta table at the same time, each in a process forked from this one.

``python -m tests.export.rival_exports LOGS TABLE ROUNDS``. In each round the logs grow,
and three runs append to the table at once, the first of which makes it. Then one run
appends the rest. Prints the records of the logs, and how many runs were refused.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import kafkalog
from kafkalog.errors import CommitConflictError
from kafkalog.export import delta_table
from tests.spark.growing import GrowingLog

RIVALS = 3
COMMIT_BYTES = 3000
REFUSED = 3


def begin(logs, out, order):
    """Begin an export in a fork; rivals read the partitions in different orders."""
    child = os.fork()
    if child:
        return child
    folders = sorted(logs.iterdir())
    scan = kafkalog.scan([*folders[order:], *folders[:order]])
    try:
        delta_table.append_new(scan, out, commit_bytes=COMMIT_BYTES)
    except CommitConflictError:
        os._exit(REFUSED)
    os._exit(0)


def codes(children):
    return [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children]


def main(logs, out, rounds):
    """Grow the logs and export them; print what happened."""
    log, refused = GrowingLog(logs, partitions=RIVALS), 0
    for _ in range(rounds):
        log.append(60)
        ended = codes([begin(logs, out, order) for order in range(RIVALS)])
        assert set(ended) <= {0, REFUSED}, ended
        refused += ended.count(REFUSED)
    assert codes([begin(logs, out, 0)]) == [0]
    written = sorted([p, offset, value.decode()] for p, offset, value in log.written)
    print(json.dumps({"refused": refused, "written": written}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
