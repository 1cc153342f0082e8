"""Topic ids, clean shutdown markers and quorum states of Kafka, and invalid ones."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import CorruptCheckpointError, UnsupportedFormatError
from kafkalog.formats.partition_files import (
    PartitionMetadata,
    QuorumState,
    format_clean_shutdown,
    parse_clean_shutdown,
)
from kafkalog.text.uuid_text import ZERO_UUID, uuid_to_text
from tests import golden_data
from tests.faults import byte_of_fault

TOPIC_ID = "K48VsEpRT9uBWc5sqaDtCA"
METADATA = b"version: 0\ntopic_id: K48VsEpRT9uBWc5sqaDtCA"
QUORUM_0 = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)
QUORUM_1 = (
    b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,'
    b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
uuids = st.binary(min_size=16, max_size=16).map(uuid_to_text)


def golden_files(set_name, name):
    for directory in golden_data.directories(set_name):
        for row in golden_data.truth(set_name, directory, "aux"):
            if row["file"] == name:
                path = golden_data.logs(set_name) / directory / name
                yield row, path.read_bytes()


def test_every_topic_id_equals_that_read_by_kafka():
    seen = 0
    for set_name in golden_data.SETS:
        for row, data in golden_files(set_name, "partition.metadata"):
            metadata = PartitionMetadata.parse(data)
            assert metadata == PartitionMetadata(row["topic_id"], row["version"])
            assert metadata.format() == data
            seen += 1
    assert seen


def test_every_quorum_state_equals_that_read_by_kafka():
    seen = 0
    for set_name in golden_data.SETS:
        for row, data in golden_files(set_name, "quorum-state"):
            state = QuorumState.parse(data)
            assert (state.leader_epoch, state.leader_id) == (
                row["epoch"],
                row["leader_id"],
            )
            assert json.loads(state.format()) == row["json"]
            assert state.format() == data
            seen += 1
    assert seen


def test_every_clean_shutdown_equals_that_read_by_kafka():
    seen = 0
    for set_name in golden_data.SETS:
        for row in golden_data.root(set_name):
            if row["file"] != ".kafka_cleanshutdown":
                continue
            data = (golden_data.logs(set_name) / row["file"]).read_bytes()
            epoch = json.loads(row["text"])["brokerEpoch"] if row["text"] else -1
            assert parse_clean_shutdown(data) == epoch
            assert format_clean_shutdown(epoch) == data or not data
            seen += 1
    assert seen


@given(topic_id=uuids.filter(lambda text: text != ZERO_UUID), version=int32s.map(abs))
def test_a_topic_id_is_read_back(topic_id, version):
    metadata = PartitionMetadata(topic_id, min(version, 2**31 - 1))
    assert PartitionMetadata.parse(metadata.format()) == metadata


@pytest.mark.parametrize(
    "data",
    [
        METADATA + b"\n",
        METADATA.replace(b"\n", b"\r\n"),
        METADATA + b"\nmore",
        METADATA.replace(b": ", b":\t  "),
        METADATA.replace(b"version", b"v").replace(b"topic_id", b""),
        METADATA + b"==",
    ],
)
def test_only_the_values_after_the_colons_are_read(data):
    assert PartitionMetadata.parse(data) == PartitionMetadata(TOPIC_ID)


def test_a_later_version_of_the_topic_id_is_read():
    data = METADATA.replace(b"0", b"3", 1)
    assert PartitionMetadata.parse(data) == PartitionMetadata(TOPIC_ID, 3)


@pytest.mark.parametrize(
    ("data", "reason", "position"),
    [
        (b"", "fewer than 2 lines", 0),
        (b"version: 0\n", "fewer than 2 lines", 11),
        (b"version:0\ntopic_id: x", "line of ", 0),
        (b"version: \ntopic_id: x", "line of ", 0),
        (b"version: 0: 0\ntopic_id: x", "line of ", 0),
        (b"version: x\ntopic_id: x", "'x', expected an int32", 0),
        (
            b"version: -1\ntopic_id: " + TOPIC_ID.encode(),
            "version -1, expected at least 0",
            0,
        ),
        (b"version: 0\ntopic_id", "line of ", 11),
        (b"version: 0\ntopic_id: x", "'x', expected 22 characters", 11),
        (b"version: 0\ntopic_id: \xff", "line with invalid UTF-8", 21),
        (
            b"version: 0\ntopic_id: " + b"A" * 22,
            "topic id of zeros, expected another",
            11,
        ),
    ],
)
def test_an_invalid_partition_metadata_is_an_error_at_its_byte(data, reason, position):
    with pytest.raises(CorruptCheckpointError) as caught:
        PartitionMetadata.parse(data)
    assert caught.value.reason.startswith(reason)
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"", "NullPointerException"),
        (b"version: 0\n", "NullPointerException"),
        (b"x\n", "KafkaStorageException"),
        (b"version: -1\n", "KafkaStorageException"),
        (b"version: 0\ntopic_id: x", "IllegalArgumentException"),
        (b"version: 0\ntopic_id: " + b"A" * 22, "KafkaStorageException"),
    ],
)
def test_an_error_in_a_topic_id_has_the_name_of_kafkas_exception(data, name):
    with pytest.raises(CorruptCheckpointError) as caught:
        PartitionMetadata.parse(data)
    assert caught.value.kafka_name == name


@pytest.mark.parametrize("cut", range(len(METADATA)))
def test_a_truncated_topic_id_is_an_error(cut):
    with pytest.raises(CorruptCheckpointError) as caught:
        PartitionMetadata.parse(METADATA[:cut])
    assert 0 <= caught.value.position <= cut


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"brokerEpoch":"1"}',
        b'{"brokerEpoch":true}',
        b'{"brokerEpoch":9223372036854775808}',
        b'{"brokerEpoch":1.5}',
        b"\xff",
        b"[" * 100_000,
        b"1" * 5000,
    ],
)
def test_a_clean_shutdown_marker_may_have_any_content(data):
    assert parse_clean_shutdown(data) == -1


@given(epoch=int64s)
def test_a_broker_epoch_is_read_back(epoch):
    assert parse_clean_shutdown(format_clean_shutdown(epoch)) == epoch


@pytest.mark.parametrize("data", [QUORUM_0, QUORUM_1])
def test_the_written_examples_are_read_and_written(data):
    state = QuorumState.parse(data)
    assert (state.leader_id, state.leader_epoch, state.voted_id) == (1, 2, -1)
    assert state.format() == data
    assert QuorumState.parse(data + b"\nmore lines are not read") == state


@given(
    state=st.builds(
        QuorumState,
        leader_id=int32s,
        leader_epoch=int32s,
        voted_id=int32s,
        voted_directory_id=uuids,
    )
    | st.builds(
        QuorumState,
        leader_id=int32s,
        leader_epoch=int32s,
        voted_id=int32s,
        cluster_id=st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        applied_offset=int64s,
        current_voters=st.none() | st.lists(int32s, max_size=3).map(tuple),
        data_version=st.just(0),
    )
)
def test_a_quorum_state_is_read_back(state):
    assert QuorumState.parse(state.format()) == state


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"{", b"[{", "quorum state without JSON"),
        (b"\x7b", b"\xff{", "quorum state without JSON"),
        (b'"leaderId":1,', b"", "leaderId"),
        (b'"leaderId":1', b'"leaderId":true', "leaderId"),
        (b'Epoch":2', b'Epoch":2147483648', "leaderEpoch"),
        (b'"votedId":-1', b'"votedId":"-1"', "votedId"),
        (b'"clusterId":""', b'"clusterId":0', "clusterId"),
        (b"[{", b"[1,{", "currentVoters"),
        (b'"currentVoters"', b'"x"', "currentVoters"),
        (b'{"voterId":1}', b"{}", "voterId"),
        (b'"data_version":0', b'"x":0', "data_version"),
    ],
)
def test_an_invalid_quorum_state_is_an_error(old, new, reason):
    assert old in QUORUM_0
    with pytest.raises(CorruptCheckpointError) as caught:
        QuorumState.parse(QUORUM_0.replace(old, new, 1))
    assert caught.value.reason.startswith(reason)


def test_a_voted_directory_is_a_uuid():
    with pytest.raises(CorruptCheckpointError, match="votedDirectoryId"):
        QuorumState.parse(QUORUM_1.replace(b"AAAA", b"A", 1))


@pytest.mark.parametrize("version", [b"-1", b"2"])
def test_another_version_of_the_quorum_state_is_unsupported(version):
    with pytest.raises(UnsupportedFormatError, match="expected 0 or 1"):
        QuorumState.parse(QUORUM_0.replace(b":0}", b":" + version + b"}"))


@pytest.mark.parametrize("data", [QUORUM_0, QUORUM_1])
def test_a_truncated_quorum_state_is_an_error(data):
    for cut in range(len(data)):
        with pytest.raises(CorruptCheckpointError) as caught:
            QuorumState.parse(data[:cut])
        assert 0 <= caught.value.position <= cut


@given(
    data=st.binary(max_size=64) | st.text(':\n\r 0vA"{}[]', max_size=40).map(str.encode)
)
def test_any_bytes_are_one_of_these_or_a_typed_error(data):
    parse_clean_shutdown(data)
    for parse, prefix in (
        (PartitionMetadata.parse, b"version: 0\ntopic_id: "),
        (QuorumState.parse, b'{"data_version":0,'),
    ):
        for whole in (data, prefix + data):
            assert 0 <= byte_of_fault(parse, whole) <= len(whole)
