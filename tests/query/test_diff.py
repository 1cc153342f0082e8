"""`diff` agrees with a comparison of lists of records, and names what differs."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog import RecordBatchBuilder
from kafkalog.encoding.batch_builder import empty_batch
from kafkalog.errors import NotALogDirectoryError
from kafkalog.storage.checkpoint_file import (
    LOG_STARTS,
    write_offsets,
)
from kafkalog.storage.durable_file import (
    DISK,
)
from tests import golden_data
from tests.cli.shell import call, objects
from tests.query.batches import CODECS, KINDS, build

MEMBERS = [
    "topic", "partition", "equal", "first_difference", "leader_epoch",
    "records_only_in_a", "records_only_in_b", "why", "not_compared",
]  # fmt: skip
REPLICAS = [golden_data.logs(f"k431-repl-broker{number}") for number in (1, 2)]
CLEAN = golden_data.logs("k431-clean")
T = 1_700_000_000_000


def write_log(directory, segments):
    """Write segments: a list of (base offset, bytes of the .log)."""
    directory.mkdir(parents=True)
    for base, data in segments:
        (directory / f"{base:020}.log").write_bytes(data)
    return directory


def one_segment(directory, *batches, base=0):
    return write_log(directory, [(base, b"".join(batches))])


def row_of(a, b, **options):
    [row] = kafkalog.diff(a, b, **options).partitions
    return row


def brief(row):
    return (row.equal, row.first_difference, row.leader_epoch), (
        row.records_only_in_a,
        row.records_only_in_b,
    )


EQUAL = (True, None, None), (0, 0)


@pytest.fixture
def first(tmp_path):
    """Return a log of three batches with the offsets 0 to 8."""
    batches = [build(2, "none", base) for base in (0, 3, 6)]
    return one_segment(tmp_path / "a" / "t-0", *batches)


@pytest.mark.parametrize("compare_bytes", [False, True])
def test_replicas_of_a_broker_are_equal(compare_bytes):
    report = kafkalog.diff(*REPLICAS, compare_bytes=compare_bytes)
    assert report.ok
    assert [(row.topic, row.partition, row.why) for row in report.partitions] == [
        ("twins", 0, "equal"),
        ("twins", 1, "equal"),
    ]


@pytest.mark.parametrize("compare_bytes", [False, True])
@pytest.mark.parametrize("name", ["k431-clean", "k282-clean"])
def test_a_log_directory_equals_itself(name, compare_bytes):
    logs = golden_data.logs(name)
    report = kafkalog.diff(logs, logs, compare_bytes=compare_bytes)
    assert report.ok
    assert len(report.partitions) > 10
    assert {row.why for row in report.partitions} == {"equal"}


def test_other_segments_do_not_matter(first, tmp_path):
    data = (first / f"{0:020}.log").read_bytes()
    size = len(build(2, "none", 0))
    other = write_log(tmp_path / "b" / "t-0", [(0, data[:size]), (3, data[size:])])
    for compare_bytes in (False, True):
        assert brief(row_of(first, other, compare_bytes=compare_bytes)) == EQUAL


def test_other_batches_and_compression_matter_only_by_bytes(first, tmp_path):
    batches = build(2, "zstd", 0, 5), build(2, "lz4", 5, 1), build(2, "gzip", 6)
    other = one_segment(tmp_path / "b" / "t-0", *batches)
    assert brief(row_of(first, other)) == EQUAL
    row = row_of(first, other, compare_bytes=True)
    assert brief(row) == ((False, 0, 5), (9, 9))
    assert row.why == "different bytes at offset 0"


@pytest.mark.parametrize("compare_bytes", [False, True])
def test_one_changed_record_is_found(first, tmp_path, compare_bytes):
    changed = build(2, "none", 3, text=b"VALUE")
    other = one_segment(
        tmp_path / "b" / "t-0", build(2, "none", 0), changed, build(2, "none", 6)
    )
    row = row_of(first, other, compare_bytes=compare_bytes)
    assert brief(row) == ((False, 3, 5), (3, 3))
    what = "bytes" if compare_bytes else "value"
    assert row.why == f"different {what} at offset 3"


@pytest.mark.parametrize("compare_bytes", [False, True])
def test_a_truncated_log_is_behind(first, tmp_path, compare_bytes):
    other = one_segment(tmp_path / "b" / "t-0", build(2, "none", 0))
    row = row_of(first, other, compare_bytes=compare_bytes)
    assert brief(row) == ((False, 3, 5), (6, 0))
    assert row.why == "b is behind: it ends at offset 3, a at offset 9"
    row = row_of(other, first, compare_bytes=compare_bytes)
    assert brief(row) == ((False, 3, 5), (0, 6))
    assert row.why == "a is behind: it ends at offset 3, b at offset 9"


def test_a_log_behind_within_a_batch_is_behind(first, tmp_path):
    other = one_segment(tmp_path / "b" / "t-0", build(2, "none", 0, 4))
    row = row_of(first, other)
    assert brief(row) == ((False, 4, 5), (5, 0))
    assert row.why == "b is behind: it ends at offset 4, a at offset 9"


def test_an_incomplete_batch_at_the_end_is_not_compared(first, tmp_path):
    data = (first / f"{0:020}.log").read_bytes()
    other = one_segment(tmp_path / "b" / "t-0", data[:-7])
    row = row_of(first, other)
    assert brief(row) == ((False, 6, 5), (3, 0))
    assert row.why == "b is behind: it ends at offset 6, a at offset 9"


@pytest.mark.parametrize("compare_bytes", [False, True])
def test_the_suffix_of_another_leader_diverged(first, tmp_path, compare_bytes):
    other = one_segment(
        tmp_path / "b" / "t-0",
        build(2, "none", 0),
        build(2, "none", 3, leader_epoch=6),
        build(2, "none", 6, 5, leader_epoch=6),
    )
    row = row_of(first, other, compare_bytes=compare_bytes)
    assert brief(row) == ((False, 3, 5), (6, 8))
    assert row.why == "diverged at offset 3: leader epoch 5 in a, 6 in b"


@pytest.mark.parametrize("compare_bytes", [False, True])
def test_offsets_before_the_log_start_of_one_side_are_not_compared(
    first, tmp_path, compare_bytes
):
    batches = [build(2, "none", base) for base in (3, 6)]
    other = one_segment(tmp_path / "b" / "t-0", *batches, base=3)
    row = row_of(first, other, compare_bytes=compare_bytes)
    assert brief(row) == EQUAL
    assert row.why == (
        "the same from offset 3 on; "
        "offsets 0 to 2 of a are not compared, as b starts at offset 3"
    )
    assert row.as_dict()["not_compared"] == [[0, 2]]
    write_offsets(other.parent, LOG_STARTS, {("t", 0): 1}, DISK)
    row = row_of(first, other, compare_bytes=compare_bytes)
    assert not row.equal
    assert "b lacks offsets 1 to 2, which its log has" in row.why


@pytest.mark.parametrize("batches", [[], [build(2, "none", 20)]])
def test_logs_without_common_offsets_differ(first, tmp_path, batches):
    other = one_segment(tmp_path / "b" / "t-0", *batches, base=20)
    reverse = row_of(other, first)
    assert reverse.why == (
        "no common offsets: b ends at offset 9, a starts at offset 20; "
        "offsets 0 to 19 of b are not compared, as a starts at offset 20"
    )
    row = row_of(first, other)
    epoch = 5 if batches else None
    assert brief(row) == ((False, 20, epoch), (0, 3 * len(batches)))
    assert row.why == (
        "no common offsets: a ends at offset 9, b starts at offset 20; "
        "offsets 0 to 19 of a are not compared, as b starts at offset 20"
    )


def test_a_log_emptied_by_retention_equals_one_that_ends_there(first, tmp_path):
    other = one_segment(tmp_path / "b" / "t-0", base=9)
    assert brief(row_of(first, other)) == EQUAL


def test_the_checkpointed_log_start_offset_counts(first, tmp_path):
    shutil.copytree(first, tmp_path / "b" / "t-0")
    checkpoint = tmp_path / "b" / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\nt 0 4\n")
    other = one_segment(
        tmp_path / "c" / "t-0",
        *(build(2, "none", 0, text=b"old"), build(2, "zstd", 3), build(2, "none", 6)),
    )
    row = row_of(tmp_path / "b", other.parent)
    assert brief(row) == EQUAL
    assert row.why.endswith(
        "; offsets 0 to 3 of b are not compared, as a starts at offset 4"
    )


def test_a_compacted_log_lacks_records(first, tmp_path):
    builder = RecordBatchBuilder(
        base_offset=3, last_offset=5, producer_id=7, producer_epoch=1,
        base_sequence=3, leader_epoch=5,
    )  # fmt: skip
    builder.append(b"k5", b"value 5", timestamp=T + 5, offset=5, headers=[
        ("h", b"x"), ("n", None)
    ])  # fmt: skip
    other = one_segment(
        tmp_path / "b" / "t-0",
        empty_batch(base_offset=0, last_offset=2),
        builder.build(),
        build(2, "none", 6),
    )
    row = row_of(first, other)
    assert brief(row) == ((False, 0, 5), (5, 0))
    assert row.why == "no record at offset 0 in b"


def test_a_missing_batch_is_found_by_bytes(first, tmp_path):
    batches = [build(2, "none", base) for base in (0, 6)]
    other = one_segment(tmp_path / "b" / "t-0", *batches)
    for compare_bytes in (False, True):
        row = row_of(first, other, compare_bytes=compare_bytes)
        assert brief(row) == ((False, 3, 5), (3, 0))
        assert row.why == "no record at offset 3 in b"


def test_batches_without_records_are_ignored(first, tmp_path):
    other = one_segment(
        tmp_path / "b" / "t-0",
        *(build(2, "none", base) for base in (0, 3, 6)),
        empty_batch(base_offset=9, last_offset=9),
    )
    for compare_bytes in (False, True):
        assert brief(row_of(first, other, compare_bytes=compare_bytes)) == EQUAL


@pytest.mark.parametrize("compare_bytes", [False, True])
def test_a_partition_of_one_side_only_is_a_row(first, tmp_path, compare_bytes):
    one_segment(tmp_path / "b" / "t-1", build(2, "gzip", 4, 2), base=4)
    report = kafkalog.diff(first.parent, tmp_path / "b", compare_bytes=compare_bytes)
    assert not report.ok
    a, b = report.partitions
    assert (brief(a), a.why) == (((False, 0, 5), (9, 0)), "only in a")
    assert (brief(b), b.why) == (((False, 4, 5), (0, 2)), "only in b")


def test_an_empty_partition_of_one_side_only_differs(first, tmp_path):
    one_segment(first.parent / "t-1")
    shutil.copytree(first, tmp_path / "b" / "t-0")
    same, empty = kafkalog.diff(first.parent, tmp_path / "b").partitions
    assert same.equal
    assert (brief(empty), empty.why) == (((False, None, None), (0, 0)), "only in a")


@pytest.mark.parametrize("compare_bytes", [False, True])
@pytest.mark.parametrize("damaged", ["a", "b"])
def test_a_corrupt_batch_is_named(first, tmp_path, damaged, compare_bytes):
    other = tmp_path / "b" / "t-0"
    shutil.copytree(first, other)
    path = {"a": first, "b": other}[damaged] / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    size = len(build(2, "none", 0))
    data[size + 70] ^= 1
    path.write_bytes(data)
    row = row_of(first, other, compare_bytes=compare_bytes)
    counts = (0, 3) if damaged == "a" else (3, 0)
    assert brief(row) == ((False, 3, 5), counts)
    assert f"corrupt in {damaged}: CRC mismatch: stored " in row.why
    assert f"{path} at byte {size}, offsets 3 to 5" in row.why


def test_the_same_damage_on_both_sides_is_no_equality(first, tmp_path):
    path = first / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[len(build(2, "none", 0)) + 70] ^= 1
    path.write_bytes(data)
    shutil.copytree(first, tmp_path / "b" / "t-0")
    row = row_of(first, tmp_path / "b" / "t-0")
    assert brief(row) == ((False, 3, None), (0, 0))
    assert "corrupt in a: " in row.why
    assert "corrupt in b: " in row.why


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_a_change_is_found_in_every_format(tmp_path, magic, codec):
    batches = [build(magic, codec, base) for base in range(0, 30, 3)]
    a = one_segment(tmp_path / "a" / "t-0", *batches)
    batches[7] = build(magic, codec, 21, text=b"other")
    b = one_segment(tmp_path / "b" / "t-0", *batches)
    epoch = 5 if magic == 2 else None
    for compare_bytes in (False, True):
        row = row_of(a, b, compare_bytes=compare_bytes)
        assert brief(row) == ((False, 21, epoch), (3, 3))


def test_wrappers_equal_the_messages_in_them(tmp_path):
    a = one_segment(tmp_path / "a" / "t-0", build(1, "gzip", 0), build(1, "gzip", 3))
    b = one_segment(tmp_path / "b" / "t-0", build(1, "none", 0, 6))
    assert brief(row_of(a, b)) == EQUAL


Row = tuple
times = st.integers(T, T + 2)
binary = st.sampled_from([None, b"", b"a", b"b", b"ab"])
headers = st.lists(st.tuples(st.sampled_from(["x", "y"]), binary), max_size=2)
rows = st.tuples(times, binary, binary, headers)


@st.composite
def sides(draw):
    """Draw two logs: batches of (offset, row), an epoch and a codec for each."""
    common = {
        offset: draw(rows) for offset in draw(st.sets(st.integers(0, 40), max_size=25))
    }
    epoch_from = draw(st.integers(0, 41))
    logs = []
    for _ in range(2):
        own = dict(common)
        for offset in draw(st.sets(st.integers(0, 45), max_size=3)):
            own[offset] = draw(rows)
        for offset in draw(st.sets(st.integers(0, 40), max_size=3)):
            own.pop(offset, None)
        end = draw(st.sampled_from([50, 50, 20]))
        other_epoch = draw(st.sampled_from([99, 99, 99, epoch_from]))
        table = [
            (offset, 1 + (offset >= other_epoch), *own[offset])
            for offset in sorted(own)
            if offset < end
        ]
        batches, size = [], draw(st.sampled_from([1, 2, 3, 3, 7]))
        while table:
            epoch = table[0][1]
            batch = [row for row in table[:size] if row[1] == epoch]
            batches.append((batch, draw(st.sampled_from(CODECS))))
            table = table[len(batch) :]
        cuts = draw(st.sets(st.integers(0, 25), max_size=2))
        dropped = draw(st.sampled_from([0, 0, 0, 2]))
        logs.append((batches, cuts, dropped))
    return logs


def write_drawn(directory, log):
    """Write a drawn log; return its start and its records, by offset."""
    batches, cuts, dropped = log
    segments, records = [], {}
    for i, (batch, codec) in enumerate(batches[dropped:]):
        first = batch[0][0]
        builder = RecordBatchBuilder(
            codec=codec, base_offset=first, leader_epoch=batch[0][1]
        )
        for offset, _, time, key, value, heads in batch:
            builder.append(key, value, timestamp=time, headers=heads, offset=offset)
        if i == 0 or i in cuts:
            segments.append((first if dropped or i else 0, b""))
        base, data = segments[-1]
        segments[-1] = base, data + builder.build()
        records |= {row[0]: row for row in batch}
    write_log(directory, segments or [(0, b"")])
    return (segments[0][0] if segments else 0), records


@given(logs=sides())
def test_it_agrees_with_a_comparison_of_lists(logs):
    with TemporaryDirectory() as root:
        places = [Path(root, side, "t-0") for side in "ab"]
        written = [
            write_drawn(place, log) for place, log in zip(places, logs, strict=True)
        ]
        row = row_of(*places)
    start = max(first for first, _ in written)
    a, b = (
        {offset: record for offset, record in records.items() if offset >= start}
        for _, records in written
    )
    only_a = [offset for offset in a if a[offset] != b.get(offset)]
    only_b = [offset for offset in b if b[offset] != a.get(offset)]
    different = min([*only_a, *only_b], default=None)
    epoch = None if different is None else (a.get(different) or b[different])[1]
    assert brief(row) == (
        (different is None, different, epoch),
        (len(only_a), len(only_b)),
    )
    ends = [max(records, default=start - 1) + 1 for records in (a, b)]
    if different is None:
        assert row.why.startswith(("equal", "the same from"))
    elif not only_b and different >= ends[1]:
        assert row.why.startswith("b is behind")
    elif not only_a and different >= ends[0]:
        assert row.why.startswith("a is behind")
    else:
        assert f"at offset {different}" in row.why


DAMAGE = {
    "flipped": lambda data, at: data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :],
    "cut": lambda data, at: data[:at],
    "zeroed": lambda data, at: data[:at] + bytes(len(data) - at),
    "without bytes": lambda data, at: data[:at] + data[at + 7 :],
}


@pytest.mark.parametrize("compare_bytes", [False, True])
@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("name", ["ledger-0", "orders.lz4-0", "state.none-0"])
def test_damage_anywhere_makes_a_difference(tmp_path, name, how, compare_bytes):
    copy = tmp_path / name
    shutil.copytree(CLEAN / name, copy)
    path = max(copy.glob("*.log"), key=lambda path: path.stat().st_size)
    data = path.read_bytes()
    for at in range(1, len(data), len(data) // 12):
        path.write_bytes(DAMAGE[how](data, at))
        row = row_of(CLEAN / name, copy, compare_bytes=compare_bytes)
        assert not row.equal
        assert row.first_difference is not None


def test_a_change_after_many_steps_is_found(tmp_path):
    batches = [build(2, "none", base) for base in range(0, 9000, 3)]
    a = one_segment(tmp_path / "a" / "t-0", *batches)
    batches[2500] = build(2, "none", 7500, text=b"other")
    batches[2700:2800] = [build(2, "zstd", 8100, 300)]
    b = one_segment(tmp_path / "b" / "t-0", *batches)
    row = row_of(a, b)
    assert brief(row) == ((False, 7500, 5), (3, 3))


def test_topics_and_partitions_are_selected():
    report = kafkalog.diff(*REPLICAS, topics=["tw*"], partitions=[1])
    assert [row.partition for row in report.partitions] == [1]
    assert kafkalog.diff(*REPLICAS, topics="twins", partitions=1) == report
    with pytest.raises(FileNotFoundError, match="No such topic"):
        kafkalog.diff(*REPLICAS, topics=["nothing"])


def test_a_path_that_is_no_log_is_an_error(tmp_path):
    with pytest.raises(NotALogDirectoryError):
        kafkalog.diff(tmp_path, REPLICAS[0])
    with pytest.raises(FileNotFoundError):
        kafkalog.diff(REPLICAS[0], tmp_path / "missing")


def test_the_report_is_a_table_and_html(first, tmp_path):
    one_segment(tmp_path / "b" / "t-0", build(2, "none", 0))
    report = kafkalog.diff(first.parent, tmp_path / "b")
    assert repr(report) == "<DiffReport: 1 partition, 1 of them different>"
    table = report.to_arrow()
    assert table.column_names == MEMBERS
    assert table.to_pylist() == [report.partitions[0].as_dict()]
    assert "b is behind" in report._repr_html_()


def test_the_command_prints_rows_and_ends_with_1_if_any_differs(first, tmp_path):
    same = call("diff", *REPLICAS)
    assert same.exit_code == 0
    assert [list(row) for row in objects(same.stdout)] == [["schema", *MEMBERS]] * 2
    one_segment(tmp_path / "b" / "t-0", build(2, "none", 0))
    ran = call("diff", first, tmp_path / "b" / "t-0", "--format", "json")
    assert ran.exit_code == 1
    assert '"first_difference": 3' in ran.stdout
    table = call(
        "diff", first.parent, tmp_path / "b", "--compare-bytes", "--format", "table"
    )
    assert table.exit_code == 1
    assert "b is behind" in table.stdout
    assert call("diff", first, tmp_path / "missing").exit_code == 3


def test_nothing_is_written(first, tmp_path):
    other = tmp_path / "b" / "t-0"
    shutil.copytree(first, other)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    kafkalog.diff(first, other)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before
