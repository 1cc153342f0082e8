"""The log start offset of tiered partitions, and what names their remote offsets."""

import json
import time
import warnings

import pytest

import kafkalog
from kafkalog import (
    BrokerConfig,
    LogConfig,
    LogManager,
    TieredLogWarning,
    UnknownSettingsWarning,
)
from kafkalog.log.reading.remote_offsets import MissingStart, log_start_of
from kafkalog.storage.checkpoint_file import (
    LEADER_EPOCHS,
    LOG_STARTS,
    read_offsets,
    write_offsets,
)
from kafkalog.storage.durable_file import DISK
from kafkalog.storage.file_names import CLEAN_SHUTDOWN
from tests.cli.shell import run
from tests.log.clusters import mark_as_brokers, metadata_log, setting, topic
from tests.log.writing import batch

KEEP = LogConfig(internal_segment_bytes=1000, retention_ms=-1)
NAME = "orders", 0
TIERED = (topic("orders"), setting("orders", "remote.storage.enable", "true"))


def tiered(logs, start=3, first=20, clean=True):
    """Write a log without its first segments, which begins at an earlier offset."""
    with kafkalog.open(logs / "orders-0", "a", KEEP) as log:
        for _ in range(12):
            log.append(batch(5, size=100))
        log.update_high_watermark(log.log_end_offset)
        log.delete_records(start)
        bases = [segment.base_offset for segment in log.segments]
    assert first in bases
    for path in (logs / "orders-0").glob("0*.*"):
        if int(path.stem) < first:
            path.unlink()
    # It is written in the background, perhaps not before the log is closed.
    (logs / "orders-0" / LEADER_EPOCHS).write_text(f"0\n1\n0 {start}\n")
    if clean:
        (logs / CLEAN_SHUTDOWN).touch()
    return logs / "orders-0"


def line(logs):
    return read_offsets(logs, LOG_STARTS).get(NAME)


def test_opening_a_tiered_partition_for_writing_keeps_its_log_start(tmp_path):
    path = tiered(tmp_path)
    with pytest.warns(TieredLogWarning, match="tiered.*offsets 3 to 19"):
        log = kafkalog.open(path, "a", KEEP)
    assert log.log_start_offset == 3
    log.append(batch(1))
    log.update_high_watermark(log.log_end_offset)
    log.close()
    assert line(tmp_path) == 3


@pytest.mark.parametrize("clean", [True, False])
def test_a_manager_keeps_the_log_start_of_a_tiered_partition(tmp_path, clean):
    tiered(tmp_path, clean=clean)
    for _ in range(2):
        with pytest.warns(TieredLogWarning):
            logs = LogManager(tmp_path, KEEP)
        assert logs[NAME].log_start_offset == 3
        logs.checkpoint()
        logs.close()
        assert line(tmp_path) == 3


def test_a_log_start_at_the_first_segment_stays_checkpointed(tmp_path):
    path = tiered(tmp_path)
    write_offsets(tmp_path, LOG_STARTS, {NAME: 20}, DISK)
    kafkalog.open(path, "a", KEEP).close()
    assert line(tmp_path) == 20


def test_a_topic_with_remote_storage_has_its_log_start_in_the_checkpoint(tmp_path):
    broker = BrokerConfig(remote_log_storage_system_enable=True)
    config = KEEP.with_changes({"remote.storage.enable": True})
    with kafkalog.open(tmp_path / "orders-0", "a", config, broker=broker) as log:
        log.append(batch(1))
    assert line(tmp_path) == 0


def test_without_remote_storage_a_log_starts_at_its_first_segment(tmp_path):
    path = tiered(tmp_path)
    mark_as_brokers(tmp_path)
    metadata_log(tmp_path, (topic("orders"), setting("orders", "retention.ms", "-1")))
    with kafkalog.open(path, "a") as log:
        assert log.log_start_offset == 20
    assert line(tmp_path) is None


