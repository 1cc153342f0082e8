"""Internal topics as tables: equal to Kafka's reading, and to a slow reference."""

import json
import shutil
from datetime import UTC, datetime

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings

import kafkalog
from kafkalog.analysis import internal_tables
from kafkalog.errors import CorruptRecordError, NotALogDirectoryError
from kafkalog.messages.internal_records import COORDINATORS, INTERNAL_TOPICS
from tests import golden_data
from tests.query import coordinator_reference
from tests.query.commit_log import STEPS, offset_key, offset_value, write_steps

WITH_OFFSETS = ["k282-clean", "k431-clean"]
WITH_TRANSACTIONS = ["k282-clean", "k431-clean", "k431-crash", "k431-recovered"]
WITH_METADATA = ["k431-clean", "k431-crash", "k431-recovered"]
CLEAN = golden_data.logs("k431-clean")


def time(ms):
    return None if ms == -1 else datetime.fromtimestamp(ms / 1000, UTC)


def rows_of(table, *names):
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


@pytest.mark.parametrize("name", WITH_OFFSETS)
def test_committed_offsets_are_those_that_kafka_decodes(name):
    table = kafkalog.groups(golden_data.logs(name))
    state = coordinator_reference.golden_state(
        name, "__consumer_offsets", "OffsetCommitKey"
    )
    assert state
    consumers = table.filter(pc.invert(table["is_share_group"]))
    assert consumers.select(internal_tables.GROUPS.names).to_pylist() == [
        {
            "group": group,
            "topic": topic,
            "partition": partition,
            "offset": value["offset"],
            "leader_epoch": None
            if value.get("leaderEpoch", -1) == -1
            else value["leaderEpoch"],
            "metadata": value["metadata"],
            "commit_timestamp": time(value["commitTimestamp"]),
            "expire_timestamp": time(value.get("expireTimestamp", -1)),
        }
        for (group, topic, partition), value in sorted(state.items())
    ]


@pytest.mark.parametrize("name", WITH_TRANSACTIONS)
def test_transactional_ids_have_the_state_that_kafka_decodes(name):
    table = internal_tables.transactional_ids(golden_data.logs(name))
    state = coordinator_reference.golden_state(
        name, "__transaction_state", "TransactionLogKey"
    )
    assert rows_of(table, "transactional_id") == sorted(state)
    names = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort"]
    names += ["CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"]
    for row in table.to_pylist():
        value = state[row["transactional_id"],]
        assert row["producer_id"] == value["producerId"]
        assert row["producer_epoch"] == value["producerEpoch"]
        assert row["state"] == names[value["transactionStatus"]]
        assert row["timeout_ms"] == value["transactionTimeoutMs"]
        assert row["last_update_timestamp"] == time(
            value["transactionLastUpdateTimestampMs"]
        )
        assert row["start_timestamp"] == time(value["transactionStartTimestampMs"])
        assert row["previous_producer_id"] == value.get("previousProducerId")
        assert row["client_transaction_version"] == value.get(
            "clientTransactionVersion", 0
        )
        assert row["partitions"] == [
            {"topic": topic["topic"], "partition": partition}
            for topic in value["transactionPartitions"] or []
            for partition in topic["partitionIds"]
        ]


def test_an_open_transaction_has_its_partitions():
    rows = internal_tables.transactional_ids(CLEAN).to_pylist()
    ongoing = [row for row in rows if row["state"] == "Ongoing"]
    assert ongoing
    for row in ongoing:
        assert {part["topic"] for part in row["partitions"]} == {"ledger"}
        assert row["start_timestamp"] <= row["last_update_timestamp"]


