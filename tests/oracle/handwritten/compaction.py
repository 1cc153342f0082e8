"""Handwritten scenarios: compaction."""

from tests.oracle.handwritten.register import scenario
from tests.oracle.scenario import T0, batch, fill, rec

FAR = 2**31
CHECKPOINT = "../cleaner-offset-checkpoint"


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


@scenario(
    "compaction",
    "Segments are merged only while the bytes of each of their indexes fit in segment.index.bytes.",
)
def compaction_groups_by_index(s):
    compacted(
        s,
        {
            "segment.bytes": 5000,
            "segment.index.bytes": 24,
            "index.interval.bytes": 10,
        },
    )
    for i in range(7):
        s.append(rec(f"k{i % 3}", fill(30), T0 + i * 100)).roll()
    s.append(rec("n", "1", T0)).hw().compact().segments().close()


@scenario(
    "compaction",
    "The offsets of merged segments are in range of the first base, estimated by the base of the next segment; an empty segment has no offsets.",
)
def compaction_groups_by_offset(s):
    compacted(s, {"segment.bytes": 5000})
    s.follow(batch(rec("a", "1", T0), base=0)).roll()
    s.follow(batch(rec("b", "1", T0), base=1)).roll()
    s.follow(batch(rec("c", "1", T0), base=2)).roll(offset=FAR + 20)
    s.roll(offset=2 * FAR + 50)
    s.follow(batch(rec("d", "1", T0), base=2 * FAR + 50)).roll()
    s.follow(batch(rec("a", "2", T0), base=2 * FAR + 60)).roll()
    s.follow(batch(rec("e", "1", T0), base=2 * FAR + 70)).hw().compact().segments()
    s.tree().close()


@scenario(
    "compaction",
    "Batches of magic 0 and 1 become batches of magic 2, from the first offset that stays to the last; their tombstones live as long as the modification time of the segment allows.",
)
def compaction_old_formats(s):
    compacted(s)
    s.follow(batch(rec("a", fill(20), T0), base=0, magic=1))
    s.follow(batch(rec("b", fill(20), T0 + 5), base=1, magic=1))
    s.follow(batch(rec("c", fill(20), T0 + 3), base=2, magic=1))
    s.follow(batch(rec("d", fill(20), T0), base=3, magic=0))
    s.follow(batch(rec("e", fill(20), T0), base=4, magic=1))
    s.follow(batch(rec("f", None, T0 + 9), base=5, magic=1)).roll()
    s.follow(batch(rec("a", "2", T0 + 7), base=6)).roll()
    s.follow(batch(rec("n", "1", T0), base=7)).hw().compact().tree().read(0)
    s.advance(3000)
    s.follow(batch(rec("g", None, T0 + 9), base=8, magic=1)).roll()
    s.follow(batch(rec("c", "2", T0), base=9)).roll()
    s.follow(batch(rec("n", "2", T0), base=10)).hw().compact().read(0).segments()
    s.advance(1000)
    s.follow(batch(rec("h", "2", T0), base=11)).roll()
    s.follow(batch(rec("n", "2", T0), base=12)).hw().compact().read(0).close()


@scenario(
    "compaction",
    "A compressed message of magic 0 or 1 becomes a batch of magic 2 with the same codec, from the first offset that stays to the last.",
    "content",
)
def compaction_old_compressed(s):
    compacted(s, {"segment.bytes": 2000})
    for magic in (0, 1):
        three = [rec(f"{magic}{key}", fill(90), T0 + 9) for key in "abc"]
        s.follow(batch(*three, base=3 * magic, magic=magic, codec="gzip"))
    s.roll()
    s.follow(batch(rec("0a", "2", T0), rec("1c", "2", T0), base=6)).roll()
    s.follow(batch(rec("n", "1", T0), base=8)).hw().compact().read(0).segments()
    s.close()


