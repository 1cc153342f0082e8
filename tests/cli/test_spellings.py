"""``--key-format`` and ``--value-format``: JSON as it is, and all bytes as base64."""

import csv
import io
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import kafkalog
from kafkalog.export.text_lines import json_lines, spell_document

from . import golden
from .shell import as_bytes, call, objects, on_terminal

DEEP = b"[" * 200_000 + b"]" * 200_000
DOCUMENTS = [
    b'{"id": 1, "tags": ["a", null], "ok": true}',
    b'{\n\t"id": 1\r\n}',
    b"  12345678901234567890.10  ",
    b"[" + b"1" * 5_000 + b"]",
    b"null",
    b'"text"',
    b'""',
    b'{"id": 1, "id": 2}',
    '["é\u2028", "\\ud800"]'.encode(),
]
OTHERS = [
    b"",
    b" ",
    b"text",
    b"{",
    b'{"id": 1} {"id": 2}',
    b"NaN",
    b"[-Infinity]",
    b"01",
    b"{'id': 1}",
    b'"line\nbreak"',
    b'["\xff"]',
    b"\xef\xbb\xbf{}",
    "[1]\u2028".encode(),
    DEEP,
]


def lines_of(values, **spellings):
    batch = kafkalog.RecordBatchBuilder()
    for value in values:
        batch.append(value, value, timestamp=1)
    columns = ("key", "value")
    [records] = kafkalog.scan(batch.build(), columns=columns).chunks()
    lines = json_lines(records, columns, spellings=spellings)
    assert all(len(line.splitlines()) == 1 for line in lines)
    return [json.loads(line, parse_int=str, parse_float=str) for line in lines]


def loaded(document):
    return json.loads(document, parse_int=str, parse_float=str)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_valid_json_is_printed_as_it_is(document):
    [row] = lines_of([document], value="json")
    assert row["value"] == loaded(document)
    assert row["key"] == document.decode()


@pytest.mark.parametrize("value", [*OTHERS, None], ids=repr)
def test_what_is_no_json_has_the_form_of_text(value):
    assert lines_of([value], value="json") == lines_of([value])
    assert value is None or spell_document(value) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(
    value=json_values, ascii_only=st.booleans(), indent=st.sampled_from([None, 1, "\t"])
)
def test_any_document_keeps_its_value(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent, allow_nan=False)
    try:
        document = text.encode()
    except UnicodeEncodeError:  # a surrogate that is not escaped
        return
    assert lines_of([document], value="json")[0]["value"] == loaded(document)


@given(value=st.binary(max_size=20))
@example(value=b"1e5")
def test_the_printed_line_is_valid_json_whatever_the_bytes_are(value):
    [row] = lines_of([value], key="json", value="base64")
    assert as_bytes(row["value"]) == value
    document = spell_document(value)
    text = {"base64": row["value"]["base64"]}
    assert row["key"] in (
        [loaded(document)] if document else [text, value.decode("utf-8", "replace")]
    )


@pytest.fixture
def topic(tmp_path):
    path = tmp_path / "orders-0"
    with kafkalog.open(path, "a") as log:
        values = [b'{"id": 1}', b"text", None, b"\xff", b'"\xc2\x9b31m"']
        log.append_records({"key": [b"7"] * 5, "value": values})
    return path


@pytest.mark.parametrize("command", ["cat", "head", "tail"])
def test_each_command_that_prints_records_has_both(command, topic):
    columns = "--columns", "key,value"
    ran = call(
        command, topic, *columns, "--value-format", "json", "--key-format", "base64"
    )
    key = {"base64": "Nw=="}
    assert objects(ran.stdout)[:4] == [
        {"key": key, "value": {"id": 1}},
        {"key": key, "value": "text"},
        {"key": key, "value": None},
        {"key": key, "value": {"base64": "/w=="}},
    ]
    listed = call(command, topic, "--format", "json", "--value-format", "json").stdout
    assert json.loads(listed)[0]["value"] == {"id": 1}


@pytest.mark.parametrize("spelling", ["text", "json"])
def test_csv_and_tables_have_text(topic, spelling):
    for form in ("csv", "table"):
        ran = call("cat", topic, "--format", form, "--value-format", spelling)
        assert ran.stdout_bytes == call("cat", topic, "--format", form).stdout_bytes


def test_csv_and_tables_have_base64(topic):
    columns = "--columns", "value", "--value-format", "base64"
    ran = call("cat", topic, *columns, "--format", "csv")
    first, _, null, *_ = list(csv.reader(io.StringIO(ran.stdout)))[1:]
    assert (first, null) == (['{"base64": "eyJpZCI6IDF9"}'], [])
    table = call("cat", topic, *columns, "--format", "table").stdout.splitlines()
    assert table[1] == '{"base64": "eyJpZCI6IDF9"}'
    assert table[3] == "null"


def test_json_on_a_terminal_has_no_control_characters(topic):
    shown = on_terminal("cat", topic, "--value-format", "json", "--format", "jsonl")
    assert "\x9b" not in shown
    assert objects(shown)[4]["value"] == "\x9b31m"


def test_decoded_records_are_not_respelled():
    arguments = "cat", golden.CLEAN / "__consumer_offsets-1", "--decode", "-n", 3
    assert (
        call(*arguments, "--value-format", "base64").stdout == call(*arguments).stdout
    )


def test_another_spelling_is_a_usage_error(topic):
    assert call("cat", topic, "--value-format", "hex").exit_code == 2


def test_a_log_that_is_followed_has_the_same_form(topic, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("kafkalog.cli.commands.tail._wait", interrupted)
    arguments = "tail", topic, "--value-format", "json", "--format", "jsonl"
    assert call(*arguments, "-f").stdout == call(*arguments).stdout
