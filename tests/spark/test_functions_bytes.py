"""Binary columns: the golden segments as one column, and rows of any content."""

from __future__ import annotations

import logging
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import ConfigError, CorruptRecordError
from kafkalog.spark import batch_headers, decode_batches
from kafkalog.spark.spark_columns import COLUMNS
from tests import golden_data
from tests.query import kafka_rows
from tests.query.batches import KINDS, build

NAMES = [name for name in COLUMNS if name not in ("topic", "partition", "segment")]
GOOD = build(2, "lz4", 100)
LATER = build(2, "none", 200, 5)
FLIPPED = GOOD[:-1] + bytes([GOOD[-1] ^ 1])
ZEROS = bytes(100)
HEADLESS = bytes(12) + b"\x01" * 60


def column(rows, kind=None):
    return pa.array(rows, pa.binary() if kind is None else kind)


def table(rows, **others):
    return pa.record_batch({"content": column(rows), **others})


def decoded(decoder, batch):
    """Return the rows that a decoder makes of a batch."""
    return [row for made in decoder([batch]) for row in made.to_pylist()]


def offsets_of(decoder, rows):
    batch = table(rows, row=pa.array(range(len(rows))))
    return [(one["row"], one["offset"]) for one in decoded(decoder, batch)]


def numbered(**options):
    return decode_batches(columns=["offset"], keep={"row": "bigint"}, **options)


def golden_files(name):
    return [
        (directory, file)
        for set_name, directory in kafka_rows.DIRECTORIES
        if set_name == name
        for file in kafka_rows.files(name, directory)
    ]


def as_told(row):
    """Return a row as Kafka's dump has it, with the columns of a scan."""
    row = {COLUMNS[name].scan_name: row[name] for name in NAMES}
    time_ms = round(row["timestamp"].timestamp() * 1000)
    row["timestamp"] = None if time_ms == -1 else time_ms
    for name in ("key", "value"):
        row[name] = kafka_rows.shorten(row[name])
    row["headers"] = tuple(
        (one["key"], kafka_rows.shorten(one["value"])) for one in row["headers"] or ()
    )
    return row


@pytest.mark.parametrize("name", golden_data.SETS)
def test_golden_segments_in_a_column_decode_to_kafkas_records(name):
    files = golden_files(name)
    content = [kafka_rows.path_of(name, *file).read_bytes() for file in files]
    decoder = decode_batches(columns=NAMES, keep={"file": "int"}, control_records=True)
    found = decoded(decoder, table(content, file=pa.array(range(len(files)))))
    expected = [
        {"file": number} | dict(zip(kafka_rows.COLUMNS, row, strict=True))
        for number, (directory, file) in enumerate(files)
        for in_file, row in kafka_rows.records(name, directory)
        if in_file == file
    ]
    for row in expected:
        for column_ in ("topic", "partition", "segment"):
            del row[column_]
    assert expected
    assert [{"file": row["file"]} | as_told(row) for row in found] == expected


@pytest.mark.parametrize("name", golden_data.SETS)
def test_batch_headers_of_golden_segments_equal_kafkas(name):
    files = golden_files(name)
    content = [kafka_rows.path_of(name, *file).read_bytes() for file in files]
    keep = {"file": "int"}
    batch = table(content, file=pa.array(range(len(files))))
    found = decoded(batch_headers(keep=keep), batch)
    expected = [
        (number, row)
        for number, (directory, file) in enumerate(files)
        for (in_file, _), row in kafka_rows.batches(name, directory).items()
        if in_file == file
    ]
    assert len(found) == len(expected) > 0
    for one, (number, row) in zip(found, expected, strict=True):
        assert one["file"] == number
        for ours, theirs in (
            ("position", "position"),
            ("sizeInBytes", "size"),
            ("lastOffset", "last_offset"),
            ("magic", "magic"),
            ("codec", "codec"),
            ("crc", "crc"),
            ("isValid", "valid"),
        ):
            assert one[ours] == row[theirs], ours
        assert one["timestampType"] == kafka_rows.TYPES[row["timestamp_type"]]
        if row["magic"] == 2:
            for ours, theirs in (
                ("baseOffset", "base_offset"),
                ("count", "count"),
                ("maxTimestamp", "max_timestamp"),
                ("leaderEpoch", "partition_leader_epoch"),
                ("producerId", "producer_id"),
                ("producerEpoch", "producer_epoch"),
                ("baseSequence", "base_sequence"),
                ("isTransactional", "is_transactional"),
                ("isControl", "is_control"),
            ):
                assert one[ours] == row[theirs], ours


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_a_row_may_be_a_batch_of_any_magic_and_codec(magic, codec):
    rows = [build(magic, codec, first) for first in (30, 10, 20)]
    found = offsets_of(numbered(), rows)
    assert found == [
        (i, first + n) for i, first in enumerate((30, 10, 20)) for n in range(3)
    ]


