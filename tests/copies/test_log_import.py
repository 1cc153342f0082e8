"""`import_logs`: logs come back from Parquet and Delta tables as they were."""

from __future__ import annotations

import struct
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog import RecordBatch, RecordBatchBuilder
from kafkalog.codecs.checksum import crc32c
from kafkalog.copies import log_import
from kafkalog.copies.log_import import import_logs
from kafkalog.errors import (
    ConfigError,
    CorruptRecordError,
    NotALogDirectoryError,
    UnfitRecordsError,
)
from kafkalog.export import delta_table, file_export
from kafkalog.export.batch_columns import BATCH_COLUMNS, SCHEMA
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data
from tests.spark.growing import GrowingLog

T = 1_700_000_000_000


def scan_of(logs):
    """Return a scan of the partitions of a log directory."""
    scan = kafkalog.scan(logs)
    return replace(scan, sources=tuple(s for s in scan.sources if s[0].directory))


def exported(logs, out, form="parquet", **options):
    if form == "delta":
        delta_table.append_new(scan_of(logs), out, reversible=True, **options)
    else:
        file_export.write_files(scan_of(logs), out, form, reversible=True, **options)
    return out


def there_and_back(logs, tmp_path, form="parquet", **options):
    table = exported(logs, tmp_path / "table", form, **options)
    import_logs(table, tmp_path / "back")
    return tmp_path / "back"


def segments_of(logs):
    """Return the bytes of each segment by partition and file name."""
    found = {}
    for source, _ in scan_of(logs).sources:
        for path in sorted(source.directory.glob("*.log")):
            found[f"{source.topic}-{source.partition}", path.name] = path.read_bytes()
    return found


def batches_of(data):
    position = 0
    while position < len(data):
        batch = RecordBatch(data, position)
        yield batch
        position += batch.size_in_bytes


HEADER = [
    "base_offset", "last_offset", "magic", "attributes", "leader_epoch", "producer_id",
    "producer_epoch", "base_sequence", "base_timestamp", "max_timestamp",
]  # fmt: skip


def check_same_batches(back, original):
    """Check that uncompressed batches have the same bytes, others the same records."""
    count = 0
    for mine, other in zip(batches_of(back), batches_of(original), strict=True):
        count += 1
        assert [getattr(mine, n) for n in HEADER] == [getattr(other, n) for n in HEADER]
        assert mine.is_valid
        if other.codec == "none":
            assert bytes(mine) == bytes(other)
        else:
            assert list(mine) == list(other)
    return count


def all_rows(logs):
    scan = scan_of(logs)
    every = kafkalog.scan(
        [source.directory for source, _ in scan.sources],
        columns=[name for name in COLUMNS if name != "position"],
        control_records=True,
    )
    return every.to_arrow().to_pylist()


@pytest.mark.parametrize("form", ["parquet", "delta"])
@pytest.mark.parametrize("name", golden_data.SETS)
def test_kept_batches_come_back_with_all_their_bytes(tmp_path, name, form):
    logs = golden_data.logs(name)
    back = there_and_back(logs, tmp_path, form, keep_batches=True)
    expected, found = segments_of(logs), segments_of(back)
    assert found.keys() == expected.keys()
    for place, data in expected.items():
        # Only the incomplete batches and zeros at the end of a file are missing.
        assert data.startswith(found[place])
    assert all_rows(back) == all_rows(logs)


@pytest.mark.parametrize("form", ["parquet", "delta"])
@pytest.mark.parametrize("name", golden_data.SETS)
def test_batches_come_back_with_their_bytes_or_if_compressed_their_records(
    tmp_path, name, form
):
    logs = golden_data.logs(name)
    back = there_and_back(logs, tmp_path, form)
    expected, found = segments_of(logs), segments_of(back)
    assert found.keys() == expected.keys()
    batches = 0
    for place, data in expected.items():
        end = 0
        rest = data
        while len(rest) > 17 and 12 + int.from_bytes(rest[8:12]) <= len(rest):
            if not any(rest[:17]):
                break
            end += 12 + int.from_bytes(rest[8:12])
            rest = data[end:]
        batches += check_same_batches(found[place], data[:end])
    assert batches > 20
    assert all_rows(back) == all_rows(logs)


