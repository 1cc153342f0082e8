"""Values in Confluent's wire format, and from a log to typed columns.

A million small values: schema ids and payloads are compared with NumPy and pyarrow,
which need several passes. Typed columns are compared with the library that decodes
alone, which makes objects of Python or reads lines; with programs as users write them;
and with reading the same columns from Parquet.
"""

import io
import json
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from interleaved import compare
from pyarrow import json as reader
from pyarrow import parquet

import kafkalog
from kafkalog.values import decode, message_indexes, payloads, schema_ids

COUNT = 1_000_000
DECODED = 200_000
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
TYPES = pa.schema(
    [("id", pa.int64()), ("customer", pa.string()), ("amount", pa.float64())]
)
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


def avro_values(rows):
    """Return values in the wire format, and their schema as fastavro has it."""
    fastavro = pytest.importorskip("fastavro")
    schema, values = fastavro.parse_schema(SCHEMA), []
    for row in rows:
        out = io.BytesIO(HEADER)
        out.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(out, schema, row)
        values.append(out.getvalue())
    return values, schema


def protobuf_values(rows):
    """Return values in the wire format, descriptors, and the class of the messages."""
    pb = pytest.importorskip("google.protobuf.descriptor_pb2")
    factory = pytest.importorskip("google.protobuf.message_factory")
    kinds = {"id": "INT64", "customer": "STRING", "amount": "DOUBLE"}
    fields = [
        pb.FieldDescriptorProto(name=name, number=i, type=f"TYPE_{kind}", label=1)
        for i, (name, kind) in enumerate(kinds.items(), 1)
    ]
    order = pb.DescriptorProto(name="Order", field=fields)
    file = pb.FileDescriptorProto(
        name="shop.proto", syntax="proto3", message_type=[order]
    )
    message = factory.GetMessages([file])["Order"]
    values = [HEADER + b"\0" + message(**row).SerializeToString() for row in rows]
    descriptors = pb.FileDescriptorSet(file=[file])
    return values, descriptors.SerializeToString(), message


def avro_ways(rows):
    """Return ways to decode: ours, the library alone, as users write it."""
    fastavro = pytest.importorskip("fastavro")
    values, schema = avro_values(rows)
    table = pa.table({"value": pa.array(values, pa.binary())})

    def alone():
        read = fastavro.schemaless_reader
        return [read(io.BytesIO(value[5:]), schema) for value in values]

    return {
        "ours": lambda: decode(table, "avro", schemas={7: SCHEMA}),
        "fastavro": alone,
        "by_hand": lambda: pa.Table.from_pylist(alone(), TYPES),
    }


def json_ways(rows):
    table = pa.table({"value": pa.array(as_json(rows), pa.binary())})
    lines = b"\n".join(as_json(rows))
    options = reader.ParseOptions(explicit_schema=TYPES)
    single = reader.ReadOptions(use_threads=False)

    def by_hand():
        found = map(json.loads, table["value"].to_pylist())
        return pa.Table.from_pylist(list(found), TYPES)

    return {
        "ours": lambda: decode(table, "json", schema=TYPES),
        "pyarrow": lambda: reader.read_json(pa.BufferReader(lines), single, options),
        "by_hand": by_hand,
    }


def protobuf_ways(rows):
    values, descriptors, message_type = protobuf_values(rows)
    table = pa.table({"value": pa.array(values, pa.binary())})

    def alone():
        message = message_type()
        for value in values:
            message.ParseFromString(value[6:])

    def by_hand():
        message, columns = message_type(), {name: [] for name in TYPES.names}
        for value in table["value"].to_pylist():
            message.ParseFromString(value[6:])
            for name, column in columns.items():
                column.append(getattr(message, name))
        return pa.table(columns, TYPES)

    return {
        "ours": lambda: decode(table, "protobuf", schemas=descriptors),
        "protobuf": alone,
        "by_hand": by_hand,
    }


WAYS = {"avro": avro_ways, "json": json_ways, "protobuf": protobuf_ways}


@pytest.mark.parametrize("peer", ["alone", "by_hand", "parquet"])
@pytest.mark.parametrize("form", WAYS)
def bench_decode(benchmark, tmp_path, form, peer):
    """Typed columns of a table in memory: those of the library, or of Parquet."""
    rows = orders()[:DECODED]
    ways = WAYS[form](rows)
    ours, alone = ways.pop("ours"), ways.pop("by_hand")
    (library,) = ways
    found = benchmark(ours)
    columns = found.flatten().rename_columns(TYPES.names)
    assert columns.equals(pa.Table.from_pylist(rows, TYPES))
    if peer == "alone":
        other = ways[library]
    elif peer == "by_hand":
        other, library = alone, "by_hand"
    else:
        parquet.write_table(columns, tmp_path / "orders.parquet")
        other = partial(parquet.read_table, tmp_path / "orders.parquet")
        library = "parquet"
    benchmark.extra_info |= compare(ours, other, peer=library, of=DECODED)
    benchmark.extra_info["values_per_second"] = DECODED / benchmark.stats["median"]


def bench_avro(benchmark, tmp_path):
    """One Avro file of all payloads, against a call of fastavro for each."""
    fastavro = pytest.importorskip("fastavro")
    polars = pytest.importorskip("polars")
    values, schema = avro_values(orders())
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
