"""`whatif` and `why` report what a round of a `LogManager` removes or keeps."""

from collections import Counter
from shutil import copy2, copytree, rmtree

import pytest

import kafkalog
from kafkalog.cleaner import planned_removals
from kafkalog.cleaner.removal_report import KeepRule, RemovalCause
from kafkalog.errors import ConfigError, LogArgumentError, NotALogDirectoryError
from kafkalog.log.topic_settings import TopicSettings
from kafkalog.rehearsal.rehearsal_disk import StandInFile
from kafkalog.storage.log_directory import list_partitions
from kafkalog.testing import ManualClock, ManualScheduler, open_log, open_manager
from tests import golden_data
from tests.cleaner.test_properties import Compacted
from tests.cli.shell import call, objects

HOUR_MS = 3_600_000
MEMBERS = [
    *("topic", "partition", "segment", "records", "bytes", "removed_by", "at"),
    "unchanged_because",
]
SETS = (
    "k431-clean",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("k431-crash", "k282-clean", "k431-repl-broker1")
    ),
)
CHANGES = (
    {"retention.ms": 3600_000},
    {
        "cleanup.policy": "compact,delete",
        "min.cleanable.dirty.ratio": 0,
        "retention.ms": -1,
        "retention.bytes": 5000,
        "delete.retention.ms": 0,
    },
    *(
        pytest.param(changes, marks=pytest.mark.slow)
        for changes in (
            {"retention.ms": -1, "retention.bytes": 6000},
            {"retention.ms": -1, "cleanup.policy": "delete"},
            {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0},
        )
    ),
)


def files_of(directory):
    return {
        path.relative_to(directory): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file()
    }


def segments_of_offsets(partition):
    """Return the segment of each offset on disk, control records included."""
    records = kafkalog.scan(
        partition, columns=["offset", "segment"], control_records=True, start_offset=0
    ).to_arrow()
    return dict(
        zip(records["offset"].to_pylist(), records["segment"].to_pylist(), strict=True)
    )


def bytes_of(partition):
    return sum(path.stat().st_size for path in partition.glob("*.log"))


def removed_by_round(logs, name, config, now_ms, scratch):
    """Run a round on a copy; return removed records by segment, and removed bytes."""
    directory = f"{name[0]}-{name[1]}"
    copy = scratch / "logs"
    copytree(logs / directory, copy / directory)
    for path in logs.iterdir():
        if path.is_file():
            copy2(path, copy / path.name)
    clock = ManualClock(now_ms)
    with open_manager(
        copy, topics={name[0]: config}, clock=clock, scheduler=ManualScheduler(clock)
    ) as manager:
        log = manager[name]
        before = segments_of_offsets(copy / directory)
        size = bytes_of(copy / directory)
        manager.retain() if not config.compact else manager.cleaner.work()
        after = segments_of_offsets(copy / directory)
        size -= bytes_of(copy / directory)
        del log
    rmtree(copy)
    return Counter(before[offset] for offset in before.keys() - after), size


# The log start offset of a round is in the checkpoint some time after it.
@pytest.mark.filterwarnings("ignore::kafkalog.errors.TieredLogWarning")
@pytest.mark.parametrize("golden_set", SETS)
@pytest.mark.parametrize("changes", CHANGES, ids=lambda each: str(list(each)))
def test_a_round_over_a_copy_removes_what_was_reported(golden_set, changes, tmp_path):
    logs = golden_data.logs(golden_set)
    topics = TopicSettings([logs], None, None, None)
    checked = 0
    for name, path in list_partitions(logs):
        if name.topic == "__cluster_metadata" or not any(path.glob("*.log")):
            continue
        latest = kafkalog.scan(path, columns=["timestamp"]).to_arrow()["timestamp"]
        times = [time for time in latest.cast("int64").to_pylist() if time is not None]
        now_ms = max(times, default=0) + 3600_000 - 50
        report = kafkalog.whatif(path, changes, at=now_ms)
        config = topics.of(name.topic, topic_id(path)).config.with_changes(changes)
        place = name.topic, name.partition
        records, size = removed_by_round(logs, place, config, now_ms, tmp_path)
        reported = Counter()
        for removal in report.due:
            reported[removal.segment] += removal.records
        assert +reported == records, path
        assert sum(removal.bytes for removal in report.due) == size, path
        checked += bool(records)
    assert checked or golden_set != "k431-clean" or changes["retention.ms"] == -1