@scenario(
    "compaction",
    "A tombstone of magic 1 in the clean part goes once its segment is delete.retention.ms older than the last clean one.",
)
def compaction_old_tombstone(s):
    compacted(s, {"cleanup.policy": "delete"})
    for i in range(3):
        s.follow(batch(rec(f"t{i}", None, T0), base=i, magic=1)).roll().advance(700)
    s.follow(batch(rec("a", fill(60), T0), base=3, magic=1)).roll()
    s.follow(batch(rec("b", fill(60), T0), base=4, magic=1)).hw().close(
        checkpoints=True
    )
    s.damage(CHECKPOINT, "create", text="0\n1\nt 0 3\n")
    s.open({**s.steps[0]["config"], "cleanup.policy": "compact"})
    s.hw().compact().read(0).tree().close()


@scenario(
    "compaction",
    "Records without a key are removed and counted as invalid, unless the map ends before them; the last batch of the range stays as a header.",
)
def compaction_without_key(s):
    compacted(s, {"cleanup.policy": "delete"})
    s.append(rec(None, "1", T0), rec("a", "1", T0), rec(None, "2", T0))
    s.append(rec(None, "3", T0)).append(rec("b", "1", T0))
    s.append(rec("c", "1", T0), rec(None, "4", T0)).append(rec(None, "5", T0)).roll()
    s.append(rec("d", "1", T0)).hw()
    s.update_config(config={"cleanup.policy": "compact"})
    for _ in range(2):
        s.compact(dedupe_buffer_size=24 * 3, load_factor=0.7).read(0)
    s.roll().append(rec("e", "1", T0)).hw().compact().read(0).close()


@scenario(
    "compaction",
    "Markers stay as long as a round reads data of their transaction, in any segment; the cleaned segment's index has the aborted transactions whose marker stays.",
)
def compaction_markers(s):
    compacted(
        s, producer_id_expiration_ms=5000, producer_id_expiration_check_interval_ms=1000
    )
    s.txn(1, 0, 0, rec("a", fill(150), T0), rec("z", "1", T0))
    s.txn(2, 0, 0, rec("b", fill(150), T0))
    s.txn(3, 0, 0, rec("c", fill(150), T0)).append(rec("d", fill(150), T0))
    s.marker(1, 0, "commit").marker(2, 0, "abort").marker(3, 0, "commit")
    s.txn(2, 0, 1, rec("b", fill(150), T0 + 1)).marker(2, 0, "abort").roll()
    s.append(rec("c", "2", T0)).append(rec("n", "1", T0)).roll()
    s.append(rec("m", "1", T0)).hw()
    s.aborted_transactions(**{"from": 0, "to": 100}).compact().tree().read(0)
    s.aborted_transactions(**{"from": 0, "to": 100})
    for number in range(4):
        s.advance(2000).roll().append(rec(f"m{number}", "1", T0)).hw()
        s.compact().tree().read(0)
        s.aborted_transactions(**{"from": 0, "to": 100})
    s.close()


@scenario(
    "compaction",
    "A batch with LogAppendTime keeps its greatest timestamp; one with CreateTime has that of the records that stay.",
)
def compaction_greatest_timestamp(s):
    compacted(s, {"segment.bytes": 5000, "index.interval.bytes": 10})
    several = [
        rec("a", fill(40), T0 + 900),
        rec("b", fill(40), T0 + 100),
        rec("c", fill(40), T0 + 300),
    ]
    s.append(*several).append(rec("x", fill(40), T0 + 50)).append(*several).roll()
    s.append(rec("a", "2", T0 + 500)).roll().append(rec("n", "1", T0)).hw()
    s.compact().segments().read(0).offset_for_timestamp(timestamp=T0 + 200)
    s.offset_for_timestamp(timestamp=-3)
    s.update_config(config={"message.timestamp.type": "LogAppendTime"}).advance(5000)
    s.append(rec("d", fill(40), T0), rec("e", fill(40), T0)).advance(10).roll()
    s.append(rec("e", "2", T0)).roll().append(rec("n", "2", T0)).hw()
    s.compact().segments().read(0).close()


