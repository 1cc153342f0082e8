"""`restore`: copies of broker-written directories, whole and filtered."""

import hashlib
import json
import os
import shutil
from itertools import count, product

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog.errors import (
    CorruptCheckpointError,
    CorruptRecordError,
    LogArgumentError,
    LogStateError,
)
from kafkalog.formats.properties import MetaProperties
from kafkalog.storage.checkpoint_file import LOG_STARTS, read_offsets
from kafkalog.storage.durable_file import Disk
from kafkalog.storage.pending_directory import INCOMPLETE
from tests import golden_data

SETS = ["k431-clean", "k282-clean", "k431-crash", "oldclients"]
CLEAN = golden_data.logs("k431-clean")
COLUMNS = [
    *("offset", "timestamp", "timestamp_type", "key", "value", "headers"),
    *("leader_epoch", "producer_id", "producer_epoch", "sequence"),
    *("is_transactional", "is_control"),
]
CONFIG = kafkalog.LogConfig(retention_ms=-1)
KILLED = 9
ORDERS_ID = "wgPZZe6wRgSsxbpNzQVtow"
OTHER_ID = "50zIfVQaSqGOTjgxcH_wcg"


TOPICS = {
    "k431-clean": [
        *("orders.none", "orders.zstd", "ledger", "once", "cutoff", "squeeze.gzip"),
        *("state.none", "state.and-delete", "state.txn", "spare-0"),
    ],
    "k282-clean": [
        *("legacy.m0.gzip", "legacy.m0.old-clients", "legacy.m0.compact.snappy"),
        *("legacy.m1.lz4", "legacy.m1.compact.none", "legacy.m1.clock.gzip"),
        *("legacy.m2.txn", "legacy.m2.compact.none", "legacy.upgraded"),
    ],
}
"""Topics of each kind in two of the sets."""


def is_internal(path):
    """Return whether a directory is not copied by default."""
    return path.name.startswith("__") or path.name.endswith("-delete")


def records_in(directory, columns=COLUMNS, **options):
    """Return the records of a partition as dictionaries."""
    options = {"control_records": True, **options}
    return kafkalog.scan(directory, columns=columns, **options).to_arrow().to_pylist()


def modern(records):
    """Return records as if batches of magic 0 and 1 had been written anew."""
    return [
        {
            **record,
            "leader_epoch": max(record["leader_epoch"], 0),
            "timestamp_type": max(record["timestamp_type"], 0),
        }
        for record in records
    ]


def logs_in(directory):
    return {
        path.relative_to(directory): path.read_bytes()
        for path in sorted(directory.rglob("*.log"))
        if not is_internal(path.parent)
    }


def errors_in(directory):
    problems = kafkalog.verify(directory).problems
    return [problem for problem in problems if problem.severity == "error"]


@pytest.mark.parametrize("name", SETS)
def test_a_whole_copy_has_the_records_and_the_bytes_of_its_source(name, tmp_path):
    source, copy = golden_data.logs(name), tmp_path / "copy"
    report = kafkalog.restore(source, copy, prove=True)
    assert report.ok
    assert report.excluded_records == 0
    partitions = [
        path for path in golden_data.partitions(name) if not is_internal(path)
    ]
    assert {path.name for path in copy.iterdir() if path.is_dir()} == {
        path.name for path in partitions
    }
    for directory in partitions:
        copied = copy / directory.name
        assert records_in(copied) == records_in(directory)
        for isolation in ("read_uncommitted", "read_committed"):
            ours, theirs = (
                records_in(each, ["offset"], isolation=isolation)
                for each in (copied, directory)
            )
            assert ours == theirs
    found = logs_in(source)
    for path, data in logs_in(copy).items():
        # A crash leaves bytes after the last batch, and preallocated zeros.
        assert found[path][: len(data)] == data
        assert name == "k431-crash" or len(found[path]) == len(data)
    assert errors_in(copy) == []