def topic_id(partition):
    file = partition / "partition.metadata"
    return file.read_text().split()[-1] if file.exists() else None


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete"])
@pytest.mark.parametrize("seed", range(6))
def test_a_round_over_a_random_log_removes_what_was_reported(seed, policy, tmp_path):
    made = Compacted(tmp_path / "made", seed)
    for _ in range(3):
        made.fill(12)
        made.clean()
    made.fill(12)
    made.clock.time_ms += made.random.choice((0, 4_999, 5_001))
    made.log.close()
    config = made.log.config
    changes = {
        "cleanup.policy": policy,
        "retention.ms": made.random.choice((-1, 100, 5_040)),
        "retention.bytes": made.random.choice((-1, 1500, 4000)),
        "min.cleanable.dirty.ratio": 0,
        "delete.retention.ms": config.delete_retention_ms,
        "internal.segment.bytes": config.internal_segment_bytes,
        "index.interval.bytes": config.index_interval_bytes,
    }
    logs = tmp_path / "made"
    before = files_of(logs)
    report = kafkalog.whatif(logs, changes, at=made.clock.time_ms)
    assert files_of(logs) == before
    records, size = removed_by_round(
        logs,
        ("state", 0),
        kafkalog.LogConfig().with_changes(changes),
        made.clock.time_ms,
        tmp_path,
    )
    reported = Counter()
    for removal in report.due:
        reported[removal.segment] += removal.records
    assert +reported == records
    assert sum(removal.bytes for removal in report.due) == size


NOW_MS = 1_700_000_000_000
FIRST, SECOND, THIRD = (f"{base:020}.log" for base in (0, 2, 4))


@pytest.fixture
def orders(tmp_path):
    """Return a log directory with a log of three segments, an hour apart."""
    clock = ManualClock(NOW_MS)
    scheduler = ManualScheduler(clock)
    path = tmp_path / "logs" / "orders-0"
    with open_log(path, clock=clock, scheduler=scheduler) as log:
        for number in range(3):
            if number:
                log.roll()
            clock.time_ms = NOW_MS + number * HOUR_MS
            log.append_records({"key": [b"a", b"b"], "value": [b"1", b"2"]})
        log.update_high_watermark(log.log_end_offset)
    return tmp_path / "logs"


def rules(report):
    return [str(reason.rule) for reason in report.because]


def rows_of(report):
    return [
        (removal.segment, removal.records, str(removal.removed_by), removal.at)
        for removal in report.removals
    ]


def test_segments_that_get_too_old_later_are_listed_with_that_time(orders):
    now_ms = NOW_MS + 2 * HOUR_MS
    report = kafkalog.whatif(orders, {"retention.ms": HOUR_MS}, at=now_ms)
    assert rows_of(report) == [
        (FIRST, 2, "retention.ms", now_ms),
        (SECOND, 2, "retention.ms", now_ms + 1),
    ]
    assert [removal.segment for removal in report.due] == [FIRST]
    assert report.unchanged == ()
    later = kafkalog.whatif(orders, {"retention.ms": HOUR_MS}, at=now_ms + 1)
    assert [removal.segment for removal in later.due] == [FIRST, SECOND]


def test_a_report_is_a_table_and_has_text(orders):
    report = kafkalog.whatif(orders, {"cleanup.policy": "compact"}, at=NOW_MS)
    table = report.to_arrow()
    assert table.column_names == MEMBERS
    assert table["removed_by"].to_pylist() == ["compact"]
    assert table["records"].to_pylist() == [2]
    assert "2 records" in repr(report)
    assert FIRST in report._repr_html_()
    with pytest.raises(AttributeError):
        report.at = 0