def test_null_and_empty_rows_have_no_records():
    rows = [None, b"", GOOD, b"", None, GOOD + LATER, b""]
    of_both = [100, 101, 102, 200, 201, 202, 203, 204]
    assert offsets_of(numbered(), rows) == [
        *((2, offset) for offset in of_both[:3]),
        *((5, offset) for offset in of_both),
    ]
    assert offsets_of(numbered(), [None, b""]) == []
    assert offsets_of(numbered(), []) == []


@pytest.mark.parametrize(
    "tail", [GOOD[:40], GOOD[:-1], b"\0", ZEROS], ids=["short", "long", "zero", "zeros"]
)
def test_a_truncated_row_is_not_completed_by_the_next(tail):
    rows = [LATER + tail, GOOD, tail, GOOD[len(tail) :], GOOD]
    valid = [rows[i] for i in (0, 1, 2, 4)]
    assert {row for row, _ in offsets_of(numbered(), valid)} == {0, 1, 3}
    skipping = numbered(on_corruption="skip")
    assert {row for row, _ in offsets_of(skipping, rows)} == {0, 1, 4}


def test_positions_count_from_the_start_of_the_row():
    decoder = decode_batches(columns=["position", "offset"])
    found = decoded(decoder, table([GOOD, GOOD + LATER, LATER]))
    second = len(GOOD)
    assert [row["position"] for row in found] == [0] * 6 + [second] * 5 + [0] * 5
    headers = decoded(batch_headers(), table([GOOD, GOOD + LATER, LATER]))
    assert [row["position"] for row in headers] == [0, 0, second, 0]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_a_sliced_column_is_decoded(kind):
    whole = column([GOOD, None, LATER, GOOD], kind)
    batch = pa.record_batch({"content": whole.slice(1, 2)})
    decoder = decode_batches(columns=["offset"])
    assert [row["offset"] for row in decoded(decoder, batch)] == [*range(200, 205)]


def test_bytes_of_a_null_value_are_not_read():
    ends = pa.py_buffer(
        b"".join(n.to_bytes(4, "little") for n in (0, 60, 60 + len(GOOD)))
    )
    data = pa.py_buffer(HEADLESS[:60] + GOOD)
    hidden = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\x02"), ends, data])
    batch = pa.record_batch({"content": hidden})
    found = decoded(decode_batches(columns=["offset"]), batch)
    assert [row["offset"] for row in found] == [100, 101, 102]


@pytest.mark.parametrize(
    ("rows", "row", "position", "reason"),
    [
        ([GOOD, LATER + FLIPPED, GOOD], 1, len(LATER), "CRC mismatch: stored"),
        ([GOOD, LATER, HEADLESS], 2, 0, "size 0, expected at least"),
        ([None, GOOD + HEADLESS], 1, len(GOOD), "size 0, expected at least"),
    ],
)
def test_a_corruption_error_has_row_and_byte(rows, row, position, reason):
    told_so = rf"^row {row} of content: {reason}.* at byte {position}$"
    with pytest.raises(CorruptRecordError, match=told_so) as raised:
        offsets_of(numbered(), rows)
    assert raised.value.position == position


def test_skipped_corruption_is_logged(caplog):
    rows = [GOOD, GOOD + FLIPPED + LATER, HEADLESS, LATER]
    with caplog.at_level(logging.WARNING, "kafkalog"):
        found = offsets_of(numbered(on_corruption="skip"), rows)
    assert {row: [o for r, o in found if r == row] for row, _ in found} == {
        0: [100, 101, 102],
        1: [100, 101, 102, *range(200, 205)],
        3: [*range(200, 205)],
    }
    named = [
        re.match(r"skipped: row (\d) .* at byte (\d+)$", m) for m in caplog.messages
    ]
    assert [(int(one[1]), int(one[2])) for one in named] == [(1, len(GOOD)), (2, 0)]


def test_batch_headers_state_a_crc_mismatch():
    found = decoded(batch_headers(), table([GOOD + FLIPPED + LATER]))
    assert [row["isValid"] for row in found] == [True, False, True]
    with pytest.raises(CorruptRecordError, match="row 1 of content"):
        decoded(batch_headers(), table([GOOD, HEADLESS]))
    kept = decoded(batch_headers(on_corruption="skip"), table([GOOD, HEADLESS]))
    assert [row["baseOffset"] for row in kept] == [100]


FRAGMENTS = st.sampled_from(
    [
        *(None, b"", GOOD, LATER, GOOD + LATER, GOOD[:50], LATER + GOOD[:9], ZEROS),
        *(FLIPPED, GOOD + FLIPPED + LATER, HEADLESS, LATER + ZEROS, b"\0"),
    ]
)


@given(st.lists(FRAGMENTS, max_size=12))
def test_grouped_rows_decode_as_single_rows_do(rows):
    skipping = numbered(on_corruption="skip")
    alone = [
        (number, offset)
        for number, row in enumerate(rows)
        for _, offset in offsets_of(skipping, [row])
    ]
    assert offsets_of(skipping, rows) == alone


