"""Handwritten scenarios: reading and lookups."""

from tests.oracle.handwritten.register import scenario, ten
from tests.oracle.scenario import T0, fill, rec


@scenario(
    "read",
    "The slice starts at the batch holding the offset (and that is the offset answered), ends at the limit or inside a batch; one segment per read. A high watermark inside a batch goes back to the batch's start at the first read that asks for it.",
)
def read_slices(s):
    s.open({"segment.bytes": 500})
    for i in range(6):
        s.append(rec(f"a{i}", fill(40), T0 + i), rec(f"b{i}", fill(40), T0 + i))
    s.hw(7)
    for offset in (0, 1, 5, 11, 12, 13, -1):
        s.read(offset)
    for isolation in ("log_end", "high_watermark", "read_committed"):
        s.read(6, isolation=isolation).read(7, isolation=isolation).read(
            9, isolation=isolation
        )
    s.read(0, max_bytes=0).read(0, max_bytes=0, min_one_message=False).read(
        0, max_bytes=10
    ).read(0, max_bytes=10, min_one_message=False)
    s.read(0, max_bytes=250).read(0, max_bytes=-1).close()


@scenario(
    "read",
    "By timestamp: the first segment whose largest timestamp reaches the target is the only one looked into.",
)
def read_by_timestamp(s):
    s.open({"segment.bytes": 300, "index.interval.bytes": 0})
    for i, t in enumerate((0, 10, 5, 40, 20, 30, 25, 60, 60, 50)):
        s.append(rec(f"k{i}", fill(50), T0 + t))
    for t in (0, 1, 10, 11, 31, 41, 60, 61):
        s.op("offset_for_timestamp", timestamp=T0 + t)
    for special in (-1, -2, -3, -4, -5, -6):
        s.op("offset_for_timestamp", timestamp=special)
    s.hw().delete_records(offset=4).op("offset_for_timestamp", timestamp=T0).op(
        "offset_for_timestamp", timestamp=-2
    )
    s.op("offset_for_timestamp", timestamp=T0 + 35).close()


@scenario(
    "read",
    "The high watermark is held between log start and log end; it may go back; a leader's own update may not exceed the end.",
)
def read_high_watermark(s):
    s.open()
    ten(s, count=4)
    s.hw(99).hw(2).hw(-5).hw(3, "leader").hw(2, "leader").hw(5, "leader").hw(
        1, "follower"
    ).hw(1, "follower").close()
