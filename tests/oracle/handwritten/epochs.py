"""Handwritten scenarios: leader epochs and truncation."""

from tests.oracle.handwritten.register import scenario, ten
from tests.oracle.scenario import T0, fill, rec


@scenario(
    "epochs",
    "Assigning an epoch removes every entry at the tail with a higher or equal epoch or start.",
)
def epochs_assign(s):
    s.open()
    for epoch, offset in (
        (0, 0),
        (1, 5),
        (1, 9),
        (3, 9),
        (5, 20),
        (4, 30),
        (4, 12),
        (6, 12),
        (2, 40),
        (-1, 50),
    ):
        s.assign_epoch(epoch=epoch, offset=offset)
    s.tree().close()


@scenario(
    "epochs",
    "The end of an epoch is the start of the next higher one; the latest ends at the log end.",
)
def epochs_end_offset(s):
    s.open()
    s.append(rec("a", "1", T0), rec("b", "2", T0), leader_epoch=2).append(
        rec("c", "3", T0), leader_epoch=4
    ).append(rec("d", "4", T0), leader_epoch=4)
    s.become_leader(epoch=7)
    for epoch in range(-1, 9):
        s.op("offset_for_epoch", epoch=epoch)
    s.close()


@scenario(
    "epochs",
    "Cutting at the front keeps the last epoch cut off, starting at the new log start; the file is written in the background.",
)
def epochs_cut_front(s):
    s.open(tasks="manual")
    for epoch in range(5):
        s.append(rec("a", "1", T0), rec("b", "2", T0), leader_epoch=epoch)
    s.hw().delete_records(offset=5).tree().run_tasks().tree().crash().open(
        tasks="auto"
    ).close()


@scenario(
    "truncation",
    "The whole batch holding the target goes, yet the log end is the target; epochs and indexes follow.",
)
def truncation_inside_batch(s):
    s.open({"segment.bytes": 100000, "index.interval.bytes": 100})
    for i in range(6):
        s.append(
            *[rec(f"k{i}{j}", fill(30), T0 + i * 10 + j) for j in range(3)],
            leader_epoch=i,
        )
    s.hw().truncate_to(offset=10).segments().tree().read(8).read(9).append(
        rec("n", "1", T0 + 500), leader_epoch=9
    ).read(8).close()


@scenario(
    "truncation",
    "Segments above the target go to .deleted; one that starts at the target stays, empty.",
)
def truncation_across_segments(s):
    s.open({"segment.bytes": 300})
    ten(s, count=9)
    s.hw().truncate_to(offset=6).tree().truncate_to(offset=4).advance(
        1000
    ).tree().append(rec("n", "1", T0)).close()


@scenario(
    "truncation",
    "At or above the log end nothing happens, but an unused epoch is forgotten.",
)
def truncation_nothing(s):
    s.open().append(rec("a", "1", T0), leader_epoch=0).become_leader(
        epoch=5
    ).truncate_to(offset=1).become_leader(epoch=6).truncate_to(offset=9)
    s.truncate_to(offset=-1).close()


@scenario("truncation", "Below the first segment the log starts anew at the target.")
def truncation_below_first(s):
    s.open({"segment.bytes": 300, "retention.bytes": 300})
    ten(s, count=9)
    s.hw().retention().truncate_to(offset=2).append(rec("n", "1", T0)).advance(
        1000
    ).close()


@scenario(
    "truncation",
    "Starting anew at an offset drops segments, epochs, producers and snapshots; the log start may be lower.",
)
def truncation_fully(s):
    s.open({"segment.bytes": 300})
    for i in range(6):
        s.idem(1, 0, i, rec(f"k{i}", fill(60), T0 + i), leader_epoch=i)
    s.hw().truncate_fully(offset=100).append(rec("n", "1", T0)).truncate_fully(
        offset=101
    ).truncate_fully(offset=50, log_start_offset=20)
    s.advance(1000).tree().close()


@scenario(
    "truncation",
    "Producer state goes back to the newest snapshot below the target and is replayed from there; only the last batch of each comes back from a snapshot.",
)
def truncation_producers(s):
    s.open({"segment.bytes": 330})
    for i in range(9):
        s.idem(1 + i % 3, 0, i // 3, rec(f"k{i}", fill(60), T0 + i))
    s.hw().producers().truncate_to(offset=7).producers().truncate_to(
        offset=4
    ).producers().tree()
    s.idem(1, 0, 2, rec("n", "1", T0)).idem(
        2, 0, 0, rec("dup", "1", T0)
    ).producers().close()


@scenario(
    "truncation",
    "A transaction whose marker is cut off is open again, and its entry in the transaction index is gone.",
)
def truncation_transaction(s):
    s.open()
    s.txn(1, 0, 0, rec("a", "1", T0)).txn(2, 0, 0, rec("b", "1", T0)).marker(
        1, 0, "abort"
    ).marker(2, 0, "abort").append(rec("x", "1", T0)).hw()
    s.aborted_transactions(**{"from": 0, "to": 9}).truncate_to(
        offset=3
    ).producers().aborted_transactions(**{"from": 0, "to": 9}).hw().read(
        0, isolation="read_committed"
    )
    s.truncate_to(offset=2).hw().marker(1, 0, "commit").close()
