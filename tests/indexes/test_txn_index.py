"""The transaction index against files that brokers wrote, and against damage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import CorruptIndexError
from kafkalog.indexes.txn_index import ENTRY, TransactionIndex
from tests.indexes.golden import golden_indexes

GOLDEN = golden_indexes(".txnindex")
WORKED = bytes.fromhex(
    "0000000000000000109200000000000003e800000000000003ed00000000000003ee"
)


def raw(*entries):
    return np.array(list(entries), dtype=ENTRY).tobytes()


@pytest.mark.parametrize(("path", "truth"), GOLDEN)
@pytest.mark.parametrize("how", ["open", "read", "read_live"])
def test_entries_are_those_that_kafka_reads(path, truth, how):
    index = getattr(TransactionIndex, how)(path)
    found = [dict(zip(ENTRY.names, row.item(), strict=True)) for row in index.entries]
    assert found == truth["entries"]
    assert index.offsets.tolist() == [row["last_offset"] for row in truth["entries"]]


@pytest.mark.parametrize(("path", "truth"), GOLDEN)
def test_a_read_of_all_offsets_has_every_abort(path, truth):
    index = TransactionIndex.open(path)
    ends = [index.entries["last_stable_offset"].max(), index.offsets[-1]]
    end = int(max(ends)) + 1
    assert len(index.aborted(0, end)) == len(truth["entries"])
    assert not index.covers(end)


def test_the_worked_example_is_written_byte_for_byte():
    index = TransactionIndex.build([4242], [1000], [1005], [1006], base_offset=1000)
    assert index.to_bytes() == WORKED
    assert TransactionIndex.from_bytes(WORKED, 0).entries.tolist() == [
        (0, 4242, 1000, 1005, 1006)
    ]


def collect(entries, start, end):
    """Kafka's rule, entry by entry: the aborts of a read, and if these are all."""
    met = []
    for entry in entries:
        _, _, first, last, stable = entry
        if last >= start and first < end:
            met.append(entry)
        if stable >= end:
            return met, True
    return met, False


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 9), st.integers(0, 20)), max_size=8
    ),
    st.integers(-1, 45),
    st.integers(-1, 45),
)
def test_a_query_collects_what_kafka_collects(steps, start, end):
    entries, last = [], 5
    for rise, length, stable in steps:
        last += rise
        entries.append((0, 7, max(last - length, 0), last, stable))
    index = TransactionIndex.from_bytes(raw(*entries), 0)
    met, complete = collect(entries, start, end)
    assert index.aborted(start, end).tolist() == met
    assert index.covers(end) == complete


def test_an_empty_index_has_no_aborts():
    index = TransactionIndex.from_bytes(b"", 0)
    assert len(index.aborted(0, 10)) == 0
    assert not index.covers(0)


@pytest.mark.parametrize("torn", range(1, 34))
def test_a_partial_entry_is_rejected_but_ignored_in_a_live_file(tmp_path, torn):
    path = tmp_path / "00000000000000001000.txnindex"
    path.write_bytes(WORKED + WORKED[:torn])
    with pytest.raises(CorruptIndexError, match=f"{torn} bytes after") as caught:
        TransactionIndex.open(path)
    assert (caught.value.path, caught.value.position) == (path, 34)
    assert TransactionIndex.read_live(path).to_bytes() == WORKED


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ((256, 1, 20, 30, 31), "has version 256"),
        ((-1, 1, 20, 30, 31), "has version -1"),
        (
            (0, 1, 20, 15, 31),
            "has last offset 15, expected at least first offset 20",
        ),
        ((0, 1, -2, -1, 31), "has first offset -2, expected at least 0"),
        ((0, 1, 5, 9, 31), "has last offset 9, expected at least base offset 10"),
        ((0, 1, 12, 15, 31), "does not rise above entry 0"),
    ],
)
def test_an_error_names_the_invalid_entry(second, reason):
    data = raw((0, 1, 11, 15, 16), second)
    with pytest.raises(CorruptIndexError, match=f"entry 1 {reason}") as caught:
        TransactionIndex.from_bytes(data, 10)
    assert caught.value.position == 34


def test_only_the_first_byte_of_the_version_is_validated():
    index = TransactionIndex.from_bytes(raw((1, 7, 11, 15, 16)), 10)
    assert index.entries["version"].tolist() == [1]


def test_zeros_at_the_end_are_not_entries():
    assert TransactionIndex.from_bytes(WORKED + bytes(68), 0).to_bytes() == WORKED
    assert len(TransactionIndex.from_bytes(bytes(68), 0)) == 0
