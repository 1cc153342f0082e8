"""Handwritten scenarios: transactions."""

from tests.oracle.handwritten.register import scenario
from tests.oracle.scenario import T0, fill, rec


@scenario(
    "transactions",
    "The last stable offset stops at the first open transaction, then at one whose marker the high watermark has not passed.",
)
def transactions_last_stable_offset(s):
    s.open()
    s.append(rec("x", "1", T0)).txn(1, 0, 0, rec("a", "1", T0)).append(
        rec("y", "1", T0)
    ).hw().marker(1, 0, "commit").hw(3).hw(4)
    s.read(0, isolation="read_committed").close()


@scenario(
    "transactions",
    "Aborted transactions are listed with a read_committed read and in the index, with the last stable offset after them.",
)
def transactions_aborted(s):
    s.open({"segment.bytes": 400})
    s.txn(1, 0, 0, rec("a", fill(60), T0)).txn(2, 0, 0, rec("b", fill(60), T0 + 1)).txn(
        1, 0, 1, rec("c", fill(60), T0 + 2)
    )
    s.marker(1, 0, "abort").txn(2, 0, 1, rec("d", fill(60), T0 + 3)).marker(
        2, 0, "commit"
    ).txn(1, 0, 2, rec("e", fill(60), T0 + 4)).marker(1, 0, "abort", coordinator=1)
    s.hw()
    for offset in (0, 2, 4, 7):
        s.read(offset, isolation="read_committed")
    s.aborted_transactions(**{"from": 0, "to": 99}).aborted_transactions(
        **{"from": 4, "to": 5}
    ).producers().tree().close()


@scenario(
    "transactions",
    "A marker for a producer without open transaction is written, recorded, and completes nothing.",
)
def transactions_empty_marker(s):
    s.open().marker(1, 0, "abort").marker(
        2, 3, "commit", coordinator=5
    ).hw().producers().txn(1, 0, 0, rec("a", "1", T0)).txn(
        2, 3, 9, rec("a", "1", T0)
    ).txn(2, 3, 0, rec("a", "1", T0)).close()


@scenario(
    "transactions",
    "Markers of an older producer epoch or an older coordinator are refused.",
)
def transactions_fencing(s):
    s.open().txn(1, 4, 0, rec("a", "1", T0)).marker(1, 3, "abort").marker(
        1, 4, "commit", coordinator=7
    ).txn(1, 4, 1, rec("b", "1", T0))
    s.marker(1, 4, "commit", coordinator=6).marker(1, 5, "abort", coordinator=7).txn(
        1, 4, 2, rec("c", "1", T0)
    ).txn(1, 5, 0, rec("c", "1", T0)).producers().close()


@scenario(
    "transactions",
    "Inside a transaction plain records of the same producer are refused.",
)
def transactions_plain_record_inside(s):
    s.open().txn(1, 0, 0, rec("a", "1", T0)).idem(1, 0, 1, rec("b", "1", T0)).marker(
        1, 0, "commit"
    ).idem(1, 0, 1, rec("b", "1", T0)).close()


@scenario(
    "transactions",
    "Transaction version 2: the marker must carry a higher epoch than the data; a repeated one is let through.",
)
def transactions_version_two(s):
    s.open().txn(1, 0, 0, rec("a", "1", T0)).marker(
        1, 0, "commit", transaction_version=2
    ).marker(1, 1, "commit", transaction_version=2)
    s.marker(1, 1, "commit", transaction_version=2).txn(
        1, 1, 0, rec("a", "1", T0)
    ).marker(1, 1, "abort", transaction_version=1)
    s.marker(1, 1, "abort", transaction_version=-1).hw().producers().close()


@scenario(
    "transactions",
    "With verification on, the first batch of a transaction needs the guard of its producer; later ones do not.",
)
def transactions_verification(s):
    s.open(transaction_verification=True).txn(1, 0, 0, rec("a", "1", T0))
    s.start_verification(producer_id=1, sequence=0, epoch=0).txn(
        1, 0, 0, rec("a", "1", T0), verified_producer=1
    ).txn(1, 0, 1, rec("b", "1", T0))
    s.start_verification(producer_id=1, sequence=2, epoch=0).marker(1, 0, "commit").txn(
        1, 0, 2, rec("c", "1", T0)
    )
    s.start_verification(producer_id=2, sequence=3, epoch=0).txn(
        2, 0, 4, rec("c", "1", T0), verified_producer=2
    ).txn(2, 0, 3, rec("c", "1", T0), verified_producer=2)
    s.close()
