"""The entries of indexes that are appended to, and the files they make."""

from struct import Struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import (
    CorruptIndexError,
    IndexFullError,
    IndexOffsetOverflowError,
    InvalidOffsetError,
    LogStateError,
)
from kafkalog.indexes.growing_offset_index import GrowingOffsetIndex, OffsetPosition
from kafkalog.indexes.growing_time_index import GrowingTimeIndex, TimeIndexEntry
from tests import golden_data
from tests.indexes.golden import golden_indexes
from tests.indexes.growing import (
    BASE,
    LARGE,
    append_each,
    filled,
    offset_index,
    time_index,
)


def test_offsets_must_ascend_and_fit(tmp_path):
    index = filled(tmp_path, [(510, 40)], max_bytes=24)
    with pytest.raises(InvalidOffsetError, match="510, expected above 510"):
        index.append(510, 80)
    with pytest.raises(IndexOffsetOverflowError, match="expected 500 to"):
        index.append(BASE + 2**31, 80)
    index.append(BASE + 2**31 - 1, 80)
    with pytest.raises(InvalidOffsetError):
        index.append(511, 120)
    assert index.entry_count == 2
    assert index.holds_offset(BASE)
    assert not index.holds_offset(BASE - 1)


def test_a_first_entry_may_have_the_base_offset_but_none_below(tmp_path):
    index = offset_index(tmp_path)
    with pytest.raises(IndexOffsetOverflowError):
        index.append(BASE - 1, 0)
    index.append(BASE, 0)
    assert index.last_offset == BASE


@pytest.mark.parametrize("offset", [BASE - 1, BASE + 2**31])
def test_an_offset_too_far_from_the_base_leaves_a_time_index_whole(tmp_path, offset):
    """Kafka writes the timestamp, and then rejects all entries."""
    index = time_index(tmp_path)
    with pytest.raises(IndexOffsetOverflowError):
        index.maybe_append(1000, offset)
    index.maybe_append(1001, BASE + 3)
    index.maybe_append(1002, BASE + 4)
    assert [tuple(entry) for entry in (index.lookup(1001), index.lookup(1002))] == [
        (1001, BASE + 3),
        (1002, BASE + 4),
    ]
    index.check()


def test_a_full_index_is_reported_before_other_errors(tmp_path):
    index = filled(tmp_path, [(510, 40)], max_bytes=8)
    with pytest.raises(IndexFullError, match="full with 1 entries") as raised:
        index.append(2, 0)
    assert raised.value.kafka_name == "IllegalArgumentException"


@pytest.mark.parametrize(
    ("offsets", "kept", "error"),
    [
        ([510, 520, 520, 530], 2, InvalidOffsetError),
        ([510, 505], 1, InvalidOffsetError),
        ([510, 511, 512, 513], 3, IndexFullError),
        ([499, 510], 0, IndexOffsetOverflowError),
        ([510, BASE + 2**31], 1, IndexOffsetOverflowError),
    ],
)
def test_entries_before_a_rejected_one_stay(tmp_path, offsets, kept, error):
    index = offset_index(tmp_path, max_bytes=24)
    with pytest.raises(error):
        append_each(index, offsets, range(len(offsets)))
    assert index.table.offsets.tolist() == offsets[:kept]


def test_indexes_without_entries_have_those_of_the_base_offset(tmp_path):
    index, times = offset_index(tmp_path), time_index(tmp_path)
    assert (index.entry_count, times.entry_count) == (0, 0)
    assert (len(index.table), len(times.table)) == (0, 0)
    assert index.lookup(700) == OffsetPosition(BASE, 0)
    assert times.lookup(700) == TimeIndexEntry(-1, BASE)
    assert index.fetch_upper_bound(0, 100) is None
    index.truncate_to(0)
    times.truncate_to(0)


def test_an_upper_bound_is_found_as_kafka_finds_it(tmp_path):
    index = filled(tmp_path, [(510, 40), (520, 80), (530, 120)])
    requested = [(0, 0), (0, 39), (0, 40), (10, 31), (0, 80), (40, 79), (40, 81)]
    found = [index.fetch_upper_bound(*read) for read in requested]
    assert found == [510, 510, 520, 520, 520, 530, None]
    assert index.fetch_upper_bound(40, 2**31 - 1) == 510  # an int32 that turned over


def test_equal_timestamps_are_skipped_and_lower_ones_rejected(tmp_path):
    index = time_index(tmp_path)
    index.maybe_append(-1, 505)
    index.maybe_append(1000, 510)
    index.maybe_append(1000, 520)
    assert index.last_entry == (1000, 510)
    with pytest.raises(InvalidOffsetError):
        index.maybe_append(2000, 509)
    with pytest.raises(LogStateError, match="timestamp 999, expected") as raised:
        index.maybe_append(999, 510)
    assert raised.value.kafka_name == "IllegalStateException"
    with pytest.raises(IndexOffsetOverflowError):
        index.maybe_append(2000, BASE + 2**31)
    index.maybe_append(2000, 510)
    assert [index.entry(slot) for slot in (0, 1)] == [(1000, 510), (2000, 510)]


def test_one_slot_of_a_time_index_is_reserved_for_the_closing_entry(tmp_path):
    index = time_index(tmp_path, max_bytes=36)
    index.maybe_append(1, 501)
    assert not index.is_full
    index.maybe_append(2, 502)
    assert index.is_full
    with pytest.raises(IndexFullError, match="full"):
        index.maybe_append(2, 502)
    index.maybe_append(2, 502, skip_full=True)
    assert index.entry_count == 2
    index.maybe_append(3, 503, skip_full=True)
    assert index.entry_count == 3
    with pytest.raises(IndexFullError, match="full with 3"):
        index.maybe_append(4, 504, skip_full=True)


