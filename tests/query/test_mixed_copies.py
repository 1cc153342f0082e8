"""A copy with a compacted segment beside some that it replaced is read as by a broker.

What Kafka 4.3.1 returned of each case is in `FETCHES`: a read from 0 with 1 MB, then
one from each next offset, until nothing was left. So a consumer has each offset once.
"""

import json

import pyarrow.dataset as ds
import pytest

import kafkalog
from kafkalog import CorruptRecordError, OffsetIndex, TimeIndex
from kafkalog.storage.file_names import file_name
from tests.cli.shell import call
from tests.log.mixed_copies import (
    CASES,
    TIME,
    Batch,
    encode,
    even,
    full,
    write_case,
    write_segment,
)

FETCHES = {
    "one stale segment": [(0, 0, 39), (40, 40, 47)],
    "all stale segments": [(0, 0, 39), (40, 40, 47)],
    "the new segment ends inside an old one": [(0, 0, 27), (28, 24, 31), (32, 32, 39)],
    "an old segment before the new one": [(0, 0, 7), (8, 8, 31), (32, 32, 39)],
    "two new segments": [(0, 0, 15), (16, 16, 39), (40, 40, 43)],
    "an old segment that reaches further than a later one": [
        (0, 0, 23),
        (24, 20, 31),
        (32, 48, 51),
    ],
    "the next segment is the last": [(0, 0, 39)],
    "only one batch is past the next segment": [(0, 0, 11), (12, 12, 15)],
}
"""Of each fetch: its offset, the base offset of the segment, the last offset in it."""

INDEX_CHANGES = {
    "as written": lambda data: data,
    "preallocated": lambda data: data + bytes(8000),
    "empty": lambda data: b"",
    "cut within an entry": lambda data: data[:-3],
    "a position within a batch": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "a position past the end": lambda data: data[:-4] + b"\x7f" + data[-3:],
    "another offset": lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
}

cases = pytest.mark.parametrize("name", CASES)


def consumed(name):
    """Return the records of a consumer, as pairs of offset and generation."""
    segments = {base: (batches, text) for base, batches, text in CASES[name]}
    records = []
    for position, base, last in FETCHES[name]:
        batches, generation = segments[base]
        records += [
            (offset, generation)
            for batch in batches
            for offset in batch.kept
            if position <= offset <= last
        ]
    return records


def records_of(scan):
    table = scan.to_arrow().to_pydict()
    return [
        (offset, value.decode())
        for offset, value in zip(table["offset"], table["value"], strict=True)
    ]


def within(records, start, end=1000):
    return [record for record in records if start <= record[0] < end]


@cases
@pytest.mark.parametrize("options", [{}, {"threads": 2}, {"on_corruption": "skip"}])
def test_a_scan_returns_what_a_consumer_gets(tmp_path, name, options):
    scan = kafkalog.scan(write_case(tmp_path / "t-0", name), **options)
    assert records_of(scan) == consumed(name)
    assert not scan.problems


@cases
def test_bounds_within_the_overlap_select_among_these_records(tmp_path, name):
    log, expected = write_case(tmp_path / "t-0", name), consumed(name)
    for start in range(52):
        for end in (start + 1, start + 9, 60):
            scan = kafkalog.scan(log, start_offset=start, end_offset=end)
            assert records_of(scan) == within(expected, start, end), (start, end)
            assert scan.count() == len(within(expected, start, end)), (start, end)


@cases
def test_read_committed_returns_the_same(tmp_path, name):
    log, expected = write_case(tmp_path / "t-0", name), consumed(name)
    scan = kafkalog.scan(log, isolation="read_committed")
    assert records_of(scan) == expected
    later = kafkalog.scan(log, isolation="read_committed", start_offset=21)
    assert records_of(later) == within(expected, 21)


@cases
@pytest.mark.parametrize("max_bytes", [1, 300, 1 << 20])
def test_reads_from_next_offset_to_next_offset_return_the_same(
    tmp_path, name, max_bytes
):
    log = kafkalog.open(write_case(tmp_path / "t-0", name))
    offset, found = log.log_start_offset, []
    while offset < log.log_end_offset:
        fetched = log.read(offset, max_bytes=max_bytes)
        found += [
            (record.offset, record.value.decode())
            for batch in fetched.batches()
            for record in batch
            if record.offset >= offset
        ]
        assert fetched.next_offset > offset
        offset = fetched.next_offset
    assert found == consumed(name)


@cases
def test_splits_return_the_same(tmp_path, name):
    log, expected = write_case(tmp_path / "t-0", name), consumed(name)
    for target_bytes in (1, 200, 1 << 20):
        splits = kafkalog.splits(log, target_bytes=target_bytes)
        found = [record for split in splits for record in records_of(split.scan())]
        assert found == expected
    later = kafkalog.splits(log, target_bytes=1, start_offset=11)
    found = [record for split in later for record in records_of(split.scan())]
    assert found == within(expected, 11)


@cases
def test_a_dataset_returns_the_same(tmp_path, name):
    data = kafkalog.dataset(write_case(tmp_path / "t-0", name))
    expected = consumed(name)
    assert data.to_table(columns=["offset"])["offset"].to_pylist() == [
        offset for offset, _ in expected
    ]
    selected = data.to_table(columns=["offset"], filter=ds.field("offset") >= 18)
    assert selected["offset"].to_pylist() == [
        offset for offset, _ in within(expected, 18)
    ]


