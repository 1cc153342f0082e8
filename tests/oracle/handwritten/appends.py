"""Handwritten scenarios: append and validation."""

from tests.oracle.handwritten.register import scenario
from tests.oracle.scenario import T0, batch, fill, rec, seg


@scenario(
    "append",
    "A leader stamps offsets and its epoch into the header; the records and the checksum stay as the producer made them.",
)
def append_offsets_and_epoch(s):
    s.open({"segment.bytes": 10000}, topic_id="AAAAAAAAAAAAAAAAAAAAZQ").become_leader(
        epoch=3
    )
    s.append(rec("a", "1", T0), rec("b", "2", T0 + 5), rec("c", "3", T0 + 2))
    s.append(rec(None, "no key", T0), rec("t", None, T0), rec("", "", T0))
    s.append(rec("h", "v", T0, headers=[["h1", "x"], ["h2", None], ["", ""]]))
    s.hw().read(0).read(4).read(4, max_bytes=80, min_one_message=False).close(
        checkpoints=True
    )


@scenario(
    "append",
    "A v2 leader append holds exactly one batch; none is refused too; an empty byte string changes nothing.",
)
def append_one_batch_only(s):
    s.open()
    s.op(
        "append",
        batches=[{"records": [rec("a", "1", T0)]}, {"records": [rec("b", "2", T0)]}],
    )
    s.op("append", bytes="")
    s.append(rec("c", "3", T0)).close()


@scenario(
    "append",
    "A client's batch must start at offset 0 and count its offsets without gaps. From others a gap passes the check, and the base offset is then counted back from the last one: here it gets negative.",
)
def append_client_offsets(s):
    s.open()
    s.append(rec("a", "1", T0), base_offset=5)
    s.append(rec("a", "1", T0, offset=0), rec("b", "2", T0, offset=2))
    s.append(
        rec("a", "1", T0, offset=0), rec("b", "2", T0, offset=2), origin="coordinator"
    )
    s.append(
        rec("a", "1", T0, offset=0), rec("b", "2", T0, offset=2), origin="replication"
    )
    s.read(0).close()


@scenario(
    "append",
    "A wrong checksum is refused; header fields outside the checksum are free.",
)
def append_checksum(s):
    s.open()
    s.append(rec("a", "1", T0), patch=[{"at": 65, "hex": "ff"}])
    s.append(rec("a", "1", T0), patch=[{"at": 12, "hex": "00000063"}])
    s.op(
        "append_follower",
        leader_epoch=0,
        batches=[batch(rec("z", "1", T0), base=1, patch=[{"at": -1, "hex": "7f"}])],
    )
    s.close()


@scenario(
    "append",
    "max.message.bytes is compared with the whole batch, strictly: equal passes, one byte more does not; a follower is not asked.",
)
def append_max_message_bytes(s):
    s.open({"max.message.bytes": 150})
    s.append(rec("k", fill(80), T0)).append(rec("k", fill(79), T0)).append(
        rec("k", fill(81), T0)
    )
    s.append(rec("k", fill(400), T0))
    s.follow(batch(rec("k", fill(400), T0), base=3))
    s.close()


@scenario(
    "append",
    "A set larger than segment.bytes is refused, an equal one passes; the refused one has left its leader epoch behind.",
)
def append_larger_than_segment(s):
    s.open({"segment.bytes": 200}).become_leader(epoch=0)
    s.append(rec("k", fill(129), T0)).append(rec("k", fill(130), T0)).append(
        rec("k", fill(131), T0)
    )
    s.append(rec("k", fill(300), T0), leader_epoch=7)
    s.tree().close()


@scenario("append", "Bytes after the last whole batch are cut off without an error.")
def append_partial_tail(s):
    s.open()
    s.append(rec("a", "1", T0), tail="0000000000000001000000")
    s.append(rec("b", "2", T0), tail="00000000000000010000003200000000024142")
    s.follow(
        batch(rec("c", "3", T0), base=2),
        batch(rec("d", "4", T0), base=3),
        tail="000000000000000400000100",
    )
    s.read(0).close()


