"""Transaction indexes that are appended to: their bytes, rejections and lookups."""

from struct import Struct

import pytest

from kafkalog.errors import CorruptIndexError, LogArgumentError, UnsupportedIndexError
from kafkalog.indexes.growing_txn_index import GrowingTransactionIndex
from kafkalog.indexes.txn_index import AbortedTransaction, TransactionIndex
from kafkalog.testing import FailingDisk, TracingDisk
from tests.indexes.golden import golden_indexes

SLOT = Struct(">hqqqq")
FIRST = AbortedTransaction(0, 0, 10, 11)
SECOND = AbortedTransaction(1, 5, 15, 13)
THIRD = AbortedTransaction(2, 18, 35, 25)
FOURTH = AbortedTransaction(3, 32, 50, 40)
ALL = [FIRST, SECOND, THIRD, FOURTH]


def filled(tmp_path, transactions=(), base=0, **options):
    index = GrowingTransactionIndex(tmp_path / "0.txnindex", base, **options)
    for transaction in transactions:
        index.append(transaction)
    return index


def test_there_is_no_file_until_a_transaction_is_aborted(tmp_path):
    disk = TracingDisk()
    index = filled(tmp_path, disk=disk)
    assert index.is_empty
    assert index.transactions() == []
    assert index.collect_aborted(0, 100) == ([], False)
    index.check()
    index.truncate_to(0)
    index.reset()
    index.flush()
    index.rename(tmp_path / "0.txnindex.deleted")
    index.close()
    assert not index.remove()
    assert list(tmp_path.iterdir()) == []
    assert {call[0] for call in disk.calls} == {"remove"}


def test_entries_are_kept_as_kafka_writes_them(tmp_path):
    index = filled(tmp_path, [AbortedTransaction(4242, 1000, 1005, 1006)])
    assert index.path.read_bytes().hex() == (
        "0000000000000000109200000000000003e800000000000003ed00000000000003ee"
    )
    assert not index.is_empty


def test_markers_must_ascend(tmp_path):
    index = filled(tmp_path, [SECOND])
    for last in (15, 14):
        with pytest.raises(LogArgumentError, match=f"{last}, expected above") as raised:
            index.append(AbortedTransaction(7, 3, last, 16))
        assert raised.value.kafka_name == "IllegalArgumentException"
    assert index.transactions() == [SECOND]


def test_existing_entries_are_not_compared_with_appended_ones(tmp_path):
    filled(tmp_path, [FIRST, SECOND]).close()
    reopened = filled(tmp_path)
    reopened.append(THIRD)
    assert reopened.transactions() == [FIRST, SECOND, THIRD]
    unordered = filled(tmp_path)
    unordered.append(FIRST)
    assert unordered.transactions() == [FIRST, SECOND, THIRD, FIRST]


def test_an_entry_is_appended_after_a_partial_one(tmp_path):
    index = filled(tmp_path)
    index.path.write_bytes(SLOT.pack(0, *FIRST) + b"torn")
    assert index.transactions() == [FIRST]
    index.append(SECOND)
    assert index.path.read_bytes() == (
        SLOT.pack(0, *FIRST) + b"torn" + SLOT.pack(0, *SECOND)
    )


@pytest.mark.parametrize(
    ("start", "end", "aborted", "complete"),
    [
        (0, 100, ALL, False),
        (0, 32, [FIRST, SECOND, THIRD], True),
        (0, 35, ALL, True),
        (10, 35, ALL, True),
        (11, 35, [SECOND, THIRD, FOURTH], True),
        (20, 41, [THIRD, FOURTH], False),
        (36, 40, [FOURTH], True),
    ],
)
def test_a_read_collects_overlapping_aborts_until_all_is_decided(
    tmp_path, start, end, aborted, complete
):
    assert filled(tmp_path, ALL).collect_aborted(start, end) == (aborted, complete)


def test_a_transaction_index_is_truncated_by_the_offsets_of_markers(tmp_path):
    index = filled(tmp_path, ALL)
    index.truncate_to(51)
    assert index.transactions() == ALL
    index.truncate_to(50)
    assert index.transactions() == ALL[:3]
    index.append(FOURTH)
    index.truncate_to(15)
    assert index.transactions() == [FIRST]
    with pytest.raises(LogArgumentError, match="10, expected above 10"):
        index.append(FIRST)
    index.reset()
    assert index.path.read_bytes() == b""
    index.append(FIRST)
    assert index.transactions() == [FIRST]


def test_a_marker_below_the_segment_is_corrupt(tmp_path):
    index = filled(tmp_path, [FIRST, SECOND], base=16)
    with pytest.raises(CorruptIndexError, match="last offset 10 of entry 0"):
        index.check()
    filled(tmp_path, base=10).check()
    filled(tmp_path, base=16, exists=False).check()


def test_a_later_version_is_rejected_when_it_is_needed(tmp_path):
    index = filled(tmp_path)
    later = SLOT.pack(256, *THIRD)
    index.path.write_bytes(SLOT.pack(0, *FIRST) + SLOT.pack(1, *SECOND) + later)
    assert index.collect_aborted(0, 12) == ([FIRST, SECOND], True)
    for act in (
        index.transactions,
        index.check,
        lambda: index.collect_aborted(0, 14),
        lambda: index.truncate_to(20),
    ):
        with pytest.raises(UnsupportedIndexError, match="version 1 of entry 2"):
            act()
    index.truncate_to(15)
    assert index.transactions() == [FIRST]


def test_a_corrupt_entry_before_a_later_version_is_reported_first(tmp_path):
    index = filled(tmp_path, base=12)
    index.path.write_bytes(SLOT.pack(0, *FIRST) + SLOT.pack(256, *SECOND))
    with pytest.raises(CorruptIndexError):
        index.check()


def test_it_is_synced_once_and_renamed(tmp_path):
    disk = TracingDisk()
    index = filled(tmp_path, [FIRST], disk=disk)
    index.flush()
    index.flush()
    assert disk.calls_of("sync") == [("sync", "0.txnindex")]
    target = tmp_path / "0.txnindex.deleted"
    index.rename(target)
    index.append(SECOND)
    index.flush()
    assert disk.calls_of("sync")[1:] == [("sync", target.name)]
    (tmp_path / "b").mkdir()
    target.rename(tmp_path / "b" / target.name)
    index.move_to(tmp_path / "b")
    assert index.transactions() == [FIRST, SECOND]
    assert index.remove()
    assert index.is_empty


@pytest.mark.parametrize("step", range(8))
def test_complete_entries_are_left_after_a_disk_error(tmp_path, step):
    index = filled(tmp_path, disk=FailingDisk(step))
    steps = [
        lambda: index.append(FIRST),
        lambda: index.append(SECOND),
        lambda: index.truncate_to(15),
        lambda: index.append(THIRD),
    ]
    failures = 0
    while steps:
        try:
            steps[0]()
        except OSError:
            failures += 1
        else:
            steps.pop(0)
    assert failures == 1
    assert index.path.read_bytes() == SLOT.pack(0, *FIRST) + SLOT.pack(0, *THIRD)


@pytest.mark.parametrize(("path", "truth"), golden_indexes(".txnindex"))
def test_entries_of_golden_files_make_the_same_files(tmp_path, path, truth):
    index = GrowingTransactionIndex(tmp_path / path.name, int(path.name[:20]))
    for entry in TransactionIndex.read(path).entries.tolist():
        index.append(AbortedTransaction(*entry[1:]))
    index.check()
    assert index.path.read_bytes() == path.read_bytes()


def test_there_are_golden_files():
    assert golden_indexes(".txnindex")
