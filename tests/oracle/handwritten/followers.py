"""Handwritten scenarios: follower."""

from tests.oracle.handwritten.register import scenario
from tests.oracle.scenario import T0, batch, fill, rec


@scenario(
    "follower",
    "A follower takes offsets and epochs as they come, gaps included; a roll names the segment after the coming offset.",
)
def follower_gaps_and_epochs(s):
    s.open({"segment.bytes": 300})
    s.follow(
        batch(rec("a", fill(60), T0), rec("b", fill(60), T0), base=0, epoch=0),
        leader_epoch=5,
    )
    s.follow(batch(rec("c", fill(60), T0 + 1), base=10, epoch=2), leader_epoch=5)
    s.follow(
        batch(rec("d", fill(60), T0 + 2), base=20, epoch=2),
        batch(rec("e", fill(20), T0 + 3), base=30, epoch=4),
        leader_epoch=5,
    )
    s.hw().read(2).read(11).op("offset_for_epoch", epoch=0).op(
        "offset_for_epoch", epoch=2
    ).op("offset_for_epoch", epoch=3)
    s.op("offset_for_epoch", epoch=4).op("offset_for_epoch", epoch=9).op(
        "offset_for_epoch", epoch=-1
    ).tree().close()


@scenario(
    "follower", "Offsets below the log end are refused; so are sets that do not ascend."
)
def follower_refused(s):
    s.open()
    s.follow(batch(rec("a", "1", T0), rec("b", "2", T0), base=0))
    s.follow(batch(rec("c", "3", T0), base=1))
    s.follow(batch(rec("c", "3", T0), base=5), batch(rec("d", "4", T0), base=5))
    s.follow(batch(rec("c", "3", T0), base=6), batch(rec("d", "4", T0), base=4))
    s.follow(batch(rec("c", "3", T0), base=2)).close()


@scenario(
    "follower",
    "Batches of a higher leader epoch than the follower's own are left out, with all behind them (since 4.0).",
)
def follower_higher_epoch_skipped(s):
    s.open()
    s.follow(
        batch(rec("a", "1", T0), base=0, epoch=1),
        batch(rec("b", "2", T0), base=1, epoch=3),
        batch(rec("c", "3", T0), base=2, epoch=1),
        leader_epoch=2,
    )
    s.follow(batch(rec("b", "2", T0), base=1, epoch=3), leader_epoch=2)
    s.follow(batch(rec("b", "2", T0), base=1, epoch=3), leader_epoch=3).close()


@scenario(
    "follower",
    "One append of many batches makes an index entry per batch as the interval asks, not one per append.",
)
def follower_index_per_batch(s):
    s.open({"segment.bytes": 100000, "index.interval.bytes": 200})
    s.follow(
        *[batch(rec(f"k{i}", fill(80), T0 + (i * 37) % 100), base=i) for i in range(8)]
    )
    s.follow(
        *[batch(rec(f"k{i}", fill(80), T0 + 50 + i), base=i) for i in range(8, 14)]
    )
    s.segments().close()


@scenario(
    "follower",
    "The rolling timestamp of a segment is that of its first batch, not of the first append.",
)
def follower_roll_timestamp_of_first_batch(s):
    s.open({"segment.bytes": 100000, "segment.ms": 1000})
    s.follow(batch(rec("a", "1", T0), base=0), batch(rec("b", "2", T0 + 900), base=1))
    s.follow(batch(rec("c", "3", T0 + 1000), base=2))
    s.follow(batch(rec("d", "4", T0 + 1001), base=3)).close()