@scenario(
    "compaction",
    "max.compaction.lag.ms counts from the first batch of a dirty segment before the active one.",
)
def compaction_max_lag(s):
    compacted(s, {"min.cleanable.dirty.ratio": 1, "max.compaction.lag.ms": 1000})
    s.append(rec("a", fill(60), T0)).append(rec("b", fill(60), T0 - 900)).roll()
    s.append(rec("c", fill(60), T0 - 900)).hw()
    s.advance(500).compact(if_dirty_enough=True).advance(500)
    s.compact(if_dirty_enough=True).advance(1).compact(if_dirty_enough=True)
    s.advance(3000).compact(if_dirty_enough=True).roll()
    s.append(rec("d", fill(60), T0 + 4000)).hw().compact(if_dirty_enough=True)
    s.append(rec("e", fill(60), T0 + 4900)).roll().append(rec("f", "1", T0 + 4900))
    s.hw().advance(1499).compact(if_dirty_enough=True).roll()
    s.append(rec("g", "1", T0 + 5500)).hw().compact(if_dirty_enough=True).close()


@scenario(
    "compaction",
    "A checkpointed offset that is not in the log is replaced by the log start offset, also if nothing is compacted.",
)
def compaction_checkpoint_outside(s):
    compacted(s)
    for i in range(12):
        s.append(rec(f"k{i % 3}", fill(60), T0 + i))
    s.hw().compact().close(checkpoints=True)
    s.damage(CHECKPOINT, "create", text="0\n1\nt 0 900\n").open().hw()
    s.compact(if_dirty_enough=True).tree().delete_records(offset="leo-1")
    s.close(checkpoints=True).damage(CHECKPOINT, "create", text="0\n1\nt 0 3\n")
    s.open().hw().compact(if_dirty_enough=True).tree().close()


@scenario(
    "compaction",
    "A delete horizon stays when the batch is rebuilt again; batches without a tombstone get none.",
)
def compaction_horizon_kept(s):
    compacted(s, {"segment.bytes": 5000})
    s.append(rec("a", None, T0), rec("b", "1", T0), rec("c", "1", T0))
    s.append(rec("d", "1", T0), rec("e", "1", T0)).append(rec("d", "2", T0)).roll()
    s.append(rec("b", "2", T0)).hw().compact().read(0).advance(600).roll()
    s.append(rec("c", "2", T0)).hw().compact().read(0).advance(399).roll()
    s.append(rec("f", "2", T0)).hw().compact().read(0).roll()
    s.append(rec("g", "2", T0)).hw().advance(1).compact().read(0).close()


@scenario(
    "compaction",
    "A segment whose largest timestamp is exactly min.compaction.lag.ms old is compacted; the first younger one ends the range.",
)
def compaction_min_lag_to_the_millisecond(s):
    compacted(s, {"min.compaction.lag.ms": 1000})
    s.append(rec("a", fill(60), T0)).roll().append(rec("a", fill(60), T0 + 50)).roll()
    s.append(rec("b", fill(60), T0 - 9000)).roll().append(rec("n", "1", T0)).hw()
    s.advance(999).compact().advance(1).compact().advance(49).compact()
    s.advance(1).compact().close()


@scenario(
    "compaction",
    "If a marker of a newer epoch came after a producer's last data, the control batches of that epoch stay as headers, until the producer has expired.",
)
def compaction_last_marker_kept(s):
    compacted(
        s,
        {"segment.bytes": 5000},
        producer_id_expiration_ms=8000,
        producer_id_expiration_check_interval_ms=1000,
    )
    s.txn(1, 0, 0, rec("a", "1", T0)).marker(1, 0, "abort")
    s.txn(1, 0, 1, rec("b", "1", T0)).marker(1, 1, "abort")
    s.txn(2, 0, 0, rec("c", "1", T0)).marker(2, 0, "commit").roll()
    s.append(rec("c", "2", T0)).append(rec("d", "2", T0)).roll()
    for number in range(4):
        s.append(rec(f"n{number}", "1", T0)).hw().compact().read(0).advance(1500)
        s.roll()
    s.advance(9000).producers().append(rec("o", "1", T0)).hw().compact().read(0)
    s.tree().close()


@scenario("compaction", "A truncation does not raise the cleaner's checkpoint.")
def compaction_checkpoint_below(s):
    compacted(s)
    for i in range(6):
        s.append(rec(f"k{i % 5}", fill(60), T0 + i))
    s.hw().compact()
    for i in range(12):
        s.append(rec(f"k{i % 5}", fill(60), T0 + i))
    s.tree().truncate_to(offset=13).tree().hw().compact().close()