def printed(*arguments):
    """Return the rows that a command prints, as JSON objects."""
    ran = call(*arguments)
    assert ran.exit_code == 0
    return [json.loads(line) for line in ran.stdout.splitlines()]


@cases
@pytest.mark.parametrize("count", [1, 7, 15, 100])
def test_tail_returns_the_last_of_them(tmp_path, name, count):
    log = write_case(tmp_path / "t-0", name)
    rows = printed("tail", log, "-n", count, "--columns", "offset,value")
    assert [(row["offset"], row["value"]) for row in rows] == consumed(name)[-count:]


@cases
def test_find_returns_a_record_once(tmp_path, name):
    log = write_case(tmp_path / "t-0", name)
    rows = printed("find", log, "--key-pattern", "key-", "--format", "jsonl")
    assert [row["offset"] for row in rows] == [offset for offset, _ in consumed(name)]


@cases
def test_offsets_for_times_are_those_of_these_records(tmp_path, name):
    log, expected = kafkalog.open(write_case(tmp_path / "t-0", name)), consumed(name)
    for offset in range(expected[-1][0] + 1):
        at_or_after = [each for each, _ in expected if each >= offset]
        assert log.offsets_for_times(TIME + offset) == at_or_after[0], offset


@cases
def test_a_copy_differs_not_from_one_without_what_the_new_segment_covers(
    tmp_path, name
):
    log = write_case(tmp_path / "a" / "t-0", name)
    read = {base for _, base, _ in FETCHES[name]}
    kept = tmp_path / "b" / "t-0"
    reached = 0
    for base, batches, generation in CASES[name]:
        if base in read:
            batches = [batch for batch in batches if batch.last >= reached]
            write_segment(kept, max(base, reached), batches, generation)
            reached = batches[-1].last + 1
    [partition] = kafkalog.diff(log, kept).partitions
    assert partition.equal, partition


def test_segments_without_indexes_are_read_to_their_ends(tmp_path):
    log = write_case(tmp_path / "t-0", "all stale segments")
    for index in [*log.glob("*.index"), *log.glob("*.timeindex")]:
        index.unlink()
    assert records_of(kafkalog.scan(log)) == consumed("all stale segments")


def test_a_corrupt_batch_in_the_overlap_is_damage_and_the_rest_is_read(tmp_path):
    log = write_case(tmp_path / "t-0", "all stale segments")
    path = log / file_name(0, "log")
    data = bytearray(path.read_bytes())
    place = data.index(b"key-20")
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecordError, match="CRC mismatch"):
        kafkalog.scan(log).to_arrow()
    scan = kafkalog.scan(log, on_corruption="skip")
    expected = consumed("all stale segments")
    assert records_of(scan) == [each for each in expected if not 20 <= each[0] <= 23]
    [problem] = scan.problems
    assert (problem.first_offset, problem.last_offset) == (20, 23)


@pytest.mark.parametrize("bit", range(3, 31))
def test_a_damaged_offset_of_the_last_batch_is_no_overlap(tmp_path, bit):
    log = tmp_path / "t-0"
    for base in (0, 8, 16):
        write_segment(log, base, full(base, base + 7), "old")
    path = log / file_name(0, "log")
    last = encode(Batch(4, 7, (4, 5, 6, 7)), "old")
    data = path.read_bytes()
    assert data.endswith(last)
    wrong = (4 ^ 1 << bit).to_bytes(8) + last[8:]
    path.write_bytes(data[: -len(last)] + wrong)
    scan = kafkalog.scan(log, on_corruption="skip")
    found = records_of(scan)
    assert [offset for offset, _ in found] == [*range(4), *range(8, 24)]
    assert [str(problem).partition(":")[0] for problem in scan.problems] == [
        f"last offset {(4 ^ 1 << bit) + 3}, expected one between the offsets of the "
        "batches before and after"
    ]


@pytest.mark.parametrize("change", INDEX_CHANGES)
def test_the_end_of_a_large_new_segment_is_found_with_any_index(tmp_path, change):
    """Its end is far from its start; a correct index leads there."""
    log = tmp_path / "t-0"
    batches = even(0, 3999)
    write_segment(log, 0, batches, "new" * 40)
    data = (log / file_name(0, "log")).read_bytes()
    assert len(data) > 200_000
    positions, place = [], 0
    for batch in batches:
        positions.append(place)
        place += len(encode(batch, "new" * 40))
    entries = range(10, len(batches), 10)
    index = OffsetIndex.build(
        [batches[i].last for i in entries], [positions[i] for i in entries], 0
    )
    data = INDEX_CHANGES[change](index.to_bytes())
    (log / file_name(0, "index")).write_bytes(data)
    (log / file_name(0, "timeindex")).write_bytes(TimeIndex.build([], [], 0).to_bytes())
    write_segment(log, 2000, full(2000, 2007), "old")
    write_segment(log, 4000, full(4000, 4003), "tail")
    offsets = kafkalog.scan(log, columns=["offset"]).to_arrow()["offset"].to_pylist()
    assert offsets == [*range(0, 4000, 2), *range(4000, 4004)]