def test_a_broker_that_opens_a_copy_recovers_nothing(tmp_path):
    copy = tmp_path / "copy"
    report = kafkalog.restore(CLEAN, copy)
    with kafkalog.LogManager(copy, CONFIG) as logs:
        assert len(logs) == len(report.partitions)
        for partition in report.partitions:
            log = logs[partition.topic, partition.partition]
            assert log.report.clean
            assert log.log_start_offset == partition.log_start_offset
            assert log.log_end_offset == partition.log_end_offset
            assert log.high_watermark == partition.log_end_offset
            assert log.topic_id == partition.topic_id
            source = kafkalog.Log(CLEAN / log.path.name)
            end = source.log_end_offset
            assert log.log_end_offset == end
            # An epoch without records is forgotten when a log is opened.
            epochs = [each for each in source.leader_epochs if each.start_offset < end]
            assert log.leader_epochs == epochs


def test_producers_continue_on_a_copy(tmp_path):
    kafkalog.restore(CLEAN, tmp_path / "copy", topics="once")
    with kafkalog.open(tmp_path / "copy" / "once-0", "a", CONFIG) as log:
        source = kafkalog.Log(CLEAN / "once-0").producer_states()
        newest = max(source, key=lambda state: state["last_offset"])
        end = log.log_end_offset
        log.append_records(
            {"value": [b"next"]},
            producer_id=int(newest["producer_id"]),
            producer_epoch=int(newest["producer_epoch"]),
            base_sequence=int(newest["last_sequence"]) + 1,
        )
        assert log.log_end_offset == end + 1


def test_the_report_lists_every_file_with_its_hash(tmp_path):
    copy = tmp_path / "copy"
    report = kafkalog.restore(CLEAN, copy, topics="orders.*")
    found = {
        path.relative_to(copy).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in copy.rglob("*")
        if path.is_file()
    }
    assert {file.path: file.sha256 for file in report.files} == found
    for file in report.files:
        if file.path.endswith(".log"):
            counted = kafkalog.scan(copy / file.path).count()
            assert file.records == counted
    assert json.loads(json.dumps(report.as_dict()))["schema"] == 1


def test_producers_of_another_cluster_may_have_the_same_ids(tmp_path):
    source = tmp_path / "logs"
    producer = {"producer_id": 0, "producer_epoch": 0}
    for topic in ("orders", "paid"):
        with kafkalog.open(source / f"{topic}-0", "a") as log:
            log.append_records({"value": [b"a", b"b"]}, base_sequence=0, **producer)
            if topic == "paid":
                log.append_records(
                    {"value": [b"c"]},
                    producer_id=1,
                    producer_epoch=0,
                    base_sequence=0,
                    is_transactional=True,
                    guard=log.start_verification(1, 0, 0),
                )
    ids = {"orders": OTHER_ID, "paid": ORDERS_ID}
    report = kafkalog.restore(source, tmp_path / "copy", topic_ids=ids)
    kafkalog.restore(source, tmp_path / "kept", topic_ids=ids, keep_producers=True)
    assert [part.open_transactions for part in report.partitions] == [0, 1]
    assert errors_in(tmp_path / "copy") == []
    for name in ("copy", "kept"):
        with kafkalog.open(tmp_path / name / "orders-0", "a", CONFIG) as log:
            assert log.report.clean
            assert set(log.producers) == (set() if name == "copy" else {0})
            log.append_records({"value": [b"a", b"b"]}, base_sequence=0, **producer)
            assert log.log_end_offset == (4 if name == "copy" else 2)
    with kafkalog.open(tmp_path / "copy" / "paid-0", "a", CONFIG) as log:
        assert log.last_stable_offset == 2
        assert set(log.producers) == {1}
    # A broker that crashes recovers the segments since, and does not find them again.
    copy = tmp_path / "copy"
    (copy / ".kafka_cleanshutdown").unlink()
    with kafkalog.open(copy / "orders-0", "a", CONFIG) as log:
        assert not log.report.clean
        assert set(log.producers) == {0}
        last = log.producers[0].batches[-1]
        assert (last.last_offset, last.last_sequence) == (3, 1)


