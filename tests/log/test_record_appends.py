"""Appended records leave the same log as their batches, appended as bytes."""

from __future__ import annotations

import pickle
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog import (
    ConfigError,
    InvalidRecordError,
    KafkaLogError,
    LogClosedError,
    LogConfig,
    RecordBatchBuilder,
    RecordTooLargeError,
    RecordValidationError,
    UnfitRecordsError,
)
from kafkalog.encoding import producer_batches
from kafkalog.encoding.batch_builder import BatchSettings
from kafkalog.encoding.record_input import record_columns
from kafkalog.errors import LogArgumentError, RecordsRefusedError
from kafkalog.formats.layout import CODECS
from kafkalog.testing import FailingDisk, ManualClock
from tests.log.writing import NOW, SMALL, files_of, load

# -------------------------------------------------------------------------- strategies

maybe_bytes = st.none() | st.binary(max_size=60)
times = st.just(-1) | st.integers(NOW - 2000, NOW + 2000)
headers = st.lists(st.tuples(st.text(max_size=3), maybe_bytes), max_size=2)
rows = st.fixed_dictionaries(
    {"key": maybe_bytes, "value": maybe_bytes, "timestamp": times, "headers": headers}
)
tables = st.lists(rows, max_size=40)
rules = st.fixed_dictionaries(
    {},
    optional={
        "compression.type": st.sampled_from([*CODECS[1:], "uncompressed", "producer"]),
        "cleanup.policy": st.sampled_from(["compact", "compact,delete"]),
        "message.timestamp.type": st.just("LogAppendTime"),
        "message.timestamp.before.max.ms": st.sampled_from([100, 1500]),
        "message.timestamp.after.max.ms": st.sampled_from([100, 1500]),
        "max.message.bytes": st.integers(80, 400),
        "internal.segment.bytes": st.integers(300, 2000),
        "flush.messages": st.integers(1, 20),
    },
)
# With several settings at once most appends are rejected, so each is tested alone too.
topics = rules | rules.map(lambda topic: dict([*topic.items()][:1]))
producers = st.just({}) | st.builds(
    dict,
    producer_id=st.just(7),
    producer_epoch=st.integers(0, 1),
    base_sequence=st.sampled_from([0, 5, 2**31 - 3]),
    is_transactional=st.booleans(),
)
calls = st.lists(
    st.tuples(
        tables,
        st.none() | st.sampled_from(CODECS),
        st.integers(1, 600),
        producers,
    ),
    min_size=1,
    max_size=4,
)


def built(table, bounds, **fields):
    """Build the batches one by one, as a producer does."""
    batches, sequence = [], fields.pop("base_sequence", -1)
    for first, end in pairwise(bounds):
        own = -1 if sequence < 0 else (sequence + first) % 2**31
        builder = RecordBatchBuilder(base_offset=0, base_sequence=own, **fields)
        for row in table[first:end]:
            builder.append(**row)
        batches.append(builder.build())
    return batches


def described(outcomes):
    """Return a description of outcomes that can be compared."""
    return [
        (type(outcome), str(outcome), getattr(outcome, "record_errors", None))
        if isinstance(outcome, KafkaLogError)
        else outcome
        for outcome in outcomes
    ]


# ------------------------------------------------------------------------------- tests


def check_both_ways(calls, topic):
    """Append records, and their batches to another log; check that all is the same."""
    config = SMALL.with_changes({str(key): value for key, value in topic.items()})
    kinds = set()
    with tempfile.TemporaryDirectory() as root:
        ours, theirs = Path(root, "ours"), Path(root, "theirs")
        ours.mkdir()
        theirs.mkdir()
        with load(ours, config) as log, load(theirs, config) as other:
            for table, codec, batch_bytes, producer in calls:
                arguments = {"codec": codec, "batch_bytes": batch_bytes, **producer}
                done = log.append_records(table, on_refused="return", **arguments)
                chosen, level = codec, None
                kind = config.compression_type
                if codec is None and kind in CODECS:
                    chosen, level = kind, config.compression_level
                fields = {"codec": chosen or "none", "level": level, **producer}
                batches = built(table, done.bounds.tolist(), **fields)
                outcomes = other.append_many(batches)
                assert described(done.outcomes) == described(outcomes)
                kinds |= {type(outcome).__name__ for outcome in outcomes}
            assert dict(log.producers) == dict(other.producers)
            assert log.log_end_offset == other.log_end_offset
        assert files_of(ours) == files_of(theirs)
    return kinds


