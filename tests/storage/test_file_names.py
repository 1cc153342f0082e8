"""File and directory names: all of a broker's, every form of Kafka's, no other."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.integer_limits import MAX_INT32
from kafkalog.storage.file_names import (
    MAX_NAME_LENGTH,
    MAX_OFFSET,
    PartitionDir,
    SegmentFile,
    file_name,
    parse_file_name,
    parse_file_names,
    parse_partition_dir,
)
from tests import golden_data

HEX = "6377a1264763416496a100f8f49e88ac"
KINDS = ["log", "index", "timeindex", "txnindex", "snapshot"]
SUFFIXES = [None, "deleted", "cleaned", "swap"]

offsets = st.integers(0, MAX_OFFSET)
segment_files = st.builds(
    SegmentFile, offsets, st.sampled_from(KINDS), st.sampled_from(SUFFIXES)
)
checkpoints = st.builds(
    SegmentFile,
    offsets,
    st.just("checkpoint"),
    st.sampled_from([None, "deleted", "part"]),
    st.integers(0, MAX_INT32),
    st.none() | st.integers(0, 2**64).map(str),
)
topics = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=249)
partitions = st.integers(0, MAX_INT32)


@pytest.mark.parametrize("set_name", golden_data.SETS)
def test_every_file_name_of_a_broker_is_parsed(set_name):
    others = {"leader-epoch-checkpoint", "partition.metadata", "quorum-state"}
    names = [p.name for d in golden_data.partitions(set_name) for p in d.iterdir()]
    files = {name: parse_file_name(name) for name in names}
    assert {name for name, file in files.items() if file is None} <= others
    assert all(file is None or file.name == name for name, file in files.items())
    assert any(files.values())


@pytest.mark.parametrize("set_name", golden_data.SETS)
def test_every_directory_name_of_a_broker_is_parsed(set_name):
    for path in golden_data.partitions(set_name):
        directory = parse_partition_dir(path.name)
        assert directory is not None
        assert directory.name == path.name
        assert directory.state == ("delete" if path.name.endswith("-delete") else None)


@given(file=segment_files | checkpoints)
def test_a_file_name_is_parsed_back(file):
    assert parse_file_name(file.name) == file


@pytest.mark.parametrize("digits", range(1, 21))
def test_one_to_twenty_digits_are_an_offset(digits):
    assert parse_file_name("7".zfill(digits) + ".log") == SegmentFile(7, "log")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "log",
        ".log",
        "7",
        "7.",
        "7.logs",
        "7.LOG",
        "-7.log",
        "+7.log",
        "7 .log",
        "7.log\n",
        "7.log.deleted.swap",
        "7.log.part",
        "\N{ARABIC-INDIC DIGIT SEVEN}.log",
        "000000000000000000007.log",  # 21 digits
        "09223372036854775808.log",  # 2**63
        "99999999999999999999.index",
        "7.checkpoint",
        "00000000000000000007-7.checkpoint",
        "00000000000000000007-2147483648.checkpoint",
        "00000000000000000007-0000000007.checkpoint.swap",
        "bootstrap.checkpoint",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "quorum-state",
        "meta.properties",
    ],
)
def test_other_names_are_not_parsed_as_segment_files(name):
    assert parse_file_name(name) is None


def test_a_negative_offset_is_written_as_in_kafka():
    assert file_name(-5, "log") == "-00000000000000000005.log"
    assert file_name(-(2**63), "index") == "-09223372036854775808.index"


def test_of_two_names_of_one_offset_that_with_twenty_digits_is_used():
    names = ["5.log", "00000000000000000005.log", "5.index", "5.log.swap", "-5.log"]
    read = parse_file_names(names)
    assert list(read) == ["00000000000000000005.log", "5.index", "5.log.swap"]


def test_a_checkpoint_has_an_offset_and_an_epoch():
    name = "00000000000000012345-0000000007.checkpoint"
    assert file_name(12_345, "checkpoint", epoch=7) == name
    assert parse_file_name(name) == SegmentFile(12_345, "checkpoint", None, 7)
    part = parse_file_name("00000000000000012345-0000000007-481516.checkpoint.part")
    assert part == SegmentFile(12_345, "checkpoint", "part", 7, "481516")


@pytest.mark.parametrize(
    ("offset", "kind", "epoch"),
    [
        (-(2**63) - 1, "log", None),
        (2**63, "log", None),
        (0, "log", 1),
        (0, "checkpoint", None),
        (0, "checkpoint", -1),
        (0, "checkpoint", 2**31),
    ],
)
def test_a_name_that_kafka_cannot_parse_is_rejected(offset, kind, epoch):
    with pytest.raises(ValueError, match=r"offset|epoch"):
        file_name(offset, kind, epoch=epoch)


@given(topic=topics, partition=partitions)
def test_the_name_of_a_live_directory_is_parsed_back(topic, partition):
    directory = PartitionDir(topic, partition)
    assert directory.name == f"{topic}-{partition}"
    assert parse_partition_dir(directory.name) == directory


@given(
    topic=topics,
    partition=partitions,
    state=st.sampled_from(["delete", "future", "stray"]),
)
def test_the_name_of_a_marked_directory_is_parsed_back_except_a_shortened_topic(
    topic, partition, state
):
    directory = PartitionDir(topic, partition, HEX, state)
    assert directory.name.endswith(f"-{partition}.{HEX}-{state}")
    assert state == "future" or len(directory.name) <= MAX_NAME_LENGTH
    read = parse_partition_dir(directory.name)
    kept = topic if state == "future" else topic[: 255 - len(f"-{partition}") - 40]
    if state == "stray":
        kept = topic[: 255 - len(f"-{partition}") - 39]
    assert read == PartitionDir(kept, partition, HEX, state)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.b-c_d-12", PartitionDir("a.b-c_d", 12)),
        ("__consumer_offsets-49", PartitionDir("__consumer_offsets", 49)),
        ("--0", PartitionDir("-", 0)),
        ("0-0", PartitionDir("0", 0)),
        ("orders-delete-0", PartitionDir("orders-delete", 0)),
        (f"a-0.{HEX}-delete-1", PartitionDir(f"a-0.{HEX}-delete", 1)),
        (f"a.b-3.{HEX}-future", PartitionDir("a.b", 3, HEX, "future")),
        (f"a-b-3.{HEX}-stray", PartitionDir("a-b", 3, HEX, "stray")),
        ("t-2147483647", PartitionDir("t", MAX_INT32)),
        ("t-007", PartitionDir("t", 7)),
    ],
)
def test_directory_names_are_parsed_from_the_right(name, expected):
    assert parse_partition_dir(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-",
        "orders",
        "-0",
        "orders-",
        "orders--",
        "orders-x",
        "orders-+1",
        "orders-\N{ARABIC-INDIC DIGIT THREE}",
        "orders-1 ",
        "orders-2147483648",
        "orders-" + "9" * 5000,
        "a b-0",
        "a/b-0",
        ".-0",
        "..-0",
        "é-0",
        "t" * 250 + "-0",
        "orders-delete",
        "orders-0-delete",
        f"orders-0.{HEX}-gone",
        f"orders.{HEX}-delete",
        f"orders-x.{HEX}-delete",
        "orders-0.-delete",
        "remote-log-index-cache",
    ],
)
def test_other_names_are_not_parsed_as_partitions(name):
    assert parse_partition_dir(name) is None


@given(name=st.text(max_size=64) | st.from_regex(r"\A[a.-]*-\d+\.\w*-delete"))
def test_any_name_can_be_parsed(name):
    parse_file_name(name)
    directory = parse_partition_dir(name)
    if directory is not None:
        assert parse_partition_dir(directory.name) == directory


@pytest.mark.parametrize(
    "wrong",
    [
        ("../x", 0),
        ("", 0),
        ("t", -1),
        ("t", 2**31),
        ("t", 0, HEX),
        ("t", 0, None, "delete"),
    ],
)
def test_invalid_parts_of_a_directory_name_are_rejected(wrong):
    with pytest.raises(ValueError, match=r"topic|partition|uuid"):
        PartitionDir(*wrong)