def test_a_dry_run_writes_nothing_and_reports_the_same_records(tmp_path):
    options = {"exclude_keys": [b"key-1", b"key-7"], "exclude_topics": ["state.*"]}
    planned = kafkalog.restore(CLEAN, tmp_path / "copy", dry_run=True, **options)
    assert list(tmp_path.iterdir()) == []
    written = kafkalog.restore(CLEAN, tmp_path / "copy", **options)
    assert records_by_file(planned) == records_by_file(written)
    assert planned.excluded_records == written.excluded_records > 0
    for plan, copied in zip(planned.partitions, written.partitions, strict=True):
        assert plan.log_start_offset == copied.log_start_offset
        assert plan.log_end_offset == copied.log_end_offset


def records_by_file(report):
    """Return the records of each file; a dry run does not know the others."""
    return {
        file.path: file.records
        for file in report.files
        if not file.path.endswith((".snapshot", ".txnindex"))
    }


FILTERED = [
    {},
    {"keys": ["nothing"]},
    {"start_offset": 60, "end_offset": 90},
    {"start_offset": 1000},
    {"keep_producers": False},
    {"producer_ids": [1], "keep_producers": False},
    {"open_transactions": "abort"},
    {"exclude_topics": "*"},
    {"where": lambda records: records.offset % 40 < 3},
]
GROUPS = {"groups_file": "internal", "offsets_partitions": 3}


@pytest.mark.parametrize(
    ("name", "options"), [*product(SETS, FILTERED), ("k431-clean", GROUPS)]
)
def test_a_dry_run_lists_the_files_that_are_written(name, options, memory_path):
    source, copy = golden_data.logs(name), memory_path / "copy"
    planned = kafkalog.restore(source, copy, dry_run=True, **options)
    assert not copy.exists()
    written = kafkalog.restore(source, copy, **options)
    assert records_by_file(planned) == records_by_file(written)
    paths = [file.path for file in planned.files]
    assert paths == sorted(paths)


# Filters


def slow(record, filters):
    """Return whether a record is selected, one condition after another."""
    if record["is_control"]:
        return True
    key, headers = record["key"], record["headers"]
    time = record["timestamp"]
    ms = None if time is None else int(time.timestamp() * 1000 + 0.5)
    pairs = [(header["key"].encode(), header["value"]) for header in headers]
    keys = filters.get("keys")
    if keys is not None and key not in keys:
        return False
    if key in filters.get("exclude_keys", ()):
        return False
    producers = filters.get("producer_ids")
    if producers is not None and record["producer_id"] not in producers:
        return False
    if record["producer_id"] in filters.get("exclude_producer_ids", ()):
        return False
    if not all(_has(pairs, header) for header in filters.get("headers", ())):
        return False
    if any(_has(pairs, header) for header in filters.get("exclude_headers", ())):
        return False
    start, end = filters.get("start_timestamp"), filters.get("end_timestamp")
    if start is not None and (ms is None or ms < start):
        return False
    if end is not None and (ms is None or ms >= end):
        return False
    where = filters.get("where")
    return where is None or record["offset"] % 3 == 0


def _has(pairs, header):
    name, value = header if isinstance(header, tuple) else (header, None)
    return any(key == name and value in (None, found) for key, found in pairs)


def thirds(records):
    return records.offset % 3 == 0


def some_values(name):
    """Return keys, producers, headers and times that occur in a set of logs."""
    table = kafkalog.scan(
        [path for path in golden_data.partitions(name) if not is_internal(path)],
        columns=["key", "producer_id", "headers", "timestamp"],
    ).to_arrow()
    rows = table.to_pylist()
    keys = sorted({row["key"] for row in rows if row["key"] is not None})
    times = sorted(
        int(row["timestamp"].timestamp() * 1000) for row in rows if row["timestamp"]
    )
    headers = sorted(
        {
            (header["key"].encode(), header["value"])
            for row in rows
            for header in row["headers"]
            if header["value"] is not None
        }
    )
    producers = sorted({row["producer_id"] for row in rows})
    return keys, times, headers, producers