@scenario(
    "append",
    "A compacted topic refuses records without key, all of them reported; nothing of the batch is written.",
)
def append_null_key_compacted(s):
    s.open({"cleanup.policy": "compact"})
    s.append(
        rec("a", "1", T0), rec(None, "2", T0), rec("b", "3", T0), rec(None, "4", T0)
    )
    s.append(rec("", "empty key is a key", T0)).close()


@scenario(
    "append",
    "Timestamps may be as far off as before/after allow, borders included; all offenders are reported; -1 is refused only by LogAppendTime flags.",
)
def append_timestamp_range(s):
    s.open(
        {"message.timestamp.before.max.ms": 1000, "message.timestamp.after.max.ms": 500}
    )
    s.append(rec("a", "1", T0 - 1000), rec("b", "2", T0 + 500))
    s.append(rec("a", "1", T0 - 1001), rec("b", "2", T0), rec("c", "3", T0 + 501))
    s.append(rec("a", "1", -1))
    s.append(rec("a", "1", T0), timestamp_type="LogAppendTime", log_append_time=T0)
    s.append(rec("a", "1", -1), timestamp_type="LogAppendTime", log_append_time=-1)
    s.segments().close()


@scenario(
    "append",
    "message.timestamp.after.max.ms is one hour if nothing is set (since 4.0).",
)
def append_timestamp_default_hour(s):
    s.open({"message.timestamp.after.max.ms": None})
    s.append(rec("a", "1", T0 + 3600000)).append(rec("a", "1", T0 + 3600001)).append(
        rec("a", "1", 0)
    ).close()


@scenario(
    "append",
    "LogAppendTime writes the clock into the batch's max timestamp and sets the flag; record deltas stay; the checksum is made anew.",
)
def append_log_append_time(s):
    s.open({"message.timestamp.type": "LogAppendTime"})
    s.append(rec("a", "1", T0 - 5000), rec("b", "2", T0 - 4000))
    s.advance(250).append(rec("c", "3", T0 + 99999999))
    s.append(rec("c", "3", T0), codec="gzip")
    s.append(rec("c", "3", T0), timestamp_type="LogAppendTime", log_append_time=T0)
    s.op("offset_for_timestamp", timestamp=T0 + 1).op(
        "offset_for_timestamp", timestamp=-3
    ).segments().close()


@scenario(
    "append", "A max timestamp that does not fit the records is corrected on append."
)
def append_max_timestamp_corrected(s):
    s.open()
    s.append(
        rec("a", "1", T0),
        rec("b", "2", T0 + 7),
        patch=[{"at": 35, "hex": "0000018bcfe6ffff"}],
        recrc=True,
    )
    s.follow(
        batch(
            rec("a", "1", T0 + 1),
            base=2,
            patch=[{"at": 35, "hex": "0000018bcfe6ffff"}],
            recrc=True,
        )
    )
    s.segments().close()


@scenario(
    "append",
    "Clients may not write control batches; a negative sequence with a producer id is refused.",
)
def append_client_control(s):
    s.open()
    s.marker(5, 0, "commit", origin="client")
    s.append(
        rec("a", "1", T0),
        patch=[{"at": 43, "hex": "00000000000000070000ffffffff"}],
        recrc=True,
    )
    s.append(rec("a", "1", T0)).close()


@scenario(
    "append",
    "A batch whose codec is the topic's (or the topic says producer) is written with its compressed bytes untouched.",
)
def append_codecs_in_place(s):
    s.open({"segment.bytes": 100000})
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        s.append(
            *[rec(f"{codec}{i}", fill(200), T0 + i) for i in range(5)], codec=codec
        )
    s.hw().read(0).op("offset_for_timestamp", timestamp=T0 + 3).op(
        "offset_for_timestamp", timestamp=-3
    ).segments().close()