def test_nothing_of_a_tiered_partition_is_deleted_by_size_or_time(tmp_path):
    path = tiered(tmp_path)
    config = KEEP.with_changes({"retention.bytes": 1, "retention.ms": 1})
    with pytest.warns(TieredLogWarning):
        log = kafkalog.open(path, "a", config)
    with log:
        log.update_high_watermark(log.log_end_offset)
        segments = log.segments
        assert log.delete_old_segments() == 0
        assert log.segments == segments
        log.delete_records(30)
        assert log.delete_old_segments() > 0
        assert log.log_start_offset == 30


def test_the_first_local_offset_is_found_by_its_special_timestamp(tmp_path):
    with pytest.warns(TieredLogWarning):
        log = kafkalog.open(tiered(tmp_path), "a", KEEP)
    with log:
        found = {time: log.find_offset(time).offset for time in (-1, -2, -4)}
    assert found == {-1: 60, -2: 3, -4: 20}


def test_a_line_that_retention_left_behind_is_no_sign_of_a_tier(tmp_path):
    log = kafkalog.open(tmp_path / "orders-0", "a", KEEP)
    for _ in range(12):
        log.append(batch(5, size=100))
    log.update_high_watermark(log.log_end_offset)
    log.delete_records(3)
    log.flush()
    log.close()
    log = kafkalog.open(tmp_path / "orders-0", "a", KEEP)
    log.update_high_watermark(log.log_end_offset)
    log.update_config(KEEP.with_changes({"retention.bytes": 2000}))
    assert log.delete_old_segments()
    start = log.log_start_offset
    epochs = tmp_path / "orders-0" / "leader-epoch-checkpoint"
    while f"0 {start}" not in epochs.read_text():  # written in the background
        time.sleep(0.01)
    log.abandon()
    assert line(tmp_path) == 3 < start
    with warnings.catch_warnings():
        warnings.simplefilter("error", TieredLogWarning)
        kafkalog.scan(tmp_path).count()
        assert kafkalog.open(tmp_path / "orders-0").log_start_offset == start
        with kafkalog.open(tmp_path / "orders-0", "a", KEEP) as log:
            assert log.log_start_offset == start


def test_reading_warns_once_of_the_offsets_in_remote_storage(tmp_path):
    path = tiered(tmp_path)
    for source in (tmp_path, path):
        with pytest.warns(TieredLogWarning) as caught:
            scan = kafkalog.scan(source)
        assert scan.count() == scan.to_arrow().num_rows == 40
        assert [str(each.message)[:51] for each in caught] == [
            "tiered or damaged partition: offsets 3 to 19, at th"
        ]
        assert caught[0].filename == __file__
    with pytest.warns(TieredLogWarning) as caught:
        log = kafkalog.open(path)
    assert (len(caught), log.log_start_offset) == (1, 3)
    assert log.missing_start == MissingStart(3, 19, None)