VALUES = {name: some_values(name) for name in ("k431-clean", "k282-clean")}


@st.composite
def filters_of(draw, name):
    keys, times, headers, producers = VALUES[name]
    options = {
        "keys": st.lists(st.sampled_from(keys), max_size=40),
        "exclude_keys": st.lists(st.sampled_from(keys), max_size=20),
        "producer_ids": st.lists(st.sampled_from(producers), min_size=1),
        "exclude_producer_ids": st.lists(st.sampled_from(producers), min_size=1),
        "start_timestamp": st.sampled_from(times),
        "end_timestamp": st.sampled_from(times),
        "where": st.just(thirds),
    }
    if headers:
        one = st.sampled_from(headers)
        options |= {
            "headers": st.lists(one | one.map(lambda pair: pair[0]), max_size=1),
            "exclude_headers": st.lists(one, max_size=2),
        }
    chosen = draw(st.lists(st.sampled_from(sorted(options)), max_size=3, unique=True))
    return {name: draw(options[name]) for name in chosen}


def check_filtered(source, copy, report, filters):
    """Compare each partition with the slow filter of its source's records."""
    for partition in report.partitions:
        name = f"{partition.topic}-{partition.partition}"
        everything = records_in(source / name, start_offset=0)
        expected = [record for record in everything if slow(record, filters)]
        assert modern(records_in(copy / name, start_offset=0)) == modern(expected)
        data = sum(not record["is_control"] for record in everything)
        kept = sum(not record["is_control"] for record in expected)
        assert partition.excluded_records == data - kept
        ours, theirs = (kafkalog.Log(each / name) for each in (copy, source))
        assert ours.log_end_offset == theirs.log_end_offset
        assert ours.log_start_offset == theirs.log_start_offset


@pytest.mark.parametrize("name", list(VALUES))
@given(data=st.data())
@settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_filtered_copy_has_what_a_slow_filter_keeps(name, tmp_path, data):
    filters = data.draw(filters_of(name))
    source, copy = golden_data.logs(name), tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    report = kafkalog.restore(source, copy, topics=TOPICS[name], prove=True, **filters)
    assert report.proof.ok
    check_filtered(source, copy, report, filters)
    assert errors_in(copy) == []


def test_aborted_records_stay_hidden_in_a_filtered_copy(tmp_path):
    keys = {row["key"] for row in records_in(CLEAN / "ledger-0")}
    gone = sorted(key for key in keys if key is not None)[::2]
    report = kafkalog.restore(
        CLEAN, tmp_path / "copy", topics="ledger", exclude_keys=gone
    )
    assert report.excluded_records > 0
    for name in ("ledger-0", "ledger-1"):
        options = {"isolation": "read_committed", "control_records": False}
        expected = [
            record
            for record in records_in(CLEAN / name, **options)
            if record["key"] not in gone
        ]
        assert records_in(tmp_path / "copy" / name, **options) == expected


@pytest.mark.parametrize("end", [None, 75])
def test_open_transactions_are_aborted_on_request(end, tmp_path):
    options = {"topics": "ledger", "end_offset": end}
    kept = kafkalog.restore(CLEAN, tmp_path / "kept", **options)
    assert sum(partition.open_transactions for partition in kept.partitions) >= 3
    report = kafkalog.restore(
        CLEAN, tmp_path / "copy", open_transactions="abort", **options
    )
    for before, partition in zip(kept.partitions, report.partitions, strict=True):
        aborted = partition.aborted_transactions
        assert (aborted, partition.open_transactions) == (before.open_transactions, 0)
        assert partition.log_end_offset == before.log_end_offset + aborted
        name = f"ledger-{partition.partition}"
        copy, whole = tmp_path / "copy" / name, records_in(tmp_path / "kept" / name)
        everything = records_in(copy)
        assert everything[: len(whole)] == whole
        assert [record["key"][-1] for record in everything[len(whole) :]] == [
            0
        ] * aborted
        with kafkalog.LogManager(tmp_path / "copy", CONFIG) as logs:
            log = logs["ledger", partition.partition]
            assert log.last_stable_offset == log.log_end_offset
    assert errors_in(tmp_path / "copy") == []


