"""Values of Avro and Protobuf, printed and exported by the commands."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kafkalog
from tests.cli.shell import call
from tests.values.test_avro_values import SCHEMAS, framed
from tests.values.test_protobuf_values import DESCRIPTORS, Customer

ROW = {"id": 1, "customer": "ada", "amount": 2.0}
LINE = "internal topics are read only if they are named: __consumer_offsets"


def write(path, values, keys=None):
    with kafkalog.open(path, "a") as log:
        log.append_records({"key": keys or [None] * len(values), "value": values})


@pytest.fixture
def logs(tmp_path):
    """A log directory with a topic in Avro, and one of Kafka's own."""
    write(
        tmp_path / "logs" / "orders-0",
        [framed(9, ROW), None, b"ping"],
        [b"k", None, b"k"],
    )
    write(tmp_path / "logs" / "__consumer_offsets-0", [b"\xff"])
    return tmp_path / "logs"


@pytest.fixture
def schemas(tmp_path):
    (tmp_path / "schemas").mkdir()
    for schema_id, schema in SCHEMAS.items():
        (tmp_path / "schemas" / f"{schema_id}.avsc").write_text(json.dumps(schema))
    return tmp_path / "schemas"


@pytest.mark.parametrize("command", ["cat", "head", "tail"])
def test_avro_is_printed_as_json(logs, schemas, command):
    options = "--columns", "key,value", "--value-format", "avro", "--schemas", schemas
    ran = call(command, logs, *options, "--format", "jsonl")
    assert ran.exit_code == 0
    assert LINE in ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    error = {"error": "expected the magic byte 0 and a schema id", "base64": "cGluZw=="}
    assert [row["value"] for row in rows] == [ROW, None, error]
    assert [row["key"] for row in rows] == ["k", None, "k"]
    for form in ("table", "csv"):
        assert "ada" in call(command, logs, *options, "--format", form).stdout


def test_protobuf_is_printed_as_json(tmp_path):
    write(tmp_path / "people-0", [Customer(name="ada").SerializeToString()])
    (tmp_path / "shop.desc").write_bytes(DESCRIPTORS)
    ran = call(
        *(
            "cat",
            tmp_path / "people-0",
            "--columns",
            "value",
            "--value-format",
            "protobuf",
        ),
        *("--schemas", tmp_path / "shop.desc", "--schema", "shop.Customer"),
    )
    assert json.loads(ran.stdout) == {"value": {"name": "ada"}}


def test_avro_is_exported_as_typed_columns_by_date(logs, schemas, tmp_path):
    out = tmp_path / "lake"
    options = "--value-format", "avro", "--schemas", schemas, "--flatten"
    stopped = call("export", logs, out, *options)
    assert stopped.exit_code != 0
    assert not out.exists()
    ran = call(
        "export", logs, out, *options, "--errors", "column", "--partition-by", "date"
    )
    assert (ran.exit_code, LINE in ran.stderr) == (0, True)
    [path] = out.rglob("*.parquet")
    assert path.parent.name.startswith("date=")
    table = pq.read_table(path, partitioning=None)
    assert table["id"].to_pylist() == [1, None, None]
    assert table["value_error"][2].as_py()["bytes"] == b"ping"


def test_text_is_exported_as_strings(logs, tmp_path):
    out = tmp_path / "orders.parquet"
    options = "--topic", "orders", "--key-format", "text"
    assert call("export", logs, out, *options).exit_code == 0
    schema = pq.read_schema(out)
    assert schema.field("key").type == pa.string()
    assert schema.field("value").type == pa.binary()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cat", "--schemas", "x"), "--schemas, expected with avro or protobuf"),
        (
            ("cat", "--value-format", "avro", "--columns", "key"),
            "--value-format, expected value in --columns",
        ),
        (("export", "--value-format", "base64"), "expected with cat, head or tail"),
        (
            ("export", "--value-format", "avro", "--format", "csv"),
            "expected with --format parquet, arrow or delta",
        ),
        (("export", "--flatten"), "expected with --value-format json, avro or"),
        (
            ("export", "--partition-by", "date", "--format", "jsonl"),
            "expected with a directory of parquet or arrow",
        ),
    ],
)
def test_what_does_not_go_together_is_an_error(logs, tmp_path, arguments, message):
    command, *options = arguments
    paths = [logs] if command == "cat" else [logs, tmp_path / "out"]
    ran = call(command, *paths, *options)
    assert ran.exit_code == 2
    assert message in " ".join(ran.stderr.split())