@pytest.mark.parametrize(
    ("settings", "reasons"),
    [
        ({"retention.ms": -1}, ["retention.ms -1", "retention.bytes -1"]),
        (
            {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"},
            [
                "min.cleanable.dirty.ratio 1.0: dirty ratio 1",
                "cleanup.policy compact",
            ],
        ),
        (
            {"cleanup.policy": "compact", "min.compaction.lag.ms": 10 * HOUR_MS},
            [
                f"min.compaction.lag.ms {10 * HOUR_MS}: records from offset 0 on are "
                "younger",
                "cleanup.policy compact",
            ],
        ),
    ],
)
def test_a_partition_without_removals_has_the_reasons(orders, settings, reasons):
    report = kafkalog.whatif(orders, settings, at=NOW_MS + HOUR_MS)
    assert report.removals == ()
    [log] = report.unchanged
    assert list(log.unchanged_because) == reasons
    assert report.to_arrow()["unchanged_because"].to_pylist() == [reasons]
    assert "; ".join(reasons) in str(report)
    changes = [f"--set={name}={value}" for name, value in settings.items()]
    ran = call("whatif", orders, *changes, "--at", str(NOW_MS + HOUR_MS))
    [row] = objects(ran.stdout)
    assert list(row) == ["schema", *MEMBERS]
    assert (row["segment"], row["records"]) == (None, 0)
    assert row["unchanged_because"] == reasons


def test_a_file_that_a_broker_deletes_meanwhile_is_read_again(orders, monkeypatch):
    """Source: ``LogManager.cleanupLogs`` of a broker that is running."""
    original = planned_removals.read_facts

    def read_facts(directory, name, settings):
        facts = original(directory, name, settings)
        for file in directory.glob(f"{FIRST.removesuffix('.log')}.*"):
            file.unlink()
        return facts

    monkeypatch.setattr(planned_removals, "read_facts", read_facts)
    now_ms = NOW_MS + 10 * HOUR_MS
    report = kafkalog.whatif(orders, {"retention.ms": HOUR_MS}, at=now_ms)
    segments = {removal.segment for removal in report.removals}
    assert SECOND in segments
    assert FIRST not in segments


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_partition_that_is_deleted_meanwhile_is_not_reported(
    orders, monkeypatch, policy
):
    def read_facts(directory, name, settings):
        rmtree(directory)
        raise FileNotFoundError(2, "No such file or directory", str(directory))

    monkeypatch.setattr(planned_removals, "read_facts", read_facts)
    report = kafkalog.whatif(orders, {"cleanup.policy": policy})
    assert (report.removals, report.unchanged) == ((), ())


def test_nothing_is_copied_to_plan_a_compaction(orders, monkeypatch):
    """The records of a log are read where they are."""
    copied = []
    original = StandInFile.copy_content

    def copy_content(file):
        copied.append(file.path.name)
        original(file)

    monkeypatch.setattr(StandInFile, "copy_content", copy_content)
    report = kafkalog.whatif(orders, {"cleanup.policy": "compact"}, at=NOW_MS)
    assert len(report.removals) == 1
    assert not any(name.endswith(".log") for name in copied)


def test_a_removal_is_a_json_object_and_the_settings_are_on_standard_error(orders):
    ran = call(
        "whatif", orders, "--set", "retention.ms=1", "--at", str(NOW_MS + HOUR_MS)
    )
    assert ran.exit_code == 0
    [row, *_] = objects(ran.stdout)
    assert list(row) == ["schema", *MEMBERS]
    assert (row["segment"], row["removed_by"]) == (FIRST, "retention.ms")
    assert ran.stderr == "settings of orders: Kafka's defaults\n"
    table = call("whatif", orders, "--set", "retention.ms=1", "--format", "table")
    assert FIRST in table.stdout


def test_the_retention_of_a_broker_is_in_its_properties(tmp_path):
    properties = tmp_path / "server.properties"
    properties.write_text("log.retention.hours=1\n")
    orders = golden_data.logs("k431-clean") / "orders.none-0"
    unset = call("whatif", orders)
    [row] = objects(unset.stdout)
    reason = "retention.ms unknown: it may be in server.properties"
    assert row["unchanged_because"] == [reason]
    assert row["segment"] is None
    assert "it may be in --server-properties" in unset.stderr
    ran = call("whatif", orders, "--server-properties", properties)
    assert {row["removed_by"] for row in objects(ran.stdout)} == {"retention.ms"}
    assert ran.stderr == "settings of orders.none: the cluster's metadata log\n"
    segment = orders / FIRST
    [why] = objects(call("why", segment, "--server-properties", properties).stdout)
    assert not why["kept"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["retention.ms"], 2),
        (["=1"], 2),
        (["retention.ms=soon"], 2),
        (["--set", "no.such.setting=1"], 2),
        (["--topic", "payments"], 3),
        (["--at", "yesterday"], 2),
        (["--at", "2026-01-01T00:00:00"], 2),
    ],
)
def test_invalid_arguments_have_the_usual_exit_codes(orders, arguments, code):
    ran = call("whatif", orders, *arguments)
    assert (ran.exit_code, ran.stdout) == (code, "")