def test_producers_keep_their_sequences_if_all_their_records_are_gone(tmp_path):
    kafkalog.restore(CLEAN, tmp_path / "copy", topics="once", where=none_of)
    for name in ("once-0", "once-1"):
        states, copied = (
            {
                int(state["producer_id"]): int(state["last_sequence"])
                for state in kafkalog.Log(each / name).producer_states()
            }
            for each in (CLEAN, tmp_path / "copy")
        )
        assert copied == states
        data = records_in(tmp_path / "copy" / name, control_records=False)
        assert data == []


def none_of(records):
    return np.zeros(len(records), np.bool_)


def test_segments_of_a_topic_with_a_small_limit_are_copied_whole(tmp_path):
    """Large steps of a source are appended, whatever its settings are."""
    logs = shutil.copytree(
        golden_data.logs("k431-clean") / "__cluster_metadata-0",
        tmp_path / "logs" / "__cluster_metadata-0",
    ).parent
    shutil.copyfile(CLEAN / "meta.properties", logs / "meta.properties")
    config = kafkalog.LogConfig(segment_bytes=1 << 30, retention_ms=-1)
    with kafkalog.open(logs / "orders.none-0", "a", config, topic_id=ORDERS_ID) as log:
        rng = np.random.default_rng(1)
        values = [rng.bytes(1000) for _ in range(20_000)]
        log.append_records({"value": values, "key": [b"k"] * len(values)})
    assert kafkalog.restore(logs, tmp_path / "copy").excluded_records == 0
    assert logs_in(tmp_path / "copy") == logs_in(logs)


def test_a_predicate_has_to_return_bools(tmp_path):
    with pytest.raises(LogArgumentError, match="int64 of shape"):
        kafkalog.restore(CLEAN, tmp_path / "copy", where=lambda records: records.offset)
    assert list(tmp_path.iterdir()) == []


# Bounds


@pytest.mark.parametrize("name", ["k431-clean", "k282-clean"])
@pytest.mark.parametrize(("start", "end"), [(0, 1), (7, 61), (33, 90), (90, 1000)])
def test_bounds_are_exact_within_batches(name, start, end, tmp_path):
    source, copy = golden_data.logs(name), tmp_path / "copy"
    report = kafkalog.restore(
        source,
        copy,
        topics=TOPICS[name],
        start_offset=start,
        end_offset=end,
        prove=True,
    )
    assert report.proof.ok
    for partition in report.partitions:
        directory = f"{partition.topic}-{partition.partition}"
        log = kafkalog.Log(source / directory)
        first = min(max(start, log.log_start_offset), log.log_end_offset)
        expected = records_in(source / directory, start_offset=first, end_offset=end)
        assert modern(records_in(copy / directory)) == modern(expected)
        assert partition.log_start_offset == first
        assert partition.log_end_offset == max(min(end, log.log_end_offset), first)
        copied = kafkalog.Log(copy / directory)
        assert copied.log_start_offset == partition.log_start_offset
        assert copied.log_end_offset == partition.log_end_offset
    assert errors_in(copy) == []


def test_bounds_may_differ_by_partition(tmp_path):
    start = {("orders.none", 0): 120, ("orders.zstd", 0): 3}
    kafkalog.restore(CLEAN, tmp_path / "copy", topics="orders.*", start_offset=start)
    starts = read_offsets(tmp_path / "copy", LOG_STARTS)
    for name, offset in start.items():
        assert starts[name] == offset
    first = records_in(tmp_path / "copy" / "orders.gzip-0")[0]
    assert first["offset"] == 0


# The target