@pytest.mark.parametrize("name", golden_data.SETS)
def test_a_log_that_came_back_is_verified_and_opened(tmp_path, name):
    logs = golden_data.logs(name)
    back = there_and_back(logs, tmp_path)
    assert kafkalog.verify(back).ok
    for source, _ in scan_of(back).sources:
        original = logs / source.directory.name
        topic_id = original / "partition.metadata"
        assert topic_id.exists() == (source.directory / topic_id.name).exists()
        if topic_id.exists():
            expected = topic_id.read_bytes()
            assert (source.directory / topic_id.name).read_bytes() == expected
        with (
            kafkalog.open(source.directory, "a", kafkalog.LogConfig()) as log,
            kafkalog.open(original) as known,
        ):
            assert log.log_end_offset == known.log_end_offset
            assert log.log_start_offset == known.log_start_offset


def written(tmp_path, *batches, base=0, name="odd-0"):
    folder = tmp_path / "logs" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{base:020d}.log").write_bytes(b"".join(batches))
    return folder.parent


def batch_of(payload, count, *, base=0, attributes=0, last_delta=None, base_time=T):
    """Return a batch with any payload, and a valid CRC."""
    last_delta = count - 1 if last_delta is None else last_delta
    body = struct.pack(
        ">hiqqqhii", attributes, last_delta, base_time, T + 5, 7, 3, 11, count
    )
    body += payload
    head = struct.pack(">qiib", base, len(body) + 9, 2, 2)
    return head + struct.pack(">I", crc32c(body)) + body


def record(delta=0, *, attributes=0, time=0, headers=b"\0", length=None):
    """Return a record of magic 2 with the key k and the value v; small varints."""
    body = bytes([attributes, 2 * time, 2 * delta, 2, *b"k", 2, *b"v"]) + headers
    size = bytes([2 * len(body)]) if length is None else length
    return size + body