def cluster_reference(name):
    """Replay the records of the metadata log from its start."""
    topics, partitions, configs = {}, {}, {}
    records = golden_data.truth(name, "__cluster_metadata-0", "decoded")
    for record in records:
        kind, data = record["name"], record["data"]
        if not record["file"].endswith(".log"):
            continue
        if kind == "TOPIC_RECORD":
            topics[data["topicId"]] = data["name"]
        elif kind == "REMOVE_TOPIC_RECORD":
            configs.pop(topics.pop(data["topicId"]), None)
        elif kind == "PARTITION_RECORD":
            partitions[data["topicId"], data["partitionId"]] = len(data["replicas"])
        elif kind == "CONFIG_RECORD" and data["resourceType"] == 2:
            config = configs.setdefault(data["resourceName"], {})
            config[data["name"]] = data["value"]
    return [
        (
            name,
            topic_id,
            sum(owner == topic_id for owner, _ in partitions),
            partitions[topic_id, 0],
            sorted(
                (key, value)
                for key, value in configs.get(name, {}).items()
                if value is not None
            ),
            name in COORDINATORS,
        )
        for topic_id, name in sorted(topics.items(), key=lambda pair: pair[1])
    ]


@pytest.mark.parametrize("name", WITH_METADATA)
def test_topics_are_those_of_the_metadata_records(name):
    table = kafkalog.topics(golden_data.logs(name))
    names = ["topic", "topic_id", "partitions", "replication_factor", "settings"]
    assert rows_of(table, *names, "is_internal") == cluster_reference(name)
    directory = golden_data.logs(name) / "__cluster_metadata-0"
    assert kafkalog.topics(directory).equals(table)


@pytest.mark.parametrize("name", WITH_METADATA + WITH_OFFSETS[:1])
@pytest.mark.parametrize("topic", INTERNAL_TOPICS)
def test_every_record_is_decoded_as_kafka_decodes_it(name, topic):
    directories = [
        directory
        for directory in golden_data.directories(name)
        if directory.rpartition("-")[0] == topic
    ]
    if not directories:
        with pytest.raises(NotALogDirectoryError, match=f"no partition of {topic}"):
            kafkalog.internal(golden_data.logs(name), topic)
        return
    truth = [
        (int(directory.rpartition("-")[2]), row["offset"], row)
        for directory in directories
        for row in golden_data.truth(name, directory, "decoded")
        if row["file"].endswith(".log")
    ]
    truth.sort(key=lambda row: row[:2])
    rows = kafkalog.internal(golden_data.logs(name), topic).to_pylist()
    assert [(row["partition"], row["offset"]) for row in rows] == [
        row[:2] for row in truth
    ]
    for row, (_, _, expected) in zip(rows, truth, strict=True):
        assert row["error"] is None
        if "key_name" in expected:
            assert f"{row['type']}Key" == expected["key_name"]
            assert json.loads(row["key"]) == expected["key"]
            assert json.loads(row["value"] or "null") == expected["value"]
            assert row["version"] == expected.get("value_version")
        else:
            assert row["key"] is None
            assert row["type"].upper() == expected["name"].replace("_", "")
            assert row["version"] == expected["version"]
            assert json.loads(row["value"]) == expected["data"]


@given(steps=STEPS)
@settings(deadline=None)
def test_the_newest_offset_of_each_group_is_that_of_the_reference(
    tmp_path_factory, steps
):
    logs = tmp_path_factory.mktemp("logs")
    rows = write_steps(logs / "__consumer_offsets-0", steps)
    table = kafkalog.groups(logs)
    found = {
        (row[0], row[1]): row[2] for row in rows_of(table, "group", "topic", "offset")
    }
    assert found == coordinator_reference.newest(rows)
    assert table.num_rows == len(found)


COMMIT = (("g", "t"), None, False, 1)