@settings(deadline=None)
@given(calls, topics)
def test_records_leave_the_same_bytes_and_results_as_their_batches(calls, topic):
    for kind in check_both_ways(calls, topic):
        event(kind)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("topic", "refused"),
    [
        ({}, None),
        ({"cleanup.policy": "compact"}, "RecordValidationError"),
        ({"message.timestamp.before.max.ms": 900}, "RecordValidationError"),
        ({"message.timestamp.after.max.ms": 900}, "RecordValidationError"),
        ({"max.message.bytes": 150}, "RecordTooLargeError"),
        ({"message.timestamp.type": "LogAppendTime"}, None),
        ({"internal.segment.bytes": 250, "flush.messages": 3}, None),
        ({"compression.type": "gzip"}, None),
    ],
)
def test_records_are_validated_by_each_rule_of_the_topic(topic, refused, codec):
    def row(**fields):
        return {"key": b"k", "value": b"v", "timestamp": NOW, **fields}

    noise = np.random.default_rng(3).bytes(100)
    table = [row(), row(key=None), row(timestamp=NOW - 1000), row(timestamp=-1)]
    table += [row(timestamp=NOW + 1000), row(value=noise), row(headers=[("h", None)])]
    for batch_bytes in (1, 140, 10_000):
        producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 2**31 - 4}
        calls = [(table, codec, batch_bytes, fields) for fields in ({}, producer)]
        kinds = check_both_ways([*calls, calls[1]], topic)
        assert refused is None or refused in kinds


@settings(deadline=None)
@given(tables, st.integers(1, 600))
def test_a_batch_has_as_many_records_as_fit(table, batch_bytes):
    columns = record_columns(table, NOW)
    producing = producer_batches.into_producer_batches(
        columns, BatchSettings(), batch_bytes
    )
    bounds = producing.split.bounds.tolist()
    assert (bounds[0], bounds[-1]) == (0, len(table))
    for first, end in pairwise(bounds):
        size = len(built(table, [first, end])[0])
        assert size <= batch_bytes or end - first == 1
        if end < len(table):
            assert len(built(table, [first, end + 1])[0]) > batch_bytes


def test_many_buffers_leave_the_same_bytes_as_one(tmp_path, monkeypatch):
    table = [{"value": bytes(number % 300)} for number in range(200)]
    left = []
    for size in (1, 500, 1 << 20):
        monkeypatch.setattr("kafkalog.log.appending.BUFFER_BYTES", size)
        home = tmp_path / str(size)
        home.mkdir()
        with load(home) as log:
            producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
            done = log.append_records(table, batch_bytes=400, **producer)
            assert done.offsets.tolist() == list(range(200))
        left.append(files_of(home))
    assert left[0] == left[1] == left[2]


def test_the_result_lists_rejected_records_and_the_offsets_of_the_others(tmp_path):
    table = [{"value": b"v"}, {"value": b"v"}, {"value": bytes(300)}, {"value": b"v"}]
    config = SMALL.with_changes({"max.message.bytes": 200})
    with load(tmp_path, config) as log:
        done = log.append_records(table, batch_bytes=100, on_refused="return")
        [refused] = done.refused
        assert (refused.first, refused.end) == (2, 3)
        assert isinstance(refused.error, RecordTooLargeError)
        assert done.offsets.tolist() == [0, 1, -1, 2]
        log.update_config(SMALL.with_changes({"cleanup.policy": "compact"}))
        rows = [{"key": b"k", "value": b"v"}, {"value": b"v"}]
        done = log.append_records(rows, on_refused="return")
        [refused] = done.refused
        assert isinstance(refused.error, RecordValidationError)
        assert [index for index, _ in refused.error.record_errors] == [1]


def test_a_duplicate_has_the_offsets_of_the_first_append(tmp_path):
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    with load(tmp_path) as log:
        log.append_records({"value": [b"a", b"b"]}, **producer)
        log.append_records({"value": [b"c"]})
        again = log.append_records({"value": [b"a", b"b"]}, **producer)
        assert again.outcomes[0].is_duplicate
        assert (again.offsets.tolist(), log.log_end_offset) == ([0, 1], 3)


def test_the_default_codec_is_that_of_the_topic(tmp_path):
    changes = {"compression.type": "gzip", "compression.gzip.level": 1}
    with load(tmp_path, SMALL.with_changes(changes)) as log:
        log.append_records({"value": [b"v" * 100]})
        log.update_config(SMALL.with_changes({"compression.type": "uncompressed"}))
        log.append_records({"value": [b"v" * 100]})
        log.update_config(SMALL)
        log.append_records({"value": [b"v" * 100]})
        log.append_records({"value": [b"v" * 100]}, codec="snappy")
        codecs = [stored.codec for stored in log.read(0).batches()]
    assert codecs == ["gzip", "none", "none", "snappy"]


def test_records_without_a_timestamp_get_the_present_time(tmp_path):
    with load(tmp_path) as log:
        log.append_records([{"value": b"v"}])
        log.append_records([{"value": b"v", "timestamp": None}])
        first, second = (record for batch in log.read(0).batches() for record in batch)
    assert (first.timestamp, second.timestamp) == (NOW, -1)


def test_an_append_without_records_writes_no_batch(tmp_path):
    with load(tmp_path) as log:
        for nothing in ([], {"value": []}, np.empty((0,), object)):
            done = log.append_records(nothing)
            assert (done.outcomes, done.offsets.tolist()) == ([], [])
        assert log.log_end_offset == 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"codec": "brotli"}, InvalidRecordError, "codec 'brotli', expected none"),
        ({"codec": "gzip", "level": 77}, ConfigError, "compression.gzip.level is 77"),
        ({"level": 3}, ConfigError, "none has no levels"),
        (
            {"producer_id": 3},
            InvalidRecordError,
            "producer epoch -1, expected at least 0",
        ),
        (
            {"is_transactional": True},
            InvalidRecordError,
            "transactional batch without a producer id",
        ),
    ],
)
def test_invalid_batch_settings_are_rejected_before_anything_is_appended(
    tmp_path, arguments, error, message
):
    with load(tmp_path) as log:
        with pytest.raises(error, match=message):
            log.append_records({"value": [b"v"]}, **arguments)
        assert log.log_end_offset == 0


