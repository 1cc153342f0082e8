"""Handwritten scenarios: closing, crashing, recovery."""

from tests.oracle.handwritten.register import scenario, ten
from tests.oracle.scenario import T0, fill, rec, seg


def crashed(s, count=9, config=None, **more):
    s.open({"segment.bytes": 300, **(config or {})}, **more)
    ten(s, count=count)
    return s.hw()


@scenario(
    "recovery",
    "A clean close trims the indexes and closes the time index; opening grows those of the last segment again; nothing is scanned.",
)
def recovery_clean(s):
    crashed(s).tree().close(checkpoints=True).tree().open().tree().append(
        rec("n", "1", T0 + 99999)
    ).close()


@scenario(
    "recovery",
    "After a crash every segment from the recovery point up is read and its indexes are rebuilt.",
)
def recovery_crash(s):
    crashed(s, config={"index.interval.bytes": 0}).crash().tree().open(
        recovery_point=0
    ).segments().close()


@scenario("recovery", "A torn last batch is cut off.")
def recovery_torn_tail(s):
    crashed(s).crash().damage(seg(8), "truncate", to=-30).open().read(8).append(
        rec("n", "1", T0)
    ).close()


@scenario("recovery", "A flipped bit ends the log there; later segments are deleted.")
def recovery_bit_in_the_middle(s):
    crashed(s, tasks="manual").crash().damage(seg(2), "xor", at=200, mask=1).open(
        recovery_point=0, tasks="auto"
    ).tree().advance(1000).tree().append(rec("n", "1", T0)).close()


@scenario(
    "recovery",
    "Damage below the recovery point, or after a clean close, is not noticed.",
)
def recovery_damage_unnoticed(s):
    crashed(s).crash().damage(seg(2), "xor", at=200, mask=1).open(
        recovery_point=4
    ).close().damage(seg(8), "xor", at=70, mask=1).open().read(8).close()


@scenario(
    "recovery",
    "A missing offset index makes one segment be recovered; a missing time index is only made anew, empty.",
)
def recovery_missing_indexes(s):
    crashed(s, config={"index.interval.bytes": 0}).close().damage(
        seg(2, "index"), "delete"
    ).damage(seg(4, "timeindex"), "delete").open().segments().close()


@scenario(
    "recovery",
    "Recovery through a missing index cuts a bad batch but leaves later segments: a hole stays.",
)
def recovery_hole(s):
    crashed(s).close().damage(seg(2, "index"), "delete").damage(
        seg(2), "xor", at=200, mask=1
    ).open().read(2).read(3).close()


@scenario(
    "recovery", "Leftovers: .deleted and .cleaned go, an index without its log goes."
)
def recovery_leftovers(s):
    crashed(s, count=4).close()
    s.damage(seg(0) + ".deleted", "create", text="x").damage(
        seg(2) + ".cleaned", "create", text="x"
    ).damage(seg(77, "index"), "create", text="12345678")
    s.damage(seg(78, "timeindex"), "create", text="").damage(
        seg(79, "txnindex"), "create", text=""
    ).damage("other.txt", "create", text="kept")
    s.open().tree().close()


@scenario(
    "recovery",
    "A finished swap wins over the segments it replaces; with a .cleaned of a lower base it is thrown away.",
)
def recovery_swap(s):
    crashed(s, count=6).close()
    for base in (0, 2):
        for suffix in ("log", "index", "timeindex"):
            s.damage(seg(base, suffix), "copy", to=seg(base, suffix) + ".swap")
    s.damage(seg(0) + ".swap", "truncate", to=136).open().tree().read(0).read(1).close()
    for suffix in ("log", "index", "timeindex"):
        s.damage(seg(4, suffix), "copy", to=seg(4, suffix) + ".swap")
    s.damage(seg(3) + ".cleaned", "create", text="").open().tree().close()


@scenario("recovery", "A damaged snapshot is deleted and an older one used.")
def recovery_snapshot(s):
    s.open({"segment.bytes": 300})
    for i in range(9):
        s.idem(1 + i % 2, 0, i // 2, rec(f"k{i}", fill(60), T0 + i))
    s.close().tree().damage(
        seg(9, "snapshot"), "xor", at=20, mask=1
    ).open().producers().close()
    s.damage(seg(9, "snapshot"), "delete").damage(
        seg(8, "snapshot"), "truncate", to=30
    ).open().producers().tree().close()


@scenario(
    "recovery",
    "Clean and without any snapshot: the producers are not looked for (the upgrade case); unclean: they are.",
)
def recovery_no_snapshot(s):
    s.open({"segment.bytes": 300})
    for i in range(5):
        s.idem(1 + i % 2, 0, i // 2, rec(f"k{i}", fill(60), T0 + i))
    s.close()
    for offset in (2, 4, 5):
        s.damage(seg(offset, "snapshot"), "delete")
    s.open().producers().tree().crash()
    for offset in (2, 4, 5):
        s.damage(seg(offset, "snapshot"), "delete")
    s.open().producers().close()


@scenario(
    "recovery",
    "An open transaction comes back from the snapshot and the log; its abort later finds its first offset.",
)
def recovery_transaction(s):
    s.open({"segment.bytes": 300}).txn(1, 0, 0, rec("a", fill(60), T0)).txn(
        2, 0, 0, rec("b", fill(60), T0)
    ).txn(1, 0, 1, rec("c", fill(60), T0)).marker(2, 0, "abort").txn(
        1, 0, 2, rec("d", fill(60), T0)
    )
    s.crash().open(recovery_point=0).hw().producers().marker(
        1, 0, "abort"
    ).hw().aborted_transactions(**{"from": 0, "to": 99}).tree()
    s.crash().open(recovery_point=0).aborted_transactions(
        **{"from": 0, "to": 99}
    ).close()


@scenario(
    "recovery",
    "A log start beyond the end of the log throws all segments away and starts there.",
)
def recovery_start_beyond_end(s):
    crashed(s).close().open(log_start_offset=50).tree().append(
        rec("n", "1", T0)
    ).advance(1000).close()


@scenario(
    "recovery",
    "Epochs missing from the file are found in the batches by recovery, not by a clean start.",
)
def recovery_epochs(s):
    s.open({"segment.bytes": 300})
    for i in range(6):
        s.append(rec(f"k{i}", fill(60), T0), leader_epoch=i // 2 * 3)
    s.crash().damage("leader-epoch-checkpoint", "create", text="0\n1\n0 0\n").open(
        recovery_point=0
    ).close()
    s.damage(
        "leader-epoch-checkpoint", "create", text="0\n2\n0 0\n9 40\n"
    ).open().close()
    s.damage("leader-epoch-checkpoint", "create", text="0\n5\n0 0\n").open().close()


@scenario(
    "recovery",
    "Tasks that had not run at the crash are lost: files renamed to .deleted go at the next start, the recovery point stays behind.",
)
def recovery_pending_tasks(s):
    s.open({"segment.bytes": 300, "retention.bytes": 300}, tasks="manual")
    ten(s, count=7)
    s.hw().retention().tree().crash().open().tree().close()


@scenario(
    "recovery",
    "flush.messages flushes within the append once so many records are unflushed; flushing on request moves the recovery point.",
)
def recovery_flush(s):
    s.open({"flush.messages": 3})
    ten(s, count=7)
    s.flush().flush(offset=3).flush(active=True).close()