def test_a_path_that_is_not_a_log_directory_is_rejected(tmp_path):
    assert call("whatif", tmp_path).exit_code == 3
    assert call("whatif", tmp_path / "none").exit_code == 3
    assert call("why", tmp_path / FIRST).exit_code == 3
    (tmp_path / FIRST).touch()
    with pytest.raises(NotALogDirectoryError):
        kafkalog.why(tmp_path / FIRST)
    with pytest.raises(ConfigError):
        kafkalog.whatif(golden_data.logs("k431-clean"), {"retention.ms": "x"})


@pytest.mark.parametrize("suffix", [".index", ".log.cleaned", ".log.swap"])
def test_a_file_that_is_not_a_segment_is_rejected(orders, suffix):
    file = orders / "orders-0" / f"{0:020}{suffix}"
    file.touch()
    with pytest.raises(LogArgumentError, match=r"expected a \.log"):
        kafkalog.why(file)


def test_nothing_is_removed_from_the_metadata_log():
    path = golden_data.logs("k431-clean") / "__cluster_metadata-0"
    changes = {"retention.ms": 0, "cleanup.policy": "compact,delete"}
    assert kafkalog.whatif(path, changes).removals == ()


def test_an_empty_partition_has_no_removals(tmp_path):
    (tmp_path / "orders-0").mkdir()
    assert kafkalog.whatif(tmp_path).removals == ()


def test_a_corrupt_batch_that_would_be_compacted_is_reported_with_its_file(orders):
    file = orders / "orders-0" / FIRST
    data = bytearray(file.read_bytes())
    data[8:12] = (5).to_bytes(4, "big")
    file.write_bytes(data)
    ran = call("whatif", orders, "--set", "cleanup.policy=compact")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert str(file) in ran.stderr


def test_a_corrupt_record_that_would_be_compacted_is_reported_with_its_path(orders):
    file = orders / "orders-0" / FIRST
    data = bytearray(file.read_bytes())
    data[61] = 0x7F  # the length of the first record
    file.write_bytes(data)
    ran = call("whatif", orders, "--set", "cleanup.policy=compact")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert str(file.parent) in ran.stderr


def test_a_corrupt_segment_is_deleted_like_any_other(orders):
    file = orders / "orders-0" / FIRST
    file.write_bytes(file.read_bytes()[:-3] + b"???")
    report = kafkalog.whatif(orders, {"retention.ms": 1}, at=NOW_MS + HOUR_MS * 3)
    assert report.removals[0].segment == FIRST
    assert report.removals[0].bytes == file.stat().st_size


def test_retention_keeps_a_segment_until_it_is_too_old(orders):
    file = orders / "orders-0" / FIRST
    report = kafkalog.why(file, at=NOW_MS)
    [by_time, by_size] = report.because
    week_ms = 168 * HOUR_MS
    assert report.kept
    assert (by_time.rule, by_time.setting) == (KeepRule.TIME, "retention.ms")
    assert (by_time.value, by_time.until) == (week_ms, NOW_MS + week_ms + 1)
    assert (by_size.rule, by_size.value) == (KeepRule.SIZE, -1)
    assert kafkalog.why(file, at=by_time.until - 1).kept
    gone = kafkalog.why(file, at=by_time.until)
    assert (gone.kept, rules(gone)) == (False, ["retention.ms"])


def test_an_older_segment_keeps_a_segment(orders):
    with kafkalog.open(orders / "orders-0", "a") as log:
        log.roll()
        log.append_records({"value": [b"3"], "timestamp": [NOW_MS - 999 * HOUR_MS]})
        log.update_high_watermark(log.log_end_offset)
    file = orders / "orders-0" / f"{6:020}.log"
    report = kafkalog.why(file, at=NOW_MS)
    assert (report.kept, rules(report)) == (True, ["older_segment"])
    [older] = report.because
    assert (older.value, older.until) == (FIRST, None)


def test_a_segment_that_is_not_replicated_is_kept(orders):
    checkpoint = orders / "replication-offset-checkpoint"
    checkpoint.write_text("0\n1\norders 0 1\n")
    report = kafkalog.why(orders / "orders-0" / FIRST, at=NOW_MS + 400 * HOUR_MS)
    assert (report.kept, rules(report)) == (True, ["high_watermark"])
    assert report.because[0].value == 1
    assert kafkalog.whatif(orders, {"retention.ms": 1}).removals == ()