def test_reading_only_local_offsets_does_not_warn(tmp_path):
    tiered(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kafkalog.scan(tmp_path, start_offset=20).count() == 40


def test_the_metadata_of_a_cluster_decides_what_a_partition_is(tmp_path):
    path = tiered(tmp_path)
    mark_as_brokers(tmp_path)
    metadata_log(tmp_path, TIERED)
    with pytest.warns(TieredLogWarning, match="tiered partition: offsets 3 to 19 are"):
        kafkalog.scan(path)
    write_offsets(tmp_path, LOG_STARTS, {}, DISK)
    with pytest.warns(TieredLogWarning, match="offsets 0 to 19 are"):
        log = kafkalog.open(path)
    assert log.missing_start == MissingStart(0, 19, True)


def test_verify_info_and_preflight_name_a_tiered_partition(tmp_path):
    tiered(tmp_path)
    metadata_log(mark_as_brokers(tmp_path), TIERED)
    report = kafkalog.verify(tmp_path)
    [found] = [each for each in report.problems if each.cause == "tiered"]
    text = "tiered partition: offsets 3 to 19 are in remote storage"
    assert (found.message, found.offset, found.last_offset) == (text, 3, 19)
    assert found.severity == "warning"
    [facts] = json.loads(run("info", tmp_path / "orders-0", "--format", "json").stdout)
    assert (facts["missing_start"], facts["log_start_offset"]) == (text, 3)
    assert text in run("info", tmp_path, "--format", "table").stdout.decode()
    [start] = [
        each
        for each in kafkalog.preflight(tmp_path).partitions
        if each.topic == "orders"
    ]
    assert text in start.notes
    assert start.log_start_offset == 3


def test_verify_warns_of_a_lost_start_of_a_log(tmp_path):
    path = tiered(tmp_path)
    [problem] = kafkalog.verify(tmp_path).problems
    assert (problem.cause, problem.severity) == ("tiered", "warning")
    assert "remote storage, or lost" in problem.message
    assert problem.path == f"orders-0/{20:020d}.log"
    metadata_log(mark_as_brokers(tmp_path))
    for checkpointed, first in (({NAME: 3}, 3), ({}, 3)):
        write_offsets(tmp_path, LOG_STARTS, checkpointed, DISK)
        [problem] = kafkalog.verify(path).problems
        assert (problem.cause, problem.offset) == ("gap", first)
        assert problem.last_offset == 19
        assert problem.message.endswith("are lost: no segment has them")


def test_a_move_keeps_the_log_start_and_the_leader_epochs(tmp_path):
    tiered(tmp_path / "a")
    source = tmp_path / "a" / "orders-0"
    records = (source / f"{20:020d}.log").read_bytes()
    with pytest.warns(TieredLogWarning):
        manager = LogManager([tmp_path / "a", tmp_path / "b"], KEEP)
    with manager as logs:
        logs.move("orders", 0, tmp_path / "b")
        while logs.moves:
            logs.advance_moves()
        assert logs[NAME].log_start_offset == 3
    assert line(tmp_path / "b") == 3
    moved = tmp_path / "b" / "orders-0"
    warnings.simplefilter("ignore", TieredLogWarning)
    assert kafkalog.open(moved).leader_epochs == [(0, 3)]
    assert (moved / f"{20:020d}.log").read_bytes() == records


def test_copies_keep_the_log_start_of_a_tiered_partition(tmp_path):
    path = tiered(tmp_path / "a")
    kafkalog.salvage(tmp_path / "a", tmp_path / "salvaged")
    assert line(tmp_path / "salvaged") == 3
    kafkalog.restore(tmp_path / "a", tmp_path / "restored")
    assert line(tmp_path / "restored") == 3
    warnings.simplefilter("ignore", TieredLogWarning)
    for name in ("salvaged", "restored"):
        copy = tmp_path / name / path.name
        assert kafkalog.open(copy).log_start_offset == 3
        assert kafkalog.diff(path, copy).ok


def test_a_repair_keeps_the_log_start_of_a_tiered_partition(tmp_path):
    path = tiered(tmp_path)
    (path / f"{20:020d}.index").write_bytes(b"damaged")
    kafkalog.repair(tmp_path, apply=True)
    assert line(tmp_path) == 3
    [problem] = kafkalog.verify(tmp_path).problems
    assert problem.cause == "tiered"


def test_a_tiered_partition_has_its_rule_whatever_is_known():
    known = {"is_tiered": None, "clean": False, "first_epoch_start": 40}
    assert log_start_of(None, 40, **known) == (40, False)
    assert log_start_of(5, 40, **known) == (40, False)
    assert log_start_of(5, 40, **{**known, "first_epoch_start": 5}) == (5, True)
    assert log_start_of(5, 40, **{**known, "first_epoch_start": None}) == (5, True)
    assert log_start_of(50, 40, **known) == (50, False)
    assert log_start_of(50, 40, **{**known, "is_tiered": True}) == (50, True)
    assert log_start_of(None, 40, **{**known, "is_tiered": True}) == (0, True)


def test_clusters_state_which_topics_have_remote_storage(tmp_path):
    metadata_log(mark_as_brokers(tmp_path), (*TIERED, topic("state")))
    with LogManager(tmp_path, broker=BrokerConfig()) as logs:
        with pytest.warns(UnknownSettingsWarning):
            assert logs.open("orders", 0).keeps_log_start
        assert not logs.open("state", 0).keeps_log_start
