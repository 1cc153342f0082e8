"""Checkpoint files: those of Kafka are read, and invalid ones are errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import CorruptCheckpointError
from kafkalog.formats.checkpoint import (
    EpochEntry,
    format_epochs,
    format_offsets,
    parse_epochs,
    parse_offsets,
)
from tests import golden_data
from tests.faults import byte_of_fault

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
topics = st.text("abcXYZ019._-", min_size=1, max_size=20)
offset_maps = st.dictionaries(st.tuples(topics, int32s), int64s, max_size=8)
epoch_lists = st.lists(st.tuples(int32s, int64s), max_size=8)

OFFSETS = b"0\n3\nmy-topic 3 42\na.b 0 0\n__x-y 12 9223372036854775807\n"
EPOCHS = b"0\n2\n0 0\n5 1500\n"


@pytest.mark.parametrize("set_name", golden_data.SETS)
def test_the_offsets_equal_those_read_by_kafka(set_name):
    rows = [r for r in golden_data.root(set_name) if r["file"].endswith("-checkpoint")]
    for row in rows:
        data = (golden_data.logs(set_name) / row["file"]).read_bytes()
        offsets = parse_offsets(data)
        named = {f"{topic}-{n}": offset for (topic, n), offset in offsets.items()}
        assert named == row["entries"]
        assert format_offsets(offsets) == (data or b"0\n0\n")  # empty when created
    assert rows or set_name == "oldclients"


@pytest.mark.parametrize("set_name", golden_data.SETS)
def test_the_epochs_equal_those_read_by_kafka(set_name):
    found = 0
    for directory in golden_data.directories(set_name):
        for row in golden_data.truth(set_name, directory, "aux"):
            if row["file"] != "leader-epoch-checkpoint":
                continue
            path = golden_data.logs(set_name) / directory / row["file"]
            epochs = parse_epochs(path.read_bytes())
            assert [list(entry) for entry in epochs] == row["entries"]
            assert format_epochs(epochs) == path.read_bytes()
            found += 1
    assert found or set_name == "oldclients"


def test_the_written_examples_are_read():
    assert parse_epochs(EPOCHS) == [EpochEntry(0, 0), EpochEntry(5, 1500)]
    assert parse_offsets(b"0\n1\nmy-topic 3 42\n") == {("my-topic", 3): 42}


@given(offsets=offset_maps)
def test_offsets_are_read_back(offsets):
    assert parse_offsets(format_offsets(offsets)) == offsets


@given(epochs=epoch_lists)
def test_epochs_are_read_back(epochs):
    assert parse_epochs(format_epochs(epochs)) == epochs


@pytest.mark.parametrize("data", [b"", b"0", b"0\n", b"0\r\n", b"0\n0", b"0\n0\n"])
def test_a_file_that_ends_after_the_version_has_no_entries(data):
    assert parse_offsets(data) == {}
    assert parse_epochs(data) == []


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_any_line_ending_is_read(end):
    assert parse_epochs(EPOCHS.replace(b"\n", end)) == parse_epochs(EPOCHS)
    assert parse_epochs(EPOCHS.replace(b"\n", end)[: -len(end)]) == parse_epochs(EPOCHS)


@pytest.mark.parametrize("line", [b"a 1 2", b"a\t1  \t2", b"a 1 2  \t", b"a 01 +2"])
def test_fields_are_separated_by_any_blanks(line):
    assert parse_offsets(b"0\n1\n" + line + b"\n") == {("a", 1): 2}


def test_the_last_line_of_a_partition_counts():
    assert parse_offsets(b"0\n2\na 1 2\na 1 3\n") == {("a", 1): 3}


def test_a_topic_may_have_characters_outside_ascii():
    offsets = {("größe", 0): 1}
    assert parse_offsets(format_offsets(offsets)) == offsets


@pytest.mark.parametrize(
    ("data", "reason", "position"),
    [
        (b"1\n0\n", "checkpoint version 1, expected 0", 0),
        (b"x\n0\n", "version 'x', expected an int32", 0),
        (b" 0\n0\n", "version ' 0', expected an int32", 0),
        (b"0 \n0\n", "version '0 ', expected an int32", 0),
        (b"\n", "version '', expected an int32", 0),
        (b"0\n\n", "count '', expected an int32", 2),
        (b"0\n1x\na 1 2\n", "count '1x', expected an int32", 2),
        (b"0\n2147483648\n", "count '2147483648', expected an int32", 2),
        (b"0\n2\na 1 2\n", "1 entries, expected 2", 2),
        (b"0\n1\na 1 2\nb 1 2\n", "2 entries, expected 1", 2),
        (b"0\n-1\n", "entry count -1, expected at least 0", 2),
        (b"0\n2147483647\n", "0 entries, expected 2147483647", 2),
        (b"0\n1\n\n", "0 fields in '', expected 3", 4),
        (b"0\n1\na 1 2\n\n", "0 fields in '', expected 3", 10),
        (b"0\n1\na 1\n", "2 fields in 'a 1', expected 3", 4),
        (b"0\n1\na 1 2 3\n", "4 fields in 'a 1 2 3', expected 3", 4),
        (b"0\n1\n a 1 2\n", "4 fields in ' a 1 2', expected 3", 4),
        (b"0\n1\n 1 2\n", "3 fields in ' 1 2', expected 3", 4),
        (b"0\n1\na x 2\n", "partition 'x', expected an int32", 4),
        (b"0\n2\na 1 2\na 2 9223372036854775808\n", "offset '92", 10),
        (b"0\n1\na\xff 1 2\n", "line with invalid UTF-8", 5),
    ],
)
def test_an_invalid_file_is_an_error_at_its_byte(data, reason, position):
    with pytest.raises(CorruptCheckpointError) as caught:
        parse_offsets(data)
    assert caught.value.reason.startswith(reason)
    assert caught.value.position == position


@pytest.mark.parametrize("line", [b"", b"0", b"0 0 0", b"x 0", b"0 x", b"2147483648 0"])
def test_an_epoch_line_is_two_numbers(line):
    with pytest.raises(CorruptCheckpointError) as caught:
        parse_epochs(b"0\n2\n0 0\n" + line + b"\n")
    assert caught.value.position == 8


@pytest.mark.parametrize("topic", ["", "a b", "a\tb", "a\n", "\r"])
def test_a_topic_with_blanks_is_not_written(topic):
    with pytest.raises(ValueError, match="expected a name without blanks"):
        format_offsets({(topic, 0): 0})


@pytest.mark.parametrize(
    ("data", "parse"), [(OFFSETS, parse_offsets), (EPOCHS, parse_epochs)]
)
def test_a_truncated_file_is_not_read_as_another(data, parse):
    """Except inside its last number, which no reader can detect."""
    last_number = data.rindex(b" ") + 2
    for cut in range(4, last_number):
        with pytest.raises(CorruptCheckpointError) as caught:
            parse(data[:cut])
        assert 0 <= caught.value.position <= cut
    assert parse(data[:-1]) == parse(data)
    assert not parse(data[:1])


@given(
    data=st.binary(max_size=64) | st.text("0123 ab\n\r\t-", max_size=64).map(str.encode)
)
def test_any_bytes_are_a_checkpoint_or_a_typed_error(data):
    for parse in (parse_offsets, parse_epochs):
        for whole in (data, b"0\n1\n" + data):
            assert 0 <= byte_of_fault(parse, whole) <= len(whole)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"1\n0\n", "KafkaStorageException"),
        (b"0\nx\n", "KafkaStorageException"),
        (b"0\n-1\n", "IllegalArgumentException"),
        (b"0\n1\n0 x\n", "NumberFormatException"),
        (b"0\n1\nx 0\n", "NumberFormatException"),
        (b"0\n1\n0\n", "KafkaStorageException"),
        (b"0\n2\n0 0\n", "KafkaStorageException"),
    ],
)
def test_an_error_has_the_name_of_kafkas_exception(data, name):
    with pytest.raises(CorruptCheckpointError) as caught:
        parse_epochs(data)
    assert caught.value.kafka_name == name
