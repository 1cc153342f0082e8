"""Handwritten scenarios: retention."""

from tests.oracle.handwritten.register import scenario, ten
from tests.oracle.scenario import T0, fill, rec, seg


@scenario(
    "retention",
    "Time: a segment goes when it is older than retention.ms, strictly; files wait as .deleted for file.delete.delay.ms.",
)
def retention_by_time(s):
    s.open({"segment.bytes": 300, "retention.ms": 10000})
    ten(s, count=8)
    s.hw().advance(11000).retention().advance(1).retention().tree().advance(
        1999
    ).retention().advance(1000).tree().close()


@scenario(
    "retention",
    "Size: oldest segments go only while what is left is still at least retention.bytes.",
)
def retention_by_size(s):
    s.open({"segment.bytes": 300, "retention.bytes": 540})
    ten(s, count=10)
    s.hw().retention().retention().advance(1000).tree().close()


@scenario("retention", "Nothing at or above the high watermark is deleted.")
def retention_high_watermark(s):
    s.open({"segment.bytes": 300, "retention.ms": 0})
    ten(s, count=8)
    s.advance(100000).retention().hw(3).retention().hw(7).retention().hw(
        8
    ).retention().retention().append(rec("n", "1", T0)).close()


@scenario(
    "retention",
    "When everything has expired the log rolls first and starts anew at its end.",
)
def retention_everything(s):
    s.open({"segment.bytes": 300, "retention.ms": 1000}).become_leader(epoch=4)
    ten(s, count=5)
    s.hw().advance(60000).retention().advance(1000).tree().append(
        rec("n", "1", T0 + 60000)
    ).close()


@scenario(
    "retention", "One segment with a timestamp in the future protects all behind it."
)
def retention_future_timestamp(s):
    s.open({"segment.bytes": 200, "retention.ms": 1000})
    s.append(rec("a", fill(80), T0)).append(rec("b", fill(80), T0 + 99999999)).append(
        rec("c", fill(80), T0)
    ).append(rec("d", fill(80), T0))
    s.hw().advance(60000).retention().close()


@scenario("retention", "A segment without timestamps is as old as its file.")
def retention_by_mtime(s):
    s.open({"segment.bytes": 200, "retention.ms": 1000})
    for i in range(4):
        s.append(rec(f"k{i}", fill(80), -1)).advance(400)
    s.hw().set_mtime(file=seg(1), to=T0 + 500).retention().advance(
        1000
    ).retention().close()


@scenario(
    "retention",
    "Deleting records moves the log start at once and segments later; above the high watermark it is refused.",
)
def retention_delete_records(s):
    s.open({"segment.bytes": 300}).become_leader(epoch=1)
    ten(s, count=8, leader_epoch=1)
    s.hw(6).delete_records(offset=7).delete_records(offset=4).delete_records(
        offset=3
    ).read(3).read(4).retention().tree()
    s.advance(1000).delete_records(offset=6).retention().close(
        checkpoints=True
    ).open().read(5).read(6).close()


@scenario(
    "retention",
    "An empty cleanup.policy and a compacted one delete only what lies below the log start.",
)
def retention_other_policies(s):
    s.open(
        {
            "segment.bytes": 300,
            "retention.ms": 1,
            "retention.bytes": 1,
            "cleanup.policy": "",
        }
    )
    ten(s, count=8)
    s.hw().advance(60000).retention().update_config(
        config={"cleanup.policy": "compact"}
    ).retention().delete_records(offset=5).retention()
    s.update_config(config={"cleanup.policy": "compact,delete"}).retention().close()


@scenario("retention", "Segment deletion takes its snapshot file along.")
def retention_snapshots(s):
    s.open({"segment.bytes": 300, "retention.bytes": 300})
    for i in range(9):
        s.idem(1 + i % 2, 0, i // 2, rec(f"k{i}", fill(60), T0 + i))
    s.hw().tree().retention().tree().advance(1000).tree().close()