def test_a_segment_below_the_log_start_offset_is_removed(orders):
    checkpoint = orders / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\norders 0 3\n")
    report = kafkalog.why(orders / "orders-0" / FIRST, at=NOW_MS)
    assert (report.kept, rules(report)) == (False, ["log_start_offset"])
    [removal] = kafkalog.whatif(orders, {"retention.ms": -1}, at=NOW_MS).removals
    assert removal.removed_by == RemovalCause.LOG_START


def test_a_marked_file_is_kept_for_the_deletion_delay(orders):
    file = orders / "orders-0" / f"{FIRST}.deleted"
    (orders / "orders-0" / FIRST).rename(file)
    marked_ms = file.stat().st_ctime_ns // 1_000_000
    report = kafkalog.why(file, at=marked_ms)
    assert (report.kept, rules(report)) == (True, ["file.delete.delay.ms"])
    assert report.because[0].until == marked_ms + 60_000
    assert not kafkalog.why(file, at=marked_ms + 60_000).kept


@pytest.fixture
def compacted_topic(orders, monkeypatch):
    """Return a partition, after all topics got the compact policy and a lag."""
    defaults = kafkalog.LogConfig(
        cleanup_policy="compact", min_compaction_lag_ms=HOUR_MS
    )
    monkeypatch.setattr(TopicSettings, "_defaults", defaults)
    return orders / "orders-0"


@pytest.mark.parametrize(
    ("segment", "kept_by"),
    [
        (FIRST, ["cleanup.policy"]),
        (SECOND, ["cleanup.policy", "min.compaction.lag.ms"]),
        (THIRD, ["cleanup.policy", "active", "min.compaction.lag.ms"]),
    ],
)
def test_compaction_keeps_young_and_active_segments(compacted_topic, segment, kept_by):
    report = kafkalog.why(compacted_topic / segment, at=NOW_MS + HOUR_MS + 1)
    assert report.kept
    assert rules(report) == kept_by