def test_a_copy_for_another_cluster_has_its_ids_and_its_leader_epoch(tmp_path):
    topic_ids = {"orders.none": OTHER_ID, "state.txn": "AAAAAAAAQACAAAAAAAAAAQ"}
    report = kafkalog.restore(
        CLEAN,
        tmp_path / "copy",
        topics=list(topic_ids),
        topic_ids=topic_ids,
        cluster_id="other",
        node_id=7,
    )
    meta = MetaProperties.parse((tmp_path / "copy" / "meta.properties").read_bytes())
    assert (meta.cluster_id, meta.node_id) == ("other", 7)
    assert meta.directory_id == report.directory_id
    source = MetaProperties.parse((CLEAN / "meta.properties").read_bytes())
    assert meta.directory_id != source.directory_id
    for partition in report.partitions:
        assert partition.topic_id == topic_ids[partition.topic]
    for topic in topic_ids:
        copied = records_in(tmp_path / "copy" / f"{topic}-0")
        assert copied == [
            {**record, "leader_epoch": 0} for record in records_in(CLEAN / f"{topic}-0")
        ]
        epochs = kafkalog.Log(tmp_path / "copy" / f"{topic}-0").leader_epochs
        assert {entry.epoch for entry in epochs} == {0}


def test_leader_epochs_become_those_of_the_target(tmp_path):
    source = golden_data.logs("k431-repl-broker1")
    report = kafkalog.restore(source, tmp_path / "copy", leader_epoch=0)
    for partition in report.partitions:
        name = f"{partition.topic}-{partition.partition}"
        copied = records_in(tmp_path / "copy" / name)
        assert {record["leader_epoch"] for record in copied} <= {0, -1}
        assert [{**record, "leader_epoch": 0} for record in copied] == [
            {**record, "leader_epoch": 0} for record in records_in(source / name)
        ]
    assert errors_in(tmp_path / "copy") == []


def test_ids_are_read_from_a_log_directory_of_the_target(tmp_path):
    report = kafkalog.restore(
        CLEAN, tmp_path / "copy", topics="orders.none", target=CLEAN
    )
    source = MetaProperties.parse((CLEAN / "meta.properties").read_bytes())
    assert report.directory_id == source.directory_id
    assert report.cluster_id == source.cluster_id
    [partition] = report.partitions
    assert partition.topic_id == ORDERS_ID


def test_a_broker_of_the_target_starts_on_a_copy(tmp_path):
    whole = kafkalog.restore(
        CLEAN, tmp_path / "copy", target=CLEAN, exclude_topics="once"
    )
    report = kafkalog.preflight(tmp_path / "copy", cluster=CLEAN)
    assert report.ok
    copied = [each for each in report.partitions if each.state != "missing"]
    assert len(copied) == len(whole.partitions)
    assert {start.state for start in copied} == {"clean"}
    ids = {"cluster_id": whole.cluster_id, "node_id": whole.node_id}
    topic_ids = {"orders.none": "AAAAAAAAQACAAAAAAAAAAQ"}
    kafkalog.restore(
        CLEAN, tmp_path / "b", topics="orders.none", topic_ids=topic_ids, **ids
    )
    starts = kafkalog.preflight(tmp_path / "b", cluster=CLEAN).partitions
    [stray] = [each for each in starts if each.state != "missing"]
    assert stray.state == "stray"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ids.csv", f"topic,id\norders.none,{OTHER_ID}\n"),
        ("ids.csv", f"\ufeff\nTopic, TopicId\r\norders.none,{OTHER_ID}\r\n"),
        ("ids.csv", f'"name","topic id"\norders.none,{OTHER_ID}\n'),
        ("ids.csv", f"id,{OTHER_ID}\norders.none,{OTHER_ID}\n"),
        ("ids.csv", f"topic,topic_id\norders.none,{OTHER_ID}\n"),
        ("ids.csv", f"orders.none , {OTHER_ID}\n\n"),
        ("ids.json", json.dumps({"orders.none": OTHER_ID})),
        ("ids.json", json.dumps([{"topic": "orders.none", "topic_id": OTHER_ID}])),
        (
            "described.txt",
            f"Topic: orders.none\tTopicId: {OTHER_ID}\tPartitionCount: 1\t"
            "ReplicationFactor: 1\tConfigs: \n\tTopic: orders.none\tPartition: 0\t"
            "Leader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \n",
        ),
    ],
)
def test_topic_ids_are_read_in_each_form(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    report = kafkalog.restore(
        CLEAN, tmp_path / "copy", topics="orders.none", topic_ids=tmp_path / name
    )
    assert [partition.topic_id for partition in report.partitions] == [OTHER_ID]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no topic id"),
        ("orders.none\n", "line of 1 fields"),
        ("orders.none,xyz\n", "id of topic orders.none"),
        ('{"orders.none": 5}', "expected text"),
        ("{", "invalid JSON"),
        (f"a,{OTHER_ID}\na,AAAAAAAAQACAAAAAAAAAAQ\n", "two ids of topic a"),
    ],
)
def test_invalid_topic_ids_are_rejected(text, reason, tmp_path):
    (tmp_path / "ids").write_text(text)
    with pytest.raises(LogArgumentError, match=reason):
        kafkalog.restore(CLEAN, tmp_path / "copy", topic_ids=tmp_path / "ids")


