"""Values in Confluent's wire format, and from a log to typed columns.

A million small values: schema ids and payloads are compared with NumPy and pyarrow,
which need several passes. Typed columns are made as on the pages in ``docs/howto``,
from a log on disk, and their rates are bounded by the library that decodes.
"""

import io

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from interleaved import compare

import kafkalog
from kafkalog.values import message_indexes, payloads, schema_ids

COUNT = 1_000_000
SEED = 20_241_025
HEADER = b"\0\0\0\0\7"
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", "string"]},
        {"name": "amount", "type": "double"},
    ],
}
TYPED = """
select unnest(from_json(
    value, '{"id": "BIGINT", "customer": "VARCHAR", "amount": "DOUBLE"}'
)) from scan
"""


def orders():
    random = np.random.default_rng(SEED)
    ids = random.integers(0, 1 << 40, COUNT).tolist()
    amounts = random.integers(0, 100_000, COUNT).tolist()
    return [
        {"id": i, "customer": f"c{i % 1000}", "amount": amount + 0.25}
        for i, amount in zip(ids, amounts, strict=True)
    ]


def as_json(rows):
    return [
        b'{"id": %d, "customer": "%s", "amount": %f}'
        % (row["id"], row["customer"].encode(), row["amount"])
        for row in rows
    ]


@pytest.fixture(scope="module")
def column():
    """Return values of 27 to 35 bytes, one in a hundred of them null."""
    random = np.random.default_rng(SEED)
    lengths = random.integers(22, 31, COUNT).tolist()
    nulls = (random.random(COUNT) < 0.01).tolist()
    return pa.array(
        [
            None if null else HEADER + b"\0" + b"v" * (length - 1)
            for length, null in zip(lengths, nulls, strict=True)
        ],
        pa.binary(),
    )


@pytest.fixture(scope="module")
def json_log(tmp_path_factory):
    return write(tmp_path_factory.mktemp("json") / "orders-0", as_json(orders()))


def write(path, values):
    with kafkalog.open(path, "a") as log:
        log.append_records(pa.table({"value": pa.array(values, pa.binary())}))
    return path


def ids_by_numpy(column):
    """Return the ids, -1 where there is none."""
    _, offsets, data = column.buffers()
    offsets = np.frombuffer(offsets, np.int32)
    data = np.frombuffer(data, np.uint8)
    starts = offsets[:-1]
    (rows,) = np.nonzero(np.diff(offsets) >= 5)
    rows = rows[data[starts[rows]] == 0]
    found = data[starts[rows][:, np.newaxis] + np.arange(1, 5)]
    ids = np.full(len(starts), -1, np.int32)
    ids[rows] = found.view(">i4")[:, 0]
    return ids


def payloads_by_pyarrow(column):
    framed = pc.and_(
        pc.greater_equal(pc.binary_length(column), 5), pc.starts_with(column, b"\0")
    )
    return pc.if_else(framed, pc.binary_slice(column, 5, 1 << 20), None)


def bench_schema_ids(benchmark, column):
    found = benchmark(schema_ids, column)
    assert found.fill_null(-1).to_numpy().tolist() == ids_by_numpy(column).tolist()
    benchmark.extra_info |= compare(
        lambda: schema_ids(column),
        lambda: ids_by_numpy(column),
        peer="numpy",
        of=COUNT,
    )


def bench_payloads(benchmark, column):
    found = benchmark(payloads, column)
    assert found.equals(payloads_by_pyarrow(column))
    benchmark.extra_info |= compare(
        lambda: payloads(column),
        lambda: payloads_by_pyarrow(column),
        peer="pyarrow",
        of=COUNT,
    )


@pytest.mark.parametrize("read", ["payloads", "message_indexes"])
def bench_protobuf(benchmark, column, read):
    if read == "payloads":
        benchmark(payloads, column, protobuf=True)
    else:
        benchmark(message_indexes, column)
    benchmark.extra_info["values_per_second"] = COUNT / benchmark.stats["median"]


@pytest.mark.parametrize("text", [False, True])
def bench_text(benchmark, json_log, text):
    """The check of UTF-8, which is all that strings take more than bytes."""
    scan = kafkalog.scan(json_log, columns=["value"], text=text)
    table = benchmark(scan.to_arrow)
    assert table.num_rows == COUNT
    benchmark.extra_info["values_per_second"] = COUNT / benchmark.stats["median"]


@pytest.mark.parametrize("library", ["duckdb", "polars"])
def bench_json(benchmark, json_log, library):
    module = pytest.importorskip(library)

    def by_duckdb():
        scan = kafkalog.scan(json_log, columns=["value"], text=True)  # noqa: F841
        return module.sql(TYPED).to_arrow_table()

    def by_polars():
        order = module.Struct(
            {"id": module.Int64, "customer": module.String, "amount": module.Float64}
        )
        scan = kafkalog.scan(json_log, columns=["value"], text=True)
        decoded = module.col("value").str.json_decode(order)
        return scan.to_polars().select(decoded).unnest("value")

    found = benchmark(by_duckdb if library == "duckdb" else by_polars)
    assert found.shape == (COUNT, 3)
    benchmark.extra_info["values_per_second"] = COUNT / benchmark.stats["median"]


def bench_avro(benchmark, tmp_path):
    """One Avro file of all payloads, against a call of fastavro for each."""
    fastavro = pytest.importorskip("fastavro")
    polars = pytest.importorskip("polars")
    schema = fastavro.parse_schema(SCHEMA)
    values = []
    for row in orders():
        out = io.BytesIO(HEADER)
        out.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(out, schema, row)
        values.append(out.getvalue())
    path = write(tmp_path / "orders-0", values)
    scan = kafkalog.scan(path, columns=["value"])

    def as_file():
        file = io.BytesIO()
        fastavro.writer(file, schema, [], sync_marker=bytes(16))
        for chunk in payloads(scan.to_arrow()["value"]).chunks:
            *_, data = chunk.buffers()
            for number in (len(chunk), data.size):
                fastavro.schemaless_writer(file, "long", number)
            file.write(data)
            file.write(bytes(16))
        file.seek(0)
        return polars.read_avro(file)

    def one_by_one():
        column = payloads(scan.to_arrow()["value"])
        return [
            fastavro.schemaless_reader(io.BytesIO(value), schema)
            for value in column.to_pylist()
        ]

    found = benchmark(as_file)
    assert found.rows(named=True) == one_by_one()
    benchmark.extra_info |= compare(as_file, one_by_one, peer="fastavro", of=COUNT)
    benchmark.extra_info["values_per_second"] = COUNT / benchmark.stats["median"]