def test_a_time_index_is_truncated_by_offset(tmp_path):
    index = time_index(tmp_path)
    append_each(index, [10, 20, 30], [505, 510, 515])
    index.truncate_to(510)
    assert index.last_entry == (10, 505)
    index.truncate_to(506)
    assert index.last_entry == (10, 505)
    index.truncate_to(505)
    assert index.last_entry == (-1, BASE)


def test_a_partial_entry_is_corrupt(tmp_path):
    index, times = offset_index(tmp_path), time_index(tmp_path)
    index.path.write_bytes(bytes(12))
    times.path.write_bytes(bytes(13))
    for growing in (index, times):
        with pytest.raises(CorruptIndexError, match="after 1 entries"):
            growing.check()


def test_a_last_offset_below_the_base_is_corrupt(tmp_path):
    index = offset_index(tmp_path)
    index.path.write_bytes(Struct(">ii").pack(-1, 5))
    with pytest.raises(CorruptIndexError, match="the base offset"):
        index.check()
    zeros = offset_index(tmp_path)
    zeros.path.write_bytes(bytes(16))
    zeros.check()


def test_a_last_timestamp_below_the_first_is_corrupt(tmp_path):
    slot = Struct(">qi")
    for content, wrong in [
        (slot.pack(9, 1) + slot.pack(8, 2), "timestamp 8"),
        (slot.pack(9, -3), "offset 497"),
    ]:
        index = time_index(tmp_path)
        index.path.write_bytes(content)
        with pytest.raises(CorruptIndexError, match=wrong):
            index.check()
    index = time_index(tmp_path)
    index.path.write_bytes(slot.pack(9, 1) + slot.pack(10, 2))
    index.check()


def entries_of(path, width):
    """Return the bytes of a golden file up to its first slot of zeros."""
    data = path.read_bytes()
    used = len(data.rstrip(b"\0"))
    return data[: -(-used // width) * width]


@pytest.mark.parametrize(("path", "truth"), golden_indexes(".index"))
def test_offset_indexes_of_brokers_are_rebuilt_byte_for_byte(tmp_path, path, truth):
    base, data = int(path.name[:20]), entries_of(path, 8)
    columns = np.frombuffer(data, ">i4").reshape(-1, 2).astype(np.int64)
    index = GrowingOffsetIndex(tmp_path / path.name, base, len(data) + 80)
    append_each(index, columns[:, 0] + base, columns[:, 1])
    assert index.table.to_bytes() == data
    index.close()
    assert (tmp_path / path.name).read_bytes() == data


@pytest.mark.parametrize(("path", "truth"), golden_indexes(".timeindex"))
def test_time_indexes_of_brokers_are_rebuilt_byte_for_byte(tmp_path, path, truth):
    base, data = int(path.name[:20]), entries_of(path, 12)
    columns = np.frombuffer(data, np.dtype([("time", ">i8"), ("offset", ">i4")]))
    index = GrowingTimeIndex(tmp_path / path.name, base, len(data) + 120)
    offsets = columns["offset"].astype(np.int64) + base
    append_each(index, columns["time"], offsets)
    assert index.table.to_bytes() == data
    index.close()
    assert (tmp_path / path.name).read_bytes() == data


def test_there_are_golden_files():
    assert golden_data.SETS
    assert len(golden_indexes(".index")) > 10
    assert len(golden_indexes(".timeindex")) > 10


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 40)),
        st.tuples(st.just("many"), st.lists(st.integers(1, 9), max_size=9)),
        st.tuples(st.just("cut"), st.integers(BASE - 1, BASE + 300)),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=30,
)


@given(steps=STEPS, max_bytes=st.sampled_from([240, LARGE]))
def test_an_offset_index_behaves_as_a_list_of_its_entries(
    tmp_path_factory, steps, max_bytes
):
    tmp_path = tmp_path_factory.mktemp("index")
    index, model = offset_index(tmp_path, max_bytes), []
    for act, argument in steps:
        last = model[-1] if model else (BASE, 0)
        free = index.max_entries - len(model)
        if act == "append" and free:
            model.append((last[0] + argument, last[1] + 7))
            index.append(*model[-1])
        elif act == "many":
            more = np.cumsum(argument[:free], dtype=np.int64)
            append_each(index, last[0] + more, last[1] + 5 * more)
            model += [(last[0] + n, last[1] + 5 * n) for n in more.tolist()]
        elif act == "cut":
            index.truncate_to(argument)
            model = [entry for entry in model if entry[0] < argument]
        elif act == "reopen":
            index.close()
            index = offset_index(tmp_path, max_bytes)
            index.resize(max_bytes)
        assert index.entry_count == len(model)
        assert index.last_offset == (model[-1][0] if model else BASE)
        for target in range(BASE - 1, BASE + 60, 7):
            below = [entry for entry in model if entry[0] <= target]
            assert index.lookup(target) == (below[-1] if below else (BASE, 0))
    table = index.table
    assert (
        list(
            zip(table.offsets.tolist(), table.entries["position"].tolist(), strict=True)
        )
        == model
    )
    index.close()
    flat = [n - at for entry in model for n, at in zip(entry, (BASE, 0), strict=True)]
    assert index.path.read_bytes() == Struct(f">{len(flat)}i").pack(*flat)