def test_records_that_cannot_be_converted_leave_the_log_unchanged(tmp_path):
    def failing():
        yield {"value": b"v"}
        raise OSError("unreadable reads the source")

    with load(tmp_path) as log:
        with pytest.raises(OSError, match="unreadable"):
            log.append_records(failing())
        with pytest.raises(UnfitRecordsError):
            log.append_records({"value": [b"v", 3]})
        assert log.append_records({"value": [b"v"]}).offsets.tolist() == [0]


def test_a_record_too_large_for_any_batch_is_rejected_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(producer_batches, "_MAX_PAYLOAD", 100)
    with load(tmp_path) as log:
        table = {"value": [b"v", bytes(200)]}
        with pytest.raises(
            InvalidRecordError, match=r"record of .* bytes, expected at most 100"
        ):
            log.append_records(table, batch_bytes=10)
        assert log.log_end_offset == 0


def test_a_failing_disk_closes_the_log(tmp_path):
    disk = FailingDisk()
    log = load(tmp_path, disk=disk)
    log.append_records({"value": [b"v"]})
    disk.fail_at = len(disk.calls)
    with pytest.raises(OSError, match="No space"):
        log.append_records({"value": [b"v"]})
    with pytest.raises(LogClosedError):
        log.append_records({"value": [b"v"]})
    log.abandon()


def test_records_of_a_scan_can_be_appended_to_another_log(tmp_path):
    source = "tests/golden/k431-clean/logs/orders.zstd-0"
    columns = ["key", "value", "headers", "timestamp"]
    for name, views in (("gathered", False), ("views", True)):
        with kafkalog.open(tmp_path / f"{name}-0", mode="a") as log:
            for records in kafkalog.scan(source).chunks(views=views):
                assert not log.append_records(records, codec="zstd").refused
        table = kafkalog.scan(tmp_path / f"{name}-0", columns=columns).to_arrow()
        assert table == kafkalog.scan(source, columns=columns).to_arrow()


def test_rejected_records_are_an_error_after_the_others_are_appended(tmp_path):
    late = NOW + 7_200_000
    table = {"value": [b"a", b"b", b"c"], "timestamp": [NOW, late, NOW]}
    with load(tmp_path, clock=ManualClock(NOW)) as log:
        with pytest.raises(RecordsRefusedError) as caught:
            log.append_records(table, batch_bytes=1)
        error = caught.value
        assert str(error).startswith(
            "1 of 3 records refused, the others are appended; first records 1 to 1: "
        )
        assert str(late) in str(error)
        assert error.__notes__ == ["Decided by message.timestamp.after.max.ms=3600000."]
        assert error.kafka_name == "RecordValidationException"
        assert error.result.offsets.tolist() == [0, -1, 1]
        [refused] = error.refused
        assert (refused.first, refused.end) == (1, 2)
        assert log.log_end_offset == 2
        again = log.append_records(table, batch_bytes=1, on_refused="return")
        assert again.offsets.tolist() == [2, -1, 3]
        copied = pickle.loads(pickle.dumps(error))
        assert str(copied) == str(error)
        assert copied.__notes__ == error.__notes__


@pytest.mark.parametrize(
    ("changes", "rows", "note"),
    [
        (
            {"max.message.bytes": 80},
            [{"value": bytes(100)}],
            "Decided by max.message.bytes=80.",
        ),
        (
            {"internal.segment.bytes": 80},
            [{"value": bytes(100)}],
            "Decided by segment.bytes=80.",
        ),
        (
            {"cleanup.policy": "compact"},
            [{"value": b"v"}],
            "Decided by cleanup.policy, which has compact.",
        ),
        (
            {"message.timestamp.before.max.ms": 5},
            [{"value": b"v", "timestamp": NOW - 6}],
            "Decided by message.timestamp.before.max.ms=5.",
        ),
    ],
)
def test_a_note_names_the_setting_for_which_records_are_rejected(
    tmp_path, changes, rows, note
):
    config = LogConfig(internal_segment_bytes=1000).with_changes(changes)
    with (
        load(tmp_path, config, clock=ManualClock(NOW)) as log,
        pytest.raises(RecordsRefusedError) as caught,
    ):
        log.append_records(rows)
    assert caught.value.__notes__ == [note]


def test_an_unknown_way_to_treat_rejections_is_refused_before_anything_is_written(
    tmp_path,
):
    with load(tmp_path) as log:
        with pytest.raises(LogArgumentError, match="on_refused 'skip'"):
            log.append_records([{"value": b"v"}], on_refused="skip")
        assert log.log_end_offset == 0
