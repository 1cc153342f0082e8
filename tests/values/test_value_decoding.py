"""What `decode` does of any format: sources, columns, blocks."""

import pyarrow as pa
import pytest

import kafkalog
from kafkalog.errors import InternalTopicsWarning, InvalidValueError
from kafkalog.values import decode, value_decoding

ORDER = pa.schema([("id", pa.int64()), ("offset", pa.string())])
VALUES = [b'{"id": %d, "offset": "x"}' % i for i in range(5)]


def write(path, values, keys=None):
    with kafkalog.open(path, "a") as log:
        log.append_records({"key": keys or [None] * len(values), "value": values})
    return path


def test_a_table_becomes_a_table_and_a_stream_a_stream(tmp_path):
    scan = kafkalog.scan(
        write(tmp_path / "orders-0", VALUES), columns=["offset", "value"]
    )
    table = scan.to_arrow()
    found = decode(table, "json", schema=ORDER)
    assert isinstance(found, pa.Table)
    assert found.schema == pa.schema(
        [("offset", pa.int64()), ("value", pa.struct(list(ORDER)))]
    )
    for stream in (scan, table.to_reader(), scan.to_polars()):
        reader = decode(stream, "json", schema=ORDER)
        assert isinstance(reader, pa.RecordBatchReader)
        assert reader.read_all().to_pydict() == found.to_pydict()


def test_a_source_that_is_no_table_is_an_error():
    with pytest.raises(TypeError, match="source of type list, expected a Scan"):
        decode([], "json")
    table = pa.table({"value": [1]})
    with pytest.raises(TypeError, match="value of type int64, expected bytes or text"):
        decode(table, "json")
    with pytest.raises(ValueError, match="no column key, expected it in the source"):
        decode(table, "json", column="key")
    with pytest.raises(ValueError, match="column 'offset', expected key or value"):
        decode(table, "json", column=["offset"])
    with pytest.raises(
        ValueError, match="errors 'skip', expected one of raise, column"
    ):
        decode(table, "json", errors="skip")
    with pytest.raises(ValueError, match="infer_schema_length 0, expected 1 or more"):
        decode(table, "json", infer_schema_length=0)


def test_text_is_decoded_as_bytes_are(tmp_path):
    scan = kafkalog.scan(write(tmp_path / "orders-0", VALUES), text=True)
    found = decode(scan, "json", schema=ORDER).read_all()
    assert found["value"].to_pylist()[4] == {"id": 4, "offset": "x"}
    assert found.schema.names == list(scan.columns)
    assert decode(scan.to_arrow(), "json", schema=ORDER)["value"].equals(found["value"])
    assert found.schema.field("key").type == pa.string()


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.string(), pa.large_string()])
def test_other_types_of_bytes_are_decoded(kind):
    column = pa.array(VALUES, pa.binary()).cast(kind)
    found = decode(pa.table({"value": column}), "json", schema=ORDER, errors="column")
    assert found["value"].to_pylist()[1] == {"id": 1, "offset": "x"}


def test_flattened_columns_take_the_place_of_the_value():
    table = pa.table({"offset": [7], "value": VALUES[:1], "partition": [0]})
    found = decode(table, "json", schema=ORDER, flatten=True, errors="column")
    assert found.schema.names == [
        "offset",
        "id",
        "value_offset",
        "value_error",
        "partition",
    ]
    assert found.select(["id", "value_offset"]).to_pylist() == [
        {"id": 0, "value_offset": "x"}
    ]
    text = decode(pa.table({"value": [b"1"]}), "json", flatten=True)
    assert text.to_pydict() == {"value": [1]}


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_blocks_are_bounded_and_rows_are_counted_over_them(monkeypatch, rows):
    monkeypatch.setattr(value_decoding, "BLOCK_ROWS", rows)
    table = pa.table({"value": [*VALUES, b"ping"]})
    found = decode(table, "json", schema=ORDER, errors="column")
    assert found["value"].to_pylist()[:5] == [
        {"id": i, "offset": "x"} for i in range(5)
    ]
    assert {len(chunk) for chunk in found["value"].chunks} <= set(range(1, rows + 1))
    with pytest.raises(InvalidValueError, match=r": row 5\n"):
        decode(table, "json", schema=ORDER)


def test_large_values_make_small_blocks(monkeypatch):
    monkeypatch.setattr(value_decoding, "BLOCK_BYTES", 60)
    found = decode(pa.table({"value": VALUES}), "json", schema=ORDER)
    assert found["value"].num_chunks == 3


def test_a_stream_is_read_only_as_far_as_its_schema_needs():
    read = []

    def batches():
        for i, value in enumerate([None, *VALUES]):
            read.append(i)
            yield pa.record_batch([pa.array([value], pa.binary())], ["value"])

    source = pa.RecordBatchReader.from_batches(
        pa.schema([("value", pa.binary())]), batches()
    )
    reader = decode(source, "json", infer_schema_length=2)
    assert read == [0, 1, 2]
    assert len(reader.read_all()) == 6


def test_problems_of_a_scan_are_listed_as_it_is_read(tmp_path):
    path = write(tmp_path / "orders-0", VALUES[:2])
    with kafkalog.open(path, "a") as log:
        log.append_records({"value": VALUES[2:]})
    file = path / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    scan = kafkalog.scan(path, on_corruption="skip")
    found = decode(scan, "json", schema=ORDER).read_all()
    assert found["offset"].to_pylist() == [2, 3, 4]
    assert [problem.first_offset for problem in scan.problems] == [0]


def test_internal_topics_are_decoded_only_if_they_are_named(tmp_path):
    write(tmp_path / "orders-0", VALUES)
    write(tmp_path / "__consumer_offsets-0", [b"\xff"])
    with pytest.warns(InternalTopicsWarning, match="__consumer_offsets"):
        reader = decode(kafkalog.scan(tmp_path), "json")
    assert reader.read_all().num_rows == 5
    named = kafkalog.scan(tmp_path, topics=["*"])
    with pytest.raises(InvalidValueError, match="__consumer_offsets-0 at offset 0"):
        decode(named, "json", schema=ORDER).read_all()
