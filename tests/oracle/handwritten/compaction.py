"""Handwritten scenarios: compaction."""

from tests.oracle.handwritten.register import scenario
from tests.oracle.scenario import T0, fill, rec


def compacted(s, config=None, **more):
    return s.open(
        {
            "cleanup.policy": "compact",
            "segment.bytes": 400,
            "min.cleanable.dirty.ratio": 0.01,
            "delete.retention.ms": 1000,
            **(config or {}),
        },
        **more,
    )


@scenario(
    "compaction",
    "Of every key the record with the highest offset stays; offsets stay; segments are merged up to segment.bytes; the active one is left alone.",
)
def compaction_latest_of_each_key(s):
    compacted(s)
    for i in range(16):
        s.append(rec(f"k{i % 5}", f"value {i} " + "x" * 50, T0 + i * 100))
    s.hw().compact().tree().read(0).advance(1000).segments().compact().append(
        rec("k1", "new", T0)
    ).close(checkpoints=True)


@scenario(
    "compaction",
    "A tombstone outlives the first pass, which sets its horizon to now + delete.retention.ms; a pass at or after that drops it.",
)
def compaction_tombstones(s):
    compacted(s)
    s.append(rec("a", fill(60), T0)).append(rec("b", fill(60), T0)).append(
        rec("a", None, T0), rec("c", fill(60), T0)
    ).append(rec("d", fill(100), T0)).roll()
    s.append(rec("e", "1", T0)).hw().compact().read(0).roll().append(
        rec("f", "1", T0)
    ).hw().advance(999).compact().read(0)
    s.roll().append(rec("g", "1", T0)).hw().advance(1).compact().read(0).tree().close()


@scenario(
    "compaction",
    "Records of an aborted transaction vanish at once; its marker waits until they are gone and the horizon has passed.",
)
def compaction_aborted(s):
    compacted(s)
    s.append(rec("a", fill(60), T0)).txn(1, 0, 0, rec("a", fill(60), T0 + 1)).txn(
        2, 0, 0, rec("b", fill(60), T0 + 1)
    ).marker(1, 0, "abort").marker(2, 0, "commit")
    s.idem(1, 0, 1, rec("z", "1", T0)).idem(2, 0, 1, rec("z", "1", T0)).roll().append(
        rec("n", "1", T0)
    ).hw().compact().tree().read(0)
    s.roll().append(rec("o", "1", T0)).hw().compact().read(0).advance(
        2000
    ).roll().append(rec("p", "1", T0)).hw().compact().read(0).tree().close()


@scenario("compaction", "Nothing at or above the last stable offset is compacted.")
def compaction_last_stable_offset(s):
    compacted(s)
    for i in range(6):
        s.append(rec("k", fill(60), T0 + i))
    s.txn(1, 0, 0, rec("k", fill(60), T0 + 9))
    for i in range(6):
        s.append(rec("k", fill(60), T0 + 10 + i))
    s.hw(4).compact().hw().compact().marker(1, 0, "commit").hw().roll().append(
        rec("n", "1", T0)
    ).hw().compact().close()


@scenario("compaction", "min.compaction.lag.ms keeps young segments out.")
def compaction_min_lag(s):
    compacted(s, {"min.compaction.lag.ms": 1000})
    for i in range(12):
        s.append(rec("k", fill(60), T0 + i * 200))
    s.hw().advance(2200).compact().advance(500).compact().close()


@scenario(
    "compaction",
    "A full map ends a round inside a segment; the next round goes on from there.",
)
def compaction_map_full(s):
    compacted(s)
    for i in range(20):
        s.append(rec(f"k{i % 7}", fill(60), T0 + i))
    for _ in range(5):
        s.append(rec("n", "1", T0)).hw().compact(
            dedupe_buffer_size=24 * 4, load_factor=0.9
        )
    s.read(0).close()


@scenario(
    "compaction",
    "The last batch below the bound stays, empty if need be, so that the end of the round is not lost.",
)
def compaction_last_batch_kept(s):
    compacted(s)
    s.append(rec("a", fill(100), T0)).append(rec("b", fill(100), T0)).append(
        rec("a", fill(10), T0)
    ).roll()
    s.append(rec("a", fill(10), T0 + 1)).roll().append(
        rec("b", fill(10), T0 + 1)
    ).roll().append(rec("n", "1", T0)).hw()
    s.compact().read(0).segments().close()


@scenario(
    "compaction",
    "The batch with the last sequence of a producer still known stays as an empty header; when the producer has expired it goes.",
)
def compaction_producer_kept(s):
    compacted(
        s, producer_id_expiration_ms=5000, producer_id_expiration_check_interval_ms=1000
    )
    s.idem(1, 0, 0, rec("a", fill(60), T0)).idem(
        1, 0, 1, rec("b", fill(60), T0)
    ).append(rec("a", fill(60), T0)).append(rec("b", fill(60), T0)).roll()
    s.append(rec("n", "1", T0)).hw().compact().read(0).advance(
        6000
    ).producers().roll().append(rec("o", "1", T0)).hw().compact().read(0).close()


@scenario(
    "compaction",
    "Compressed batches are rebuilt in their own codec at the default level; untouched ones are copied.",
    "content",
)
def compaction_compressed(s):
    compacted(s, {"segment.bytes": 2000})
    for i, codec in enumerate(("gzip", "snappy", "lz4", "zstd", "none", "gzip")):
        s.append(
            *[rec(f"k{(i * 3 + j) % 8}", fill(150), T0 + i) for j in range(4)],
            codec=codec,
        )
    s.roll().append(rec("n", "1", T0)).hw().compact().read(0).close()


@scenario(
    "compaction",
    "compact,delete: the log start moves the first dirty offset; retention still works.",
)
def compaction_and_delete(s):
    compacted(s, {"cleanup.policy": "compact,delete", "retention.ms": 5000})
    for i in range(12):
        s.append(rec(f"k{i % 3}", fill(60), T0 + i * 100))
    s.hw().compact().delete_records(offset=6).compact().append(
        rec("k1", fill(60), T0 + 3000)
    ).append(rec("k1", fill(60), T0 + 3000)).append(
        rec("k1", fill(60), T0 + 3000)
    ).append(rec("k1", fill(60), T0 + 3000)).hw()
    s.compact().advance(6500).retention().advance(1000).tree().close()


@scenario(
    "compaction",
    "A log is picked when its dirty share is above min.cleanable.dirty.ratio, strictly, or when max.compaction.lag.ms has passed.",
)
def compaction_picked(s):
    compacted(s, {"min.cleanable.dirty.ratio": 0.5, "max.compaction.lag.ms": 100000})
    for i in range(8):
        s.append(rec(f"k{i}", fill(60), T0 + i))
    s.hw().compact(if_dirty_enough=True).compact(if_dirty_enough=True)
    for i in range(8):
        s.append(rec(f"k{i}", fill(20), T0 + i))
    s.hw().compact(if_dirty_enough=True).advance(100005).compact(
        if_dirty_enough=True
    ).advance(1000).compact(if_dirty_enough=True).close()


@scenario(
    "compaction", "Truncating below the active segment lowers the cleaner's checkpoint."
)
def compaction_checkpoint_truncated(s):
    compacted(s)
    for i in range(16):
        s.append(rec(f"k{i % 5}", fill(60), T0 + i))
    s.hw().compact().tree().truncate_to(offset=9).tree().append(
        rec("k1", "1", T0)
    ).roll().append(rec("n", "1", T0)).hw().compact().close()
