"""Handwritten scenarios: idempotent producers."""

from tests.oracle.handwritten.register import scenario
from tests.oracle.scenario import T0, rec


@scenario(
    "producers",
    "A batch among the last five of its producer is a duplicate: its old offsets come back and nothing is written.",
)
def producers_duplicates(s):
    s.open({"segment.bytes": 100000})
    for i in range(7):
        s.idem(5, 0, 2 * i, rec(f"k{i}", "1", T0 + i), rec(f"k{i}", "2", T0 + i))
    for i in (0, 1, 2, 4, 6):
        s.idem(5, 0, 2 * i, rec(f"k{i}", "1", T0 + i), rec(f"k{i}", "2", T0 + i))
    s.idem(5, 0, 4, rec("part", "1", T0)).idem(
        5, 0, 12, rec("k", "1", T0), rec("k", "2", T0), rec("k", "3", T0)
    ).producers().close()


@scenario(
    "producers",
    "Sequences must follow on; a new epoch starts at 0; an old epoch is refused; an unknown producer may start anywhere.",
)
def producers_sequences(s):
    s.open({"segment.bytes": 100000})
    s.idem(1, 0, 40, rec("a", "1", T0)).idem(1, 0, 42, rec("a", "1", T0)).idem(
        1, 0, 41, rec("a", "1", T0)
    )
    s.idem(1, 1, 3, rec("a", "1", T0)).idem(1, 1, 0, rec("a", "1", T0)).idem(
        1, 0, 42, rec("a", "1", T0)
    ).idem(1, 1, 1, rec("a", "1", T0))
    s.idem(1, 5, 0, rec("a", "1", T0)).producers().close()


@scenario("producers", "After sequence 2147483647 comes 0, also inside a batch.")
def producers_sequence_wrap(s):
    s.open({"segment.bytes": 100000})
    s.idem(
        1, 0, 2147483646, rec("a", "1", T0), rec("b", "1", T0), rec("c", "1", T0)
    ).idem(1, 0, 1, rec("d", "1", T0))
    s.idem(2, 0, 2147483647, rec("a", "1", T0)).idem(2, 0, 0, rec("b", "1", T0)).idem(
        2, 0, 2, rec("b", "1", T0)
    )
    s.idem(
        1, 0, 2147483646, rec("a", "1", T0), rec("b", "1", T0), rec("c", "1", T0)
    ).producers().close()


@scenario(
    "producers",
    "A producer is forgotten when its last record timestamp is old enough, not its last arrival; one with an open transaction stays.",
)
def producers_expiry(s):
    s.open(producer_id_expiration_ms=1000, producer_id_expiration_check_interval_ms=500)
    s.idem(1, 0, 0, rec("a", "1", T0)).idem(2, 0, 0, rec("a", "1", T0 + 600)).txn(
        3, 0, 0, rec("a", "1", T0 - 5000)
    ).idem(4, 0, 0, rec("a", "1", T0 - 999999))
    s.producers().advance(499).producers().advance(1).producers().advance(
        500
    ).producers().advance(600).producers()
    s.marker(3, 0, "commit", timestamp=T0).advance(500).producers().idem(
        1, 0, 17, rec("a", "1", T0 + 99999)
    ).close()


@scenario(
    "producers",
    "A snapshot holds the last batch of each producer only: after reopening older duplicates are refused as out of order.",
)
def producers_snapshot_window(s):
    s.open()
    for i in range(4):
        s.idem(5, 0, i, rec(f"k{i}", "1", T0 + i))
    s.idem(21, 0, 0, rec("z", "1", T0)).idem(37, 0, 0, rec("z", "1", T0)).idem(
        3, 0, 0, rec("z", "1", T0)
    )
    s.close().open().producers().idem(5, 0, 3, rec("k3", "1", T0 + 3)).idem(
        5, 0, 2, rec("k2", "1", T0 + 2)
    ).close()