@given(st.lists(FRAGMENTS, max_size=12))
def test_lists_have_the_records_of_each_row(rows):
    decoder = decode_batches(columns=["offset", "value"], on_corruption="skip")
    expected = [None if row is None else decoded(decoder, table([row])) for row in rows]
    lists = decoder.lists(column(rows))
    lists.validate(full=True)
    assert lists.to_pylist() == expected


def test_invalid_arguments_are_reported():
    with pytest.raises(ConfigError, match=r"expected columns of .*, got topic, x"):
        decode_batches(columns=["topic", "offset", "x"])
    with pytest.raises(ConfigError, match="duplicate columns: offset"):
        decode_batches(columns=["offset"], keep={"offset": "bigint"})
    with pytest.raises(ConfigError, match="duplicate columns: magic"):
        batch_headers(keep={"magic": "int"})
    with pytest.raises(ConfigError, match="expected raise or skip, got ignore"):
        batch_headers(on_corruption="ignore")
    with pytest.raises(ConfigError, match="expected columns bytes, path, got content"):
        decoded(decode_batches("bytes", keep={"path": "string"}), table([GOOD]))
    text = pa.record_batch({"content": ["no bytes"]})
    with pytest.raises(ConfigError, match="a binary column, content is string"):
        decoded(decode_batches(), text)


def test_large_values_are_decoded_into_limited_batches():
    rows = [build(2, "zstd", 0, 300, text=b"v" * 1000)] * 100
    batches = list(decode_batches()([table(rows)]))
    assert sum(batch.num_rows for batch in batches) == 30_000
    assert max(batch.nbytes for batch in batches) <= 9 << 20


@pytest.fixture(scope="module")
def golden(spark):
    """Read all segments of a golden set with Spark's ``binaryFile`` source."""
    logs = str(golden_data.logs("k431-clean"))
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    return reader.option("pathGlobFilter", "*.log").load(logs)


def golden_rows():
    """Return the files that it reads: none in a directory that begins with ``_``."""
    return {
        (f"{directory}/{file}", row[kafka_rows.COLUMNS.index("offset")]): row
        for directory, file in golden_files("k431-clean")
        if file.endswith(".log") and not directory.startswith("_")
        for in_file, row in kafka_rows.records("k431-clean", directory)
        if in_file == file
    }


def keyed(row):
    return "/".join(row["path"].split("/")[-2:]), row["offset"]


@pytest.mark.spark
def test_map_in_arrow_decodes_kafkas_records(golden):
    decoder = decode_batches(
        columns=NAMES, keep={"path": "string"}, control_records=True
    )
    rows = golden.mapInArrow(decoder, decoder.schema).toArrow().to_pylist()
    expected = golden_rows()
    assert sorted(map(keyed, rows)) == sorted(expected)
    for row in rows:
        of_kafka = dict(zip(kafka_rows.COLUMNS, expected[keyed(row)], strict=True))
        ours = as_told(row)
        assert {name: of_kafka[name] for name in ours} == ours


@pytest.mark.spark
def test_the_udf_decodes_kafkas_records(golden):
    from pyspark.sql import functions

    decoder = decode_batches(columns=NAMES, control_records=True)
    exploded = functions.explode(decoder.udf("content")).alias("one")
    frame = golden.select("path", exploded).select("path", "one.*")
    rows = frame.toArrow().to_pylist()
    expected = golden_rows()
    assert sorted(map(keyed, rows)) == sorted(expected)
    for row in rows:
        of_kafka = dict(zip(kafka_rows.COLUMNS, expected[keyed(row)], strict=True))
        ours = as_told(row)
        assert {name: of_kafka[name] for name in ours} == ours


@pytest.mark.spark
def test_the_udf_and_map_in_arrow_agree_on_headers(golden):
    headers = batch_headers(keep={"path": "string"})
    frame = golden.select("path", headers.udf("content").alias("of"))
    by_udf = frame.selectExpr("path", "inline(of)")
    assert by_udf.columns == golden.mapInArrow(headers, headers.schema).columns
    mapped = golden.mapInArrow(headers, headers.schema)
    assert by_udf.count() > 0
    assert sorted(by_udf.collect()) == sorted(mapped.collect())
    assert by_udf.where("not isValid").count() == 0


@pytest.mark.spark
def test_the_udf_works_in_sql_and_keeps_nulls(spark):
    spark.udf.register("headers_of", batch_headers().udf)
    rows = "values (null, 0), (unhex('{}'), 1), (unhex(''), 2) as t(content, n)"
    query = f"select headers_of(content).baseOffset b from {rows} order by n"
    found = spark.sql(query.format((GOOD + LATER).hex())).collect()
    assert [row.b for row in found] == [None, [100, 200], []]


@pytest.mark.spark
def test_an_error_in_spark_has_row_and_byte(spark):
    rows = f"values (unhex('{GOOD.hex()}')), (unhex('{FLIPPED.hex()}')) as t(content)"
    frame = spark.sql(f"select * from {rows}").coalesce(1)
    decoder = decode_batches()
    with pytest.raises(
        Exception, match=r"row 1 of content: CRC mismatch: .* at byte 0"
    ):
        frame.mapInArrow(decoder, decoder.schema).collect()