def test_of_several_replicas_the_one_with_the_highest_offset_counts(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    write_steps(one / "__consumer_offsets-0", [COMMIT])
    write_steps(other / "__consumer_offsets-0", [COMMIT, (("g", "t"), None, True, 1)])
    write_steps(other / "__consumer_offsets-1", [(("h", "t"), None, False, 1)])
    for logs in ([one, other], [other, one]):
        assert rows_of(kafkalog.groups(logs), "group") == [("h",)]
    assert kafkalog.groups(one).num_rows == 1


def test_a_record_that_cannot_be_decoded_is_an_error_with_file_and_byte(tmp_path):
    directory = tmp_path / "__consumer_offsets-0"
    write_steps(directory, [COMMIT])
    good = (directory / f"{0:020d}.log").read_bytes()
    batch = kafkalog.RecordBatchBuilder(base_offset=1)
    batch.append(offset_key(("g", "t")), offset_value(1)[:-1], timestamp=1)
    (directory / f"{0:020d}.log").write_bytes(good + batch.build())
    where = rf"record at offset 1\): .*{0:020d}\.log at byte {len(good)}$"
    with pytest.raises(CorruptRecordError, match=where):
        kafkalog.groups(tmp_path)
    rows = kafkalog.internal(tmp_path, "__consumer_offsets").to_pylist()
    assert [row["error"] for row in rows] == [
        None,
        json.loads(rows[1]["value"])["error"],
    ]
    assert rows[1]["type"] is None


def test_a_key_without_a_type_is_damage(tmp_path):
    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    batch = kafkalog.RecordBatchBuilder()
    batch.append(b"\0", b"", timestamp=1)
    (directory / f"{0:020d}.log").write_bytes(batch.build())
    with pytest.raises(
        CorruptRecordError, match=r"record at offset 0\): .* at byte 0$"
    ):
        kafkalog.groups(tmp_path)


@pytest.mark.parametrize(
    ("table", "topic"),
    [
        (kafkalog.groups, "__consumer_offsets"),
        (internal_tables.transactional_ids, "__transaction_state"),
    ],
)
def test_a_directory_without_the_topic_is_an_error_that_names_both(table, topic):
    orders = CLEAN / "orders.none-0"
    with pytest.raises(
        NotALogDirectoryError, match=rf"no partition of {topic}.*orders"
    ):
        table(orders)


def test_a_directory_without_the_topic_names_the_first_partitions_only():
    logs = golden_data.logs("k282-clean")
    names = sorted(str(source) for source, _ in kafkalog.scan(logs).sources)
    with pytest.raises(NotALogDirectoryError) as caught:
        kafkalog.internal(logs, "__share_group_state")
    some = f"found {', '.join(names[:5])} and {len(names) - 5} more"
    assert str(caught.value) == f"no partition of __share_group_state, {some}"


def test_topics_without_metadata_are_those_that_have_partitions(tmp_path):
    logs = golden_data.logs("k282-clean")
    listed = kafkalog.ls(logs).partitions
    live = [each for each in listed if each.state is None]
    found = kafkalog.topics(logs).to_pylist()
    assert [row["topic"] for row in found] == sorted({each.topic for each in live})
    for row in found:
        count = sum(each.topic == row["topic"] for each in live)
        assert (row["partitions"], row["replication_factor"]) == (count, None)
        assert row["settings"] is None
        assert row["is_internal"] == row["topic"].startswith("__")
    for name in ("orders.zstd-0", "ledger-0", "ledger-1"):
        shutil.copytree(CLEAN / name, tmp_path / name)
    (tmp_path / "ledger-0" / "partition.metadata").unlink()
    of_cluster = kafkalog.topics(CLEAN).to_pylist()
    ids = {row["topic"]: row["topic_id"] for row in of_cluster}
    copies = kafkalog.topics([tmp_path, tmp_path / "ledger-1"]).to_pylist()
    assert [(row["topic"], row["topic_id"], row["partitions"]) for row in copies] == [
        ("ledger", ids["ledger"], 2),
        ("orders.zstd", ids["orders.zstd"], 1),
    ]


def test_memory_and_files_have_no_topics(tmp_path):
    with pytest.raises(NotALogDirectoryError, match="no partition"):
        kafkalog.topics(next((CLEAN / "ledger-0").glob("*.log")))
    with pytest.raises(NotALogDirectoryError, match="neither a partition nor a log"):
        kafkalog.topics(tmp_path)


def test_another_topic_is_not_internal():
    with pytest.raises(ValueError, match="topic 'orders', expected one of __consumer_"):
        kafkalog.internal(CLEAN, "orders")