@scenario(
    "append",
    "Levels do not matter for writing in place: a gzip batch of level 1 stays on a topic of level 9.",
)
def append_codec_level(s):
    s.open({"compression.type": "gzip", "compression.gzip.level": 9})
    s.append(
        *[rec(f"k{i}", fill(100), T0) for i in range(4)], codec="gzip", level=1
    ).close()


@scenario(
    "append",
    "A topic codec other than the batch's makes the broker compress anew; markers stay uncompressed.",
    "content",
)
def append_recompressed(s):
    s.open({"compression.type": "gzip", "segment.bytes": 100000})
    s.append(*[rec(f"k{i}", fill(100), T0 + i) for i in range(6)])
    s.append(*[rec(f"k{i}", fill(100), T0 + i) for i in range(6)], codec="zstd")
    s.txn(3, 0, 0, rec("t", "1", T0)).marker(3, 0, "commit")
    s.hw().op("offset_for_timestamp", timestamp=T0 + 3).close()


@scenario("append", "compression.type=uncompressed unpacks a compressed batch.")
def append_uncompressed_topic(s):
    s.open({"compression.type": "uncompressed", "segment.bytes": 100000})
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        s.append(
            *[
                rec(f"{codec}{i}", fill(50), T0 + i, headers=[["h", "1"]])
                for i in range(3)
            ],
            codec=codec,
        )
    s.idem(
        9, 1, 4, rec("a", "1", T0), rec("b", "2", T0), codec="gzip"
    ).producers().close()


@scenario(
    "append",
    "Old formats sent to a leader are converted to v2; through a follower they are stored as they are, and clear the leader epochs.",
)
def append_old_formats(s):
    s.open({"segment.bytes": 100000}).become_leader(epoch=2)
    s.op(
        "append",
        batches=[
            {"magic": 1, "records": [rec("a", "1", T0)]},
            {"magic": 1, "records": [rec("b", "2", T0 + 1)]},
        ],
    )
    s.op("append", batches=[{"magic": 0, "records": [rec("c", "3")]}])
    s.op(
        "append",
        batches=[
            {
                "magic": 1,
                "codec": "gzip",
                "records": [rec("d", fill(50), T0), rec("e", fill(50), T0 + 3)],
            }
        ],
    )
    s.follow({"magic": 1, "base_offset": 5, "records": [rec("f", "6", T0 + 9)]})
    s.follow({"magic": 0, "base_offset": 6, "records": [rec("g", "7")]})
    s.follow(
        {
            "magic": 1,
            "codec": "gzip",
            "base_offset": 7,
            "records": [rec("h", fill(60), T0 + 20), rec("i", fill(60), T0 + 21)],
        }
    )
    s.hw().read(5).segments().close()


@scenario(
    "append",
    "Records without timestamps: nothing goes into the time index, lookups use the file's modification time.",
)
def append_no_timestamps(s):
    s.open({"index.interval.bytes": 0})
    for i in range(5):
        s.append(rec(f"k{i}", fill(50), -1))
    s.hw().set_mtime(file=seg(0), to=T0 + 5000)
    s.op("offset_for_timestamp", timestamp=T0).op(
        "offset_for_timestamp", timestamp=-3
    ).segments().close()


@scenario(
    "append",
    "A Raft leader brings offsets and its epoch itself; a wrong epoch is refused.",
)
def append_raft_leader(s):
    s.open()
    s.append(rec("a", "1", T0), base_offset=0, origin="raft_leader", leader_epoch=1)
    s.op(
        "append",
        origin="raft_leader",
        leader_epoch=1,
        batches=[
            batch(rec("a", "1", T0), base=0, epoch=1),
            batch(rec("b", "2", T0), base=1, epoch=1),
        ],
    )
    s.op(
        "append",
        origin="raft_leader",
        leader_epoch=2,
        batches=[batch(rec("c", "3", T0), base=2, epoch=1)],
    )
    s.close()