def test_a_topic_without_an_id_is_refused(tmp_path):
    with pytest.raises(LogStateError, match=r"no topic id for orders.none"):
        kafkalog.restore(
            CLEAN,
            tmp_path / "copy",
            topics="orders.none",
            topic_ids={"other": OTHER_ID},
        )
    assert list(tmp_path.iterdir()) == []


def test_a_lone_cluster_id_is_rejected(tmp_path):
    with pytest.raises(LogArgumentError, match="no node_id"):
        kafkalog.restore(CLEAN, tmp_path / "copy", cluster_id="c")


# Sources and destinations


def test_internal_topics_are_copied_only_by_name(tmp_path):
    report = kafkalog.restore(CLEAN, tmp_path / "a", topics="*")
    assert not any(part.topic.startswith("__") for part in report.partitions)
    report = kafkalog.restore(
        CLEAN,
        tmp_path / "b",
        topics=["__*", "orders.none"],
        exclude_topics=["__share*", "__transaction*"],
        exclude_keys=["key-1"],
        end_offset=5,
    )
    assert {part.topic for part in report.partitions} == {
        "__consumer_offsets",
        "orders.none",
    }
    for partition in range(3):
        name = f"__consumer_offsets-{partition}"
        assert records_in(tmp_path / "b" / name) == records_in(CLEAN / name)


def test_partitions_of_several_directories_become_one(tmp_path):
    sources = [CLEAN / "orders.none-0", golden_data.logs("k282-clean")]
    report = kafkalog.restore(
        sources, tmp_path / "copy", topics=["orders*", "legacy.m*"]
    )
    assert len(report.partitions) > 2
    twice = shutil.copytree(
        CLEAN / "orders.none-0", tmp_path / "twice" / "orders.none-0"
    )
    with pytest.raises(LogStateError, match="partition in two directories"):
        kafkalog.restore([sources[0], twice], tmp_path / "other")


@pytest.mark.parametrize("call", ["restore", "prove"])
def test_a_filter_that_does_not_exist_is_refused(call, tmp_path):
    destination = [tmp_path / "copy"] if call == "restore" else []
    with pytest.raises(TypeError, match="unexpected keyword argument 'topic'"):
        getattr(kafkalog, call)(CLEAN, *destination, topic="ledger")
    assert not list(tmp_path.iterdir())


def test_a_missing_topic_is_not_ignored(tmp_path):
    with pytest.raises(FileNotFoundError, match="No such topic"):
        kafkalog.restore(CLEAN, tmp_path / "copy", topics=["orders.none", "ordres"])


def test_a_destination_with_files_is_refused(tmp_path):
    (tmp_path / "copy").mkdir()
    kafkalog.restore(CLEAN, tmp_path / "copy", topics="orders.none")
    before = logs_in(tmp_path / "copy")
    with pytest.raises(LogStateError, match="the directory is not empty"):
        kafkalog.restore(CLEAN, tmp_path / "copy", topics="orders.zstd")
    assert logs_in(tmp_path / "copy") == before
    with pytest.raises(FileNotFoundError):
        kafkalog.restore(CLEAN, tmp_path / "none" / "copy")