ODD = {
    "a header key that is not UTF-8": batch_of(record(headers=b"\2\2\xff\2x"), 1),
    "attributes of a record": batch_of(record(attributes=9), 1),
    "a long varint": batch_of(record(length=b"\x90\x80\x00"), 1),
    "an unused attribute": batch_of(record(), 1, attributes=0x4200),
    "log append time": batch_of(record() + record(1, time=3), 2, attributes=8),
    "a delete horizon": batch_of(record() + record(1, time=3), 2, attributes=0x40),
    "no records": batch_of(b"", 0, last_delta=5),
    "no records, with a codec": batch_of(b"", 0, last_delta=5, attributes=0x23),
    "gaps": batch_of(record(2) + record(7), 2, last_delta=30),
    "a negative base timestamp": batch_of(record(), 1, base_time=-1),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_batches_come_back_with_their_bytes(tmp_path, case):
    tail = RecordBatchBuilder(base_offset=100)
    tail.append(b"k", None, timestamp=T, headers=[("h", None), ("h", b"")])
    logs = written(tmp_path, ODD[case], tail.build())
    assert segments_of(there_and_back(logs, tmp_path)) == segments_of(logs)


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_large_batch_comes_back_with_its_bytes(tmp_path, form):
    builder = RecordBatchBuilder(codec="zstd")
    for _ in range(9):
        builder.append(b"k", bytes(1 << 20), timestamp=T)
    more = RecordBatchBuilder(base_offset=9)
    more.append(b"k", b"v", timestamp=T)
    logs = written(tmp_path, builder.build(), more.build())
    options = {"commit_bytes": 1} if form == "delta" else {}
    back = there_and_back(logs, tmp_path, form, **options)
    assert segments_of(back) == segments_of(logs)


def test_compressed_records_that_the_encoder_cannot_write_keep_their_bytes(tmp_path):
    import zlib

    stream = zlib.compressobj(wbits=31)
    payload = stream.compress(record(headers=b"\2\2\xff\2x")) + stream.flush()
    logs = written(tmp_path, batch_of(payload, 1, attributes=1))
    assert segments_of(there_and_back(logs, tmp_path)) == segments_of(logs)


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_segments_without_batches_come_back(tmp_path, form):
    logs = written(tmp_path, ODD["gaps"])
    written(tmp_path, base=31)
    written(tmp_path, name="new-3")
    back = there_and_back(logs, tmp_path, form)
    assert segments_of(back) == segments_of(logs)
    assert len(segments_of(back)) == 3


def test_a_log_start_offset_comes_back(tmp_path):
    logs = golden_data.logs("k431-clean")
    back = there_and_back(logs / "cutoff-0", tmp_path)
    with kafkalog.open(back / "cutoff-0") as log:
        assert log.log_start_offset == 77


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_the_batches_before_a_log_start_offset_come_back_with_their_segment(
    tmp_path, form
):
    log = GrowingLog(tmp_path / "logs", partitions=1)
    for _ in range(3):
        log.append(40)
        log.roll()
    log.append(10)
    checkpoint = log.logs / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\ngrown 0 65\n")
    table = tmp_path / "table"
    if form == "delta":
        # A run that ends within the segment of the log start.
        scan = replace_end(scan_of(log.logs), 50)
        delta_table.append_new(scan, table, reversible=True, commit_bytes=1)
    exported(log.logs, table, form)
    import_logs(table, tmp_path / "back")
    expected = segments_of(log.logs)
    del expected["grown-0", f"{0:020d}.log"]  # deleted: all of it is before 65
    assert segments_of(tmp_path / "back") == expected
    with kafkalog.open(tmp_path / "back" / "grown-0") as back:
        assert back.log_start_offset == 65


def test_offsets_that_were_deleted_before_a_run_are_reported(tmp_path):
    log = GrowingLog(tmp_path / "logs", partitions=1)
    log.append(20)
    exported(log.logs, tmp_path / "table", "delta")
    log.append(20)
    log.roll()
    log.append(10)
    log.delete_first()
    done = delta_table.append_new(
        scan_of(log.logs), tmp_path / "table", reversible=True
    )
    assert done.losses == [
        "offsets 20 to 39 of grown-0 are missing: the log starts at 40, expected 20 "
        "or less"
    ]
    import_logs(tmp_path / "table", tmp_path / "back")
    offsets = kafkalog.scan(tmp_path / "back").to_arrow()["offset"].to_pylist()
    assert offsets == [*range(20), *range(40, 50)]


def replace_end(scan, end):
    sources = ((s, replace(bounds, end_offset=end)) for s, bounds in scan.sources)
    return replace(scan, sources=tuple(sources))


payloads = st.none() | st.binary(max_size=12)
records_of_batch = st.lists(
    st.tuples(
        payloads,
        payloads,
        st.integers(-1, 2**45),
        st.lists(st.tuples(st.text(max_size=3), payloads), max_size=3),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=6,
)


@given(
    batches=st.lists(
        st.tuples(records_of_batch, st.sampled_from(["none", "gzip", "zstd"])),
        min_size=1,
        max_size=5,
    ),
    keep=st.booleans(),
)
def test_any_batches_come_back(tmp_path_factory, batches, keep):
    tmp_path = tmp_path_factory.mktemp("any")
    offset, data = 0, []
    for records, codec in batches:
        builder = RecordBatchBuilder(base_offset=offset, codec=codec)
        for key, value, timestamp, headers, gap in records:
            offset += gap
            builder.append(
                key, value, timestamp=timestamp, headers=headers, offset=offset
            )
        data.append(builder.build())
        offset += 1
    logs = written(tmp_path, *data)
    back = there_and_back(logs, tmp_path, keep_batches=keep)
    [mine], [original] = segments_of(back).values(), segments_of(logs).values()
    if keep:
        assert mine == original
    assert check_same_batches(mine, original) == len(batches)


def test_runs_of_a_growing_log_give_one_table_that_comes_back(tmp_path):
    log = GrowingLog(tmp_path / "logs")
    for round_ in range(6):
        log.append(10 * round_)
        delta_table.append_new(
            scan_of(log.logs), tmp_path / "table", reversible=True, commit_bytes=2000
        )
        if round_ % 2:
            log.roll()
    import_logs(tmp_path / "table", tmp_path / "back")
    assert segments_of(tmp_path / "back") == segments_of(log.logs)


def test_a_table_by_date_that_was_compacted_comes_back(tmp_path):
    day = 86_400_000
    for topic in ("a-0", "a-1", "b-0"):
        batches = []
        for base in range(0, 60, 6):
            builder = RecordBatchBuilder(base_offset=base)
            for i in range(6):
                value = f"{topic} {base + i}".encode()
                builder.append(None, value, timestamp=T + day * ((base + i) % 4))
            batches.append(builder.build())
        logs = written(tmp_path, *batches, name=topic)
    table = exported(
        logs, tmp_path / "table", "delta", partition_by="date", commit_bytes=900
    )
    import_logs(table, tmp_path / "back")
    assert segments_of(tmp_path / "back") == segments_of(logs)
    DeltaTable(table).optimize.z_order(["value"])
    import_logs(table, tmp_path / "again")
    assert segments_of(tmp_path / "again") == segments_of(logs)


def test_row_groups_may_be_in_any_order_and_divide_batches(tmp_path):
    log = GrowingLog(tmp_path / "logs")
    log.append(100)
    table = pq.read_table(exported(log.logs, tmp_path / "table.parquet"))
    order = np.random.default_rng(1).permutation(len(table))
    (tmp_path / "mixed").mkdir()
    pq.write_table(
        table.take(order), tmp_path / "mixed" / "a.parquet", row_group_size=7
    )
    pq.write_table(table, tmp_path / "groups.parquet", row_group_size=7)
    for name in ("mixed", "groups.parquet"):
        back = tmp_path / f"back of {name}"
        import_logs(tmp_path / name, back)
        assert segments_of(back) == segments_of(log.logs)


def test_only_the_requested_partitions_are_imported(tmp_path):
    table = exported(golden_data.logs("k431-clean"), tmp_path / "table")
    done = import_logs(table, tmp_path / "back", topics=["ledger"], partitions=[1])
    found = {place for place, _ in segments_of(tmp_path / "back")}
    assert (found, done.partitions) == ({"ledger-1"}, 1)
    with pytest.raises(FileNotFoundError):
        import_logs(table, tmp_path / "none", topics=["no-such"])


def test_the_table_has_the_columns_of_records_and_batches_for_queries(tmp_path):
    logs = golden_data.logs("k431-clean")
    exported(logs / "ledger-0", tmp_path / "t.parquet")
    [row] = duckdb.sql(
        f"""select count("offset"), count(*) filter (is_control),
        count(distinct batch_base_offset), count(batch_bytes)
        from '{tmp_path}/t.parquet'"""
    ).fetchall()
    every = kafkalog.scan(logs / "ledger-0", control_records=True, columns=COLUMNS)
    controls = sum(row["is_control"] for row in every.to_arrow().to_pylist())
    assert row[:2] == (every.count(), controls)
    assert row[2] > 10
    assert row[3] == 0
    assert pq.read_schema(tmp_path / "t.parquet").names == SCHEMA.names
    assert set(BATCH_COLUMNS) < set(SCHEMA.names)


@pytest.fixture
def table(tmp_path):
    log = GrowingLog(tmp_path / "logs", partitions=1)
    log.append(30)
    return pq.read_table(exported(log.logs, tmp_path / "table.parquet"))


def changed(table, row, column, value):
    """Return a table with another value in one cell."""
    values = table[column].to_pylist()
    values[row] = value
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.field(at), pa.array(values, table.field(at).type))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.slice(1), "last offset 9: 9 rows, expected 10"),
        (lambda t: pa.concat_tables([t, t.slice(3, 1)]), "11 rows, expected 10"),
        (lambda t: changed(t, 12, "value", b"x"), "last offset 19: CRC mismatch"),
        (lambda t: changed(t, 12, "timestamp_delta", 8), "last offset 19: CRC"),
        (lambda t: changed(t, 0, "batch_bytes", b"x"), "expected the bytes of one"),
        (
            lambda t: changed(
                changed(t, 3, "topic_id", "4VtMXa3SSiSTZsv5PbePDw"),
                *(4, "topic_id", "Tnu1BbkrTNuAA4sOS3hn0Q"),
            ),
            "topic id Tnu1BbkrTNuAA4sOS3hn0Q, expected 4VtMXa3SSiSTZsv5PbePDw",
        ),
        (
            lambda t: changed(t, 0, "batch_bytes", ODD["gaps"]),
            "have the last offset 30",
        ),
        (
            lambda t: changed(t, 0, "batch_bytes", ODD["gaps"][:-1] + b"\1"),
            "do not match their CRC",
        ),
    ],
)
def test_missing_and_changed_rows_are_errors(tmp_path, table, change, message):
    pq.write_table(change(table), tmp_path / "bad.parquet")
    with pytest.raises(CorruptRecordError, match=message) as caught:
        import_logs(tmp_path / "bad.parquet", tmp_path / "back")
    assert str(tmp_path / "bad.parquet") in str(caught.value)
    assert not (tmp_path / "back").exists()


