"""The table of messages: how it is generated and parsed."""

import json

import pytest

from kafkalog.messages import schema_tables
from kafkalog.messages.schema import Array, Field
from tests.schemas.make_tables import FOLDERS, TABLE, make

VALUE = """// A licence.
{
  "apiKey": 7, "type": "coordinator-value", "name": "SomeValue",
  // Why there are two versions.
  "validVersions": "0-1", "flexibleVersions": "1+",
  "commonStructs": [
    { "name": "Part", "versions": "0+", "fields": [
      { "name": "Id", "type": "int32", "versions": "0+", "about": "// no comment" }
    ]}
  ],
  "fields": [
    { "name": "Parts", "type": "[]Part", "versions": "0+", "nullableVersions": "1+",
      "default": "null", "entityType": "topicName" },
    { "name": "Epoch", "type": "int64", "taggedVersions": "1+", "tag": 0,
      "default": "-1", "ignorable": true },
    { "name": "old", "type": "string", "versions": "0", "default": null }
  ]
}
"""


@pytest.fixture
def table(tmp_path):
    folder = tmp_path / FOLDERS["__consumer_offsets"]
    folder.mkdir(parents=True)
    (folder / "SomeValue.json").write_text(VALUE, encoding="utf-8")
    other = VALUE.replace("coordinator-value", "data").replace("Some", "Other")
    (folder / "OtherValue.json").write_text(other, encoding="utf-8")
    return make(tmp_path, "9.9")


def test_messages_are_kept_without_members_that_decoding_does_not_need(table):
    assert json.loads(table)["release"] == "9.9"
    [message] = json.loads(table)["__consumer_offsets"]
    assert message["name"] == "SomeValue"
    assert "about" not in table
    assert "entityType" not in table
    assert json.loads(table)["__transaction_state"] == []


def test_a_schema_is_parsed_from_the_table(table):
    [message] = json.loads(table)["__consumer_offsets"]
    schema = schema_tables.schema_from(message)
    assert schema.fields == (
        Field("parts", Array((Field("id", "int32"),)), nullable_since=1, default=None),
        Field("epoch", "int64", since=1, tag=0, default=-1),
        Field("old", "string", until=0),
    )
    assert (schema.lowest_version, schema.highest_version) == (0, 1)
    assert schema.flexible_since == 1


def test_the_table_in_the_package_has_one_message_per_line():
    text = TABLE.read_text(encoding="utf-8")
    table = json.loads(text)
    messages = [message for topic in FOLDERS for message in table[topic]]
    lines = [line.rstrip(",") for line in text.splitlines() if line.startswith('{"')]
    assert [json.loads(line) for line in lines] == messages
    assert sum(len(schema_tables.schemas_of(topic)) for topic in FOLDERS) == len(lines)
