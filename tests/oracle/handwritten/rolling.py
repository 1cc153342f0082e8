"""Handwritten scenarios: rolling and indexes."""

from tests.oracle.handwritten.register import scenario, ten
from tests.oracle.scenario import T0, batch, fill, rec


@scenario(
    "roll",
    "A segment may be filled exactly to segment.bytes; one byte more rolls first.",
)
def roll_by_size(s):
    s.open({"segment.bytes": 300})
    s.append(rec("k", fill(80), T0)).append(rec("k", fill(80), T0)).append(
        rec("k", fill(80), T0)
    ).append(rec("k", fill(1), T0)).tree().close()


@scenario(
    "roll",
    "Index entries come once more than index.interval.bytes lie behind the last one; the first batch of a segment never gets one.",
)
def roll_index_interval(s):
    s.open({"segment.bytes": 100000, "index.interval.bytes": 100})
    ten(s, size=20)
    s.append(rec("late", fill(300), T0 + 50)).append(rec("x", "1", T0 + 60)).append(
        rec("y", "1", T0 + 100000)
    ).append(rec("y", "1", T0 + 100000))
    s.segments().tree().close()


@scenario(
    "roll",
    "Time rolls compare the timestamps coming in with that of the first batch, strictly; the clock has no part in it.",
)
def roll_by_time(s):
    s.open({"segment.ms": 1000})
    s.append(rec("a", "1", T0)).advance(50000).append(rec("b", "2", T0 + 1000)).append(
        rec("c", "3", T0 + 1001)
    ).append(rec("d", "4", T0 - 99999))
    s.append(rec("e", "5", T0 + 2002)).close()


@scenario(
    "roll",
    "Without timestamps the clock counts, from the moment the segment was opened; an empty segment never rolls by time.",
)
def roll_by_clock(s):
    s.open({"segment.ms": 1000}).advance(5000)
    s.append(rec("a", "1", -1)).advance(1).append(rec("b", "2", -1)).advance(500)
    s.close().open().append(rec("c", "3", -1)).advance(1000).append(
        rec("d", "4", -1)
    ).advance(1).append(rec("e", "5", -1)).close()


@scenario("roll", "A full offset index rolls, however small the segment.")
def roll_offset_index_full(s):
    s.open(
        {"segment.bytes": 100000, "segment.index.bytes": 40, "index.interval.bytes": 0}
    )
    for i in range(9):
        s.append(rec(f"k{i}", "v", T0))
    s.tree().close()


@scenario(
    "roll",
    "The time index counts as full one entry early: the last slot is kept for the closing entry.",
)
def roll_time_index_full(s):
    s.open(
        {"segment.bytes": 100000, "segment.index.bytes": 48, "index.interval.bytes": 0}
    )
    for i in range(9):
        s.append(rec(f"k{i}", "v", T0 + i))
    s.segments().tree().close()


@scenario(
    "roll",
    "Rolling on request: an empty active segment is replaced by one of the same base; indexes are trimmed.",
)
def roll_on_request(s):
    s.open()
    s.roll()
    s.append(rec("a", "1", T0)).roll().roll().append(rec("b", "2", T0)).roll(
        offset=10
    ).append(rec("c", "3", T0))
    s.tree().advance(1000).tree().close()


@scenario(
    "roll",
    "A rolled, never written segment has no index files until something asks for them.",
)
def roll_lazy_indexes(s):
    s.open()
    ten(s, count=2)
    s.roll().crash().open().close()


@scenario(
    "roll",
    "Preallocation: the active .log is segment.bytes long and trimmed when rolled or closed; after a crash the zeros are cut.",
)
def roll_preallocate(s):
    s.open({"preallocate": True, "segment.bytes": 400})
    ten(s, count=4)
    s.tree().crash().open().tree().append(rec("z", "1", T0 + 9)).close()


@scenario("roll", "On a compacted topic max.compaction.lag.ms caps segment.ms.")
def roll_compaction_lag(s):
    s.open(
        {
            "cleanup.policy": "compact",
            "segment.ms": 10000,
            "max.compaction.lag.ms": 1000,
        }
    )
    s.append(rec("a", "1", T0)).append(rec("b", "2", T0 + 1000)).append(
        rec("c", "3", T0 + 1001)
    ).close()


@scenario(
    "roll",
    "The roll happens before the producer's sequence is looked at: a refused batch has rolled the segment.",
)
def roll_before_sequence_check(s):
    s.open({"segment.bytes": 200})
    s.idem(4, 0, 0, rec("a", fill(80), T0)).idem(4, 0, 7, rec("b", fill(80), T0)).idem(
        4, 0, 0, rec("a", fill(80), T0)
    ).close()


@scenario("roll", "Offsets further than 2147483647 from the base roll.")
def roll_offset_range(s):
    s.open({"segment.bytes": 100000})
    s.follow(batch(rec("a", "1", T0), base=0)).follow(
        batch(rec("b", "2", T0), base=2147483647)
    ).follow(batch(rec("c", "3", T0), base=2147483648))
    s.hw().read(1).read(2147483648).close()


@scenario(
    "roll",
    "One append of many batches can meet a full index half-way: its bytes stay in the file, the log end does not move, and neither appending nor recovery works until the index may be larger.",
)
def roll_index_overrun(s):
    s.open(
        {"segment.bytes": 100000, "segment.index.bytes": 24, "index.interval.bytes": 0}
    )
    s.follow(*[batch(rec(f"k{i}", "v", T0 + i), base=i) for i in range(8)]).tree()
    s.follow(batch(rec("again", "v", T0 + 9), base=0)).hw().read(0).crash().open(
        recovery_point=0
    )
    s.open(
        {
            "segment.bytes": 100000,
            "segment.index.bytes": 240,
            "index.interval.bytes": 0,
        },
        recovery_point=0,
    ).segments().close()