def every(column, value, rows=range(10)):
    """Return a change of a column in all rows of a batch."""

    def change(table):
        for row in rows:
            table = changed(table, row, column, value)
        return table

    return change


@pytest.fixture
def compressed(tmp_path):
    log = GrowingLog(tmp_path / "logs", partitions=1)
    log.append(30, codec="gzip")
    return pq.read_table(exported(log.logs, tmp_path / "table.parquet"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.take([0, 1, 2, 3, 3, *range(5, 30)]),
            "last offset 9: row with offset 3, expected ascending offsets from 0 to 9",
        ),
        (every("offset", 100, [3]), "row with offset 100, expected ascending"),
        (every("offset", -1, [0]), "row with offset -1, expected ascending"),
        (every("offset", None, [3]), "last offset 9: offset is null"),
        (every("timestamp_delta", None, [3]), "timestamp_delta is null"),
        (every("batch_attributes", None), "batch_attributes is null"),
        (every("leader_epoch", 7, [3]), "leader_epoch -1 and 7 in rows of one batch"),
        (every("batch_attributes", 7), "compression type 7, expected 0 to 4"),
        (every("batch_base_offset", 5), "row with offset 0, expected ascending"),
        (every("batch_records", None, [0]), "batch_records is null"),
        (every("segment_base_offset", None), "segment_base_offset is null"),
        (every("segment_base_offset", -1), "segment_base_offset -1, expected at least"),
        (
            every("segment_base_offset", 5),
            "offsets 0 to 9 in a segment with the base offset 5, expected at most 0",
        ),
        (
            every("segment_base_offset", 5, range(20, 30)),
            "segment base offset 5 after offset 19, expected ascending",
        ),
        (
            every("batch_base_offset", 5, range(10, 20)),
            "offsets 5 to 19 after 9, expected ascending",
        ),
        (every("log_start_offset", None), "log_start_offset is null"),
        (
            every("log_start_offset", 1000),
            "log start offset 1000, expected at most the log end offset 30",
        ),
        (every("topic_id", "../../x"), "topic id '../../x', expected 22 characters"),
    ],
)
def test_rows_that_contradict_each_other_are_errors(
    tmp_path, compressed, change, message
):
    pq.write_table(change(compressed), tmp_path / "bad.parquet")
    with pytest.raises(CorruptRecordError, match=message) as caught:
        import_logs(tmp_path / "bad.parquet", tmp_path / "back")
    assert str(tmp_path / "bad.parquet") in str(caught.value)
    assert not (tmp_path / "back").exists()