def test_an_open_transaction_keeps_a_segment_from_being_compacted(compacted_topic):
    with kafkalog.open(compacted_topic, "a") as log:
        guard = log.start_verification(7, 0, 0)
        builder = kafkalog.RecordBatchBuilder(
            producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        builder.append(b"a", b"3", timestamp=NOW_MS)
        log.append(builder.build(), guard=guard)
        log.roll()
        log.update_high_watermark(log.log_end_offset)
    report = kafkalog.why(compacted_topic / THIRD, at=NOW_MS + 9 * HOUR_MS)
    [reason] = [
        reason for reason in report.because if reason.rule is KeepRule.TRANSACTION
    ]
    assert reason.value == 6


def test_the_rules_of_a_segment_are_a_json_object_or_a_table(orders):
    file = orders / "orders-0" / FIRST
    [report] = objects(call("why", file, "--at", str(NOW_MS)).stdout)
    assert list(report) == ["schema", "segment", "kept", "because"]
    assert list(report["because"][0]) == ["rule", "setting", "value", "until"]
    table = call("why", file, "--format", "table").stdout
    assert "retention.ms" in table
    assert kafkalog.why(file).to_arrow().num_rows == table.count(FIRST)


# Directories without the cluster's metadata


@pytest.fixture
def of_zookeeper(orders, tmp_path):
    """Return a broker's log directory without metadata, and its properties.

    A record of the second segment has a timestamp in the future.
    """
    (orders / "meta.properties").write_text("version=0\nbroker.id=1\n")
    properties = tmp_path / "server.properties"
    properties.write_text("log.retention.hours=12\nlog.segment.bytes=100000\n")
    config = kafkalog.LogConfig(message_timestamp_after_max_ms=2**62)
    with kafkalog.open(orders / "orders-0", "a", config) as log:
        for timestamp in (NOW_MS + 10**12, NOW_MS):
            log.roll()
            log.append_records({"value": [b"3"], "timestamp": [timestamp]})
        log.roll()
        log.update_high_watermark(log.log_end_offset)
    return orders, properties


LATER = ("--at", str(NOW_MS + 100 * HOUR_MS))


def test_without_metadata_the_values_of_the_broker_are_used(of_zookeeper):
    orders, properties = of_zookeeper
    options = ("--server-properties", properties, *LATER)
    ran = call("whatif", orders, *options)
    due = [row["segment"] for row in objects(ran.stdout) if row["at"] == int(LATER[1])]
    assert due == [FIRST, SECOND, THIRD]
    assert "the broker's server.properties" in ran.stderr
    assert "overrides of topics are unknown" in ran.stderr
    names = [FIRST, f"{6:020}.log", f"{7:020}.log"]
    removed, blocking, blocked = (
        objects(call("why", orders / "orders-0" / name, *options).stdout)[0]
        for name in names
    )
    assert not removed["kept"]
    assert removed["because"][0]["value"] == 12 * HOUR_MS
    assert blocking["because"][0]["rule"] == "retention.ms"
    assert blocking["because"][0]["until"] > NOW_MS + 10**12
    assert blocked["because"][0]["rule"] == "older_segment"
    assert blocked["because"][0]["value"] == f"{6:020}.log"


def test_without_metadata_and_properties_a_limit_is_unknown(of_zookeeper):
    orders, _ = of_zookeeper
    report = kafkalog.why(orders / "orders-0" / FIRST)
    assert {(reason.setting, reason.value) for reason in report.because} == {
        ("retention.ms", None),
        ("retention.bytes", None),
    }
    [log] = kafkalog.whatif(orders).unchanged
    assert log.unchanged_because == (
        "settings unknown: the log directory has no __cluster_metadata-0",
    )


def test_a_log_that_is_opened_deletes_nothing_by_the_values_of_the_broker(of_zookeeper):
    """An override of the topic may keep what they delete."""
    orders, _ = of_zookeeper
    broker = kafkalog.BrokerConfig(log_retention_hours=12)
    with (
        pytest.warns(kafkalog.UnknownSettingsWarning),
        kafkalog.open(orders / "orders-0", "a", broker=broker) as log,
    ):
        assert log.delete_old_segments() == 0


def test_why_takes_settings_as_whatif_does(orders):
    file, at = orders / "orders-0" / FIRST, NOW_MS + 2 * HOUR_MS
    assert kafkalog.why(file, at=at).kept
    assert not kafkalog.why(file, {"retention.ms": HOUR_MS}, at=at).kept
    ran = call("why", file, "--set", "retention.ms=3600000", "--at", str(at))
    assert not objects(ran.stdout)[0]["kept"]
    assert call("why", file, "--set", "no.such.setting=1").exit_code == 2


@pytest.mark.parametrize("name", ["why", "whatif"])
@pytest.mark.parametrize(("size", "code"), [(14, 0), (100_000, 0), (13, 2)])
def test_a_segment_size_that_older_brokers_allowed_is_accepted(
    orders, tmp_path, name, size, code
):
    path = orders / "orders-0" / FIRST if name == "why" else orders
    assert call(name, path, "--set", f"segment.bytes={size}").exit_code == code
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.segment.bytes={size}\n")
    assert call(name, path, "--server-properties", properties).exit_code == code


# What keeps the cleaner from a log


def test_a_log_that_is_not_dirty_enough_has_the_ratio(orders):
    changes = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 1}
    report = kafkalog.why(orders / "orders-0" / FIRST, changes)
    [_, ratio] = report.because
    assert ratio.rule is KeepRule.DIRTY_RATIO
    assert str(ratio.value).startswith("1.0; dirty ratio 1, ")


def test_a_segment_that_was_compacted_has_the_checkpoint(orders):
    (orders / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    changes = {"cleanup.policy": "compact"}
    report = kafkalog.why(orders / "orders-0" / FIRST, changes)
    [_, checkpoint] = report.because
    assert (checkpoint.rule, checkpoint.value) == (KeepRule.CLEANED, 2)


def test_a_corrupt_batch_keeps_the_cleaner_from_a_log(orders):
    file = orders / "orders-0" / SECOND
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    before = {path: path.read_bytes() for path in file.parent.iterdir()}
    report = kafkalog.why(file.with_name(FIRST), {"cleanup.policy": "compact"})
    assert report.because[-1].rule is KeepRule.UNCLEANABLE
    assert "CRC mismatch" in str(report.because[-1].value)
    assert f"{file} at byte 0" in str(report.because[-1].value)
    assert {path: path.read_bytes() for path in file.parent.iterdir()} == before


@pytest.mark.parametrize("name", ["why", "whatif"])
def test_the_origin_of_the_settings_is_not_printed_quietly(name, orders):
    path = orders / "orders-0" / FIRST if name == "why" else orders
    at = "--at", str(NOW_MS)
    loud, quiet = call(name, path, *at), call(name, path, *at, "--quiet")
    assert "settings of orders" in loud.stderr
    assert (quiet.stderr, quiet.stdout) == ("", loud.stdout)
