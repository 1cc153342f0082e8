"""The functions of the pages on Avro and Protobuf, with a registry and other rows."""

import io
import json
import struct
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.error import HTTPError

import fastavro
import pyarrow as pa
import pytest

from tests.doc_pages import ROOT, PageRunner

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "lines", "type": {"type": "array", "items": "string"}},
    ],
}


def functions_of(page, directory, monkeypatch):
    """Run a page, and return its variables."""
    monkeypatch.chdir(directory)
    runner = PageRunner(ROOT / "docs" / "howto" / page, directory)
    assert not runner.run()
    return runner.variables


@pytest.fixture
def registry():
    """Serve schema 9 as a registry does; yield its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            found = self.path == "/schemas/ids/9"
            self.send_response(200 if found else 404)
            self.end_headers()
            answer = {"schema": json.dumps(ORDER)} if found else {"error_code": 40403}
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_avro_of_a_registry_is_decoded_in_any_number_of_chunks(
    registry, tmp_path, monkeypatch
):
    page = functions_of("avro-values.md", tmp_path, monkeypatch)
    schema = page["from_registry"](registry, 9)
    with pytest.raises(HTTPError) as missing:
        page["from_registry"](registry, 10)
    missing.value.close()
    rows = [{"id": i, "lines": ["x"] * (i % 3)} for i in range(500)]
    values = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        values.append(struct.pack(">bi", 0, 9) + out.getvalue())
    values[7:7] = [None, b"other"]
    parts = [values[:0], values[:3], values[3:300], values[300:300], values[300:]]
    column = pa.chunked_array([pa.array(part, pa.binary()) for part in parts])
    table = pa.table({"offset": pa.array(range(502)), "value": column})
    found = page["decoded"](
        table, lambda number: page["from_registry"](registry, number)
    )
    assert found.drop("offset").to_dicts() == rows
    assert found["offset"].to_list() == [*range(7), *range(9, 502)]


def test_protobuf_without_a_row_has_typed_columns(tmp_path, monkeypatch):
    page = functions_of("protobuf-values.md", tmp_path, monkeypatch)
    table = pa.table({"offset": [1], "value": pa.array([b"other"])})
    found = page["decoded"](table, page["Order"], page["FIELDS"])
    assert (found.num_rows, found.schema.field("amount").type) == (0, pa.float64())
    assert (
        found.schema
        == page["decoded"](page["table"], page["Order"], page["FIELDS"]).schema
    )
