"""Properties as Java reads and writes them, and the meta.properties of brokers."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import CorruptCheckpointError, UnsupportedFormatError
from kafkalog.formats.properties import (
    MetaProperties,
    format_properties,
    parse_properties,
)
from tests import golden_data
from tests.faults import byte_of_fault

WRITTEN = datetime(2026, 11, 1, 4, 5, 6, tzinfo=UTC)
META = b"#\n#Sat Nov 21 14:40:52 UTC 2026\nnode.id=1\nversion=1\ncluster.id=c\n"

texts = st.text(max_size=12) | st.text("\\u00e9 =:#!\t\n\r\f", max_size=12)


def values(data):
    return {key: found.value for key, found in parse_properties(data).items()}


@pytest.mark.parametrize("set_name", golden_data.SETS)
def test_meta_properties_equal_those_read_by_kafka(set_name):
    rows = [r for r in golden_data.root(set_name) if r["file"] == "meta.properties"]
    for row in rows:
        data = (golden_data.logs(set_name) / row["file"]).read_bytes()
        assert values(data) == row["properties"]
        meta = MetaProperties.parse(data)
        assert meta.properties() == row["properties"]
        written = data.splitlines()[1].decode()
        at = datetime.strptime(written, "#%a %b %d %H:%M:%S UTC %Y").replace(tzinfo=UTC)
        assert meta.format(at) == data
    assert rows or set_name == "oldclients"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", {}),
        (b"a", {"a": ""}),
        (b"a=1", {"a": "1"}),
        (b"a:1", {"a": "1"}),
        (b"a 1", {"a": "1"}),
        (b"a \t\f= \t\f1 ", {"a": "1 "}),
        (b" \ta=1", {"a": "1"}),
        (b"a==1", {"a": "=1"}),
        (b"a = : 1", {"a": ": 1"}),
        (b"=1", {"": "1"}),
        (b"a=1\rb=2\r\nc=3\n\n\n d = 4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        (b"# a=1\n ! b=2\\\nc=3", {"c": "3"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a=1\\\n   2\\\r\n\t3", {"a": "123"}),
        (b"a=1\\", {"a": "1"}),
        (b"a=1\\\n", {"a": "1"}),
        (b"a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        (b"\\\n# no\n\\\n\nb=2", {"b": "2"}),
        (b"a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        (b"a=1\\\n#2", {"a": "1#2"}),
        (b"a\\=b\\:c\\ d=1", {"a=b:c d": "1"}),
        (b"a=\\t\\n\\r\\f\\q\\=", {"a": "\t\n\r\fq="}),
        (b"a=\\u00e9\\u00C9\\uD83D\\ude00", {"a": "éÉ\N{GRINNING FACE}"}),
        (b"a=\xe9", {"a": "é"}),
        (b"k\\u0065y=1", {"key": "1"}),
    ],
)
def test_a_file_is_read_as_java_reads_it(text, expected):
    assert values(text) == expected


def test_a_property_has_the_position_of_its_line():
    found = parse_properties(b"#\n  a=1\\\n  2\r\nb=3")
    assert {key: value.position for key, value in found.items()} == {"a": 2, "b": 14}


@pytest.mark.parametrize(
    "text", [b"\\u", b"\\u12", b"\\u12g4", b"\\u 123", b"\\u123\\4"]
)
def test_a_unicode_escape_has_four_digits(text):
    with pytest.raises(CorruptCheckpointError, match="four hex digits") as caught:
        parse_properties(b"#\na=" + text)
    assert caught.value.position == 2


@given(properties=st.dictionaries(texts, texts, max_size=4))
def test_written_properties_are_read_back(properties):
    data = format_properties(properties, WRITTEN)
    assert values(data) == properties
    assert data.isascii()


def test_properties_are_written_as_java_writes_them():
    properties = {"a b": " c d", "e=f": "g:#!\\", "h": "\té\n"}
    assert format_properties(properties, WRITTEN).splitlines()[2:] == [
        rb"a\ b=\ c d",
        rb"e\=f=g\:\#\!\\",
        rb"h=\t\u00E9\n",
    ]


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=30))])
def test_the_date_is_javas_in_utc(zone):
    data = format_properties({}, WRITTEN.astimezone(zone))
    assert data == b"#\n#Sun Nov 01 04:05:06 UTC 2026\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", MetaProperties(version=0)),
        (b"broker.id=7", MetaProperties(version=0, node_id=7)),
        (b"version=0\nnode.id=7", MetaProperties(version=0)),
        (
            b"version=1\nnode.id=7\ncluster.id=c\nbroker.id=8\nother=1",
            MetaProperties(version=1, node_id=7, cluster_id="c"),
        ),
        (
            b"directory.id=uofqeqfsP63VDPF-lkGQ6Q",
            MetaProperties(version=0, directory_id="uofqeqfsP63VDPF-lkGQ6Q"),
        ),
    ],
)
def test_both_versions_are_read(text, expected):
    assert MetaProperties.parse(text) == expected
    assert MetaProperties.parse(expected.format(WRITTEN)) == expected


@pytest.mark.parametrize(
    ("text", "reason", "position"),
    [
        (b"#\nversion=x", "version 'x', expected an int32", 2),
        (b"#\nbroker.id=", "broker.id '', expected an int32", 2),
        (b"#\nbroker.id=2147483648", "broker.id '2147483648', expected an int32", 2),
        (b"#\ndirectory.id=c", "directory.id 'c', expected 22 characters", 2),
        (b"version=1\ncluster.id=c", "version 1 without node.id", 0),
        (b"version=1", "version 1 without cluster.id and node.id", 0),
    ],
)
def test_an_invalid_file_is_an_error_at_its_byte(text, reason, position):
    with pytest.raises(CorruptCheckpointError) as caught:
        MetaProperties.parse(text)
    assert caught.value.reason.startswith(reason)
    assert caught.value.position == position


def test_a_later_version_is_unsupported():
    with pytest.raises(
        UnsupportedFormatError, match="version 2, expected 0 or 1"
    ) as caught:
        MetaProperties.parse(b"#\nversion=2\nnode.id=7\ncluster.id=c")
    assert caught.value.position == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 2},
        {"version": 1, "node_id": 1},
        {"version": 1, "cluster_id": "c"},
        {"version": 0, "directory_id": "x"},
    ],
)
def test_invalid_meta_properties_cannot_be_created(wrong):
    with pytest.raises(ValueError, match=r"version|characters"):
        MetaProperties(**wrong)


def test_a_truncated_file_has_the_properties_before_the_cut():
    """Except inside its last value, which no reader can detect."""
    version_at = META.index(b"version")
    for cut in range(version_at):
        assert MetaProperties.parse(META[:cut]) == MetaProperties(version=0)
    for cut in range(version_at + len(b"version"), META.index(b"cluster.id=") + 10):
        with pytest.raises(CorruptCheckpointError) as caught:
            MetaProperties.parse(META[:cut])
        assert 0 <= caught.value.position <= cut


@given(
    data=st.binary(max_size=64) | st.text("\\u0a=:#! \n\r", max_size=40).map(str.encode)
)
def test_any_bytes_are_properties_or_a_typed_error(data):
    for whole in (data, b"version=" + data, META + data):
        assert 0 <= byte_of_fault(MetaProperties.parse, whole) <= len(whole)