def test_a_copy_is_not_written_into_its_source(tmp_path):
    logs = tmp_path / "logs"
    shutil.copytree(CLEAN / "orders.none-0", logs / "orders.none-0")
    with pytest.raises(LogStateError, match="destination in a source"):
        kafkalog.restore(logs, logs / "copy")


def test_damage_leaves_no_copy_unless_it_is_skipped(tmp_path):
    logs = tmp_path / "logs"
    shutil.copytree(CLEAN / "orders.none-0", logs / "orders.none-0")
    [*_, path] = sorted((logs / "orders.none-0").glob("*.log"))[:1]
    data = bytearray(path.read_bytes())
    data[150] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecordError):
        kafkalog.restore(logs, tmp_path / "copy")
    assert [each.name for each in tmp_path.iterdir()] == ["logs"]
    report = kafkalog.restore(logs, tmp_path / "copy", on_corruption="skip")
    assert not report.ok
    expected = kafkalog.scan(logs, on_corruption="skip", columns=["offset"])
    copied = kafkalog.scan(tmp_path / "copy", columns=["offset"])
    assert copied.to_arrow() == expected.to_arrow()
    assert len(report.problems) == len(expected.problems) == 1


def die_at(number, call):
    """Run `call` in a process that ends at one change of a file; return whether it did.

    The changes are renames, removals, creations, truncations, and forced writes.
    """
    names = ["rename", "remove", "make_directory", "sync", "sync_directory", "truncate"]
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED
    changes = count(1)

    def counted(real):
        def change(*arguments, **options):
            if next(changes) == number:
                os._exit(KILLED)
            return real(*arguments, **options)

        return change

    for name in names:
        setattr(Disk, name, counted(getattr(Disk, name)))
    try:
        call()
    except BaseException:
        os._exit(1)
    os._exit(0)


def test_no_interrupted_copy_passes_for_a_whole_one(tmp_path):
    logs, copy = tmp_path / "logs", tmp_path / "copy"
    staging = copy.with_name(copy.name + INCOMPLETE)
    shutil.copytree(CLEAN / "once-0", logs / "once-0")
    shutil.copyfile(CLEAN / "meta.properties", logs / "meta.properties")
    kafkalog.restore(logs, copy)
    whole = logs_in(copy)
    states = set()
    for number in count(1):
        shutil.rmtree(copy)
        is_killed = die_at(number, lambda: kafkalog.restore(logs, copy))
        states.add((copy.exists(), staging.exists()))
        if copy.exists():
            assert logs_in(copy) == whole
            assert (copy / "meta.properties").exists()
            assert errors_in(copy) == []
        elif staging.exists():
            with pytest.raises(LogStateError, match="not complete"):
                kafkalog.restore(logs, copy)
            shutil.rmtree(staging)
        if not is_killed:
            break
        copy.mkdir(exist_ok=True)
    assert states == {(False, False), (False, True), (True, False)}


def test_a_log_start_offset_past_the_end_is_damage(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(CLEAN / "orders.none-0", source / "orders.none-0")
    (source / LOG_STARTS).write_text("0\n1\norders.none 0 1000000\n")
    end = kafkalog.Log(CLEAN / "orders.none-0").log_end_offset
    reason = f"log start offset 1000000 of orders.none-0, expected at most {end}"
    with pytest.raises(CorruptCheckpointError, match=reason):
        kafkalog.restore(source, tmp_path / "raised")
    report = kafkalog.restore(source, tmp_path / "copy", on_corruption="skip")
    [problem] = report.problems
    assert (problem.path, problem.reason) == (source / LOG_STARTS, reason)
    expected = records_in(CLEAN / "orders.none-0")
    assert records_in(tmp_path / "copy" / "orders.none-0") == expected
