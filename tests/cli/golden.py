"""Kafka's reports of whole log directories, partition by partition."""

from __future__ import annotations

from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data
from tests.query import kafka_rows

OFFSET = COLUMNS.index("offset")
CLEAN = golden_data.logs("k431-clean")
LOG_STARTS = {("k431-clean", "cutoff-0"): 77}


def partitions(name):
    """Return the names of a set's live partition directories, in scan order.

    There is at least one.
    """
    live = [
        directory
        for one, directory in kafka_rows.DIRECTORIES
        if one == name and not directory.endswith(("-delete", ".checkpoint"))
    ]
    assert live, name
    return sorted(live, key=kafka_rows.split_name)


def records(name, directory):
    """Return a partition's records from its log start offset, control records too."""
    start = LOG_STARTS.get((name, directory), 0)
    told_records = kafka_rows.records(name, directory)
    rows = [row for file, row in told_records if file.endswith(".log")]
    return [row for row in rows if row[OFFSET] >= start]


def all_records(name):
    return [row for one in partitions(name) for row in records(name, one)]
