"""A broker's log directory, written for a test, and readings of reports on it."""

from pathlib import Path

import kafkalog
from kafkalog import LogConfig
from tests.log.clusters import IDS, metadata_log, topic
from tests.manager.managing import MARKER, POINTS
from tests.manager.test_cluster_image import CLUSTER, DIRECTORY_1, partition

ORDERS, STATE = IDS["orders"], IDS["state"]
RECORDS = 80
CONFIG = LogConfig(internal_segment_bytes=2000, index_interval_bytes=500)
UUID = 32 * "a"


def write_ids(logs, directory_id=DIRECTORY_1, node=1, cluster=CLUSTER):
    text = f"version=1\nnode.id={node}\ncluster.id={cluster}\n"
    if directory_id is not None:
        text += f"directory.id={directory_id}\n"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "meta.properties").write_text(text)


def write_cluster(logs, *more, replicas=(1,), directories=(DIRECTORY_1,)):
    values = [topic("orders"), topic("state")]
    for topic_id in (ORDERS, STATE):
        values += [
            partition(topic_id, number, list(replicas), directories)
            for number in (0, 1)
        ]
    path = metadata_log(logs, [*values, *more])
    path.with_suffix(".index").touch()
    path.with_suffix(".timeindex").touch()


def crash(logs, **recovery_points):
    (logs / MARKER).unlink()
    lines = [f"orders {name[-1]} {at}" for name, at in recovery_points.items()]
    (logs / POINTS).write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def states(report):
    return {Path(each.directory).name: str(each.state) for each in report.partitions}


def of(report, name):
    [found] = [each for each in report.partitions if each.directory.endswith(name)]
    return found


def readable(directory):
    scan = kafkalog.scan(
        directory, start_offset=0, on_corruption="skip", control_records=True
    )
    return sum(len(records) for records in scan.chunks())
