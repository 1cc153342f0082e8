"""What Kafka says of a whole log directory: partition by partition, from its start."""

from __future__ import annotations

from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data
from tests.query import told

OFFSET = COLUMNS.index("offset")
CLEAN = golden_data.logs("k431-clean")
LOG_STARTS = {("k431-clean", "cutoff-0"): 77}


def partitions(name):
    """Names of a set's live partition directories, as a scan orders them."""
    live = [
        directory
        for one, directory in told.DIRECTORIES
        if one == name and not directory.endswith(("-delete", ".checkpoint"))
    ]
    return sorted(live, key=told.split_name)


def records(name, directory):
    """Records of a partition, control records too, from its log start offset on."""
    start = LOG_STARTS.get((name, directory), 0)
    told_records = told.records(name, directory)
    rows = [row for file, row in told_records if file.endswith(".log")]
    return [row for row in rows if row[OFFSET] >= start]


def all_records(name):
    return [row for one in partitions(name) for row in records(name, one)]