def test_a_directory_that_was_there_is_left_empty(tmp_path, table, monkeypatch):
    def fail(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(log_import, "open_to_append", fail)
    (tmp_path / "back").mkdir()
    starts = every("log_start_offset", 10, range(30))(table)
    pq.write_table(starts, tmp_path / "table.parquet")
    with pytest.raises(KeyboardInterrupt):
        import_logs(tmp_path / "table.parquet", tmp_path / "back")
    assert not list((tmp_path / "back").iterdir())


def test_columns_may_have_the_types_of_other_tools(tmp_path, table):
    columns = {
        "topic": pa.large_string(),
        "partition": pa.int64(),
        "value": pa.large_binary(),
        "offset": pa.int32(),
        "magic": pa.int64(),
        "headers": pa.large_list(
            pa.struct({"key": pa.large_string(), "value": pa.large_binary()})
        ),
    }
    other = table
    for name, kind in columns.items():
        at = other.schema.get_field_index(name)
        other = other.set_column(at, name, other[name].cast(kind))
    pq.write_table(other, tmp_path / "other.parquet")
    import_logs(tmp_path / "other.parquet", tmp_path / "back")
    assert segments_of(tmp_path / "back") == segments_of(tmp_path / "logs")
    at = table.schema.get_field_index("offset")
    text = table.set_column(at, "offset", pa.array(["x"] * 30))
    pq.write_table(text, tmp_path / "text.parquet")
    with pytest.raises(UnfitRecordsError, match="column offset of string, expected in"):
        import_logs(tmp_path / "text.parquet", tmp_path / "never")
    at = table.schema.get_field_index("headers")
    lists = table.set_column(at, "headers", pa.array([[1]] * 30))
    pq.write_table(lists, tmp_path / "lists.parquet")
    with pytest.raises(UnfitRecordsError, match=r"column headers of .*lists\.parquet"):
        import_logs(tmp_path / "lists.parquet", tmp_path / "never")


@pytest.mark.parametrize("topic", ["../up", "a/b", "", None])
def test_a_topic_that_is_no_name_is_rejected(tmp_path, table, topic):
    pq.write_table(changed(table, 0, "topic", topic), tmp_path / "bad.parquet")
    with pytest.raises(NotALogDirectoryError, match="expected a topic"):
        import_logs(tmp_path / "bad.parquet", tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("last", [-5, 2**63 - 1, None])
def test_offsets_that_no_log_has_are_rejected(tmp_path, table, last):
    rows = table.slice(0, 1)
    bad = changed(rows, 0, "batch_last_offset", last)
    pq.write_table(bad, tmp_path / "bad.parquet")
    with pytest.raises(UnfitRecordsError, match="expected offsets"):
        import_logs(tmp_path / "bad.parquet", tmp_path / "back")


def test_a_table_without_the_columns_is_rejected(tmp_path):
    log = GrowingLog(tmp_path / "logs")
    log.append(10)
    file_export.write_files(scan_of(log.logs), tmp_path / "plain", "parquet")
    with pytest.raises(UnfitRecordsError, match="export --reversible, without column"):
        import_logs(tmp_path / "plain", tmp_path / "back")
    (tmp_path / "text.parquet").write_text("no table")
    with pytest.raises(UnfitRecordsError, match="expected Parquet files"):
        import_logs(tmp_path / "text.parquet", tmp_path / "back")
    with pytest.raises(FileNotFoundError):
        import_logs(tmp_path / "missing", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_directory_that_is_not_empty_is_not_written_to(tmp_path, table):
    with pytest.raises(FileExistsError, match="not empty"):
        import_logs(tmp_path / "table.parquet", tmp_path)
    with pytest.raises(PermissionError, match="without Kafka's files"):
        import_logs(tmp_path / "table.parquet", golden_data.logs("k431-clean"))
    with pytest.raises(FileNotFoundError):
        import_logs(tmp_path / "table.parquet", tmp_path / "no" / "back")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["topic", "offset"]}, "no columns to be named"),
        ({"isolation": "read_committed"}, "no isolation"),
        ({"start_timestamp": 5}, "no bounds on timestamps"),
    ],
)
def test_a_scan_that_leaves_something_out_is_rejected(tmp_path, options, message):
    log = GrowingLog(tmp_path / "logs")
    log.append(10)
    scan = kafkalog.scan(log.logs, **options)
    with pytest.raises(ConfigError, match=message):
        file_export.write_files(scan, tmp_path / "t", "parquet", reversible=True)
    with pytest.raises(ConfigError, match=message):
        delta_table.append_new(scan, tmp_path / "t", reversible=True)
    assert not (tmp_path / "t").exists()
    with pytest.raises(ConfigError, match="expected parquet"):
        file_export.write_files(scan, tmp_path / "t", "arrow", reversible=True)


def test_damage_is_raised_after_the_batches_before_it_or_skipped(tmp_path):
    log = GrowingLog(tmp_path / "logs", partitions=1)
    log.append(40)
    [path] = log.folders[0].glob("*.log")
    whole = path.read_bytes()
    at = len(whole) // 2 + 100
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(CorruptRecordError, match=str(path)):
        exported(log.logs, tmp_path / "table")
    import_logs(tmp_path / "table", tmp_path / "back")
    [data] = segments_of(tmp_path / "back").values()
    assert data == whole[: len(whole) // 2]
    scan = kafkalog.scan(log.logs, on_corruption="skip")
    done = file_export.write_files(scan, tmp_path / "t2", "parquet", reversible=True)
    assert [problem.first_offset for problem in done.problems] == [20]
    import_logs(tmp_path / "t2", tmp_path / "back2")
    [data] = segments_of(tmp_path / "back2").values()
    assert len(data) == len(whole) * 3 // 4
